//! Time that the test runner adds to each case of a YAML suite, compared with a loop that sends the same requests.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd as _;

use argus_tests::fixture::{self, LIMIT};
use argus_tests::{Controller, PrivateEngine, RunOptions, wait};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use super::figure::Figure;

const CASES: u32 = 1_000;
const PORT: u16 = 21_500;
const NAME: &str = "cases";

pub(crate) fn run(engine: &PrivateEngine, pairs: usize, figures: &mut Vec<Figure>) {
    let controller = Controller::start(engine, RunOptions::default());
    let case = |number| {
        format!("  - {{ name: case {number}, request: {{ path: /healthz }}, expect: {{ status: 200 }} }}\n")
    };
    let cases: String = (0..CASES).map(case).collect();
    controller.write_spec("cases.yaml", &format!("name: Cases\ncases:\n{cases}"));
    let tests = "tests: { suites: [{ name: cases, file: cases.yaml }] }\n";
    controller.write_spec("e2e.yaml", &fixture::singles(NAME, &[PORT], tests));
    controller.wait_ready(NAME, LIMIT);
    let (mut loops, mut suites, mut added) = (vec![], vec![], vec![]);
    for _ in 0..pairs {
        let baseline = send_all(engine) / f64::from(CASES);
        let took = run_suite(&controller) / f64::from(CASES);
        loops.push(baseline);
        suites.push(took);
        added.push(took - baseline);
    }
    let what = format!("baseline, a request of a loop of {CASES}");
    super::push(figures, Figure::new(what, "ms", loops));
    let what = format!("a case of a YAML suite of {CASES}");
    super::push(figures, Figure::new(what, "ms", suites));
    let what = "time added per case";
    super::push(figures, Figure::new(what, "ms", added).goal(("< 2 ms", 2.0)));
}

/// Time of all requests in milliseconds, each on its own connection like those of a suite.
fn send_all(engine: &PrivateEngine) -> f64 {
    let namespace = File::open(format!("/run/netns/{}", engine.netns())).expect("the engine's namespace");
    let send = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).expect("a connection");
        let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        assert!(response.contains(" 200 "), "{response}");
    };
    // A separate thread, because it stays in the namespace.
    let timed = std::thread::spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("root");
        wait::timed(|| (0..CASES).for_each(|_| send())).0
    });
    timed.join().expect("all requests succeed").as_secs_f64() * 1e3
}

/// Duration of the suite in milliseconds, without the wait for its lease.
fn run_suite(controller: &Controller<'_>) -> f64 {
    let ran = controller.cli(&["test", "run", NAME, "-o", "json"]);
    let report: Value =
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let suite = &report["suites"][0];
    assert_eq!(suite["result"], "passed", "{suite:#}");
    suite["attempts"][0]["durationMs"].as_f64().expect("a duration")
}

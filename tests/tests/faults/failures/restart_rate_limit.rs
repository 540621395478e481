//! The restart rate limit: many failures in parallel do not restart in parallel.

use std::fmt::Write;
use std::time::Duration;

use argus_core::time::Timestamp;
use argus_tests::fixture::{LIMIT, engine};
use argus_tests::{Controller, RunOptions, wait};
use rustix::process::Signal;

use super::case::{send, started};

const SERVICES: usize = 14;
/// Restarts per minute over all environments.
const ALLOWED: usize = 10;

#[test]
fn eleventh_restart_in_a_minute_waits() {
    let engine = engine();
    let mut spec =
        "project: { name: ratelimit }\nresilience: { container: { restartDelay: 1s } }\nservices:\n"
            .to_owned();
    for n in 0..SERVICES {
        writeln!(
            spec,
            "  s{n}:\n    image: busybox:local\n    container: {{ name: ratelimit-s{n} }}"
        )
        .expect("a string");
    }
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &spec);
    argus.wait_ready("ratelimit", LIMIT);
    let starts = || -> Vec<Timestamp> {
        let of = |n| {
            engine
                .inspect(&format!("ratelimit-s{n}"))
                .as_ref()
                .and_then(started)
        };
        (0..SERVICES).filter_map(of).collect()
    };
    let last = starts().into_iter().max().expect("they run");
    for n in 0..SERVICES {
        send(engine, &format!("ratelimit-s{n}"), Signal::KILL);
    }
    let waiting = |status: &serde_json::Value| {
        let of = |n| Controller::service(status, &format!("s{n}"))["waitingOn"].clone();
        let all: Vec<_> = (0..SERVICES).map(of).collect();
        all.into_iter()
            .filter(|on| on["reason"] == "RateLimited")
            .collect::<Vec<_>>()
    };
    let ready = |status: &serde_json::Value| {
        let of = |n: &usize| Controller::service(status, &format!("s{n}"))["state"] == "Ready";
        (0..SERVICES).filter(of).count()
    };
    let status = argus.wait_status("ratelimit", LIMIT, "restarted up to the limit", |now| {
        waiting(now).len() == SERVICES - ALLOWED && ready(now) == ALLOWED
    });
    let again = || starts().into_iter().filter(|at| *at > last).collect::<Vec<_>>();
    assert_eq!(again().len(), ALLOWED);
    wait::all_the_while(Duration::from_secs(5), "the others wait", || {
        again().len() == ALLOWED
    });
    let first = again().into_iter().min().expect("ten of them");
    for on in waiting(&status) {
        let until = on["until"]
            .as_str()
            .and_then(Timestamp::parse)
            .expect("the end of the wait");
        let after = until.since(first);
        let about_a_minute = Duration::from_secs(45)..=Duration::from_secs(60);
        assert!(about_a_minute.contains(&after), "{on:#}");
    }
    assert_ne!(status["phase"], "Ready");

    // After the minute all of them may restart.
    let status = argus.wait_status("ratelimit", LIMIT * 2, "all run again", |now| {
        ready(now) == SERVICES && now["phase"] == "Ready"
    });
    let restarts: Vec<_> = (0..SERVICES)
        .map(|n| Controller::service(&status, &format!("s{n}"))["restarts"].clone())
        .collect();
    assert!(restarts.iter().all(|count| *count == 1), "{restarts:?}");
    // The limit counts issued restarts, which a busy engine executes later.
    let about_a_minute = Duration::from_secs(45);
    let late: Vec<_> = again()
        .into_iter()
        .filter(|at| at.since(first) >= about_a_minute)
        .collect();
    assert_eq!(late.len(), SERVICES - ALLOWED, "no more than ten in any minute");
}

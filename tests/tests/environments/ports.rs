//! Ports that another process holds, on a real engine: moves, waits and reports.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::collections::BTreeSet;

use argus_tests::fixture::{IMAGE, LIMIT, engine, page, proxied, running, singles};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, PortHolder, RunOptions, wait};
use serde_json::Value;

use super::journal::records;

/// Response of an engine to a start whose port is taken.
const PORT_IN_USE: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: 118\r\n\r\n\
                           {\"message\":\"driver failed programming external connectivity: \
                           listen tcp4 0.0.0.0:18284: bind: address already in use\"}";

fn mappings(status: &Value) -> Vec<(u64, u64)> {
    let all = status["portMappings"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    all.iter()
        .map(|one| {
            (
                one["originalPort"].as_u64().unwrap_or(0),
                one["actualPort"].as_u64().unwrap_or(0),
            )
        })
        .collect()
}

#[test]
fn ports_held_by_processes_move() {
    let engine = engine();
    let ports: Vec<u16> = (18200..18210).collect();
    let holders: Vec<_> = ports.iter().map(|port| PortHolder::new(engine, *port)).collect();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec(
        "e2e.yaml",
        &singles("ten", &ports, "isolation: { portRange: [9100, 9199] }\n"),
    );
    let status = argus.wait_ready("ten", LIMIT);
    let got: BTreeSet<u64> = mappings(&status).into_iter().map(|(_, actual)| actual).collect();
    assert_eq!(got.len(), 10, "ten different ports: {status:#}");
    for port in got {
        assert!((9100..=9199).contains(&port), "{port}");
        assert_eq!(page(engine, port).as_deref(), Some("hello"), "{port}");
    }
    drop(holders);
    argus.kill9();
    argus.start_again();
    let again = argus.wait_ready("ten", LIMIT);
    assert_eq!(mappings(&again), mappings(&status), "an assigned port stays");
}

#[test]
fn moved_port_returns_after_the_port_is_free() {
    let engine = engine();
    let holder = PortHolder::new(engine, 18330);
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &singles("back", &[18330], ""));
    let status = argus.wait_ready("back", LIMIT);
    assert_ne!(mappings(&status)[0].1, 18330, "{status:#}");
    drop(holder);
    // Facts of the last 5 s still show the process.
    argus.wait_until(LIMIT, "it is Ready at its requested port", || {
        engine.docker_ok(&["rm", "-f", "back-s0"]);
        argus.wait_status("back", LIMIT, "is Ready with another container", |now| {
            now["phase"] == "Ready" && running(engine, "back-s0")
        });
        (mappings(&argus.status("back")) == [(18330, 18330)]).then_some(())
    });
}

/// Time until an environment is Ready, in milliseconds, and the environment's result records with an error code.
fn start_up(argus: &Controller<'_>, name: &str, ports: &[u16]) -> (f64, Vec<Value>) {
    let (took, ()) = wait::timed(|| {
        // No other test of this engine takes these ports.
        let range = "isolation: { portRange: [9600, 9699] }\n";
        argus.write_spec(&format!("{name}.e2e.yaml"), &singles(name, ports, range));
        argus.wait_ready(name, LIMIT);
    });
    let took = took.as_secs_f64() * 1_000.0;
    let is_failed = |record: &Value| record.get("code").is_some();
    let failed = records(argus, name, "result").into_iter().filter(is_failed);
    (took, failed.collect())
}

#[test]
fn ten_taken_ports_cost_no_failed_start() {
    let engine = engine();
    let (free, taken) = (
        (18300..18310).collect::<Vec<u16>>(),
        (18310..18320).collect::<Vec<u16>>(),
    );
    let _holders: Vec<_> = taken.iter().map(|port| PortHolder::new(engine, *port)).collect();
    let argus = Controller::start(engine, RunOptions::default());
    argus.wait_until(LIMIT, "answers", || {
        argus.cli(&["get"]).status.success().then_some(())
    });
    start_up(&argus, "first", &[18320]);
    let (free_ms, failed) = start_up(&argus, "free", &free);
    assert_eq!(failed, Vec::<Value>::new());
    let (taken_ms, failed) = start_up(&argus, "taken", &taken);
    println!("10 free ports: {free_ms:.0} ms, 10 taken ports: {taken_ms:.0} ms");
    assert_eq!(failed, Vec::<Value>::new(), "no start fails on a taken port");
    let conflicts = records(&argus, "taken", "port_conflict");
    assert_eq!(conflicts.len(), 10, "one event for each conflict: {conflicts:#?}");
    let status = argus.status("taken");
    let moved = mappings(&status);
    assert!(
        moved.len() == 10 && moved.iter().all(|(from, to)| from != to),
        "{status:#}"
    );
}

#[test]
fn command_with_its_port_is_reached_after_a_move() {
    let engine = engine();
    let holder = PortHolder::new(engine, 18290);
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec(
        "e2e.yaml",
        &format!(
            "version: \"1\"\nproject: {{ name: listens }}\nisolation: {{ portRange: [9700, 9799] }}\nservices:\n  web:\n    image: {IMAGE}\n    \
             command: [httpd, -f, -p, \"0.0.0.0:18290\", -h, /www]\n    container:\n      name: listens-web\n      ports: [\"18290:18290\"]\n      \
             healthcheck: {{ type: tcp, port: 18290, interval: 500ms }}\n"
        ),
    );
    let status = argus.wait_ready("listens", LIMIT);
    let (_, actual) = mappings(&status)[0];
    assert_ne!(actual, 18290, "{status:#}");
    assert_eq!(page(engine, actual).as_deref(), Some("hello"), "{status:#}");
    drop(holder);
}

#[test]
fn taken_port_waits_under_strategy_fail() {
    let engine = engine();
    let holder = PortHolder::new(engine, 18220);
    let argus = Controller::start(engine, RunOptions::default());
    let strict = "resilience: { network: { portConflictStrategy: fail } }\n";
    argus.write_spec("e2e.yaml", &singles("strict", &[18220], strict));
    let status = argus.wait_status("strict", LIMIT, "reports the conflict", |now| {
        Controller::service(now, "s0")["lastError"]["code"] == "PORT_CONFLICT"
    });
    let error = &Controller::service(&status, "s0")["lastError"];
    assert_eq!(
        (&error["category"], &error["severity"], &error["details"]["port"]),
        (&"network".into(), &"recoverable".into(), &18220.into()),
        "{error:#}"
    );
    assert!(error["details"]["owner"]["pid"].is_u64(), "{error:#}");
    assert!(!running(engine, "strict-s0"));
    drop(holder);
    let status = argus.wait_ready("strict", LIMIT);
    assert_eq!(mappings(&status), [(18220, 18220)]);
}

#[test]
fn later_listener_on_the_other_loopback_is_a_warning() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &singles("paired", &[18296], ""));
    let status = argus.wait_ready("paired", LIMIT);
    assert_eq!(mappings(&status), [(18296, 18296)]);
    let check = || {
        let output = argus.cli(&["preflight", "-o", "json"]);
        let found: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let checks = found["checks"].as_array().expect("checks");
        let ports = checks.iter().find(|check| check["name"] == "ports");
        ports.expect("a check of ports").clone()
    };
    assert_eq!(check()["result"], "pass");
    let holder = PortHolder::on_ipv6_loopback(engine, 18296);
    let found = argus.wait_until(LIMIT, "preflight warns", || {
        Some(check()).filter(|found| found["result"] == "warn")
    });
    let message = found["message"].as_str().expect("a message");
    assert!(
        message.contains("`paired/s0` has another listener: process") && message.contains("busybox"),
        "{found:#}"
    );
    let doctor = argus.cli(&["doctor"]);
    let doctor = String::from_utf8_lossy(&doctor.stdout);
    assert!(
        doctor.contains("has another listener") && !doctor.contains("portConflictStrategy"),
        "{doctor}"
    );
    drop(holder);
    argus.wait_until(LIMIT, "the warning ends", || {
        (check()["result"] == "pass").then_some(())
    });
}

#[test]
fn port_of_a_leaked_proxy_is_reported_as_such() {
    let engine = engine();
    let leaked = PortHolder::leaked_proxy(engine, 18221);
    let argus = Controller::start(engine, RunOptions::default());
    let strict = "resilience: { network: { portConflictStrategy: fail } }\n";
    argus.write_spec("e2e.yaml", &singles("leaked", &[18221], strict));
    let status = argus.wait_status("leaked", LIMIT, "reports the leak", |now| {
        Controller::service(now, "s0")["lastError"]["code"] == "PORT_STALE_ALLOCATION"
    });
    let error = Controller::service(&status, "s0")["lastError"].clone();
    assert_eq!(error["details"]["owner"]["kind"], "staleAllocation", "{error:#}");
    assert!(!running(engine, "leaked-s0"));
    // A movable port moves.
    argus.write_spec("b.e2e.yaml", &singles("elsewhere", &[18221], ""));
    let moved = mappings(&argus.wait_ready("elsewhere", LIMIT));
    assert!(moved[0].0 == 18221 && moved[0].1 != 18221, "{moved:?}");
    drop(leaked);
    let status = argus.wait_ready("leaked", LIMIT);
    assert_eq!(mappings(&status), [(18221, 18221)]);
}

#[test]
fn two_environments_with_one_port_both_get_one() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("a.e2e.yaml", &singles("twin-a", &[18230, 18230], ""));
    argus.write_spec("b.e2e.yaml", &singles("twin-b", &[18230], ""));
    let (a, b) = (
        argus.wait_ready("twin-a", LIMIT),
        argus.wait_ready("twin-b", LIMIT),
    );
    let all: Vec<u64> = mappings(&a)
        .into_iter()
        .chain(mappings(&b))
        .map(|(_, actual)| actual)
        .collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 3, "{all:?}");
    assert!(
        all.contains(&18230),
        "one of them has the preferred port: {all:?}"
    );
}

#[test]
fn exhausted_port_range_is_reported() {
    let engine = engine();
    let _holders: Vec<_> = [18240, 9300, 9301]
        .iter()
        .map(|port| PortHolder::new(engine, *port))
        .collect();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec(
        "e2e.yaml",
        &singles("spent", &[18240], "isolation: { portRange: [9300, 9301] }\n"),
    );
    let status = argus.wait_status("spent", LIMIT, "reports it", |now| {
        now.to_string().contains("PORT_EXHAUSTION")
    });
    let details = Controller::service(&status, "s0")["lastError"]["details"].clone();
    let holders = details["holders"].as_array().expect("the owners are listed");
    let named: Vec<_> = holders
        .iter()
        .map(|holder| (&holder["port"], &holder["owner"]["kind"]))
        .collect();
    assert_eq!(
        named,
        [
            (&9300.into(), &"process".into()),
            (&9301.into(), &"process".into())
        ],
        "{details:#}"
    );
    assert_eq!((&details["tried"], &details["more"]), (&2.into(), &0.into()));
    let started = |record: &&Value| record["verb"] == "start-container" && record["outcome"] == "done";
    let results = records(&argus, "spent", "result");
    assert_eq!(results.iter().find(started), None, "nothing starts");
    assert!(!running(engine, "spent-s0"));
}

#[test]
fn foreign_process_keeps_its_port() {
    let engine = engine();
    engine.docker_ok(&[
        "run",
        "-d",
        "--name",
        "stranger",
        "-p",
        "0.0.0.0:18250:8080",
        IMAGE,
    ]);
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &singles("polite", &[18250], ""));
    let status = argus.wait_ready("polite", LIMIT);
    assert_ne!(mappings(&status)[0].1, 18250);
    assert!(running(engine, "stranger"));
    engine.docker_ok(&["rm", "-f", "stranger"]);
}

#[test]
fn port_lost_during_a_restart_returns_or_moves() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &singles("reboot", &[18280, 18281], ""));
    let before = mappings(&argus.wait_ready("reboot", LIMIT));
    assert_eq!(before, [(18280, 18280), (18281, 18281)]);
    // As after a reboot: nothing runs, and another process has taken one of the ports.
    argus.kill9();
    engine.docker_ok(&["stop", "-t", "1", "reboot-s0", "reboot-s1"]);
    let holder = PortHolder::new(engine, 18280);
    argus.start_again();
    let status = argus.wait_status("reboot", LIMIT, "both run, one of them on another port", |now| {
        now["phase"] == "Ready" && mappings(now) != before
    });
    let got = mappings(&status);
    assert_eq!(got[1], (18281, 18281), "a free port stays: {status:#}");
    let moved = u16::try_from(got[0].1).expect("a port");
    assert_ne!(moved, 18280);
    assert_eq!(page(engine, moved.into()).as_deref(), Some("hello"));
    drop(holder);
}

#[test]
fn port_lost_at_start_to_a_brief_holder_is_kept() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "flicker");
    // The holder is gone when Argus checks the port after the refusal.
    proxy.inject("POST /containers/*/start", Fault::Answer(PORT_IN_USE), 1);
    argus.write_spec("e2e.yaml", &singles("flicker", &[18284], ""));
    let status = argus.wait_ready("flicker", LIMIT);
    assert_eq!(mappings(&status), [(18284, 18284)], "{status:#}");
    assert_eq!(page(engine, 18284).as_deref(), Some("hello"));
    let starts = records(&argus, "flicker", "result");
    let starts = starts.iter().filter(|record| record["verb"] == "start-container");
    let codes: Vec<&Value> = starts.map(|record| &record["code"]).collect();
    assert_eq!(
        codes,
        [&Value::from("PORT_CONFLICT"), &Value::Null],
        "it is refused once"
    );
}

#[test]
fn udp_tcp_and_ranges_are_published_as_written() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let spec = format!(
        "version: \"1\"\nproject: {{ name: kinds }}\nservices:\n  s0:\n    image: {IMAGE}\n    container:\n      name: kinds-s0\n      \
         ports: [\"18285:8080\", \"18285:5353/udp\", \"18286-18288:7001-7003\"]\n"
    );
    argus.write_spec("e2e.yaml", &spec);
    let status = argus.wait_ready("kinds", LIMIT);
    let all = status["portMappings"].as_array().expect("mappings").clone();
    let found: BTreeSet<(String, u64, u64)> = all
        .iter()
        .map(|one| {
            let number = |key: &str| one[key].as_u64().unwrap_or(0);
            let protocol = one["protocol"].as_str().unwrap_or_default().to_owned();
            (protocol, number("containerPort"), number("actualPort"))
        })
        .collect();
    let wanted = [
        ("tcp", 8080, 18285),
        ("udp", 5353, 18285),
        ("tcp", 7001, 18286),
        ("tcp", 7002, 18287),
        ("tcp", 7003, 18288),
    ];
    let wanted = wanted.map(|(protocol, inside, host)| (protocol.to_owned(), inside, host));
    assert_eq!(found, BTreeSet::from(wanted), "{status:#}");
    let bindings =
        engine.inspect("kinds-s0").expect("the container runs")["HostConfig"]["PortBindings"].clone();
    for (port, published) in [
        ("5353/udp", "18285"),
        ("7001/tcp", "18286"),
        ("7002/tcp", "18287"),
        ("7003/tcp", "18288"),
    ] {
        assert_eq!(bindings[port][0]["HostPort"], published, "{bindings:#}");
    }
    assert_eq!(page(engine, 18285).as_deref(), Some("hello"));
}

#[test]
fn taken_udp_port_moves_alone() {
    let engine = engine();
    let hold = [
        "run",
        "-d",
        "--name",
        "udp-holder",
        "-p",
        "18291:53/udp",
        "busybox:local",
        "sleep",
        "600",
    ];
    engine.docker_ok(&hold);
    let argus = Controller::start(engine, RunOptions::default());
    let spec = format!(
        "version: \"1\"\nproject: {{ name: udp }}\nservices:\n  s0:\n    image: {IMAGE}\n    container:\n      name: udp-s0\n      \
         ports: [\"18291:8080\", \"18291:5353/udp\"]\n"
    );
    argus.write_spec("e2e.yaml", &spec);
    let status = argus.wait_ready("udp", LIMIT);
    for one in status["portMappings"].as_array().expect("mappings") {
        let moved = one["actualPort"] != 18291;
        assert_eq!(moved, one["protocol"] == "udp", "{one:#}");
    }
    assert!(running(engine, "udp-holder"), "the foreign process is untouched");
    engine.docker_ok(&["rm", "-f", "udp-holder"]);
}

#[test]
fn addresses_and_protocols_of_a_port_move_together() {
    let engine = engine();
    let holder = PortHolder::new(engine, 18294);
    let argus = Controller::start(engine, RunOptions::default());
    let spec = format!(
        "version: \"1\"\nproject: {{ name: both }}\nservices:\n  s0:\n    image: {IMAGE}\n    container:\n      name: both-s0\n      \
         ports: [\"[::1]:18294:8080\", \"127.0.0.1:18294:8080\", \"127.0.0.1:18294:8080/udp\"]\n"
    );
    argus.write_spec("e2e.yaml", &spec);
    let status = argus.wait_ready("both", LIMIT);
    let moved = mappings(&status);
    assert_eq!(moved.len(), 3, "{status:#}");
    assert!(
        moved
            .iter()
            .all(|(from, to)| *from == 18294 && *to == moved[0].1 && to != from),
        "{status:#}"
    );
    assert_eq!(status["portMappings"][0]["host"], "::1", "{status:#}");
    let bindings =
        engine.inspect("both-s0").expect("the container runs")["HostConfig"]["PortBindings"].clone();
    let published = |port: &str, index: usize| {
        let one = &bindings[port][index];
        (one["HostIp"].clone(), one["HostPort"].clone())
    };
    let at = |address: &str| (Value::from(address), Value::from(moved[0].1.to_string()));
    assert_eq!(
        [
            published("8080/tcp", 0),
            published("8080/tcp", 1),
            published("8080/udp", 0)
        ],
        [at("::1"), at("127.0.0.1"), at("127.0.0.1")]
    );
    assert_eq!(page(engine, moved[0].1).as_deref(), Some("hello"), "{status:#}");
    drop(holder);
}

//! Event names of what the controller does: each follows from its real cause.

use std::collections::BTreeMap;

use argus_tests::fixture::{IMAGE, LIMIT, engine, singles};
use argus_tests::http::Event;
use argus_tests::proxy::Fault;
use argus_tests::{Controller, PortHolder, Proxy, RunOptions};
use serde_json::{Value, json};

use super::{HttpFixture, listening};

const NAMES: &str = "preflight_start,preflight_check,preflight_end,orphan_found,cleanup_start,cleanup_resource,cleanup_end,\
port_reassigned,circuit_open,circuit_half_open,circuit_closed,network_check,network_verified";

/// `web` connects to `api` by its name.
fn spec() -> String {
    let health = "{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, retries: 20, startPeriod: 5s }";
    format!(
        r#"version: "1"
project: {{ name: named }}
services:
  api:
    image: {IMAGE}
    container: {{ name: named-api, healthcheck: {health} }}
  web:
    image: {IMAGE}
    dependsOn: [api]
    container:
      name: named-web
      ports: ["18770:8080"]
      environment: {{ API: "http://api:8080/" }}
      healthcheck: {health}
"#
    )
}

/// Creates resources of a dead controller of the project of `named`.
fn leave() {
    let labels = [
        "managed=true",
        "project=named",
        "environment=named",
        "service=gone",
        "controller=dead",
        "run-id=r",
        "created-at=2026-01-01T00:00:00Z",
    ];
    let labels = labels.map(|label| format!("--label=argusai.{label}"));
    let mut words = vec!["run", "-d", "--name", "named-left"];
    words.extend(labels.iter().map(String::as_str));
    words.extend(["busybox:local", "sleep", "1000"]);
    engine().docker_ok(&words);
}

/// Received events by name, in the order of the records.
#[derive(Default)]
struct Received(BTreeMap<String, Vec<(u64, Value)>>);

impl Received {
    fn take(&mut self, event: &Event) {
        if let Ok(id) = event.id.parse() {
            let all = self.0.entry(event.name.clone()).or_default();
            all.push((id, event.json()));
        }
    }

    fn of(&self, name: &str, holds: impl Fn(&Value) -> bool) -> Vec<u64> {
        let all = self.0.get(name).into_iter().flatten();
        all.filter(|(_, output)| holds(output))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Numbers of the discovery and removal of an orphan, and of the start and end of its cleanup, in order.
    fn removal(&self, name: &str) -> Option<Vec<u64>> {
        let found = self.0.get("orphan_found")?;
        let (found, orphan) = found.iter().find(|(_, output)| output["name"] == name)?;
        let gone = *self
            .of("cleanup_resource", |output| output["id"] == orphan["id"])
            .first()?;
        let started = self.of("cleanup_start", |_| true);
        let started = *started.iter().rev().find(|started| **started < gone)?;
        let over = self.of("cleanup_end", |_| true);
        let over = *over.iter().find(|over| **over > gone)?;
        Some(vec![*found, started, gone, over])
    }

    /// The first event of each name that satisfies `holds`; `None` if one is missing.
    fn row(&self, names: &[&str], holds: impl Fn(&Value) -> bool) -> Option<Vec<u64>> {
        let first = |name: &&str| self.of(name, &holds).first().copied();
        names.iter().map(first).collect()
    }
}

fn is_in_order(row: Option<Vec<u64>>) -> bool {
    row.is_some_and(|row| row.is_sorted())
}

#[test]
fn event_names_are_the_documented_ones() {
    let engine = engine();
    leave();
    let proxy = Proxy::start(&engine.scratch("names").join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        helpers: true,
        env: vec![(
            "ARGUS_WAITS".to_owned(),
            "orphanAge=2s,listInterval=2s".to_owned(),
        )],
        ..listening(&[])
    };
    let fixture = HttpFixture::of(Controller::start(engine, options));
    let holder = PortHolder::new(engine, 18770);
    fixture.argus.write_spec("a.e2e.yaml", &spec());
    fixture.argus.wait_ready("named", LIMIT);
    drop(holder);
    proxy.inject("POST /containers/*/start", Fault::CloseBefore, 100_000);
    let breaker = "resilience: { circuitBreaker: { failureThreshold: 2, resetTimeoutMs: 120000 } }\n";
    fixture
        .argus
        .write_spec("b.e2e.yaml", &singles("cut", &[18775], breaker));
    fixture
        .argus
        .wait_status("cut", LIMIT, "reports its open breaker", |now| {
            now["breaker"]["state"] == "open"
        });
    proxy.heal();
    let reset = fixture.send(
        "POST",
        "/api/v1/commands/resetBreaker",
        r#"{"environment":"cut"}"#,
    );
    assert_eq!(reset.status, 202, "{reset:?}");
    // Requested over HTTP, in both ways, and over MCP.
    assert_eq!(fixture.send("GET", "/api/v1/preflight?skip=disk", "").status, 200);
    assert_eq!(
        fixture
            .send("POST", "/api/v1/preflight", r#"{"skip":["clock"]}"#)
            .status,
        200
    );
    let tool = ("argus_preflight_check", json!({ "skip": ["images"] }));
    super::parity::by_mcp(&fixture, &tool);

    let mut stream = fixture.events(&format!("?type={NAMES}"), Some("0"));
    let mut received = Received::default();
    let named = |output: &Value| output["environment"] == "named";
    let cut = |output: &Value| output["environment"] == "cut";
    let circuit = ["circuit_open", "circuit_half_open", "circuit_closed"];
    let request = |output: &Value| output["requested"] == true;
    let of_all = |output: &Value| output["environment"].is_null();
    let is_reported = |received: &Received| {
        received.removal("named-left").is_some()
            && received.row(&circuit, cut).is_some()
            && !received.of("port_reassigned", named).is_empty()
            && !received.of("network_verified", named).is_empty()
            && received.of("preflight_start", request).len() >= 3
            && received.of("preflight_end", of_all).last() > received.of("preflight_start", request).last()
    };
    while !is_reported(&received) {
        let event = stream
            .next_event()
            .unwrap_or_else(|error| panic!("{error}: {:#?}", received.0));
        received.take(&event.expect("the stream continues"));
    }
    assert!(is_in_order(received.row(&circuit, cut)), "{:#?}", received.0);
    assert!(is_in_order(received.removal("named-left")), "{:#?}", received.0);
    assert_eq!(engine.inspect("named-left"), None);
    let is_removal = |output: &Value| output["name"] == "named-left" && output["outcome"] == "done";
    assert!(
        !received
            .of("cleanup_resource", |output| named(output) && is_removal(output))
            .is_empty()
    );
    assert!(!received.of("orphan_found", named).is_empty());
    assert!(!received.of("preflight_check", named).is_empty());
    checks(&received);
}

/// Asserts that each requested preflight has a start, all its checks and an end.
fn checks(received: &Received) {
    let begins = received.of("preflight_start", |output| output["requested"] == true);
    // Those of an environment have its name.
    let ends = received.of("preflight_end", |output| output["environment"].is_null());
    for (begin, left_out) in begins.iter().zip(["disk", "clock", "images"]) {
        let start = received.0["preflight_start"]
            .iter()
            .find(|(id, _)| id == begin)
            .expect("the preflight is one of them");
        assert_eq!(start.1["skip"], json!([left_out]), "{start:?}");
        let end = ends.iter().find(|end| *end > begin).expect("the preflight ends");
        let checks = received.0["preflight_check"]
            .iter()
            .filter(|(id, output)| (begin..end).contains(&id) && output["environment"].is_null());
        let results: BTreeMap<&str, &Value> = checks
            .map(|(_, output)| (output["check"].as_str().expect("a name"), &output["result"]))
            .collect();
        assert_eq!(results.len(), 9, "{results:?}");
        assert_eq!(results[left_out], "skipped");
        assert_eq!(results["engine"], "pass");
    }
    // The controller reports its own preflight if a result changed: at its start, at least.
    let own = received.of("preflight_start", |output| output["requested"] == false);
    assert!(!own.is_empty(), "{:#?}", received.0);
}

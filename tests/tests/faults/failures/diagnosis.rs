//! Failed health checks: the requests and responses of the probes, and the view from the container's network.

use std::net::IpAddr;

use argus_tests::RunOptions;
use argus_tests::fixture::{IMAGE, LIMIT, text};
use serde_json::Value;

use super::case::{Case, LONG, LONG_MAXIMUM, shell};
use super::evidence::facts;
use super::health::web;

/// A case whose controller may run helper containers. The restart waits for their results, however long they take.
fn with_helpers(name: &'static str, service: &str) -> Case {
    let options = RunOptions {
        helpers: true,
        ..RunOptions::default()
    };
    Case::start_with(options, name, LONG, &format!("{service}{LONG_MAXIMUM}"))
}

#[test]
fn failed_health_check_has_results_from_the_network() {
    let database =
        format!("\n  db:\n    image: {IMAGE}\n    container: {{ name: inside-db, ports: [\"0:8080\"] }}");
    let more = "command: [sh, -c, 'echo serving; exec httpd -f -p 8080 -h /www']\n    dependsOn: [db]";
    let service = web("inside", 18338, "/nowhere", more) + &database;
    let case = with_helpers("inside", &service);
    case.wait("has failed", |bad| bad["lastError"].is_object());
    let output = case.wait("has the results of the helper", |bad| {
        bad["lastError"]["details"]["probeAnswers"]["dns bad"].is_string()
    });
    let error = &output["lastError"];
    assert_eq!(error["code"], "HEALTH_CHECK_TIMEOUT", "{output:#}");
    assert!(
        text(&error["message"]).contains("GET /nowhere on :8080: 404 Not Found"),
        "{error:#}"
    );
    assert_eq!(text(&error["stdoutTail"]).trim_end(), "serving", "{error:#}");
    let answers = &error["details"]["probeAnswers"];
    let container = case.inspect().expect("it runs");
    let address = &container["NetworkSettings"]["Networks"]["argusai-inside-network"]["IPAddress"];
    assert_eq!(&answers["dns bad"], address, "{error:#}");
    let of_database = text(&answers["dns db"]);
    assert!(of_database.parse::<IpAddr>().is_ok(), "{error:#}");
    assert_eq!(answers["tcp bad:8080"], "connected");
    assert_eq!(answers["tcp db:8080"], "connected");
    let log = error["details"]["probeLog"].as_array().expect("the probe log");
    assert!(
        log.len() >= 3
            && log
                .iter()
                .all(|line| *line == "GET /nowhere on :8080: 404 Not Found"),
        "{error:#}"
    );
    let stored = case.argus.wait_until(LIMIT, "the results are stored", || {
        Some(facts(&case, error)).filter(|stored| stored["probeAnswers"]["dns bad"].is_string())
    });
    assert_eq!(&stored["probeAnswers"], answers);
    assert_eq!(stored["probeOutput"], error["details"]["probeLog"]);
    assert!(stored["failingSince"].is_string(), "{stored:#}");
    let shown = super::evidence::shown(&case, &["evidence", "inside", "bad"]);
    assert!(shown.contains("tcp db:8080: connected"), "{shown}");
}

#[test]
fn port_without_a_listener_is_named_as_refused() {
    let health =
        "healthcheck: { path: /, port: 8080, interval: 500ms, timeout: 1s, retries: 3, startPeriod: 1s }";
    let service = shell("refuses", "exec sleep 3600", "").replacen(
        "name: refuses-bad",
        &format!("name: refuses-bad, ports: [\"18339:8080\"], {health}"),
        1,
    );
    let case = Case::start("refuses", LONG, &(service + LONG_MAXIMUM));
    let output = case.wait("reports the failed health check", |bad| {
        bad["lastError"]["code"] == "HEALTH_CHECK_TIMEOUT"
            && bad["lastError"]["details"]["missing"].is_array()
    });
    let error = &output["lastError"];
    assert!(
        text(&error["message"]).contains("GET / on :8080: connection refused"),
        "{error:#}"
    );
    let missing = |error: &Value| error["details"]["missing"].to_string();
    // Without helpers, the evidence contains the reason.
    let output = case.wait("states why it has no results of a helper", |bad| {
        missing(&bad["lastError"]).contains("helpers are disabled")
    });
    assert_eq!(
        output["lastError"]["details"]["probeAnswers"]["dns bad"],
        Value::Null
    );
}

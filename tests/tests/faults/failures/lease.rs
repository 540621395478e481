//! Test leases: an unhealthy service keeps running during a test; a removed one is replaced.

use std::time::Duration;

use argus_core::time::Timestamp;
use argus_tests::fixture::LIMIT;
use argus_tests::wait;
use rustix::process::Signal;
use serde_json::Value;

use super::case::{Case, started};
use super::health::web;

fn begin(case: &Case, test: &str, ttl: &str) {
    let output = case
        .argus
        .cli(&["test", "begin", case.name, "--case", test, "--ttl", ttl]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn end(case: &Case, test: &str) -> Value {
    let output = case
        .argus
        .cli(&["test", "end", case.name, "--case", test, "-o", "json"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Makes the service unhealthy, and waits until its repair is deferred to the end of the test. Returns the service.
fn sicken(case: &Case, test: &str) -> Value {
    case.engine
        .docker_ok(&["exec", &case.container(), "rm", "/www/healthz"]);
    let output = case.wait("its repair is deferred", |bad| {
        bad["waitingOn"]["reason"] == "TestLease"
    });
    let message = output["waitingOn"]["message"].to_string();
    assert!(message.contains(test), "{message}");
    assert_eq!(output["health"], "Unhealthy", "{output:#}");
    assert_eq!(output["lastError"]["code"], "HEALTH_CHECK_TIMEOUT", "{output:#}");
    output
}

/// Waits until it is healthy again, in a new container.
fn recovered(case: &Case, before: Timestamp) -> Timestamp {
    let again = case.started_after(before);
    case.argus.wait_ready(case.name, LIMIT);
    again
}

fn since(case: &Case) -> Timestamp {
    case.inspect()
        .as_ref()
        .and_then(started)
        .expect("the container runs")
}

fn sick(name: &'static str, port: u16) -> (Case, Timestamp) {
    let restart = "maxRestarts: 10, restartDelay: 500ms, restartBackoff: linear";
    let service = web(name, port, "/healthz", "stopGrace: 1s");
    let case = Case::start(name, restart, &service);
    case.argus.wait_ready(name, LIMIT);
    let since = since(&case);
    (case, since)
}

#[test]
fn unhealthy_service_runs_until_the_test_ends() {
    let (case, before) = sick("deferred", 18341);
    begin(&case, "buy", "5m");
    sicken(&case, "buy");
    wait::all_the_while(Duration::from_secs(3), "it keeps running", || {
        since(&case) == before
    });
    let report = end(&case, "buy");
    let report = &report["value"];
    assert_eq!(report["restartsDuringRun"], 1, "{report:#}");
    let found = &report["disruptions"][0];
    assert_eq!(
        (&found["service"], &found["attribution"]),
        (&"bad".into(), &"test".into()),
        "{report:#}"
    );
    recovered(&case, before);
}

#[test]
fn expired_test_lease_ends() {
    let (case, before) = sick("forgotten", 18342);
    begin(&case, "sell", "8s");
    let output = sicken(&case, "sell");
    let until = output["waitingOn"]["until"]
        .as_str()
        .and_then(Timestamp::parse)
        .expect("the end of the deferral");
    let again = recovered(&case, before);
    assert!(again >= until, "not before the expiry: {again:?} < {until:?}");
    let status = case.argus.status(case.name);
    assert!(!status.to_string().contains("TestLease"), "{status:#}");
}

// Requirements: FR-R23
#[test]
fn test_is_refused_on_missing_or_unverified_services() {
    let (case, before) = sick("useless", 18343);
    begin(&case, "ask", "5m");
    sicken(&case, "ask");
    case.signal(Signal::KILL);
    let again = case.started_after(before);
    case.engine
        .docker_ok(&["exec", &case.container(), "touch", "/www/healthz"]);
    case.argus.wait_ready(case.name, LIMIT);
    // The probe gets no response, although the process exists.
    let stop = "kill -STOP $(busybox pidof httpd)";
    case.engine
        .docker_ok(&["exec", &case.container(), "sh", "-c", stop]);
    recovered(&case, again);
    let report = end(&case, "ask");
    let services = report["value"]["disruptions"].as_array().expect("the failures");
    assert!(services.len() >= 2, "{report:#}");
    assert_eq!(report["value"]["restartsDuringRun"], services.len(), "{report:#}");
}

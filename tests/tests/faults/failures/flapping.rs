//! A flapping health check: it is not trusted, and its delay grows.

use std::time::Duration;

use argus_core::time::Timestamp;
use argus_tests::fixture::LIMIT;

use super::case::{Case, started};
use super::health::web;

#[test]
fn flapping_service_is_reported_and_delayed() {
    let case = Case::start(
        "flaps",
        "maxRestarts: 9, restartDelay: 11s, restartBackoff: linear",
        &web("flaps", 18340, "/healthz", ""),
    );
    case.argus.wait_ready("flaps", LIMIT);
    let before = case.inspect().as_ref().and_then(started);
    let turn = |command: &str, health: &str| {
        case.engine
            .docker_ok(&["exec", "flaps-bad", command, "/www/healthz"]);
        case.wait(&format!("is {health}"), |bad| bad["health"] == health)
    };
    for _ in 0..2 {
        turn("rm", "Unhealthy");
        let status = case.argus.status("flaps").to_string();
        assert!(
            !status.contains("FLAKY_SUSPECTED"),
            "three changes are not flapping: {status}"
        );
        turn("touch", "Healthy");
    }
    let status = case
        .argus
        .wait_status("flaps", LIMIT, "is reported as flaky", |now| {
            now["errors"].to_string().contains("FLAKY_SUSPECTED")
        });
    let errors = status["errors"].as_array().expect("errors");
    let flaky = errors
        .iter()
        .find(|error| error["code"] == "FLAKY_SUSPECTED")
        .expect("the check existed");
    assert_eq!(
        (&flaky["service"], &flaky["severity"]),
        (&"bad".into(), &"warning".into()),
        "{flaky:#}"
    );
    assert_eq!(
        flaky["details"]["healthTransitions"].as_array().map(Vec::len),
        Some(4),
        "{flaky:#}"
    );
    // A change alone is not a failure. Only the collection of the evidence may still be in progress.
    case.argus.wait_ready("flaps", LIMIT);

    turn("rm", "Unhealthy");
    let output = case.wait("waits for its delay", |bad| {
        bad["waitingOn"]["reason"] == "Unhealthy" && bad["waitingOn"]["until"].is_string()
    });
    let time = |value: &serde_json::Value| value.as_str().and_then(Timestamp::parse).expect("a time");
    let delay = time(&output["waitingOn"]["until"]).since(time(&output["lastError"]["timestamp"]));
    // The third failure waits three times as long; two changes too many make that five times.
    assert_eq!(delay, Duration::from_secs(55), "{output:#}");
    assert_eq!(
        case.inspect().as_ref().and_then(started),
        before,
        "the container kept running"
    );
}

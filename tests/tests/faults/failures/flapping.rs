//! A flapping health check: it is not trusted, and its delay grows.

use argus_core::action::ActionKind;
use argus_tests::fixture::LIMIT;

use super::case::{Case, LONG, LONG_DELAY};
use super::health::web;

/// No delay ends during the test, and no healthy time resets the budget.
const LIMITS: &str = "\nargus: { restart: { maxDelay: 10h, window: 10h, resetAfter: 10h } }";

#[test]
fn flapping_service_is_reported_and_delayed() {
    // A slow machine causes no further change.
    let service = web("flaps", 18345, "/healthz", LIMITS).replace("timeout: 1s", "timeout: 20s");
    let restart = format!("maxRestarts: 9, {LONG}, restartBackoff: linear");
    let case = Case::start("flaps", &restart, &service);
    case.argus.wait_ready("flaps", LIMIT);
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
    let history = case.stored("has the third failure", |history| history.failure_count == 3);
    let failure = history.failures.last().expect("it failed");
    // The third failure waits three times as long; two changes too many make that five times.
    Case::assert_waits(&output, failure, 5 * LONG_DELAY);
    assert_eq!(case.count("bad", ActionKind::StartContainer), 1);
    assert_eq!(case.count("bad", ActionKind::StopContainer), 0);
}

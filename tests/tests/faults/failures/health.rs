//! Containers that run but do not work.

use std::fs;

use argus_core::action::ActionKind;
use argus_core::failed_run::{FailedRun, FailureCause};
use argus_tests::Controller;
use argus_tests::fixture::{IMAGE, LIMIT, text};
use rustix::process::Signal;
use serde_json::Value;

use super::case::{Case, LONG, LONG_DELAY, LONG_MAXIMUM, started, time, until};

/// The lines of a web service that is probed at `path` every half second.
pub(crate) fn web(name: &str, port: u16, path: &str, more: &str) -> String {
    format!(
        "image: {IMAGE}\n    container:\n      name: {name}-bad\n      ports: [\"{port}:8080\"]\n      \
         healthcheck: {{ path: {path}, port: 8080, interval: 500ms, timeout: 1s, retries: 3, startPeriod: 1s }}\n    {more}"
    )
}

#[test]
fn unhealthy_service_is_restarted_and_then_recreated() {
    let case = Case::start(
        "sickens",
        "restartDelay: 1s",
        &web("sickens", 18399, "/healthz", ""),
    );
    case.argus.wait_ready("sickens", LIMIT);
    let first = text(&case.inspect().expect("the container runs")["Id"]);
    case.engine
        .docker_ok(&["exec", "sickens-bad", "rm", "/www/healthz"]);
    let output = case.wait("reports that it is unhealthy", |bad| {
        bad["lastError"]["code"] == "HEALTH_CHECK_TIMEOUT"
            && bad["lastError"]["details"]["probeAnswers"].is_object()
    });
    let error = &output["lastError"];
    let questions = error["details"]["probeAnswers"].as_object().expect("questions");
    let request = |what: &str| {
        let found = questions.iter().find(|(question, _)| question.starts_with(what));
        found.map_or_else(
            || panic!("{what} was not probed: {error:#}"),
            |(_, answer)| text(answer),
        )
    };
    assert_eq!(request("tcp "), "connected");
    assert!(
        request("aliases on argusai-sickens-network").contains("bad"),
        "{error:#}"
    );
    let facts = fs::read(case.evidence(error).join("evidence.json")).expect("evidence");
    let facts: Value = serde_json::from_slice(&facts).expect("whole JSON");
    assert_eq!(facts["probeAnswers"], error["details"]["probeAnswers"]);
    assert!(
        text(&error["details"]["probeOutput"]).contains("404"),
        "{error:#}"
    );
    assert!(text(&error["message"]).contains("404"), "{error:#}");
    let log = facts["probeOutput"].as_array().expect("the probe output");
    assert_eq!(
        log.last(),
        Some(&"GET /healthz on :8080: 404 Not Found".into()),
        "{facts:#}"
    );
    assert!(facts["failingSince"].is_string(), "{facts:#}");
    assert!(
        log.len() >= 3 && facts["probeOutput"] == error["details"]["probeLog"],
        "{facts:#}"
    );

    // Only a new container brings the file back, which the second failure in a row creates.
    let output = case.wait_restarted(2);
    assert_eq!(output["health"], "Healthy", "{output:#}");
    assert_ne!(output["containerId"], first.as_str());
    case.argus.wait_ready("sickens", LIMIT);
}

#[test]
fn never_healthy_service_is_given_up_within_budget() {
    let case = Case::start(
        "neverwell",
        "maxRestarts: 2, restartDelay: 200ms",
        &web("neverwell", 18331, "/nowhere", ""),
    );
    let output = case.wait("gives up", |bad| bad["waitingOn"]["reason"] == "GaveUp");
    let error = &output["lastError"];
    assert_eq!(error["code"], "CONTAINER_RESTART_EXHAUSTED", "{output:#}");
    assert_eq!(output["restarts"], 2, "{output:#}");
    let attempts = error["details"]["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 3, "{error:#}");
    assert!(
        attempts.iter().all(|attempt| attempt["kind"] == "unhealthy"
            && text(&attempt["probeOutput"]).contains("404")
            && attempt["probeAnswers"].is_object()),
        "{error:#}"
    );
}

#[test]
fn missing_image_healthcheck_is_an_error() {
    let service = format!(
        "image: {IMAGE}\n    container: {{ name: unchecked-bad, healthcheck: {{ type: docker }} }}\n"
    );
    let case = Case::start("unchecked", "restartDelay: 1s", &service);
    let error = case.wait_error("SPEC_INVALID");
    assert!(text(&error["message"]).contains("no HEALTHCHECK"), "{error:#}");
    assert_eq!(error["suggestedActions"][0], "fix_healthcheck", "{error:#}");
    let now = case.argus.status("unchecked");
    assert_eq!(now["phase"], "Degraded", "{now:#}");
    assert!(
        case.inspect().as_ref().and_then(started).is_some(),
        "the container runs"
    );
    assert_eq!(
        case.argus.cli(&["wait", "unchecked"]).status.code(),
        Some(6),
        "it gives up"
    );
}

#[test]
fn service_that_ignores_sigterm_is_restarted() {
    let command = r#"command: ["sh", "-c", "trap '' TERM; exec httpd -f -p 8080 -h /www"]"#;
    let more = format!("{command}\n    stopGrace: 1s");
    let case = Case::start(
        "unheard",
        "restartDelay: 1s",
        &web("unheard", 18332, "/healthz", &more),
    );
    case.argus.wait_ready("unheard", LIMIT);
    let before = case
        .inspect()
        .as_ref()
        .and_then(started)
        .expect("the container runs");
    case.engine
        .docker_ok(&["exec", "unheard-bad", "rm", "/www/healthz"]);
    let again = case.started_after(before);
    assert!(again > before);
    let output = case.wait_restarted(2);
    assert_eq!(
        output["lastError"]["code"], "HEALTH_CHECK_TIMEOUT",
        "a kill by Argus is not a crash: {output:#}"
    );
    case.argus.wait_ready("unheard", LIMIT);
}

/// A case in a delay that outlasts the test, after it became unhealthy. Returns its failure.
fn sick(name: &'static str, port: u16) -> (Case, FailedRun) {
    let case = Case::start(name, LONG, &web(name, port, "/healthz", LONG_MAXIMUM));
    case.argus.wait_ready(name, LIMIT);
    case.engine
        .docker_ok(&["exec", &case.container(), "rm", "/www/healthz"]);
    let output = case.wait("waits for its delay", |bad| {
        bad["waitingOn"]["reason"] == "Unhealthy" && bad["waitingOn"]["until"].is_string()
    });
    let history = case.stored("has the evidence of the failure", |history| {
        history.failures.iter().any(|run| run.evidence.is_some())
    });
    let failure = history.failures[0].clone();
    Case::assert_waits(&output, &failure, LONG_DELAY);
    assert_eq!(time(&output["lastError"]["timestamp"]), failure.seen());
    (case, failure)
}

#[test]
fn service_recovered_within_its_delay_is_not_restarted() {
    let (case, failure) = sick("recovers", 18333);
    case.engine
        .docker_ok(&["exec", "recovers-bad", "touch", "/www/healthz"]);
    let output = case.wait_restarted(0);
    assert_eq!(output["health"], "Healthy", "{output:#}");
    case.argus.wait_ready("recovers", LIMIT);
    case.assert_settled();
    assert_eq!(case.count("bad", ActionKind::StopContainer), 0);
    assert_eq!(case.inspect().as_ref().and_then(started), failure.started_at);
}

#[test]
fn exit_within_the_delay_is_one_failure() {
    let (case, _) = sick("diestoo", 18334);
    case.signal(Signal::KILL);
    let output = case.wait("reports the exit", |bad| {
        bad["lastError"]["code"] == "CONTAINER_CRASH" && bad["waitingOn"]["reason"] == "RestartBackoff"
    });
    let error = &output["lastError"];
    assert_eq!(error["details"]["run"], 1, "{output:#}");
    let history = case.stored("has the exit", |history| {
        let is_exit = |run: &FailedRun| run.cause == FailureCause::Exited;
        history.failures.last().is_some_and(is_exit)
    });
    assert_eq!(history.failure_count, 1);
    Case::assert_waits(&output, &history.failures[0], LONG_DELAY);
    let retry = case.argus.cli(&["retry", "diestoo"]);
    assert_eq!(retry.status.code(), Some(0));
    case.wait("reports one restart", |bad| bad["restarts"] == 1);
    assert_eq!(case.count("bad", ActionKind::StartContainer), 2);
}

#[test]
fn killed_controller_counts_an_unhealthy_service_once() {
    let (case, failure) = sick("sickamnesia", 18335);
    case.argus.kill9();
    case.argus.start_again();
    case.argus.sync();
    let output = case.wait("is unhealthy for the new controller", |bad| {
        bad["waitingOn"]["reason"] == "Unhealthy"
    });
    let error = &output["lastError"];
    assert_eq!(
        (&error["code"], &error["details"]["run"]),
        (&"HEALTH_CHECK_TIMEOUT".into(), &1.into()),
        "{output:#}"
    );
    assert_eq!(until(&output), failure.seen() + LONG_DELAY, "{output:#}");
    assert_eq!(case.count("bad", ActionKind::StopContainer), 0);
}

#[test]
fn probe_output_contains_no_secret() {
    let health = "{ type: exec, command: [\"sh\", \"-c\", \"echo $DB_PASSWORD refused; false\"], interval: 500ms, \
                  timeout: 2s, retries: 2, startPeriod: 0s }";
    let container = format!(
        "container: {{ name: blabs-bad, environment: {{ DB_PASSWORD: hunter-two }}, healthcheck: {health} }}"
    );
    let case = Case::start(
        "blabs",
        "restartDelay: 1s",
        &format!("image: busybox:local\n    {container}"),
    );
    let status = case
        .argus
        .wait_status("blabs", LIMIT, "reports its probe output", |status| {
            assert!(!status.to_string().contains("hunter"), "{status:#}");
            status.to_string().contains("[redacted] refused")
        });
    assert_eq!(
        Controller::service(&status, "bad")["lastError"]["code"],
        "HEALTH_CHECK_TIMEOUT"
    );
    assert!(!case.argus.logs().contains("hunter"), "{}", case.argus.logs());
}

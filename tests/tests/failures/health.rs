//! What runs on and does not do its work.

use std::fs;

use argus_tests::stage::{IMAGE, LIMIT, text};
use serde_json::Value;

use crate::case::{Case, started};

/// The lines of a web service that is asked for `path` each half second.
fn web(name: &str, port: u16, path: &str, more: &str) -> String {
    format!(
        "image: {IMAGE}\n    container:\n      name: {name}-bad\n      ports: [\"{port}:8080\"]\n      \
         healthcheck: {{ path: {path}, port: 8080, interval: 500ms, timeout: 1s, retries: 3, startPeriod: 1s }}\n    {more}"
    )
}

#[test]
fn what_becomes_unhealthy_is_restarted_and_then_made_anew() {
    let case = Case::start(
        "sickens",
        "restartDelay: 1s",
        &web("sickens", 18330, "/healthz", ""),
    );
    case.argus.wait_ready("sickens", LIMIT);
    let first = text(&case.inspect().expect("it runs")["Id"]);
    case.engine
        .docker_ok(&["exec", "sickens-bad", "rm", "/www/healthz"]);
    let told = case.wait("tells that it is unhealthy", |bad| {
        bad["lastError"]["code"] == "HEALTH_CHECK_TIMEOUT"
            && bad["lastError"]["details"]["questions"].is_object()
    });
    let error = &told["lastError"];
    let questions = error["details"]["questions"].as_object().expect("questions");
    let asked = |what: &str| {
        let found = questions.iter().find(|(question, _)| question.starts_with(what));
        found.map_or_else(
            || panic!("{what} was not asked: {error:#}"),
            |(_, answer)| text(answer),
        )
    };
    assert_eq!(asked("tcp "), "connected");
    assert!(
        asked("dns on argusai-sickens-network").contains("bad"),
        "{error:#}"
    );
    let facts = fs::read(case.evidence(error).join("evidence.json")).expect("evidence");
    let facts: Value = serde_json::from_slice(&facts).expect("whole JSON");
    assert_eq!(facts["questions"], error["details"]["questions"]);

    // A restart brings the file back only with a new container, which the second failure in a row makes.
    let told = case.wait_restarted(2);
    assert_eq!(told["health"], "Healthy", "{told:#}");
    assert_ne!(told["containerId"], first.as_str());
    case.argus.wait_ready("sickens", LIMIT);
}

#[test]
fn what_never_becomes_healthy_is_given_up_within_its_budget() {
    let case = Case::start(
        "neverwell",
        "maxRestarts: 2, restartDelay: 1s",
        &web("neverwell", 18331, "/nowhere", ""),
    );
    let (told, runs) = case.runs_until("gives up", |bad| bad["waitingOn"]["reason"] == "GaveUp");
    let error = &told["lastError"];
    assert_eq!(error["code"], "CONTAINER_RESTART_EXHAUSTED", "{told:#}");
    assert_eq!(told["restarts"], 2, "{runs:#?}");
    let attempts = error["details"]["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 3, "{error:#}");
    assert!(
        attempts.iter().all(|attempt| attempt["kind"] == "unhealthy"),
        "{error:#}"
    );
}

#[test]
fn what_ignores_its_stop_signal_is_restarted_all_the_same() {
    let command = r#"command: ["sh", "-c", "trap '' TERM; exec httpd -f -p 8080 -h /www"]"#;
    let more = format!("{command}\n    stopGrace: 1s");
    let case = Case::start("deaf", "restartDelay: 1s", &web("deaf", 18332, "/healthz", &more));
    case.argus.wait_ready("deaf", LIMIT);
    let before = case.inspect().as_ref().and_then(started).expect("it runs");
    case.engine.docker_ok(&["exec", "deaf-bad", "rm", "/www/healthz"]);
    let again = case.started_after(before);
    assert!(again > before);
    let told = case.wait_restarted(2);
    assert_eq!(
        told["lastError"]["code"], "HEALTH_CHECK_TIMEOUT",
        "a kill of our own is no crash: {told:#}"
    );
    case.argus.wait_ready("deaf", LIMIT);
}

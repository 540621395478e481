//! Delays and budgets survive restarts, outages and edits.

use std::time::Duration;

use argus_core::action::ActionKind;
use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, PortHolder, RunOptions};
use serde_json::Value;

use super::case::{Case, LONG, LONG_DELAY, LONG_MAXIMUM, shell, until};
use super::loops::RANDOM_ERROR;

#[test]
fn removed_container_keeps_its_restart_delay() {
    let case = Case::start("impatient", LONG, &shell("impatient", RANDOM_ERROR, LONG_MAXIMUM));
    let waiting = case.wait_backoff(1);
    Case::assert_waits(&waiting, &case.failure(1), LONG_DELAY);
    case.engine.docker_ok(&["rm", "-f", "impatient-bad"]);
    let output = case.wait("waits without its container", |bad| {
        bad["containerId"].is_null() && bad["waitingOn"]["reason"] == "RestartBackoff"
    });
    assert_eq!(until(&output), until(&waiting), "{output:#}");
    assert_eq!(case.count("bad", ActionKind::CreateContainer), 1);
    let retry = case.argus.cli(&["retry", "impatient"]);
    assert_eq!(retry.status.code(), Some(0));
    case.wait("counts as one restart", |bad| bad["restarts"] == 1);
}

#[test]
fn killed_controller_keeps_its_restart_delay() {
    let case = Case::start("reminded", LONG, &shell("reminded", RANDOM_ERROR, LONG_MAXIMUM));
    let waiting = case.wait_backoff(1);
    Case::assert_waits(&waiting, &case.failure(1), LONG_DELAY);
    case.argus.kill9();
    case.argus.start_again();
    case.argus.sync();
    let output = case.wait_backoff(1);
    assert_eq!(until(&output), until(&waiting), "{output:#}");
    assert_eq!(case.count("bad", ActionKind::StartContainer), 1);
}

#[test]
fn stopped_controller_keeps_a_spent_budget() {
    let case = Case::shell("amnesia", "maxRestarts: 2, restartDelay: 300ms", RANDOM_ERROR);
    case.wait("gives up", |bad| bad["waitingOn"]["reason"] == "GaveUp");
    case.assert_restarts(&[300, 600].map(Duration::from_millis));
    for is_killed in [true, false] {
        if is_killed {
            case.argus.kill9();
        } else {
            assert!(case.argus.stop().success(), "{}", case.argus.logs());
        }
        case.argus.start_again();
        case.argus.sync();
        let output = case.wait("still has no restarts left", |bad| {
            bad["waitingOn"]["reason"] == "GaveUp"
        });
        assert_eq!(output["restarts"], 2, "{output:#}");
        let attempts = &output["lastError"]["details"]["attempts"];
        assert_eq!(attempts.as_array().map(Vec::len), Some(3), "{output:#}");
        case.assert_settled();
        assert_eq!(case.count("bad", ActionKind::StartContainer), 3);
    }
}

#[test]
fn new_revision_skips_the_old_delay() {
    let case = Case::start("hurried", LONG, &shell("hurried", RANDOM_ERROR, LONG_MAXIMUM));
    case.wait_backoff(1);
    case.write(LONG, &shell("hurried", "exec sleep 3600", LONG_MAXIMUM));
    let output = case.wait_restarted(0);
    assert!(output["lastError"].is_null(), "{output:#}");
    let actions = case.actions("bad");
    let is_restart = |cause: &str| cause.starts_with("restart ");
    assert!(
        actions.iter().all(|action| !is_restart(&action.cause)),
        "{actions:#?}"
    );
}

#[test]
fn slow_retry_waits_for_its_interval() {
    let options = RunOptions {
        args: vec!["--slow-retry-interval".to_owned(), "20m".to_owned()],
        ..RunOptions::default()
    };
    let more = "\nargus: { restart: { mode: slowRetry } }";
    let case = Case::start_with(
        options,
        "slowly",
        "maxRestarts: 1, restartDelay: 500ms",
        &shell("slowly", RANDOM_ERROR, more),
    );
    let output = case.wait_backoff(2);
    assert_eq!(output["waitingOn"]["error"], "CONTAINER_RESTART_EXHAUSTED");
    assert_eq!(
        output["lastError"]["code"], "CONTAINER_RESTART_EXHAUSTED",
        "{output:#}"
    );
    assert_eq!(
        output["lastError"]["details"]["attempts"]
            .as_array()
            .map(Vec::len),
        Some(2),
        "{output:#}"
    );
    Case::assert_waits(&output, &case.failure(2), Duration::from_secs(20 * 60));
}

#[test]
fn silent_registry_is_waited_for_until_the_limit() {
    let engine = engine();
    let _silent = PortHolder::silent(engine, 18396);
    let argus = Controller::start(
        engine,
        RunOptions {
            env: vec![("ARGUS_TIMEOUT_LONG".to_owned(), "2s".to_owned())],
            ..RunOptions::default()
        },
    );
    let image = "127.0.0.1:18396/none:1";
    argus.write_spec(
        "e2e.yaml",
        &format!(
            "version: \"1\"\nproject: {{ name: silent }}\nservice: {{ image: \"{image}\", container: {{ name: silent-web }} }}\n"
        ),
    );
    let output = argus.wait_status("silent", LIMIT, "reports the stalled pull", |status| {
        status["errors"].to_string().contains("IMAGE_PULL_FAILED")
    });
    let output = output["errors"].to_string();
    assert!(output.contains("no progress for 2 s"), "{output}");
    argus.wait_status("silent", LIMIT, "tries the pull again", |status| {
        let attempts = &status["errors"][0]["details"]["attempts"];
        attempts.as_array().is_some_and(|attempts| attempts.len() >= 2)
    });
}

#[test]
fn silent_build_ends_at_the_limit() {
    let options = RunOptions {
        env: vec![("ARGUS_TIMEOUT_LONG".to_owned(), "2s".to_owned())],
        ..RunOptions::default()
    };
    let argus = Controller::prepare(engine(), options);
    let spec = "project: { name: hushed }\nservices:\n  web:\n    build: { context: . }\n    container: { name: hushed-web }\n";
    argus.write_spec("hushed/e2e.yaml", spec);
    let dockerfile = argus.specs.join("hushed/Dockerfile");
    std::fs::write(dockerfile, "FROM busybox:local\nRUN sleep 600\n").expect("a Dockerfile");
    argus.start_again();
    // On a busy machine, an earlier step can reach the limit first. The next attempt follows.
    let is_of_step = |error: &Value| {
        let message = text(&error["message"]);
        error["code"] == "BUILD_FAILED" && message.contains("RUN sleep 600: no progress for 2 s")
    };
    argus.wait_status("hushed", LIMIT, "names the silent step", |status| {
        let errors = status["errors"].as_array();
        errors.is_some_and(|errors| errors.iter().any(is_of_step))
    });
}

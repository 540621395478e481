//! Delays and budgets survive restarts, outages and edits.

use std::time::Duration;

use argus_tests::fixture::{LIMIT, engine};
use argus_tests::{Controller, PortHolder, RunOptions, wait};

use super::case::{Case, SLACK, assert_delay, assert_delays, ended, shell, started};
use super::loops::BABBLE;

#[test]
fn removed_container_keeps_its_restart_delay() {
    let case = Case::shell("impatient", "restartDelay: 6s", BABBLE);
    case.wait_backoff(1);
    let finished = case
        .inspect()
        .as_ref()
        .and_then(ended)
        .expect("it ended")
        .finished;
    case.engine.docker_ok(&["rm", "-f", "impatient-bad"]);
    let again = case.started_after(finished);
    assert_delay(finished, again, Duration::from_secs(6), LIMIT);
    case.wait("counts as one restart", |bad| bad["restarts"] == 1);
}

#[test]
fn killed_controller_keeps_delay_and_budget() {
    let case = Case::shell("amnesia", "maxRestarts: 2, restartDelay: 3s", BABBLE);
    let (_, mut runs) = case.runs_until("waits for its second restart", |bad| {
        bad["waitingOn"]["reason"] == "RestartBackoff" && bad["restarts"] == 1
    });
    case.argus.kill9();
    case.argus.start_again();
    let (output, rest) = case.runs_until("gives up", |bad| bad["waitingOn"]["reason"] == "GaveUp");
    runs.extend(rest);
    runs.sort_by_key(|run| run.started);
    runs.dedup();
    assert_delays(&runs, &[3, 6].map(Duration::from_secs), LIMIT);
    assert_eq!(output["restarts"], 2, "{output:#}");
    assert_eq!(
        output["lastError"]["details"]["attempts"]
            .as_array()
            .map(Vec::len),
        Some(3),
        "{output:#}"
    );

    // After a clean stop, too.
    assert!(case.argus.stop().success(), "{}", case.argus.logs());
    case.argus.start_again();
    let last = case.inspect().as_ref().and_then(started);
    let pid = || case.argus.controller_status()["pid"].clone();
    let before = pid();
    case.argus
        .wait_until(LIMIT, "the new controller reports its status", || {
            (pid() != before).then_some(())
        });
    let output = case.wait("still has no restarts left", |bad| {
        bad["waitingOn"]["reason"] == "GaveUp"
    });
    assert_eq!(output["restarts"], 2, "{output:#}");
    wait::all_the_while(
        Duration::from_secs(3),
        "an exhausted budget allows no restart",
        || case.inspect().as_ref().and_then(started) == last,
    );
}

#[test]
fn new_revision_skips_the_old_delay() {
    let case = Case::shell("hurried", "restartDelay: 50s", BABBLE);
    case.wait_backoff(1);
    let finished = case
        .inspect()
        .as_ref()
        .and_then(ended)
        .expect("it ended")
        .finished;
    case.write("restartDelay: 50s", &shell("hurried", "exec sleep 3600", ""));
    let again = case.started_after(finished);
    assert!(again.since(finished) < Duration::from_secs(30), "it waited");
    let output = case.wait_restarted(0);
    assert!(output["lastError"].is_null(), "{output:#}");
}

#[test]
fn slow_retry_restarts_once_per_minute() {
    let more = "\nargus: { restart: { mode: slowRetry } }";
    let case = Case::start(
        "slowly",
        "maxRestarts: 1, restartDelay: 500ms",
        &shell("slowly", BABBLE, more),
    );
    let (output, runs) = case.runs_until("has exhausted its budget", |bad| {
        bad["lastError"]["code"] == "CONTAINER_RESTART_EXHAUSTED"
    });
    assert_eq!(
        (&output["restarts"], &output["waitingOn"]["reason"]),
        (&1.into(), &"RestartBackoff".into()),
        "{output:#}"
    );
    assert_eq!(output["waitingOn"]["error"], "CONTAINER_RESTART_EXHAUSTED");
    assert_eq!(
        output["lastError"]["details"]["attempts"]
            .as_array()
            .map(Vec::len),
        Some(2),
        "{output:#}"
    );
    let last = runs.last().expect("two runs").clone();
    let minute = Duration::from_secs(60);
    let again = case.argus.wait_until(LIMIT * 2, "it is started again", || {
        let now = case.inspect()?;
        // A run that ends immediately may end, by the engine's times, before it started.
        started(&now).filter(|at| *at > last.started)
    });
    assert_delay(last.finished, again, minute, SLACK);
    case.wait("counts the restart and returns to the same state", |bad| {
        bad["restarts"] == 2 && bad["lastError"]["code"] == "CONTAINER_RESTART_EXHAUSTED"
    });
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
}

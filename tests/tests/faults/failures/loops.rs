//! Services that fail repeatedly.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_core::action::ActionKind;
use argus_tests::Controller;
use argus_tests::fixture::{LIMIT, text};

use super::case::{Case, shell, started};

/// Fails with a different text each time, without a digit and without an apparent id.
pub(crate) const RANDOM_ERROR: &str = "busybox tr -dc g-z </dev/urandom | head -c 12 >&2; echo >&2; exit 1";

#[test]
fn restart_delays_grow_until_the_budget_is_spent() {
    let case = Case::shell("spent", "maxRestarts: 3, restartDelay: 500ms", RANDOM_ERROR);
    let output = case.wait("gives up", |bad| bad["waitingOn"]["reason"] == "GaveUp");
    case.assert_restarts(&[500, 1_000, 2_000].map(Duration::from_millis));
    let runs = [1, 2, 3, 4].map(|number| case.failure(number));
    assert_eq!(
        runs[0].container, runs[1].container,
        "after the first failure the container is kept"
    );
    let ids: BTreeSet<_> = runs.iter().map(|run| &run.container).collect();
    assert_eq!(
        ids.len(),
        3,
        "from the second failure in a row the container is recreated: {runs:#?}"
    );

    let error = &output["lastError"];
    assert_eq!(error["code"], "CONTAINER_RESTART_EXHAUSTED", "{output:#}");
    assert_eq!(
        (&output["restarts"], &output["state"]),
        (&3.into(), &"Failed".into())
    );
    let attempts = error["details"]["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 4, "{error:#}");
    for (attempt, run) in attempts.iter().zip(&runs) {
        assert_eq!(attempt["containerId"], run.container.as_str());
        assert_eq!(attempt["exitCode"], run.exit_code);
        let folder = case
            .argus
            .state
            .join(attempt["evidence"].as_str().expect("a path"));
        assert!(folder.join("evidence.json").is_file(), "{attempt:#}");
    }
    let lines: BTreeSet<_> = attempts
        .iter()
        .map(|attempt| attempt["lastLines"].to_string())
        .collect();
    assert_eq!(lines.len(), 4, "each run has its own last line: {lines:?}");
    case.assert_settled();
    assert_eq!(case.count("bad", ActionKind::StartContainer), 4);
    let now = case.inspect().expect("the last container is kept");
    assert_eq!(
        (&now["Id"], &now["State"]["Running"]),
        (&runs[3].container.as_str().into(), &false.into())
    );
}

#[test]
fn same_failure_uses_the_whole_budget() {
    let script = "echo \"cannot reach db at 10.0.0.$$: refused\" >&2; exit 3";
    let case = Case::shell("whole", "maxRestarts: 3, restartDelay: 200ms", script);
    let output = case.wait("gives up", |bad| bad["waitingOn"]["reason"] == "GaveUp");
    case.assert_restarts(&[200, 400, 800].map(Duration::from_millis));
    let error = &output["lastError"];
    assert_eq!(error["code"], "CONTAINER_RESTART_EXHAUSTED", "{output:#}");
    assert_eq!(output["restarts"], 3);
    let attempts = error["details"]["attempts"].as_array().map(Vec::len);
    assert_eq!(attempts, Some(4), "{error:#}");
    assert_eq!(error["details"]["pattern"], "the same failure 4 times");
    assert!(
        text(&error["message"]).contains("the same failure 4 times"),
        "{error:#}"
    );
}

#[test]
fn same_failure_in_three_budgets_halts() {
    let script = "echo \"cannot reach db at 10.0.0.$$: refused\" >&2; exit 3";
    let case = Case::shell("halts", "maxRestarts: 1, restartDelay: 300ms", script);
    // Each budget has two runs.
    for budget in 1..=3 {
        let reason = if budget == 3 { "LoopHalted" } else { "GaveUp" };
        let output = case.wait(reason, |bad| {
            let attempts = bad["lastError"]["details"]["attempts"].as_array();
            let last = attempts.and_then(|all| all.last());
            bad["waitingOn"]["reason"] == reason && last.is_some_and(|run| run["run"] == 2 * budget)
        });
        assert_eq!(output["state"], "Failed", "{output:#}");
        if budget < 3 {
            assert_eq!(case.argus.cli(&["retry", "halts"]).status.code(), Some(0));
            continue;
        }
        let error = &output["lastError"];
        assert_eq!(error["code"], "LOOP_HALTED", "{output:#}");
        let fingerprint = &error["details"]["fingerprint"];
        assert_eq!(fingerprint["exitCode"], 3, "{error:#}");
        assert_eq!(fingerprint["line"], "cannot reach db at #.#.#.#: refused");
        assert_eq!(error["details"]["budgets"], 3);
        assert_eq!(error["details"]["event"], "loop.halted");
    }
    case.assert_settled();
    assert_eq!(case.count("bad", ActionKind::StartContainer), 6);
    let last = case.inspect().as_ref().and_then(started).expect("it ran");
    assert_eq!(case.argus.cli(&["retry", "halts"]).status.code(), Some(0));
    assert!(case.started_after(last) > last, "a person requested a retry");
}

#[test]
fn long_run_resets_the_budget() {
    let more = "\nargus: { restart: { resetAfter: 1s } }";
    let service = shell("forgiven", "sleep 2; exit 1", more);
    let case = Case::start("forgiven", "maxRestarts: 1, restartDelay: 200ms", &service);
    let output = case.wait("is restarted beyond its budget", |bad| {
        assert_ne!(bad["waitingOn"]["reason"], "GaveUp", "{bad:#}");
        bad["restarts"] == 3
    });
    assert_eq!(output["lastError"]["code"], "CONTAINER_CRASH", "{output:#}");
}

#[test]
fn new_revision_resets_a_spent_budget() {
    let case = Case::shell("revised", "maxRestarts: 0", "exit 4");
    let error = case.wait_error("CONTAINER_RESTART_EXHAUSTED");
    assert_eq!(
        error["details"]["attempts"].as_array().map(Vec::len),
        Some(1),
        "{error:#}"
    );
    assert_eq!(case.service()["restarts"], 0);
    case.write("maxRestarts: 0", &shell("revised", "exec sleep 3600", ""));
    let status = case.argus.wait_ready("revised", LIMIT);
    assert!(
        !status.to_string().contains("CONTAINER_RESTART_EXHAUSTED"),
        "{status:#}"
    );
}

#[test]
fn service_without_restart_policy_stays_down() {
    let case = Case::shell(
        "staysdown",
        "restartOnFailure: false",
        "echo the reason >&2; exit 4",
    );
    let output = case.wait("stays down", |bad| {
        bad["waitingOn"]["reason"] == "NotRestarted" && bad["lastError"]["stderrTail"].is_string()
    });
    assert_eq!(output["lastError"]["code"], "CONTAINER_CRASH", "{output:#}");
    assert_eq!(output["lastError"]["exitCode"], 4);
    case.assert_settled();
    assert_eq!(case.count("bad", ActionKind::StartContainer), 1);
    let now = case.inspect().expect("the container is kept");
    assert_eq!(now["State"]["Running"], false, "{now:#}");
}

#[test]
fn failure_output_contains_no_secret() {
    let script =
        "echo \"login as $DB_PASSWORD refused\" | tee /dev/stderr; exit 1".replace("tee", "busybox tee");
    let halt = "\nargus: { restart: { haltAfterSame: 1 } }";
    let service = shell("secret", &script, halt).replace(
        "name: secret-bad",
        "name: secret-bad, environment: { DB_PASSWORD: hunter-two }",
    );
    let case = Case::start("secret", "maxRestarts: 1, restartDelay: 500ms", &service);
    let status = case.argus.wait_status("secret", LIMIT, "halts", |status| {
        assert!(!status.to_string().contains("hunter"), "{status:#}");
        status.to_string().contains("LOOP_HALTED")
    });
    let bad = Controller::service(&status, "bad");
    let shown = "login as [redacted] refused";
    assert_eq!(
        bad["lastError"]["stderrTail"].as_str().map(str::trim_end),
        Some(shown),
        "{bad:#}"
    );
    assert_eq!(bad["lastError"]["details"]["fingerprint"]["line"], shown);
    assert!(!case.argus.logs().contains("hunter"), "nor in the log");
}

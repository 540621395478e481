//! What fails again and again.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_tests::wait;

use crate::case::{Case, assert_delays};

/// Says something else each time, without a digit and without what looks like an id.
pub(crate) const BABBLE: &str = "busybox tr -dc g-z </dev/urandom | head -c 12 >&2; echo >&2; exit 1";

#[test]
fn restarts_wait_longer_each_time_until_they_are_spent() {
    let case = Case::shell("spent", "maxRestarts: 3", BABBLE);
    let (told, runs) = case.runs_until("gives up", |bad| bad["waitingOn"]["reason"] == "GaveUp");
    assert_delays(&runs, &[2, 4, 8].map(Duration::from_secs));
    assert_eq!(
        runs[0].id, runs[1].id,
        "after the first failure the container is kept"
    );
    let ids: BTreeSet<_> = runs.iter().map(|run| &run.id).collect();
    assert_eq!(
        ids.len(),
        3,
        "from the second failure in a row on it is made anew: {runs:#?}"
    );

    let error = &told["lastError"];
    assert_eq!(error["code"], "CONTAINER_RESTART_EXHAUSTED", "{told:#}");
    assert_eq!((&told["restarts"], &told["state"]), (&3.into(), &"Failed".into()));
    let attempts = error["details"]["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 4, "{error:#}");
    for (attempt, run) in attempts.iter().zip(&runs) {
        assert_eq!(attempt["containerId"], run.id.as_str());
        assert_eq!(attempt["exitCode"], run.exit_code);
        let folder = case
            .argus
            .state
            .join(attempt["evidence"].as_str().expect("a path"));
        assert!(folder.join("evidence.json").is_file(), "{attempt:#}");
    }
    let lines: BTreeSet<_> = attempts
        .iter()
        .map(|attempt| attempt["lastLine"].to_string())
        .collect();
    assert_eq!(lines.len(), 4, "each attempt has its own last words: {lines:?}");
    let last = runs.last().expect("four runs");
    wait::all_the_while(Duration::from_secs(4), "a spent budget is spent", || {
        case.inspect()
            .is_some_and(|now| now["Id"] == last.id.as_str() && now["State"]["Running"] == false)
    });
}

#[test]
fn the_same_failure_three_times_halts_with_budget_left() {
    let script = "echo \"cannot reach db at 10.0.0.$$: refused\" >&2; exit 3";
    let case = Case::shell("halts", "maxRestarts: 9, restartDelay: 1s", script);
    let (told, runs) = case.runs_until("halts", |bad| bad["waitingOn"]["reason"] == "LoopHalted");
    assert_delays(&runs, &[1, 2].map(Duration::from_secs));
    let error = &told["lastError"];
    assert_eq!(error["code"], "LOOP_HALTED", "{told:#}");
    assert_eq!((&told["restarts"], &told["state"]), (&2.into(), &"Failed".into()));
    let fingerprint = &error["details"]["fingerprint"];
    assert_eq!(fingerprint["exitCode"], 3, "{error:#}");
    assert_eq!(fingerprint["line"], "cannot reach db at #.#.#.#: refused");
    assert_eq!(error["details"]["repetitions"], 3);
    assert_eq!(error["details"]["event"], "loop.halted");
    let last = runs.last().expect("three runs");
    wait::all_the_while(Duration::from_secs(6), "no further try", || {
        case.inspect()
            .is_some_and(|now| now["Id"] == last.id.as_str() && now["State"]["Running"] == false)
    });
}

//! A delay and a budget survive what happens meanwhile.

use std::time::Duration;

use argus_tests::stage::{LIMIT, text};
use argus_tests::wait;

use crate::case::{Case, assert_delay, assert_delays, started};
use crate::loops::BABBLE;

fn backing_off(case: &Case, attempt: u64) {
    case.wait(&format!("waits for restart {attempt}"), |bad| {
        bad["waitingOn"]["reason"] == "RestartBackoff" && bad["restarts"] == attempt - 1
    });
}

#[test]
fn a_container_removed_in_its_delay_does_not_come_back_sooner() {
    let case = Case::shell("impatient", "restartDelay: 6s", BABBLE);
    backing_off(&case, 1);
    let dead = case.inspect().expect("it is there");
    let finished = argus_core::time::Timestamp::parse(&text(&dead["State"]["FinishedAt"])).expect("a time");
    case.engine.docker_ok(&["rm", "-f", "impatient-bad"]);
    let again = case.started_after(finished);
    assert_delay(finished, again, Duration::from_secs(6));
    case.wait("counts it as one restart", |bad| bad["restarts"] == 1);
}

#[test]
fn a_killed_controller_keeps_delay_and_budget() {
    let case = Case::shell("amnesia", "maxRestarts: 2, restartDelay: 3s", BABBLE);
    let (_, mut runs) = case.runs_until("waits for its second restart", |bad| {
        bad["waitingOn"]["reason"] == "RestartBackoff" && bad["restarts"] == 1
    });
    case.argus.kill9();
    case.argus.start_again();
    let (told, rest) = case.runs_until("gives up", |bad| bad["waitingOn"]["reason"] == "GaveUp");
    runs.extend(rest);
    runs.sort_by_key(|run| run.started);
    runs.dedup();
    assert_delays(&runs, &[3, 6].map(Duration::from_secs));
    assert_eq!(told["restarts"], 2, "{told:#}");
    assert_eq!(
        told["lastError"]["details"]["attempts"].as_array().map(Vec::len),
        Some(3),
        "{told:#}"
    );

    // In good order, too.
    assert!(case.argus.stop().success(), "{}", case.argus.logs());
    case.argus.start_again();
    let last = case.inspect().as_ref().and_then(started);
    let pid = || case.argus.controller_status()["pid"].clone();
    let before = pid();
    case.argus
        .wait_until(LIMIT, "the new controller tells of itself", || {
            (pid() != before).then_some(())
        });
    let told = case.wait("has given up still", |bad| bad["waitingOn"]["reason"] == "GaveUp");
    assert_eq!(told["restarts"], 2, "{told:#}");
    wait::all_the_while(Duration::from_secs(3), "a spent budget is spent", || {
        case.inspect().as_ref().and_then(started) == last
    });
}

//! Tests of the restart policy.

use std::collections::BTreeSet;

use super::*;
use crate::backoff::Growth;
use crate::ident::{ContainerId, ServiceName};
use crate::outcome::Evidence;
use crate::state::EndedBudget;

fn policy() -> RestartPolicy {
    RestartPolicy {
        enabled: true,
        max_restarts: 3,
        delay: Duration::from_secs(2),
        growth: Growth::Exponential,
        max_delay: Duration::from_secs(60),
        window: Duration::from_secs(300),
        reset_after: Duration::from_secs(60),
        halt_after_same: Some(3),
        mode: RestartMode::GiveUp,
        never: BTreeSet::new(),
        memory_above: None,
    }
}

fn failures(at: &[i64]) -> Vec<FailedRun> {
    let id = ContainerId::new("c1").unwrap();
    at.iter()
        .map(|at| FailedRun {
            exit_code: 1,
            ..FailedRun::new(id.clone(), Timestamp(*at))
        })
        .collect()
}

fn decide(policy: &RestartPolicy, failures: &[FailedRun], outages: &[Outage]) -> RestartDecision {
    let history = ServiceHistory {
        failures: failures.to_vec(),
        ..ServiceHistory::default()
    };
    decide_restart(policy, &history, outages)
}

#[test]
fn restart_delay_doubles_until_the_budget_is_spent() {
    let check = |at: &[i64]| decide(&policy(), &failures(at), &[]);
    assert_eq!(check(&[10_000]), RestartDecision::StartAt(Timestamp(12_000), 1));
    assert_eq!(
        check(&[10_000, 20_000]),
        RestartDecision::StartAt(Timestamp(24_000), 2)
    );
    assert_eq!(
        check(&[10_000, 20_000, 30_000]),
        RestartDecision::StartAt(Timestamp(38_000), 3)
    );
    assert_eq!(
        check(&[10_000, 20_000, 30_000, 40_000]),
        RestartDecision::GaveUp(3)
    );
}

#[test]
fn restart_repeats_if_the_restarted_run_failed_within_a_minute() {
    let run = |seconds: i64| FailedRun {
        started_at: Some(Timestamp(100_000 - seconds * 1_000)),
        ..failures(&[100_000]).remove(0)
    };
    let recovered = FailedRun {
        recovered_at: Some(Timestamp(90_000)),
        ..run(50)
    };
    let by_dependency = FailedRun {
        failed_dependency: Some(ServiceName::new("db").unwrap()),
        ..run(50)
    };
    let check = |all: &[&FailedRun]| {
        let all: Vec<FailedRun> = all.iter().map(|run| (*run).clone()).collect();
        is_repeated(&all, &[])
    };
    assert!(!check(&[]) && !check(&[&run(1)]), "nothing was restarted");
    assert!(check(&[&run(1), &run(1)]));
    assert!(check(&[&run(600), &run(59)]));
    assert!(check(&[&by_dependency, &by_dependency]));
    assert!(!check(&[&run(1), &run(60)]), "it ran for a minute");
    assert!(!check(&[&recovered, &run(1)]), "it recovered without a restart");
    let outage = Outage::starting_at(Timestamp(99_000));
    assert!(
        !is_repeated(&[run(1), run(1)], &[outage]),
        "the engine restarted it"
    );
}

#[test]
fn failures_by_a_dependency_use_no_budget() {
    let mut all = failures(&[10_000, 20_000, 30_000, 40_000, 50_000]);
    for failed_run in &mut all {
        failed_run.failed_dependency = ServiceName::new("db").ok();
    }
    assert_eq!(
        decide(&policy(), &all, &[]),
        RestartDecision::StartAt(Timestamp(52_000), 1)
    );
    assert_eq!(used_restarts(&policy(), &all, &[]), Some(0));
    assert!(!begins_budget(&policy(), &all, &[]));
    all.extend(failures(&[60_000]));
    assert_eq!(
        decide(&policy(), &all, &[]),
        RestartDecision::StartAt(Timestamp(62_000), 1)
    );
    all[5].failed_dependency = ServiceName::new("db").ok();
    let disabled = RestartPolicy {
        enabled: false,
        ..policy()
    };
    assert_eq!(decide(&disabled, &all, &[]), RestartDecision::Disabled);
    // A lack of memory has a cause of its own.
    for failed_run in &mut all {
        failed_run.oom_killed = true;
    }
    assert_eq!(decide(&policy(), &all, &[]), RestartDecision::GaveUp(5));
}

#[test]
fn exit_code_of_the_rule_never_restarts() {
    let never = RestartPolicy {
        never: BTreeSet::from([1, 78]),
        ..policy()
    };
    let mut one = failures(&[10_000]);
    assert_eq!(decide(&never, &one, &[]), RestartDecision::Disabled);
    one[0].exit_code = 2;
    let restart = RestartDecision::StartAt(Timestamp(12_000), 1);
    assert_eq!(decide(&never, &one, &[]), restart);
    one[0].exit_code = 1;
    one[0].cause = FailureCause::Unhealthy;
    assert_eq!(decide(&never, &one, &[]), restart, "Argus itself ended the run");
}

#[test]
fn failures_older_than_the_window_do_not_count() {
    let late = failures(&[10_000, 20_000, 30_000, 400_000]);
    assert_eq!(
        decide(&policy(), &late, &[]),
        RestartDecision::StartAt(Timestamp(402_000), 1)
    );
    // The window of five minutes contains a failure of 300 s before.
    let at_its_edge = failures(&[10_000, 20_000, 30_000, 310_000]);
    assert_eq!(decide(&policy(), &at_its_edge, &[]), RestartDecision::GaveUp(3));
    let later = failures(&[10_000, 20_000, 30_000, 310_001]);
    assert_eq!(
        decide(&policy(), &later, &[]),
        RestartDecision::StartAt(Timestamp(318_001), 3)
    );
}

#[test]
fn long_healthy_run_resets_the_budget() {
    let mut late = failures(&[10_000, 20_000, 30_000, 130_000]);
    late[3].started_at = Some(Timestamp(69_000));
    assert_eq!(
        decide(&policy(), &late, &[]),
        RestartDecision::StartAt(Timestamp(132_000), 1)
    );
    late[3].started_at = Some(Timestamp(71_000));
    assert_eq!(decide(&policy(), &late, &[]), RestartDecision::GaveUp(3));
}

#[test]
fn spent_budget_follows_its_mode() {
    let spent = failures(&[1_000, 2_000, 3_000, 4_000]);
    let with = |mode| decide(&RestartPolicy { mode, ..policy() }, &spent, &[]);
    assert_eq!(
        with(RestartMode::SlowRetry),
        RestartDecision::StartSlowly(Timestamp(4_000), 4)
    );
    assert_eq!(with(RestartMode::Never), RestartDecision::Disabled);
    let off = RestartPolicy {
        enabled: false,
        ..policy()
    };
    assert_eq!(decide(&off, &spent, &[]), RestartDecision::Disabled);
}

#[test]
fn failures_near_an_outage_use_no_budget() {
    let margin = Duration::from_secs(2);
    let outage = Outage::starting_at(Timestamp(100_000)).ended(Timestamp(110_000), margin);
    for at in [85_000, 100_000, 105_000, 112_000] {
        assert_eq!(
            decide(&policy(), &failures(&[at]), &[outage]),
            RestartDecision::WhenDependenciesReady,
            "{at}"
        );
    }
    for at in [84_999, 112_001] {
        assert!(
            matches!(
                decide(&policy(), &failures(&[at]), &[outage]),
                RestartDecision::StartAt(_, 1)
            ),
            "{at}"
        );
    }
    // The engine caused three of the four failures, so one restart of the budget is used.
    let mixed = failures(&[100_000, 101_000, 102_000, 150_000]);
    assert_eq!(
        decide(&policy(), &mixed, &[outage]),
        RestartDecision::StartAt(Timestamp(152_000), 1)
    );
}

#[test]
fn unrunnable_command_is_not_retried() {
    for code in [126, 127] {
        let mut failed_runs = failures(&[1_000]);
        failed_runs[0].exit_code = code;
        assert_eq!(
            decide(&policy(), &failed_runs, &[]),
            RestartDecision::NotRunnable(code)
        );
    }
}

#[test]
fn health_check_without_its_program_uses_no_restart() {
    for (output, is_permanent) in [
        (
            "exec: \"curl\": executable file not found in $PATH: unknown",
            true,
        ),
        ("/bin/sh: curl: not found\n", true),
        ("bash: line 1: curl: command not found", true),
        ("exec sh: exit code 127: sh: curl: not found\n", true),
        ("exec sh: exit code 127: ", false),
        ("/bin/sh: 1: ./node_modules/.bin/check: not found", false),
        ("GET /health: not found", false),
        ("starting\n/bin/sh: curl: not found", false),
        ("curl: (7) Failed to connect to localhost port 80", false),
    ] {
        let mut failed_runs = failures(&[1_000]);
        failed_runs[0].cause = failed_run::FailureCause::Unhealthy;
        failed_runs[0].probe_output = vec![output.to_owned()];
        let decision = decide(&policy(), &failed_runs, &[]);
        assert_eq!(
            decision == RestartDecision::ProbeNotRunnable,
            is_permanent,
            "{output}"
        );
    }
}

/// A service that failed at these times, after budgets that ended with the same failure.
fn same_failures(at: &[i64], ended_by_retry: &[bool]) -> ServiceHistory {
    let mut history = ServiceHistory {
        failures: failures(at),
        ..ServiceHistory::default()
    };
    for failed_run in &mut history.failures {
        failed_run.evidence = Some(Evidence {
            stderr: vec!["no such table".to_owned()],
            ..Evidence::default()
        });
    }
    let fingerprint = failed_run::fingerprint(&history.failures[0]);
    history.ended_budgets = ended_by_retry
        .iter()
        .map(|retried| EndedBudget {
            at: Timestamp(0),
            fingerprint: fingerprint.clone(),
            retried: *retried,
        })
        .collect();
    history
}

#[test]
fn same_failure_uses_the_whole_budget() {
    let spent = [1_000, 5_000, 11_000, 20_000];
    for used in 1..=3 {
        let history = same_failures(&spent[..used], &[]);
        assert!(
            matches!(
                decide_restart(&policy(), &history, &[]),
                RestartDecision::StartAt(..)
            ),
            "{used}"
        );
    }
    let history = same_failures(&spent, &[]);
    assert_eq!(
        decide_restart(&policy(), &history, &[]),
        RestartDecision::GaveUp(3)
    );
}

#[test]
fn same_failure_in_three_budgets_halts() {
    let spent = [1_000, 5_000, 11_000, 20_000];
    let decide = |history: &ServiceHistory| decide_restart(&policy(), history, &[]);
    assert_eq!(
        decide(&same_failures(&spent, &[true])),
        RestartDecision::GaveUp(3)
    );
    let retried_twice = same_failures(&spent, &[true, true]);
    assert_eq!(decide(&retried_twice), RestartDecision::Halted(3));
    // A request to retry grants a whole budget, even after a halt.
    let after_halt = same_failures(&spent[..1], &[true, true, true]);
    assert!(matches!(decide(&after_halt), RestartDecision::StartAt(_, 1)));
    // Three budgets that were reset did not help.
    let reset = same_failures(&spent[..1], &[false, false, false]);
    assert_eq!(decide(&reset), RestartDecision::Halted(3));
    let mut other = same_failures(&spent, &[true, true]);
    other.ended_budgets[1].fingerprint = None;
    assert_eq!(decide(&other), RestartDecision::GaveUp(3));
}

#[test]
fn halt_limit_is_a_number_or_off() {
    let spent = same_failures(&[1_000, 5_000, 11_000, 20_000], &[true; 4]);
    let with = |halt_after_same| {
        let policy = RestartPolicy {
            halt_after_same,
            ..policy()
        };
        decide_restart(&policy, &spent, &[])
    };
    assert_eq!(with(Some(5)), RestartDecision::Halted(5));
    assert_eq!(with(Some(6)), RestartDecision::GaveUp(3));
    assert_eq!(with(None), RestartDecision::GaveUp(3));
}

#[test]
fn budget_begins_after_a_reset_or_a_spent_budget() {
    let begins = |at: &[i64]| begins_budget(&policy(), &failures(at), &[]);
    assert!(!begins(&[1_000]));
    assert!(!begins(&[1_000, 2_000, 3_000, 4_000]));
    assert!(begins(&[1_000, 2_000, 3_000, 4_000, 64_000]), "a slow retry");
    assert!(begins(&[1_000, 400_000]), "the window");
    // Every failure is the third within the window.
    assert!(begins(&[1_000, 111_000, 221_000, 331_000]));
}

#[test]
fn flapping_service_restarts_later_each_time() {
    let health_transitions: Vec<_> = (0..5).map(|n| Timestamp(n * 1_000)).collect();
    let check = |health_transitions: &[Timestamp]| {
        let history = ServiceHistory {
            failures: failures(&[10_000]),
            health_transitions: health_transitions.to_vec(),
            ..ServiceHistory::default()
        };
        decide_restart(&policy(), &history, &[])
    };
    assert_eq!(
        check(&health_transitions[..3]),
        RestartDecision::StartAt(Timestamp(12_000), 1)
    );
    assert_eq!(
        check(&health_transitions[..4]),
        RestartDecision::StartAt(Timestamp(14_000), 1)
    );
    assert_eq!(
        check(&health_transitions),
        RestartDecision::StartAt(Timestamp(18_000), 1)
    );
    let long_ago = ServiceHistory {
        failures: failures(&[1_000_000]),
        health_transitions,
        ..ServiceHistory::default()
    };
    let long_ago = decide_restart(&policy(), &long_ago, &[]);
    assert_eq!(long_ago, RestartDecision::StartAt(Timestamp(1_002_000), 1));
}

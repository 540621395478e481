//! Restart policy: decides if and when a failed service starts again.

use std::time::Duration;

use crate::backoff;
use crate::desired::{RestartMode, RestartPolicy};
use crate::failed_run;
use crate::failed_run::FailedRun;
use crate::observed::Outage;
use crate::time::Timestamp;

/// Interval of the tries under `slowRetry` after the budget is spent.
const SLOW_RETRY: Duration = Duration::from_secs(60);
/// Window in which health transitions are counted.
const FLAP_WINDOW: Duration = Duration::from_secs(600);
/// More transitions than this within the window are flapping.
const HEALTH_TRANSITIONS_ALLOWED: usize = 3;
/// Decision of the restart policy about a failed service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// Start it at this time; number of the attempt, from 1.
    StartAt(Timestamp, u32),
    /// The engine stopped it, or it has no failure: start it as soon as its dependencies are ready.
    WhenDependenciesReady,
    /// The budget is spent; number of restarts.
    GaveUp(u32),
    /// It failed this many times in a row in the same way.
    Halted(u32),
    /// The command cannot run; its exit code.
    NotRunnable(i64),
    /// The policy disables restarts.
    Disabled,
}

/// Decides about the last of these failures. `health_transitions` are the recent changes of the probe result.
pub fn decide_restart(
    policy: &RestartPolicy,
    failures: &[FailedRun],
    outages: &[Outage],
    health_transitions: &[Timestamp],
) -> RestartDecision {
    let Some(last) = failures.last() else {
        return RestartDecision::WhenDependenciesReady;
    };
    if is_caused_by_engine(last, outages) {
        return RestartDecision::WhenDependenciesReady;
    }
    if failed_run::kind(last) == failed_run::FailureKind::NotRunnable {
        return RestartDecision::NotRunnable(last.exit_code);
    }
    if !policy.enabled || policy.mode == RestartMode::Never {
        return RestartDecision::Disabled;
    }
    // Failures caused by the engine, and failures with a recovery, are not repetitions.
    let own = |failed_run: &&FailedRun| {
        failed_run.recovered_at.is_none() && !is_caused_by_engine(failed_run, outages)
    };
    let repetitions = failed_run::repetitions(failures.iter().filter(own));
    if repetitions >= failed_run::HALT_AFTER {
        return RestartDecision::Halted(u32::try_from(repetitions).unwrap_or(u32::MAX));
    }
    let attempt = count_attempts(policy, failures, outages, last);
    if attempt > policy.max_restarts {
        return match policy.mode {
            RestartMode::SlowRetry => RestartDecision::StartAt(last.seen() + SLOW_RETRY, attempt),
            RestartMode::GiveUp | RestartMode::Never => RestartDecision::GaveUp(attempt - 1),
        };
    }
    // Flapping makes the delay longer.
    let delay_step = attempt.saturating_add(
        u32::try_from(excess_transitions(health_transitions, last.seen())).unwrap_or(u32::MAX),
    );
    let delay = backoff::delay(policy.growth, policy.delay, policy.max_delay, delay_step);
    RestartDecision::StartAt(last.seen() + delay, attempt)
}

/// Number of failures that count against the restart budget, up to and including the last one.
fn count_attempts(
    policy: &RestartPolicy,
    failures: &[FailedRun],
    outages: &[Outage],
    last: &FailedRun,
) -> u32 {
    let since = last.at - policy.window;
    // Failures before a run that was healthy for long enough do not count.
    let reset_at = failures
        .iter()
        .rposition(|failed_run| healthy_or_run_duration(failed_run) >= policy.reset_after)
        .unwrap_or(0);
    // With a health check, old failures count even outside the window, because a probe may need longer than the window to fail.
    let health_checked_since = failures
        .iter()
        .rposition(|failed_run| failed_run.healthy_duration.is_none())
        .unwrap_or(0);
    let counted = failures
        .iter()
        .enumerate()
        .skip(reset_at)
        .filter(|(at, failed_run)| *at >= health_checked_since || failed_run.at >= since)
        .filter(|(_, failed_run)| !is_caused_by_engine(failed_run, outages))
        .count();
    u32::try_from(counted).unwrap_or(u32::MAX)
}

/// Number of restarts that the failures have used of the budget. `None` if the policy disables restarts.
pub fn used_restarts(policy: &RestartPolicy, failures: &[FailedRun], outages: &[Outage]) -> Option<u32> {
    if !policy.enabled || policy.mode == RestartMode::Never {
        return None;
    }
    let last = failures.last().filter(|last| !last.budget_reset);
    let used = last.map_or(0, |last| count_attempts(policy, failures, outages, last));
    Some(used.min(policy.max_restarts))
}

/// True if the policy gave up after the last of these failures. False if the policy disables restarts.
pub fn has_given_up(
    policy: &RestartPolicy,
    failures: &[FailedRun],
    outages: &[Outage],
    health_transitions: &[Timestamp],
) -> bool {
    match decide_restart(policy, failures, outages, health_transitions) {
        RestartDecision::GaveUp(_) | RestartDecision::Halted(_) | RestartDecision::NotRunnable(_) => true,
        RestartDecision::StartAt(..) | RestartDecision::WhenDependenciesReady | RestartDecision::Disabled => {
            false
        }
    }
}

/// Duration for which the run was healthy, or ran at all if it has no health check.
fn healthy_or_run_duration(failed_run: &FailedRun) -> Duration {
    failed_run
        .healthy_duration
        .unwrap_or_else(|| failed_run.run_duration())
}

/// Number of health transitions within ten minutes beyond the allowed number.
pub fn excess_transitions(health_transitions: &[Timestamp], now: Timestamp) -> usize {
    let since = now - FLAP_WINDOW;
    let recent = health_transitions.iter().filter(|at| **at >= since).count();
    recent.saturating_sub(HEALTH_TRANSITIONS_ALLOWED)
}

/// True for a failure close to an outage: the engine caused it.
pub fn is_caused_by_engine(failed_run: &FailedRun, outages: &[Outage]) -> bool {
    outages.iter().any(|outage| outage.is_near(failed_run.at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backoff::Growth;
    use crate::ident::ContainerId;

    fn policy() -> RestartPolicy {
        RestartPolicy {
            enabled: true,
            max_restarts: 3,
            delay: Duration::from_secs(2),
            growth: Growth::Exponential,
            max_delay: Duration::from_secs(60),
            window: Duration::from_secs(300),
            reset_after: Duration::from_secs(60),
            mode: RestartMode::GiveUp,
        }
    }

    fn failures(at: &[i64]) -> Vec<FailedRun> {
        let id = ContainerId::new("c1").unwrap();
        at.iter()
            .map(|at| FailedRun {
                exit_code: 1,
                ..FailedRun::of(id.clone(), Timestamp(*at))
            })
            .collect()
    }

    #[test]
    fn restart_delay_doubles_until_the_budget_is_spent() {
        let check = |at: &[i64]| decide_restart(&policy(), &failures(at), &[], &[]);
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
    fn failures_older_than_the_window_do_not_count() {
        let late = failures(&[10_000, 20_000, 30_000, 400_000]);
        assert_eq!(
            decide_restart(&policy(), &late, &[], &[]),
            RestartDecision::StartAt(Timestamp(402_000), 1)
        );
    }

    #[test]
    fn long_healthy_run_resets_the_budget() {
        let mut late = failures(&[10_000, 20_000, 30_000, 130_000]);
        late[3].started_at = Some(Timestamp(69_000));
        assert_eq!(
            decide_restart(&policy(), &late, &[], &[]),
            RestartDecision::StartAt(Timestamp(132_000), 1)
        );
        late[3].started_at = Some(Timestamp(71_000));
        assert_eq!(
            decide_restart(&policy(), &late, &[], &[]),
            RestartDecision::GaveUp(3)
        );
    }

    #[test]
    fn spent_budget_follows_its_mode() {
        let spent = failures(&[1_000, 2_000, 3_000, 4_000]);
        let with = |mode| decide_restart(&RestartPolicy { mode, ..policy() }, &spent, &[], &[]);
        assert_eq!(
            with(RestartMode::SlowRetry),
            RestartDecision::StartAt(Timestamp(64_000), 4)
        );
        assert_eq!(with(RestartMode::Never), RestartDecision::Disabled);
        let off = RestartPolicy {
            enabled: false,
            ..policy()
        };
        assert_eq!(decide_restart(&off, &spent, &[], &[]), RestartDecision::Disabled);
    }

    #[test]
    fn failures_near_an_outage_use_no_budget() {
        let outage = Outage {
            from: Timestamp(100_000),
            until: Some(Timestamp(110_000)),
        };
        for at in [85_000, 100_000, 105_000, 112_000] {
            assert_eq!(
                decide_restart(&policy(), &failures(&[at]), &[outage], &[]),
                RestartDecision::WhenDependenciesReady,
                "{at}"
            );
        }
        for at in [84_999, 112_001] {
            assert!(
                matches!(
                    decide_restart(&policy(), &failures(&[at]), &[outage], &[]),
                    RestartDecision::StartAt(_, 1)
                ),
                "{at}"
            );
        }
        // The engine caused three of the four failures, so one restart of the budget is used.
        let mixed = failures(&[100_000, 101_000, 102_000, 150_000]);
        assert_eq!(
            decide_restart(&policy(), &mixed, &[outage], &[]),
            RestartDecision::StartAt(Timestamp(152_000), 1)
        );
    }

    #[test]
    fn unrunnable_command_is_not_retried() {
        for code in [126, 127] {
            let mut failed_runs = failures(&[1_000]);
            failed_runs[0].exit_code = code;
            assert_eq!(
                decide_restart(&policy(), &failed_runs, &[], &[]),
                RestartDecision::NotRunnable(code)
            );
        }
    }

    #[test]
    fn three_equal_failures_halt_before_the_budget_is_spent() {
        let mut failed_runs = failures(&[1_000, 5_000, 11_000]);
        for failed_run in &mut failed_runs {
            failed_run.evidence = Some(crate::outcome::Evidence {
                stderr: vec!["no such table".to_owned()],
                ..crate::outcome::Evidence::default()
            });
        }
        assert!(matches!(
            decide_restart(&policy(), &failed_runs[..2], &[], &[]),
            RestartDecision::StartAt(_, 2)
        ));
        assert_eq!(
            decide_restart(&policy(), &failed_runs, &[], &[]),
            RestartDecision::Halted(3)
        );
    }

    #[test]
    fn flapping_service_restarts_later_each_time() {
        let health_transitions: Vec<_> = (0..5).map(|n| Timestamp(n * 1_000)).collect();
        let check = |health_transitions: &[Timestamp]| {
            decide_restart(&policy(), &failures(&[10_000]), &[], health_transitions)
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
        let long_ago = decide_restart(&policy(), &failures(&[1_000_000]), &[], &health_transitions);
        assert_eq!(long_ago, RestartDecision::StartAt(Timestamp(1_002_000), 1));
    }
}

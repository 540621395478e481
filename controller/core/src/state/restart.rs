//! When a service that ended is started again, if at all.

use std::time::Duration;

use crate::backoff;
use crate::desired::{RestartPolicy, SpentMode};
use crate::diagnose;
use crate::observed::Outage;
use crate::state::FailedRun;
use crate::time::Timestamp;

/// Under `slowRetry` a spent budget still allows a try this often.
const SLOW_RETRY: Duration = Duration::from_secs(60);
/// Changes of a probe's mind are counted over this time.
const FLAP_WINDOW: Duration = Duration::from_secs(600);
/// More of them are flapping.
const HEALTH_TRANSITIONS_ALLOWED: usize = 3;
/// The engine goes on telling of deaths for this long before its stream ends.
const BEFORE_OUTAGE: Duration = Duration::from_secs(15);
/// Deaths that the engine caused are dated up to this long after it answers again.
const AFTER_OUTAGE: Duration = Duration::from_secs(2);

/// What the restart policy says of a service that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// Start it at this time; which try that is, from 1.
    At(Timestamp, u32),
    /// The engine took it down: start it as soon as its dependencies are there.
    EngineRestart,
    /// The budget is spent; so many restarts were made.
    GaveUp(u32),
    /// It failed in the same way so often in a row.
    Halted(u32),
    /// It cannot be run, with this exit code.
    NotRunnable(i64),
    /// The policy is not to start it again.
    Stay,
}

/// The verdict on the last of these deaths; `flips`: when its probe changed its mind lately.
pub fn decide(
    policy: &RestartPolicy,
    failures: &[FailedRun],
    outages: &[Outage],
    flips: &[Timestamp],
) -> RestartDecision {
    let Some(last) = failures.last() else {
        return RestartDecision::EngineRestart;
    };
    if engine_caused(last, outages) {
        return RestartDecision::EngineRestart;
    }
    if diagnose::kind(last) == diagnose::FailureKind::NotRunnable {
        return RestartDecision::NotRunnable(last.exit_code);
    }
    if !policy.enabled || policy.mode == SpentMode::Never {
        return RestartDecision::Stay;
    }
    // What the engine did, and what it got over by itself, is no repetition.
    let own =
        |failed_run: &&FailedRun| failed_run.recovered_at.is_none() && !engine_caused(failed_run, outages);
    let repetitions = diagnose::repetitions(failures.iter().filter(own));
    if repetitions >= diagnose::HALT_AFTER {
        return RestartDecision::Halted(u32::try_from(repetitions).unwrap_or(u32::MAX));
    }
    let since = last.at - policy.window;
    // A run that was well for long enough forgives everything before it.
    let forgiven = failures
        .iter()
        .rposition(|failed_run| was_well_for(failed_run) >= policy.reset_after)
        .unwrap_or(0);
    // Where health is asked for, time alone forgives nothing: a probe may take longer than the window to fail.
    let asked_since = failures
        .iter()
        .rposition(|failed_run| failed_run.healthy_for.is_none())
        .unwrap_or(0);
    let counted = failures
        .iter()
        .enumerate()
        .skip(forgiven)
        .filter(|(at, failed_run)| *at >= asked_since || failed_run.at >= since)
        .filter(|(_, failed_run)| !engine_caused(failed_run, outages))
        .count();
    let attempt = u32::try_from(counted).unwrap_or(u32::MAX);
    if attempt > policy.max_restarts {
        return match policy.mode {
            SpentMode::SlowRetry => RestartDecision::At(last.seen() + SLOW_RETRY, attempt),
            SpentMode::GiveUp | SpentMode::Never => RestartDecision::GaveUp(attempt - 1),
        };
    }
    // What flaps is left in peace for longer each time.
    let damped = attempt.saturating_add(u32::try_from(flapping(flips, last.seen())).unwrap_or(u32::MAX));
    let delay = backoff::delay(policy.growth, policy.delay, policy.max_delay, damped);
    RestartDecision::At(last.seen() + delay, attempt)
}

/// Whether after the last of these deaths nothing is done by itself any more.
pub fn is_final(
    policy: &RestartPolicy,
    failures: &[FailedRun],
    outages: &[Outage],
    flips: &[Timestamp],
) -> bool {
    match decide(policy, failures, outages, flips) {
        RestartDecision::GaveUp(_) | RestartDecision::Halted(_) | RestartDecision::NotRunnable(_) => true,
        RestartDecision::At(..) | RestartDecision::EngineRestart | RestartDecision::Stay => false,
    }
}

/// How long a run was as it should be: healthy, or running where nothing else is asked.
fn was_well_for(failed_run: &FailedRun) -> Duration {
    failed_run.healthy_for.unwrap_or_else(|| failed_run.ran_for())
}

/// By how many changes of mind within ten minutes a probe is beyond what is normal.
pub fn flapping(flips: &[Timestamp], now: Timestamp) -> usize {
    let since = now - FLAP_WINDOW;
    let recent = flips.iter().filter(|at| **at >= since).count();
    recent.saturating_sub(HEALTH_TRANSITIONS_ALLOWED)
}

/// A death around a time without an engine is the engine's doing.
pub fn engine_caused(failed_run: &FailedRun, outages: &[Outage]) -> bool {
    around_an_outage(failed_run.at, outages)
}

/// Whether something happened so close to a time without an engine that the engine did it.
pub fn around_an_outage(at: Timestamp, outages: &[Outage]) -> bool {
    outages.iter().any(|outage| {
        let ended = outage.until.is_some_and(|until| at > until + AFTER_OUTAGE);
        at >= outage.from - BEFORE_OUTAGE && !ended
    })
}

/// Whether something happened while an engine was away, or so shortly before that it was hanging already.
pub fn into_an_outage(at: Timestamp, outages: &[Outage]) -> bool {
    outages
        .iter()
        .any(|outage| at >= outage.from - BEFORE_OUTAGE && outage.until.is_none_or(|until| at < until))
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
            mode: SpentMode::GiveUp,
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
    fn three_deaths_are_restarted_after_two_four_and_eight_seconds_and_the_fourth_is_not() {
        let check = |at: &[i64]| decide(&policy(), &failures(at), &[], &[]);
        assert_eq!(check(&[10_000]), RestartDecision::At(Timestamp(12_000), 1));
        assert_eq!(
            check(&[10_000, 20_000]),
            RestartDecision::At(Timestamp(24_000), 2)
        );
        assert_eq!(
            check(&[10_000, 20_000, 30_000]),
            RestartDecision::At(Timestamp(38_000), 3)
        );
        assert_eq!(
            check(&[10_000, 20_000, 30_000, 40_000]),
            RestartDecision::GaveUp(3)
        );
    }

    #[test]
    fn deaths_older_than_the_window_do_not_count() {
        let late = failures(&[10_000, 20_000, 30_000, 400_000]);
        assert_eq!(
            decide(&policy(), &late, &[], &[]),
            RestartDecision::At(Timestamp(402_000), 1)
        );
    }

    #[test]
    fn a_long_healthy_run_forgives_what_was_before_it() {
        let mut late = failures(&[10_000, 20_000, 30_000, 130_000]);
        late[3].started_at = Some(Timestamp(69_000));
        assert_eq!(
            decide(&policy(), &late, &[], &[]),
            RestartDecision::At(Timestamp(132_000), 1)
        );
        late[3].started_at = Some(Timestamp(71_000));
        assert_eq!(decide(&policy(), &late, &[], &[]), RestartDecision::GaveUp(3));
    }

    #[test]
    fn a_spent_budget_follows_its_mode() {
        let spent = failures(&[1_000, 2_000, 3_000, 4_000]);
        let with = |mode| decide(&RestartPolicy { mode, ..policy() }, &spent, &[], &[]);
        assert_eq!(
            with(SpentMode::SlowRetry),
            RestartDecision::At(Timestamp(64_000), 4)
        );
        assert_eq!(with(SpentMode::Never), RestartDecision::Stay);
        let off = RestartPolicy {
            enabled: false,
            ..policy()
        };
        assert_eq!(decide(&off, &spent, &[], &[]), RestartDecision::Stay);
    }

    #[test]
    fn deaths_around_an_outage_burn_no_budget() {
        let outage = Outage {
            from: Timestamp(100_000),
            until: Some(Timestamp(110_000)),
        };
        for at in [85_000, 100_000, 105_000, 112_000] {
            assert_eq!(
                decide(&policy(), &failures(&[at]), &[outage], &[]),
                RestartDecision::EngineRestart,
                "{at}"
            );
        }
        for at in [84_999, 112_001] {
            assert!(
                matches!(
                    decide(&policy(), &failures(&[at]), &[outage], &[]),
                    RestartDecision::At(_, 1)
                ),
                "{at}"
            );
        }
        // Three of the four were the engine's, so one of the budget is used.
        let mixed = failures(&[100_000, 101_000, 102_000, 150_000]);
        assert_eq!(
            decide(&policy(), &mixed, &[outage], &[]),
            RestartDecision::At(Timestamp(152_000), 1)
        );
    }

    #[test]
    fn unrunnable_command_is_not_retried() {
        for code in [126, 127] {
            let mut dead = failures(&[1_000]);
            dead[0].exit_code = code;
            assert_eq!(
                decide(&policy(), &dead, &[], &[]),
                RestartDecision::NotRunnable(code)
            );
        }
    }

    #[test]
    fn the_same_failure_three_times_in_a_row_halts_before_the_budget_is_spent() {
        let mut dead = failures(&[1_000, 5_000, 11_000]);
        for failed_run in &mut dead {
            failed_run.evidence = Some(crate::outcome::Evidence {
                stderr: vec!["no such table".to_owned()],
                ..crate::outcome::Evidence::default()
            });
        }
        assert!(matches!(
            decide(&policy(), &dead[..2], &[], &[]),
            RestartDecision::At(_, 2)
        ));
        assert_eq!(decide(&policy(), &dead, &[], &[]), RestartDecision::Halted(3));
    }

    #[test]
    fn what_flaps_is_restarted_later_each_time() {
        let flips: Vec<_> = (0..5).map(|n| Timestamp(n * 1_000)).collect();
        let check = |flips: &[Timestamp]| decide(&policy(), &failures(&[10_000]), &[], flips);
        assert_eq!(check(&flips[..3]), RestartDecision::At(Timestamp(12_000), 1));
        assert_eq!(check(&flips[..4]), RestartDecision::At(Timestamp(14_000), 1));
        assert_eq!(check(&flips), RestartDecision::At(Timestamp(18_000), 1));
        let long_ago = decide(&policy(), &failures(&[1_000_000]), &[], &flips);
        assert_eq!(long_ago, RestartDecision::At(Timestamp(1_002_000), 1));
    }
}

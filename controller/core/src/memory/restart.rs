//! When a service that ended is started again, if at all.

use std::time::Duration;

use crate::backoff;
use crate::desired::{RestartPolicy, SpentMode};
use crate::memory::Death;
use crate::observed::Outage;
use crate::time::Timestamp;

/// Under `slowRetry` a spent budget still allows a try this often.
const SLOW_RETRY: Duration = Duration::from_secs(60);
/// The engine goes on telling of deaths for this long before its stream ends.
const BEFORE_OUTAGE: Duration = Duration::from_secs(15);
/// Deaths that the engine caused are dated up to this long after it answers again.
const AFTER_OUTAGE: Duration = Duration::from_secs(2);

/// What the restart policy says of a service that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Start it at this time; which try that is, from 1.
    At(Timestamp, u32),
    /// The engine took it down: start it as soon as its dependencies are there.
    EngineRestart,
    /// The budget is spent; so many restarts were made.
    GaveUp(u32),
    /// The policy is not to start it again.
    Stay,
}

/// The verdict on the last of these deaths.
pub fn verdict(policy: &RestartPolicy, deaths: &[Death], outages: &[Outage]) -> Verdict {
    let Some(last) = deaths.last() else {
        return Verdict::EngineRestart;
    };
    if engine_caused(last, outages) {
        return Verdict::EngineRestart;
    }
    if !policy.enabled || policy.mode == SpentMode::Never {
        return Verdict::Stay;
    }
    let since = last.at - policy.window;
    // A run that was long enough forgives everything before it.
    let forgiven = deaths
        .iter()
        .rposition(|death| ran_for(death) >= policy.reset_after)
        .unwrap_or(0);
    let counted = deaths[forgiven..]
        .iter()
        .filter(|death| death.at >= since && !engine_caused(death, outages))
        .count();
    let attempt = u32::try_from(counted).unwrap_or(u32::MAX);
    if attempt > policy.max_restarts {
        return match policy.mode {
            SpentMode::SlowRetry => Verdict::At(last.at + SLOW_RETRY, attempt),
            SpentMode::GiveUp | SpentMode::Never => Verdict::GaveUp(attempt - 1),
        };
    }
    let delay = backoff::delay(policy.growth, policy.delay, policy.max_delay, attempt);
    Verdict::At(last.at + delay, attempt)
}

fn ran_for(death: &Death) -> Duration {
    death
        .started_at
        .map_or(Duration::ZERO, |start| death.at.since(start))
}

/// A death around a time without an engine is the engine's doing.
pub fn engine_caused(death: &Death, outages: &[Outage]) -> bool {
    around_an_outage(death.at, outages)
}

/// Whether something happened so close to a time without an engine that the engine did it.
pub fn around_an_outage(at: Timestamp, outages: &[Outage]) -> bool {
    outages.iter().any(|outage| {
        let ended = outage.until.is_some_and(|until| at > until + AFTER_OUTAGE);
        at >= outage.from - BEFORE_OUTAGE && !ended
    })
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

    fn deaths(at: &[i64]) -> Vec<Death> {
        let id = ContainerId::new("c1").unwrap();
        at.iter()
            .map(|at| Death {
                container: id.clone(),
                started_at: None,
                at: Timestamp(*at),
                exit_code: 1,
                oom_killed: false,
            })
            .collect()
    }

    #[test]
    fn three_deaths_are_restarted_after_two_four_and_eight_seconds_and_the_fourth_is_not() {
        let check = |at: &[i64]| verdict(&policy(), &deaths(at), &[]);
        assert_eq!(check(&[10_000]), Verdict::At(Timestamp(12_000), 1));
        assert_eq!(check(&[10_000, 20_000]), Verdict::At(Timestamp(24_000), 2));
        assert_eq!(
            check(&[10_000, 20_000, 30_000]),
            Verdict::At(Timestamp(38_000), 3)
        );
        assert_eq!(check(&[10_000, 20_000, 30_000, 40_000]), Verdict::GaveUp(3));
    }

    #[test]
    fn deaths_older_than_the_window_do_not_count() {
        let late = deaths(&[10_000, 20_000, 30_000, 400_000]);
        assert_eq!(verdict(&policy(), &late, &[]), Verdict::At(Timestamp(402_000), 1));
    }

    #[test]
    fn a_long_healthy_run_forgives_what_was_before_it() {
        let mut late = deaths(&[10_000, 20_000, 30_000, 130_000]);
        late[3].started_at = Some(Timestamp(69_000));
        assert_eq!(verdict(&policy(), &late, &[]), Verdict::At(Timestamp(132_000), 1));
        late[3].started_at = Some(Timestamp(71_000));
        assert_eq!(verdict(&policy(), &late, &[]), Verdict::GaveUp(3));
    }

    #[test]
    fn a_spent_budget_follows_its_mode() {
        let spent = deaths(&[1_000, 2_000, 3_000, 4_000]);
        let with = |mode| verdict(&RestartPolicy { mode, ..policy() }, &spent, &[]);
        assert_eq!(with(SpentMode::SlowRetry), Verdict::At(Timestamp(64_000), 4));
        assert_eq!(with(SpentMode::Never), Verdict::Stay);
        let off = RestartPolicy {
            enabled: false,
            ..policy()
        };
        assert_eq!(verdict(&off, &spent, &[]), Verdict::Stay);
    }

    #[test]
    fn deaths_around_an_outage_burn_no_budget() {
        let outage = Outage {
            from: Timestamp(100_000),
            until: Some(Timestamp(110_000)),
        };
        for at in [85_000, 100_000, 105_000, 112_000] {
            assert_eq!(
                verdict(&policy(), &deaths(&[at]), &[outage]),
                Verdict::EngineRestart,
                "{at}"
            );
        }
        for at in [84_999, 112_001] {
            assert!(
                matches!(verdict(&policy(), &deaths(&[at]), &[outage]), Verdict::At(_, 1)),
                "{at}"
            );
        }
        // Three of the four were the engine's, so one of the budget is used.
        let mixed = deaths(&[100_000, 101_000, 102_000, 150_000]);
        assert_eq!(
            verdict(&policy(), &mixed, &[outage]),
            Verdict::At(Timestamp(152_000), 1)
        );
    }
}

//! Restart rate limit over all environments: prevents restarts from overloading a failing host.

use super::Plan;
use crate::action::{Action, Cause, Step};
use crate::state::RESTART_RATE_WINDOW;
use crate::time::Timestamp;
use crate::wait::{Wait, WaitingOn};

/// Maximum number of restarts within the window.
pub const MAX_RESTARTS_PER_WINDOW: usize = 10;

/// Turns restarts beyond the limit into waits. `recent` are the starts of earlier restarts, oldest first.
pub(crate) fn limit(plan: &mut Plan, recent: &[Timestamp], now: Timestamp) {
    let recent: Vec<Timestamp> = recent
        .iter()
        .copied()
        .filter(|at| *at + RESTART_RATE_WINDOW > now)
        .collect();
    let mut remaining = MAX_RESTARTS_PER_WINDOW.saturating_sub(recent.len());
    let oldest = recent.iter().min().copied().unwrap_or(now);
    let mut blocked = Vec::new();
    plan.steps.retain(|step| {
        if !is_restart(step) {
            return true;
        }
        if remaining > 0 {
            remaining -= 1;
            return true;
        }
        blocked.push(Wait {
            subject: step.subject.clone(),
            on: WaitingOn::RestartRateLimited {
                until: oldest + RESTART_RATE_WINDOW,
            },
        });
        false
    });
    plan.waits.extend(blocked);
}

/// True for the start of a run after a failure; the other actions of a restart depend on it.
fn is_restart(step: &Step) -> bool {
    matches!(
        (&step.action, &step.cause),
        (Action::StartContainer { .. }, Cause::Restart { .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Subject;
    use crate::ident::{ContainerId, EnvName, ServiceName};

    fn restart(number: usize) -> Step {
        Step {
            subject: Subject::Service {
                environment: EnvName::new("shop").unwrap(),
                service: ServiceName::new(format!("s{number}")).unwrap(),
            },
            action: Action::StartContainer {
                id: ContainerId::new(format!("c{number}")).unwrap(),
            },
            cause: Cause::Restart { attempt: 1 },
        }
    }

    #[test]
    fn restarts_are_limited_to_ten_per_minute() {
        let all = || Plan {
            steps: (0..30).map(restart).collect(),
            ..Plan::default()
        };
        let check = |recent: &[i64], now: i64| {
            let mut plan = all();
            let recent: Vec<_> = recent.iter().map(|at| Timestamp(*at)).collect();
            limit(&mut plan, &recent, Timestamp(now));
            assert_eq!(plan.steps.len() + plan.waits.len(), 30, "nothing is lost");
            (plan.steps.len(), plan.wake_at())
        };
        assert_eq!(check(&[], 100), (10, Some(Timestamp(60_100))));
        assert_eq!(check(&[90, 95], 100), (8, Some(Timestamp(60_090))));
        assert_eq!(check(&[0; 10], 59_999), (0, Some(Timestamp(60_000))));
        assert_eq!(check(&[0; 10], 60_000).0, 10, "the minute is over");
        let mut other = all();
        other.steps.iter_mut().for_each(|step| step.cause = Cause::Ready);
        limit(&mut other, &[Timestamp(0); 10], Timestamp(1));
        assert_eq!(other.steps.len(), 30, "other starts are not limited");
    }
}

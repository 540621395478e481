//! Breaker phase of a pass: transitions, replanning and wake-up times. Five calls in a row that the engine answers shortly before their
//! deadline are failures of the engine, although each one succeeded.

use std::time::Duration;

use super::{Inputs, Planner};
use crate::action::Step;
use crate::ident::EnvName;
use crate::plan::Plan;
use crate::time::Timestamp;

impl Planner {
    /// Resets the breaker of one environment, or all breakers. Returns true if a relist is needed.
    pub fn reset_breaker(&mut self, env: Option<&EnvName>, now: Timestamp) -> bool {
        self.state.breakers.reset(env, now)
    }

    /// Updates the breakers; a change invalidates all plans. Returns true if a relist is needed.
    pub(super) fn update_breakers(&mut self, inputs: &Inputs<'_>) -> bool {
        let relist = self.state.breakers.observe(inputs.store, inputs.now);
        let version = self.state.breakers.version();
        if std::mem::replace(&mut self.breakers_version, version) != version {
            self.invalidate_all();
        }
        relist
    }

    /// Records that an environment was planned. This may end a restriction of the other environments.
    pub(super) fn record_planned(&mut self, env: &EnvName, plan: &Plan, now: Timestamp) {
        let mut in_flight = self.state.in_flight.values();
        let idle = plan.steps.is_empty() && !in_flight.any(|action| action.environment == *env);
        if self.state.breakers.on_planned(env, idle, now) {
            self.invalidate_all();
            self.replan = true;
        }
    }

    /// Closes idle breakers after all environments were planned. Returns the time of the next pass.
    pub(super) fn wake_for_breakers(&mut self, nothing_submitted: bool, now: Timestamp) -> Option<Timestamp> {
        let idle = nothing_submitted && self.state.in_flight.is_empty();
        if idle && self.state.breakers.close_engine_if_idle(now) {
            self.invalidate_all();
        }
        let immediately = std::mem::take(&mut self.replan).then_some(now);
        [immediately, self.state.breakers.wake_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Records the time that the engine needed for a call, without the wait for a permit. [`Planner::finished`] follows.
    pub fn answered(&mut self, step: &Step, took: Duration) {
        let slow = self.deadlines.slow(&step.action, took);
        self.state.breakers.slow = slow.map(|why| (step.subject.clone(), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Action, Cause, Subject};
    use crate::ident::{ContainerId, EnvName, ServiceName};
    use crate::observed::{Observed, Store};
    use crate::outcome::Done;
    use crate::plan::ControllerIdentity;
    use crate::state::PlannerState;
    use crate::time::Timestamp;

    #[test]
    fn engine_that_answers_just_in_time_opens_its_breaker() {
        let env = EnvName::new("shop").unwrap();
        let step = Step {
            subject: Subject::Service {
                environment: env.clone(),
                service: ServiceName::new("api").unwrap(),
            },
            action: Action::StartContainer {
                id: ContainerId::new("c1").unwrap(),
            },
            cause: Cause::Ready,
        };
        let is_closed_after = |seconds: u64| {
            let identity = ControllerIdentity {
                controller: "me".to_owned(),
                run: "run".to_owned(),
                publish_address: [127, 0, 0, 1].into(),
            };
            let mut planner = Planner::new(identity, PlannerState::default());
            for now in (0..5).map(Timestamp) {
                planner.state.on_started(&env, &step, &Observed::default(), now);
                planner.answered(&step, Duration::from_secs(seconds));
                planner.finished(&step, &Ok(Done::Applied), &Store::default(), now);
            }
            planner.state().breakers.engine().is_closed()
        };
        assert!(is_closed_after(20));
        assert!(!is_closed_after(29));
    }
}

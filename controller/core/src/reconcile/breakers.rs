//! Breaker phase of a pass: transitions, replanning and wake-up times.

use super::{Inputs, Planner};
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
}

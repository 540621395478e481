//! The breakers in a turn: what changed about them, and when they want another one.

use super::{Brain, Inputs};
use crate::ident::EnvName;
use crate::plan::Plan;
use crate::time::Timestamp;

impl Brain {
    /// A person wants the engine tried at once: for one environment, or for all. Tells whether a list is wanted.
    pub fn reset_breaker(&mut self, env: Option<&EnvName>, now: Timestamp) -> bool {
        self.memory.circuits.reset(env, now)
    }

    /// What changed about the breakers concerns everybody. Tells whether a list is wanted.
    pub(super) fn look_at_circuits(&mut self, inputs: &Inputs<'_>) -> bool {
        let wanted = self.memory.circuits.look(inputs.world, inputs.now);
        let version = self.memory.circuits.version();
        if std::mem::replace(&mut self.circuits_version, version) != version {
            self.stale_all();
        }
        wanted
    }

    /// An environment was planned: what it held back for others may be over.
    pub(super) fn tell_circuits(&mut self, env: &EnvName, plan: &Plan, now: Timestamp) {
        let mut flying = self.memory.in_flight.values();
        let idle = plan.steps.is_empty() && !flying.any(|flying| flying.environment == *env);
        if self.memory.circuits.planned(env, idle, now) {
            self.stale_all();
            self.go_on = true;
        }
    }

    /// All environments were planned. When the next turn is due.
    pub(super) fn wake_for_circuits(&mut self, nothing_begun: bool, now: Timestamp) -> Option<Timestamp> {
        let idle = nothing_begun && self.memory.in_flight.is_empty();
        if idle && self.memory.circuits.nothing_to_do(now) {
            self.stale_all();
        }
        let at_once = std::mem::take(&mut self.go_on).then_some(now);
        [at_once, self.memory.circuits.wake_at()]
            .into_iter()
            .flatten()
            .min()
    }
}

//! Requests of people and agents that change the planner's state.

use std::sync::Arc;

use super::Planner;
use crate::desired::Desired;
use crate::ident::{EnvName, ServiceName};
use crate::observed::Store;

impl Planner {
    /// Forgets the failures and spent budgets of a service, or of all services of an environment, so that they are tried again.
    pub fn retry(&mut self, env: &EnvName, service: Option<&ServiceName>) {
        // Failures are recorded before the first pass with an engine too, although no plan exists then.
        let accepted = self.cache.get(env).and_then(|cached| cached.accepted.clone());
        let desired = accepted.as_ref().map(|accepted| &accepted.desired);
        self.state.clear_failures_of(env, service, desired);
        self.state.unblock_ports();
        self.invalidate_all();
    }

    /// Requests the removal of the volumes of an environment with it, until its file is accepted again.
    pub fn request_volume_removal(&mut self, env: &EnvName) {
        let history = self.state.environments.entry(env.clone()).or_default();
        Arc::make_mut(history).delete_volumes = Some(true);
        self.invalidate_all();
    }

    /// Requests the restart of a service, or of all services of an environment.
    pub fn request_restart(&mut self, desired: &Desired, service: Option<&ServiceName>, store: &Store) {
        if let Some(observed) = store.of(&desired.env) {
            self.state.request_restart(desired, service, observed);
        }
        self.invalidate_all();
    }
}

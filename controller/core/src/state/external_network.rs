//! External networks: found by an action, because the watch reports only networks with the labels of Argus.

use crate::action::{Action, Step};
use crate::outcome::{ActionError, Done};
use crate::state::PlannerState;

impl PlannerState {
    /// Records that an external network exists. A later call that misses a network makes all of them unknown, and Argus checks them again.
    pub(super) fn record_external_network(&mut self, step: &Step, outcome: &Result<Done, ActionError>) {
        let Some(environment) = step.subject.environment() else {
            return;
        };
        match (&step.action, outcome) {
            (
                Action::CreateNetwork {
                    name, external: true, ..
                },
                Ok(_),
            ) => {
                self.external_networks.insert((environment.clone(), name.clone()));
            }
            (_, Err(ActionError::NetworkGone(_))) => {
                self.external_networks.retain(|(known, _)| known != environment);
            }
            _ => {}
        }
    }
}

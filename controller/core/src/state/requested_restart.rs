//! Restarts on request: the requested run ends and starts again, which is neither a failure nor part of the restart budget.

use std::sync::Arc;

use crate::action::Subject;
use crate::desired::Desired;
use crate::ident::ServiceName;
use crate::observed::{Container, ContainerState, Observed};
use crate::state::{PlannerState, Run, ServiceHistory};

impl PlannerState {
    /// Requests the restart of a service, or of all services of an environment except its completed ones. It also
    /// clears the failures of the services.
    pub fn request_restart(&mut self, desired: &Desired, service: Option<&ServiceName>, observed: &Observed) {
        let Some(history) = self.environments.get_mut(&desired.env).map(Arc::make_mut) else {
            return;
        };
        for (name, spec) in &desired.services {
            let Some(history) = history.services.get_mut(name) else {
                continue;
            };
            let history = Arc::make_mut(history);
            let is_requested = match service {
                Some(service) => service == name,
                None => !spec.is_completable() || history.completed.is_none(),
            };
            if !is_requested {
                continue;
            }
            history.clear_failures();
            history.completed = None;
            let containers = observed.containers.of(name);
            let own = containers.filter(|container| container.inspect.is_some());
            let current = own.max_by_key(|container| (container.state.is_up(), container.created_at));
            history.restart_requested = current.map(|container| run_of(container));
            self.action_failures.remove(&Subject::Service {
                environment: desired.env.clone(),
                service: name.clone(),
            });
        }
    }
}

impl ServiceHistory {
    /// True if the restart of this very run was requested.
    pub fn is_restart_requested(&self, container: &Container) -> bool {
        let is_run = matches!(container.state, ContainerState::Running | ContainerState::Exited);
        is_run && self.restart_requested.as_ref() == Some(&run_of(container))
    }
}

fn run_of(container: &Container) -> Run {
    let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
    (container.id.clone(), started_at)
}

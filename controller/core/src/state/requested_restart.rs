//! Restarts on request: the requested run ends and starts again, which is neither a failure nor part of the restart budget.

use std::sync::Arc;

use crate::action::{ActionKind, Subject};
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
            let subject = Subject::of_service(&desired.env, name);
            let is_start = |verb| verb == ActionKind::StartContainer;
            let is_starting = self
                .in_flight
                .get(&subject)
                .is_some_and(|call| is_start(call.verb))
                || self
                    .expectations
                    .get(&subject)
                    .is_some_and(|effect| is_start(effect.verb));
            let containers = observed.containers.of(name);
            let own = containers.filter(|container| container.inspect.is_some());
            let current = own.max_by_key(|container| (container.state.is_up(), container.created_at));
            history.restart_requested = current.and_then(|container| match run_of(container) {
                // The start can be older than the request, so the request means the run that it makes.
                (id, _) if is_starting => Some((id, None)),
                run @ (_, Some(_)) => Some(run),
                // Its first run starts after the request anyway.
                (_, None) => None,
            });
            self.action_failures.remove(&subject);
        }
    }
}

impl ServiceHistory {
    /// Sets the run whose restart was requested while the container started.
    pub(super) fn record_requested_run(&mut self, container: &Container) {
        if let Some((id, started_at @ None)) = &mut self.restart_requested
            && *id == container.id
            && container.state == ContainerState::Running
        {
            *started_at = run_of(container).1;
        }
    }

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

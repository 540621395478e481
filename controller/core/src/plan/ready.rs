//! Readiness of services, for their dependents and for the status.

use super::{PlanInput, WaitingOn, drift};
use crate::desired::{Condition, Probe, ProbeKind, Service};
use crate::ident::ServiceName;
use crate::observed::{Container, ContainerState, EngineHealthStatus, InspectInfo, Outage};
use crate::probe::{HealthStates, ProbeStatus};
use crate::state::restart;

/// Container that matches the desired state of its service.
pub(super) fn current_container<'a>(input: &PlanInput<'a>, service: &ServiceName) -> Option<&'a Container> {
    let (spec, hash) = input.rendered.get(service)?;
    input
        .observed
        .containers
        .values()
        .filter(|container| container.is_of(service) && container.carries(hash))
        .filter(|container| !input.state.not_owned.contains(&container.id))
        .filter(|container| match container.state {
            ContainerState::Removing | ContainerState::Dead => false,
            ContainerState::Created
            | ContainerState::Running
            | ContainerState::Paused
            | ContainerState::Restarting
            | ContainerState::Exited => drift::first_difference(spec, container).is_none(),
        })
        .min_by_key(|container| {
            let up = crate::state::expectation::is_up(container.state);
            (!up, container.created_at, container.id.clone())
        })
        .map(std::convert::AsRef::as_ref)
}

/// Health of a running container: by its probe, or by the image's health check without a probe. `None` if running is
/// enough.
///
/// A failure of Argus' own probe on the way into an outage does not count: the probe runs again after the outage.
pub(crate) fn probe_status(
    probe: Option<&Probe>,
    container: &Container,
    health: &HealthStates,
    outages: &[Outage],
) -> Option<ProbeStatus> {
    let info = container.inspect.as_ref();
    let started_at = info.and_then(|info| info.started_at);
    let by_engine = match probe.map(|probe| &probe.kind) {
        None | Some(ProbeKind::Docker) => true,
        Some(ProbeKind::Http { .. } | ProbeKind::Tcp { .. } | ProbeKind::Exec { .. }) => false,
    };
    if !by_engine {
        let seen = health
            .get(&container.id)
            .filter(|seen| seen.started_at == started_at || started_at.is_none())
            .filter(|seen| {
                seen.status != ProbeStatus::Unhealthy || !restart::is_during_outage(seen.since, outages)
            });
        return Some(seen.map_or(ProbeStatus::Starting, |seen| seen.status));
    }
    match info.and_then(|info| info.health.as_ref()) {
        // A result from before the start does not belong to this run.
        Some(health_check) if health_check.checked_at.is_some_and(|at| Some(at) < started_at) => {
            Some(ProbeStatus::Starting)
        }
        Some(health_check) => Some(match health_check.status {
            EngineHealthStatus::Starting => ProbeStatus::Starting,
            EngineHealthStatus::Healthy => ProbeStatus::Healthy,
            EngineHealthStatus::Unhealthy => ProbeStatus::Unhealthy,
        }),
        None if probe.is_some() => Some(ProbeStatus::Starting),
        // Only an inspect shows if the image has a health check.
        None if info.is_none() => Some(ProbeStatus::Starting),
        None => None,
    }
}

/// True if the image must provide the health check and has none: the engine would report one from the start on.
pub(crate) fn is_never_probed(probe: Option<&Probe>, container: &Container) -> bool {
    let by_image = probe.is_some_and(|probe| probe.kind == ProbeKind::Docker);
    let has_none = |info: &InspectInfo| info.started_at.is_some() && info.health.is_none();
    by_image && container.inspect.as_ref().is_some_and(has_none)
}

/// Checks that all dependencies of a service meet their conditions.
pub(super) fn check_start(input: &PlanInput<'_>, service: &Service) -> Result<(), WaitingOn> {
    let Some(accepted) = input.accepted else {
        return Ok(());
    };
    for dependency in &service.depends_on {
        let Some(other) = accepted.desired.services.get(&dependency.service) else {
            continue;
        };
        if !is_dependency_met(input, other, dependency.condition) {
            let (service, condition) = (dependency.service.clone(), dependency.condition);
            return Err(WaitingOn::Dependency { service, condition });
        }
    }
    Ok(())
}

fn is_dependency_met(input: &PlanInput<'_>, other: &Service, condition: Condition) -> bool {
    let is_done = is_completed(input, other);
    let Some(container) = current_container(input, &other.name) else {
        return is_done;
    };
    let running = container.state == ContainerState::Running;
    match condition {
        Condition::Started => running || is_done,
        Condition::Completed => is_done,
        Condition::Healthy => {
            is_done
                || (running
                    && !other.one_shot
                    && probe_status(other.probe.as_ref(), container, input.health, input.outages)
                        .is_none_or(|status| status == ProbeStatus::Healthy))
        }
    }
}

/// True if the one-shot exited with 0 in its desired state.
pub(super) fn is_completed(input: &PlanInput<'_>, service: &Service) -> bool {
    if !service.one_shot {
        return false;
    }
    let Some((_, hash)) = input.rendered.get(&service.name) else {
        return false;
    };
    let persisted = input
        .history()
        .and_then(|history| history.services.get(&service.name))
        .is_some_and(|history| history.completed.as_ref() == Some(hash));
    let seen = || {
        current_container(input, &service.name).is_some_and(|container| {
            container.state == ContainerState::Exited
                && container.inspect.as_ref().is_some_and(|info| info.exit_code == 0)
        })
    };
    persisted || seen()
}

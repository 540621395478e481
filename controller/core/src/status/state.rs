//! State of a service in one word.

use argus_crds::status::{Health, ServiceState};

use crate::observed::{Container, ContainerState};
use crate::plan::WaitingOn;

use super::StatusInput;
use super::service::RowInputs;

/// State of a service from its container, its plan and its history.
pub(super) fn of(input: &StatusInput<'_>, facts: &RowInputs<'_>) -> ServiceState {
    let running = facts
        .container
        .is_some_and(|container| container.state == ContainerState::Running);
    let Some(desired) = facts.desired else {
        return ServiceState::Stopping;
    };
    let waits_on = input.plan.and_then(|plan| plan.wait_reason(desired));
    let is_lost = waits_on.is_some_and(WaitingOn::is_given_up);
    // A container of the old revision that still runs is not lost because its replacement failed. A current container
    // with a give-up is permanently unhealthy, or has no health check.
    let for_good = facts.health == Health::Unhealthy || waits_on == Some(&WaitingOn::NoHealthcheck);
    if is_lost && (!running || (facts.current && for_good)) {
        return ServiceState::Failed;
    }
    if facts.completed && desired.one_shot && !running {
        return ServiceState::Completed;
    }
    match facts.container {
        None => absent(input, facts),
        Some(container) => present(facts, container),
    }
}

/// Verb of the action in progress.
fn verb<'a>(facts: &RowInputs<'a>) -> Option<&'a str> {
    let waited = match facts.wait {
        Some(WaitingOn::InFlight { verb } | WaitingOn::EffectPending { verb, .. }) => Some(verb.as_str()),
        Some(_) | None => None,
    };
    facts.step.map(|step| step.action.verb()).or(waited)
}

fn absent(input: &StatusInput<'_>, facts: &RowInputs<'_>) -> ServiceState {
    match (verb(facts), facts.image.verb) {
        (Some("create-container"), _) => ServiceState::Creating,
        (Some("start-container"), _) => ServiceState::Starting,
        (_, Some("pull-image")) => ServiceState::Pulling,
        (_, Some("build-image")) => ServiceState::Building,
        _ if !input.engine.synced => ServiceState::Unknown,
        _ => ServiceState::Waiting,
    }
}

fn present(facts: &RowInputs<'_>, container: &Container) -> ServiceState {
    match container.state {
        ContainerState::Created => created(facts),
        ContainerState::Running => running(facts),
        ContainerState::Paused => ServiceState::Paused,
        ContainerState::Restarting => ServiceState::Restarting,
        ContainerState::Removing => ServiceState::Stopping,
        ContainerState::Exited | ContainerState::Dead => ended(facts),
    }
}

fn created(facts: &RowInputs<'_>) -> ServiceState {
    match (verb(facts), facts.image.verb) {
        (Some("start-container"), _) => ServiceState::Starting,
        (Some(_), _) => ServiceState::Creating,
        (None, Some("pull-image")) => ServiceState::Pulling,
        (None, Some("build-image")) => ServiceState::Building,
        (None, _) => ServiceState::Waiting,
    }
}

fn running(facts: &RowInputs<'_>) -> ServiceState {
    let one_shot = facts.desired.is_some_and(|service| service.one_shot);
    let well = match facts.health {
        Health::Healthy | Health::None => true,
        Health::Unknown | Health::Starting | Health::Unhealthy => false,
    };
    match (verb(facts), facts.wait) {
        (Some("stop-container" | "remove-container"), _) => ServiceState::Stopping,
        (Some("start-container"), _) | (_, Some(WaitingOn::Probe)) => ServiceState::Starting,
        (None, None | Some(WaitingOn::Engine { .. } | WaitingOn::Safe { .. }))
            if facts.current && well && !one_shot =>
        {
            ServiceState::Ready
        }
        _ => ServiceState::Running,
    }
}

fn ended(facts: &RowInputs<'_>) -> ServiceState {
    let died = facts.memory.is_some_and(|memory| !memory.failures.is_empty());
    match (verb(facts), facts.wait) {
        (Some("remove-container" | "stop-container"), _) if !facts.current => ServiceState::Stopping,
        (Some("start-container"), _) if !died => ServiceState::Starting,
        (_, Some(WaitingOn::Backoff { .. } | WaitingOn::RateLimited { .. })) | (Some(_), _) => {
            ServiceState::Restarting
        }
        _ => ServiceState::Waiting,
    }
}

//! State of a service in one word.

use argus_crds::status::{Health, ServiceState};

use crate::action::ActionKind;
use crate::observed::{Container, ContainerState};
use crate::wait::WaitReason;

use super::StatusInput;
use super::service::RowInputs;

/// State of a service from its container, its plan and its history.
pub(super) fn service_state(input: &StatusInput<'_>, row: &RowInputs<'_>) -> ServiceState {
    let running_state = row
        .container
        .is_some_and(|container| container.state == ContainerState::Running);
    let Some(desired) = row.desired else {
        return if input.specs_scanned {
            ServiceState::Stopping
        } else {
            ServiceState::Unknown
        };
    };
    let waits_on = input.plan.and_then(|plan| plan.wait_reason(desired));
    let is_lost = waits_on.is_some_and(WaitReason::is_given_up);
    // A container of the old revision that still runs is not given up because its replacement failed. A current container
    // with a give-up is permanently unhealthy, or has no health check.
    let is_permanent = row.health == Health::Unhealthy || waits_on == Some(&WaitReason::NoHealthcheck);
    if is_lost && (!running_state || (row.current && is_permanent)) {
        return ServiceState::Failed;
    }
    if row.completed && desired.is_completable() && !running_state {
        return ServiceState::Completed;
    }
    match row.container {
        None => state_without_container(input, row),
        Some(container) => state_of_container(row, container),
    }
}

/// Kind of the action in progress.
fn action_kind(row: &RowInputs<'_>) -> Option<ActionKind> {
    let waited = match row.wait {
        Some(WaitReason::InFlight { verb } | WaitReason::EffectPending { verb, .. }) => Some(*verb),
        Some(_) | None => None,
    };
    row.step.map(|step| step.action.kind()).or(waited)
}

fn state_without_container(input: &StatusInput<'_>, row: &RowInputs<'_>) -> ServiceState {
    match (action_kind(row), row.image.action) {
        (Some(ActionKind::CreateContainer), _) => ServiceState::Creating,
        (Some(ActionKind::StartContainer), _) => ServiceState::Starting,
        (_, Some(ActionKind::PullImage)) => ServiceState::Pulling,
        (_, Some(ActionKind::BuildImage)) => ServiceState::Building,
        _ if !input.engine.synced => ServiceState::Unknown,
        _ => ServiceState::Waiting,
    }
}

fn state_of_container(row: &RowInputs<'_>, container: &Container) -> ServiceState {
    match container.state {
        ContainerState::Created => created_state(row),
        ContainerState::Running => running_state(row),
        ContainerState::Paused => ServiceState::Paused,
        ContainerState::Restarting => ServiceState::Restarting,
        ContainerState::Removing => ServiceState::Stopping,
        ContainerState::Exited | ContainerState::Dead => ended_state(row),
    }
}

fn created_state(row: &RowInputs<'_>) -> ServiceState {
    match (action_kind(row), row.image.action) {
        (Some(ActionKind::StartContainer), _) => ServiceState::Starting,
        (Some(_), _) => ServiceState::Creating,
        (None, Some(ActionKind::PullImage)) => ServiceState::Pulling,
        (None, Some(ActionKind::BuildImage)) => ServiceState::Building,
        (None, _) => ServiceState::Waiting,
    }
}

fn running_state(row: &RowInputs<'_>) -> ServiceState {
    let one_shot = row.desired.is_some_and(|service| service.one_shot);
    let is_healthy = match row.health {
        Health::Healthy | Health::None => true,
        Health::Unknown | Health::Starting | Health::Unhealthy => false,
    };
    match (action_kind(row), row.wait) {
        (Some(ActionKind::StopContainer | ActionKind::RemoveContainer), _) => ServiceState::Stopping,
        (Some(ActionKind::StartContainer), _)
        | (_, Some(WaitReason::Probe | WaitReason::MinimumRunTime { .. })) => ServiceState::Starting,
        (None, None | Some(WaitReason::Engine { .. } | WaitReason::Safe { .. }))
            if row.current && is_healthy && !one_shot =>
        {
            ServiceState::Ready
        }
        _ => ServiceState::Running,
    }
}

fn ended_state(row: &RowInputs<'_>) -> ServiceState {
    let has_failed = row.history.is_some_and(|history| !history.failures.is_empty());
    match (action_kind(row), row.wait) {
        (Some(ActionKind::RemoveContainer | ActionKind::StopContainer), _) if !row.current => {
            ServiceState::Stopping
        }
        (Some(ActionKind::StartContainer), _) if !has_failed => ServiceState::Starting,
        (_, Some(WaitReason::RestartDelay { .. } | WaitReason::RestartRateLimited { .. })) | (Some(_), _) => {
            ServiceState::Restarting
        }
        _ => ServiceState::Waiting,
    }
}

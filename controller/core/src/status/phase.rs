//! Phase of an environment: its state in one word.

use argus_crds::status::{Phase, ServiceState, ServiceStatus};

use crate::action::Subject;
use crate::desired::Criticality;
use crate::plan::Plan;
use crate::wait::WaitReason;

use super::{StatusInput, desired};

/// Phase from the states of the services and from the plan.
pub(super) fn phase_of(input: &StatusInput<'_>, services: &[ServiceStatus]) -> Phase {
    let Some(accepted) = input.accepted else {
        return undesired_phase(input);
    };
    if accepted.desired.hold || input.requests.environment_hold(input.env, input.now).is_some() {
        return Phase::Held;
    }
    if let Some(lost_phase) = lost_phase(input, services) {
        return lost_phase;
    }
    let was_ready = input.history.last_ready.as_ref() == Some(&accepted.desired.revision);
    if is_ready(input, services) {
        return if input.engine.reachable {
            Phase::Ready
        } else {
            Phase::Degraded
        };
    }
    if !input.engine.synced {
        return if was_ready && !input.observed.containers.is_empty() {
            Phase::Degraded
        } else {
            Phase::Pending
        };
    }
    if is_owned_by_other(input) {
        return Phase::Pending;
    }
    if was_ready || is_stuck(input) {
        return Phase::Degraded;
    }
    if has_started(input) {
        Phase::Progressing
    } else {
        Phase::Pending
    }
}

/// Phase of an environment that is not desired: `Failed` if its file was rejected before anything ran.
fn undesired_phase(input: &StatusInput<'_>) -> Phase {
    let nothing_there = *input.observed == crate::observed::Observed::default();
    if input.rejected.is_some() && nothing_there {
        Phase::Failed
    } else if input.specs_scanned {
        Phase::Terminating
    } else if input.history.last_ready.is_some() && !input.observed.containers.is_empty() {
        Phase::Degraded
    } else {
        Phase::Pending
    }
}

/// Phase caused by given-up services.
fn lost_phase(input: &StatusInput<'_>, services: &[ServiceStatus]) -> Option<Phase> {
    let criticality = |row: &ServiceStatus| desired(input, row).map(|service| service.criticality);
    let worst = services
        .iter()
        .filter(|row| row.state == ServiceState::Failed)
        .filter_map(criticality)
        .min()?;
    match worst {
        Criticality::Critical => Some(Phase::Failed),
        Criticality::Important => Some(Phase::Degraded),
        Criticality::Recoverable | Criticality::Optional => None,
    }
}

/// True if every required service is ready at the desired hash, and nothing required has an action or a wait.
pub(super) fn is_ready(input: &StatusInput<'_>, services: &[ServiceStatus]) -> bool {
    let Some(plan) = input.plan else { return false };
    let is_optional = |row| desired(input, row).is_some_and(|service| !plan.is_required(service));
    let is_current = input
        .accepted
        .is_some_and(|accepted| plan.revision.as_ref() == Some(&accepted.desired.revision));
    is_current
        && unfinished(input, plan).next().is_none()
        && services.iter().all(|row| is_good(row) || is_optional(row))
}

/// True if a service is ready or completed.
pub fn is_good(row: &ServiceStatus) -> bool {
    matches!(row.state, ServiceState::Ready | ServiceState::Completed)
}

/// True if the service is given up and its criticality only causes a warning.
pub(super) fn is_given_up_with_warning(input: &StatusInput<'_>, row: &ServiceStatus) -> bool {
    let (Some(plan), Some(service)) = (input.plan, desired(input, row)) else {
        return false;
    };
    service.criticality == Criticality::Recoverable && plan.gives_up(service)
}

/// Subjects whose actions or waits block `Ready`.
pub(super) fn unfinished<'p>(input: &StatusInput<'p>, plan: &'p Plan) -> impl Iterator<Item = &'p Subject> {
    let accepted = input.accepted.iter();
    accepted.flat_map(|accepted| plan.unfinished(&accepted.desired.services))
}

/// True if another controller owns the whole environment.
fn is_owned_by_other(input: &StatusInput<'_>) -> bool {
    let Some(plan) = input.plan else { return false };
    let leased = |on: &WaitReason| matches!(on, WaitReason::LeaseHeldByOther { .. });
    plan.steps.is_empty() && !plan.waits.is_empty() && plan.waits.iter().all(|wait| leased(&wait.on))
}

/// True if a required subject needs a person, although no service is given up. A given-up one means `Failed`.
fn is_stuck(input: &StatusInput<'_>) -> bool {
    let Some(plan) = input.plan else { return false };
    let required: Vec<_> = unfinished(input, plan).collect();
    plan.waits
        .iter()
        .any(|wait| super::condition::never_resolves_alone(&wait.on) && required.contains(&&wait.subject))
}

/// True if an object of the environment exists, or an action or a wait is in progress.
fn has_started(input: &StatusInput<'_>) -> bool {
    let Some(plan) = input.plan else { return false };
    !plan.steps.is_empty()
        || !input.observed.containers.is_empty()
        || plan
            .waits
            .iter()
            .any(|wait| !super::condition::blocks_everything(&wait.on))
}

//! The state of an environment in one word.

use argus_crds::status::{Phase, ServiceState, ServiceStatus};

use crate::desired::Criticality;
use crate::plan::{Plan, Subject, WaitingOn};

use super::{StatusInput, desired};

/// The phase that the services and the plan add up to.
pub(super) fn of(input: &StatusInput<'_>, services: &[ServiceStatus]) -> Phase {
    let Some(accepted) = input.accepted else {
        return without_desire(input);
    };
    if accepted.desired.hold || input.requests.environment_hold(input.env, input.now).is_some() {
        return Phase::Held;
    }
    if let Some(lost) = lost(input, services) {
        return lost;
    }
    let was_ready = input.state.last_good.as_ref() == Some(&accepted.desired.revision);
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
    if is_anothers(input) {
        return Phase::Pending;
    }
    if was_ready || is_stuck(input) {
        return Phase::Degraded;
    }
    if begun(input) {
        Phase::Progressing
    } else {
        Phase::Pending
    }
}

/// Nothing is desired: what is there goes, unless a file was refused before anything of it ever ran.
fn without_desire(input: &StatusInput<'_>) -> Phase {
    let nothing_there = *input.observed == crate::observed::Observed::default();
    if input.rejected.is_some() && nothing_there {
        Phase::Failed
    } else {
        Phase::Terminating
    }
}

/// What given-up services make of the environment.
fn lost(input: &StatusInput<'_>, services: &[ServiceStatus]) -> Option<Phase> {
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

/// Every service that counts is there at the desired hash, and nothing is left to do or to wait for.
pub(super) fn is_ready(input: &StatusInput<'_>, services: &[ServiceStatus]) -> bool {
    let Some(plan) = input.plan else { return false };
    let is_extra = |row| desired(input, row).is_some_and(|service| !plan.is_required(service));
    let current = input
        .accepted
        .is_some_and(|accepted| plan.revision.as_ref() == Some(&accepted.desired.revision));
    current
        && unfinished(input, plan).next().is_none()
        && services.iter().all(|row| is_good(row) || is_extra(row))
}

/// It is as it shall be.
pub(super) fn is_good(row: &ServiceStatus) -> bool {
    matches!(row.state, ServiceState::Ready | ServiceState::Completed)
}

/// Whether it was given up, and its file says that a warning is enough.
pub(super) fn is_warned_of(input: &StatusInput<'_>, row: &ServiceStatus) -> bool {
    let (Some(plan), Some(service)) = (input.plan, desired(input, row)) else {
        return false;
    };
    service.criticality == Criticality::Recoverable && plan.gives_up(service)
}

/// What the plan still acts on or waits for before the environment is `Ready`.
pub(super) fn unfinished<'p>(input: &StatusInput<'p>, plan: &'p Plan) -> impl Iterator<Item = &'p Subject> {
    let accepted = input.accepted.iter();
    accepted.flat_map(|accepted| plan.unfinished(&accepted.desired.services))
}

/// Another controller is at work on all of it: whatever runs is not this one's doing.
fn is_anothers(input: &StatusInput<'_>) -> bool {
    let Some(plan) = input.plan else { return false };
    let leased = |on: &WaitingOn| matches!(on, WaitingOn::Leased { .. });
    plan.steps.is_empty() && !plan.waits.is_empty() && plan.waits.iter().all(|wait| leased(&wait.on))
}

/// Something that counts will not come by itself, though nothing that ran is lost (then it would be `Failed`).
fn is_stuck(input: &StatusInput<'_>) -> bool {
    let Some(plan) = input.plan else { return false };
    let counts: Vec<_> = unfinished(input, plan).collect();
    plan.waits
        .iter()
        .any(|wait| super::condition::is_final(&wait.on) && counts.contains(&&wait.subject))
}

/// Something of it was made, or is being made.
fn begun(input: &StatusInput<'_>) -> bool {
    let Some(plan) = input.plan else { return false };
    !plan.steps.is_empty()
        || !input.observed.containers.is_empty()
        || plan
            .waits
            .iter()
            .any(|wait| !super::condition::is_blind(&wait.on))
}

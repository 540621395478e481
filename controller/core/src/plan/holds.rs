//! Holds, test leases, safe mode and breakers: all that turns steps into waits for a person, a test or the engine.
//! Invariant 18: a hold and a test lease keep their environment unchanged.

use super::{Plan, PlanInput};
use crate::action::{Action, Cause, Step, Subject};
use crate::desired::Accepted;
use crate::ident::ServiceName;
use crate::wait::{Wait, WaitReason};

/// Turns the steps into waits that must wait for a person or for the end of a test.
pub(super) fn apply(input: &PlanInput<'_>, plan: &mut Plan) {
    apply_safe_mode(input, plan);
    let by_file = input.accepted.is_some_and(|accepted| accepted.desired.hold);
    if input.requests.holds.is_empty() && input.requests.test_leases.is_empty() && !by_file {
        return;
    }
    let mut waits = Vec::new();
    plan.steps.retain(|step| {
        // Collecting evidence changes nothing.
        if matches!(step.action, Action::CollectEvidence { .. }) {
            return true;
        }
        let held = hold_wait(input, &step.subject).filter(|_| step.cause != Cause::StopRequested);
        let Some(on) = held.or_else(|| test_lease_wait(input, step)) else {
            return true;
        };
        waits.push(Wait {
            subject: step.subject.clone(),
            on,
        });
        false
    });
    plan.waits.extend(waits);
}

/// Applies the controller's own restrictions: safe mode, or no removals while the specs are incomplete.
fn apply_safe_mode(input: &PlanInput<'_>, plan: &mut Plan) {
    let restrictions = &input.requests.restrictions;
    let on = if let Some(why) = &restrictions.safe_mode_reason {
        WaitReason::Safe { why: why.clone() }
    } else if input.accepted.is_none() && restrictions.protected.contains(input.env) {
        WaitReason::SpecPending
    } else {
        return;
    };
    let wait = |step: Step| Wait {
        subject: step.subject,
        on: on.clone(),
    };
    plan.waits.extend(plan.steps.drain(..).map(wait));
}

/// Returns whether a person stopped a service, and no other hold keeps it as it is.
pub(super) fn is_stopped(input: &PlanInput<'_>, service: &ServiceName) -> bool {
    let hold = input.requests.hold(input.env, service, input.now);
    let is_held_by_file = input.accepted.is_some_and(|accepted| accepted.desired.hold);
    !is_held_by_file && hold.is_some_and(|hold| hold.stops)
}

fn hold_wait(input: &PlanInput<'_>, subject: &Subject) -> Option<WaitReason> {
    if input.accepted.is_some_and(|accepted| accepted.desired.hold) {
        return Some(WaitReason::Held {
            until: None,
            why: "`argus.hold` in its file".to_owned(),
        });
    }
    let hold = match subject {
        Subject::Service { environment, service } => {
            let is_declared = |accepted: &Accepted| accepted.desired.services.contains_key(service.as_str());
            let hold = input.requests.hold(environment, service, input.now);
            // A service without a declaration is removed, stopped or not.
            hold.filter(|hold| !hold.stops || input.accepted.is_some_and(is_declared))
        }
        _ => input.requests.environment_hold(input.env, input.now),
    }?;
    Some(WaitReason::Held {
        until: hold.until,
        why: hold.reason.clone(),
    })
}

/// Wait reason of a running test: its services keep running, unless a service no longer works.
fn test_lease_wait(input: &PlanInput<'_>, step: &Step) -> Option<WaitReason> {
    let Subject::Service { .. } = &step.subject else {
        return None;
    };
    let lease = input.requests.test_lease(input.env, input.now)?;
    let id = match &step.action {
        Action::StopContainer { id, .. } | Action::RemoveContainer { id, .. } => id.as_str(),
        Action::DisconnectNetwork { container, .. } => container.as_str(),
        _ => return None,
    };
    let (id, container) = input
        .observed
        .containers
        .iter()
        .find(|(found, _)| found.as_str() == id)?;
    let unresponsive = input.health.get(id).is_some_and(|health| health.unresponsive);
    if !container.state.is_up() || (unresponsive && matches!(step.cause, Cause::Unhealthy { .. })) {
        return None;
    }
    Some(WaitReason::TestLease {
        case: lease.case.clone(),
        until: lease.until,
    })
}

/// Turns the blocked steps into waits: all of them, or all but the test call of a half-open breaker.
pub(super) fn apply_breakers(input: &PlanInput<'_>, plan: &mut Plan) {
    let breakers = &input.state.breakers;
    let (allowed, on) = match breakers.blocked_by(input.env, input.now) {
        Some(on) => (0, on),
        None => match breakers.half_open_limit(input.env) {
            Some(on) => (1, on),
            None => return,
        },
    };
    let blocked = plan.steps.split_off(allowed.min(plan.steps.len()));
    plan.waits.extend(blocked.into_iter().map(|step| Wait {
        subject: step.subject,
        on: on.clone(),
    }));
}

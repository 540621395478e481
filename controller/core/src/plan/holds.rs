//! Holds, test leases and safe mode: requests that turn steps into waits.

use super::{Plan, PlanInput};
use crate::action::{Action, Cause, Step, Subject};
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
        let Some(on) = hold_wait(input, &step.subject).or_else(|| test_lease_wait(input, step)) else {
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

fn hold_wait(input: &PlanInput<'_>, subject: &Subject) -> Option<WaitReason> {
    if input.accepted.is_some_and(|accepted| accepted.desired.hold) {
        return Some(WaitReason::Held {
            until: None,
            why: "`argus.hold` in its file".to_owned(),
        });
    }
    let hold = match subject {
        Subject::Service { environment, service } => input.requests.hold(environment, service, input.now),
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

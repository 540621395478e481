//! What a plan leaves for later because somebody asked for it: holds, and tests that run.

use super::{Act, Cause, Plan, PlanInput, Step, Subject, Wait, WaitingOn};
use crate::memory::expectation::is_up;

/// Turns the steps that have to wait for a person or a test into waits.
pub(super) fn apply(input: &PlanInput<'_>, plan: &mut Plan) {
    forbid(input, plan);
    let by_file = input.accepted.is_some_and(|accepted| accepted.desired.hold);
    if input.orders.holds.is_empty() && input.orders.leases.is_empty() && !by_file {
        return;
    }
    let mut waits = Vec::new();
    plan.steps.retain(|step| {
        // To take what a run left changes nothing.
        if matches!(step.act, Act::KeepEvidence { .. }) {
            return true;
        }
        let Some(on) = held(input, &step.subject).or_else(|| deferred(input, step)) else {
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

/// What the controller's own state forbids: everything, or to take a thing for a stray.
fn forbid(input: &PlanInput<'_>, plan: &mut Plan) {
    let bans = &input.orders.bans;
    let on = if let Some(why) = &bans.safe {
        WaitingOn::Safe { why: why.clone() }
    } else if input.accepted.is_none() && bans.doubted.contains(input.env) {
        WaitingOn::File
    } else {
        return;
    };
    let wait = |step: Step| Wait {
        subject: step.subject,
        on: on.clone(),
    };
    plan.waits.extend(plan.steps.drain(..).map(wait));
}

fn held(input: &PlanInput<'_>, subject: &Subject) -> Option<WaitingOn> {
    if input.accepted.is_some_and(|accepted| accepted.desired.hold) {
        return Some(WaitingOn::Held {
            until: None,
            why: "`argus.hold` in its file".to_owned(),
        });
    }
    let hold = match subject {
        Subject::Service { environment, service } => input.orders.hold(environment, service, input.now),
        Subject::Network { .. }
        | Subject::Volume { .. }
        | Subject::Image { .. }
        | Subject::StrayContainer { .. }
        | Subject::StrayNetwork { .. } => input.orders.environment_hold(input.env, input.now),
    }?;
    Some(WaitingOn::Held {
        until: hold.until,
        why: hold.reason.clone(),
    })
}

/// A test wants its services left running, unless one of them is of no use to it any more.
fn deferred(input: &PlanInput<'_>, step: &Step) -> Option<WaitingOn> {
    let Subject::Service { .. } = &step.subject else {
        return None;
    };
    let lease = input.orders.lease(input.env, input.now)?;
    let id = match &step.act {
        Act::StopContainer { id, .. } | Act::RemoveContainer { id, .. } => id.as_str(),
        Act::DisconnectNetwork { container, .. } => container.as_str(),
        Act::CreateNetwork { .. }
        | Act::RemoveNetwork { .. }
        | Act::ConnectNetwork { .. }
        | Act::CreateVolume { .. }
        | Act::RemoveVolume { .. }
        | Act::PullImage { .. }
        | Act::BuildImage(_)
        | Act::CreateContainer { .. }
        | Act::StartContainer { .. }
        | Act::UnpauseContainer { .. }
        | Act::RenameContainer { .. }
        | Act::PlaceFile { .. }
        | Act::KeepEvidence { .. } => return None,
    };
    let (id, container) = input
        .observed
        .containers
        .iter()
        .find(|(found, _)| found.as_str() == id)?;
    let dead = input.health.get(id).is_some_and(|health| health.dead);
    if !is_up(container.state) || (dead && matches!(step.because, Cause::Unhealthy { .. })) {
        return None;
    }
    Some(WaitingOn::Deferred {
        case: lease.case.clone(),
        until: lease.until,
    })
}

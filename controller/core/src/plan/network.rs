//! Network of an environment.

use std::sync::Arc;

use super::{Decision, Plan, PlanInput, render};
use crate::action::{Action, Cause, Subject};
use crate::desired::Desired;
use crate::observed::Network;
use crate::wait::WaitingOn;

/// Observed network of the environment.
///
/// An engine may have two networks with one name; the oldest counts.
pub(super) fn find<'a>(input: &PlanInput<'a>, desired: &Desired) -> Option<&'a Arc<Network>> {
    input
        .observed
        .networks
        .values()
        .filter(|network| network.name == desired.network.as_str())
        .min_by_key(|network| (network.created_at, network.id.clone()))
}

pub(super) fn plan(input: &PlanInput<'_>, desired: &Desired, plan: &mut Plan) {
    // An environment without containers needs no network.
    if find(input, desired).is_some() || desired.services.is_empty() {
        return;
    }
    let subject = Subject::Network {
        environment: input.env.clone(),
    };
    let decision = match input.blocked_by(&subject) {
        Some(WaitingOn::NameTaken {
            conflicting_object,
            until,
            ..
        }) => Decision::Wait(input.name_taken(desired.network.to_string(), conflicting_object, until)),
        Some(wait) => Decision::Wait(wait),
        None => match input.check_preflight(desired) {
            Err(wait) => Decision::Wait(wait),
            Ok(()) => Decision::Do(
                Action::CreateNetwork {
                    name: desired.network.clone(),
                    labels: render::labels_of(desired, "network", input.identity, input.now),
                },
                input.cause(&subject, Cause::Missing),
            ),
        },
    };
    plan.add(subject, decision);
}

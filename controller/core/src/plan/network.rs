//! Network of an environment.

use std::sync::Arc;

use super::{Decision, Plan, PlanInput, render};
use crate::action::{Action, Cause, Subject};
use crate::desired::Desired;
use crate::observed::{Container, Network};
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
    let found = find(input, desired);
    // An environment without containers needs no network.
    if found.is_some_and(|network| !network.is_broken) || desired.services.is_empty() {
        return;
    }
    let subject = Subject::Network {
        environment: input.env.clone(),
    };
    let blocked = input.blocked_by(&subject);
    if let Some(broken) = found {
        let decision = match blocked {
            Some(wait) => Decision::Wait(wait),
            None => remove_broken(input, broken),
        };
        plan.add(subject, decision);
        return;
    }
    let decision = match blocked {
        Some(WaitingOn::NameTaken {
            conflicting_object,
            until,
            ..
        }) => Decision::Wait(input.name_taken(desired.network.to_string(), conflicting_object, until)),
        Some(wait) => Decision::Wait(wait),
        None => match input.check_preflight(desired, false) {
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

/// Removes a network without its bridge, once the services have detached their running containers from it.
fn remove_broken(input: &PlanInput<'_>, network: &Network) -> Decision {
    let is_attached = |container: &Arc<Container>| {
        let mut attachments = container.networks.values();
        container.state.is_up() && attachments.any(|at| at.network.as_ref() == Some(&network.id))
    };
    if input.observed.containers.values().any(is_attached) {
        return Decision::Wait(WaitingOn::Containers);
    }
    let action = Action::RemoveNetwork {
        id: network.id.clone(),
        name: network.name.clone(),
    };
    let what = "its bridge is gone".to_owned();
    Decision::Do(action, Cause::Drift { what })
}

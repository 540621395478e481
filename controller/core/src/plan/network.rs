//! Network of an environment.

use std::sync::Arc;

use super::{Decision, Plan, PlanInput, render};
use crate::action::{Action, Cause, Subject};
use crate::desired::Desired;
use crate::labels;
use crate::observed::{Container, Network};
use crate::outcome::ActionError;
use crate::wait::WaitReason;

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

/// Returns the reason to replace the network now. The engine cannot change an existing one.
pub(super) fn find_defect(
    input: &PlanInput<'_>,
    network: &Network,
    desired: &Desired,
) -> Option<&'static str> {
    if network.is_broken {
        return Some("its bridge is gone");
    }
    // A working network goes only if another one can be created, and all services may move to it.
    let is_held = |service| input.requests.hold(input.env, service, input.now).is_some();
    let can_replace =
        || input.check_preflight(desired, true).is_ok() && !desired.services.keys().any(is_held);
    (is_changed(network, desired) && can_replace()).then_some("`network.internal` changed")
}

fn is_changed(network: &Network, desired: &Desired) -> bool {
    network.labels.contains_key(labels::INTERNAL) != desired.internal
}

pub(super) fn plan(input: &PlanInput<'_>, desired: &Desired, plan: &mut Plan) {
    let found = find(input, desired);
    // An environment without containers needs no network.
    let defect = found.map(|network| (network, find_defect(input, network, desired)));
    let subject = Subject::Network {
        environment: input.env.clone(),
    };
    if desired.services.is_empty() {
        return;
    }
    if let Some((network, None)) = defect {
        if is_changed(network, desired)
            && let Err(wait) = input.check_preflight(desired, true)
        {
            plan.add(subject, Decision::Wait(wait));
        }
        return;
    }
    let blocked = input.blocked_by(&subject);
    if let Some((network, Some(defect))) = defect {
        let decision = match blocked {
            Some(wait) => Decision::Wait(wait),
            None => remove_defective(input, network, defect),
        };
        plan.add(subject, decision);
        return;
    }
    let decision = match blocked {
        Some(WaitReason::NameTaken {
            conflicting_object,
            until,
            attempts,
            ..
        }) => {
            let name = desired.network.to_string();
            Decision::Wait(input.name_taken(name, conflicting_object, until, attempts))
        }
        Some(WaitReason::Retry { until, failure })
            if matches!(failure.error, ActionError::PoolExhausted(_)) =>
        {
            Decision::Wait(input.obstacles.range_or(WaitReason::Retry { until, failure }))
        }
        Some(wait) => Decision::Wait(wait),
        None => match check_create(input, desired) {
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

fn check_create(input: &PlanInput<'_>, desired: &Desired) -> Result<(), WaitReason> {
    input.obstacles.check_network(desired.network.as_str())?;
    input.check_preflight(desired, false)
}

/// Removes a defective network, once the services have detached their running containers from it.
fn remove_defective(input: &PlanInput<'_>, network: &Network, defect: &str) -> Decision {
    let is_attached = |container: &Arc<Container>| {
        let mut attachments = container.networks.values();
        container.state.is_up() && attachments.any(|at| at.network.as_ref() == Some(&network.id))
    };
    if input.observed.containers.values().any(is_attached) {
        return Decision::Wait(WaitReason::Containers);
    }
    let action = Action::RemoveNetwork {
        id: network.id.clone(),
        name: network.name.clone(),
    };
    let what = defect.to_owned();
    Decision::Do(action, Cause::Drift { what })
}

//! Network attachment of a container: by the id of the network, with all its aliases.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ServicePlanner;
use crate::action::{Action, Cause};
use crate::connectivity::{ConnectivityCheck, ConnectivityInput};
use crate::observed::{Container, Network};
use crate::plan::{Decision, network};
use crate::wait::WaitReason;

/// Detaches a running container from a network that Argus replaces. The engine removes a network only without such containers.
pub(super) fn leave_defective_network(planner: &ServicePlanner<'_>) -> Option<Decision> {
    let desired = &planner.accepted.desired;
    let network = network::find(planner.input, desired)?;
    let defect = network::find_defect(planner.input, network, desired)?;
    let is_attached = |container: &&Arc<Container>| {
        let attachment = container.networks.get(&network.name);
        container.state.is_up() && attachment.is_some_and(|at| at.network.as_ref() == Some(&network.id))
    };
    let container = planner.owned.iter().copied().find(is_attached)?;
    let what = format!("its network is replaced: {defect}");
    let cause = planner.input.cause(&planner.subject, Cause::Drift { what });
    Some(Decision::Do(disconnect(network, container), cause))
}

fn disconnect(network: &Network, container: &Container) -> Action {
    Action::DisconnectNetwork {
        network: network.name.clone(),
        container: container.id.to_string(),
    }
}

pub(super) fn check(planner: &ServicePlanner<'_>, container: &Container) -> Decision {
    let desired = &planner.accepted.desired;
    let Some(network) = network::find(planner.input, desired) else {
        return Decision::Wait(WaitReason::Network);
    };
    let drift = |what: &str| {
        planner.input.cause(
            &planner.subject,
            Cause::Drift {
                what: what.to_owned(),
            },
        )
    };
    let detach = |what: &str| Decision::Do(disconnect(network, container), drift(what));
    if network::find_defect(planner.input, network, desired).is_some() {
        return Decision::Wait(WaitReason::Network);
    }
    match container.networks.get(&network.name) {
        // The engine lists a container during its creation, before it attaches it.
        None if container.networks.is_empty() && container.inspect.is_none() && !container.state.is_up() => {
            Decision::Wait(WaitReason::Inspection)
        }
        // The engine records the network of a stopped container by name or id as requested, and may not find it later.
        None if !container.state.is_up() => {
            let (id, name) = (container.id.clone(), container.name.clone());
            Decision::Do(Action::RemoveContainer { id, name }, drift("not on its network"))
        }
        None => Decision::Do(
            Action::ConnectNetwork {
                network: network.id.clone(),
                container: container.id.clone(),
                aliases: planner.spec.aliases.clone(),
            },
            drift("not on its network"),
        ),
        // A container that never ran has no network id yet.
        Some(at) if at.network.as_ref().is_some_and(|id| *id != network.id) => {
            if container.state.is_up() {
                detach("on a network that was replaced")
            } else {
                let (id, name) = (container.id.clone(), container.name.clone());
                Decision::Do(
                    Action::RemoveContainer { id, name },
                    drift("its network was replaced"),
                )
            }
        }
        Some(at) => {
            let known = container.inspect.is_some() && !at.aliases.is_empty();
            let has_missing_alias = planner
                .spec
                .aliases
                .iter()
                .any(|alias| !at.aliases.contains(alias));
            if known && has_missing_alias && container.state.is_up() {
                detach("a DNS alias is missing")
            } else if needs_reattach(planner, container) {
                Decision::Do(disconnect(network, container), Cause::Unreachable)
            } else {
                Decision::Settled
            }
        }
    }
}

/// True if the attachment is correct, but a connectivity check shows this container as the most likely cause.
///
/// A reattachment breaks the container's connections. Therefore it never happens during a test or a hold, and happens
/// once per check result.
fn needs_reattach(planner: &ServicePlanner<'_>, container: &Container) -> bool {
    let (input, name) = (planner.input, &planner.service.name);
    let left_alone = input.requests.test_lease(input.env, input.now).is_some()
        || input.requests.hold(input.env, name, input.now).is_some()
        || planner.accepted.desired.hold;
    let is_cause = |check: &&ConnectivityCheck| input.state.next_to_reattach(check) == Some(&container.id);
    let Some(check) = input.connectivity_check.filter(is_cause).filter(|_| !left_alone) else {
        return false;
    };
    // The check can be of an earlier run of this container, or of a peer.
    let hashes = input.rendered.iter();
    let hashes: BTreeMap<_, _> = hashes
        .map(|(name, (_, hash))| (name.clone(), hash.clone()))
        .collect();
    let topology = ConnectivityInput {
        desired: &planner.accepted.desired,
        observed: input.observed,
        hashes: Some(&hashes),
        health: input.health,
        outages: input.outages,
        engine_returned_at: None,
    };
    topology.is_current(check)
}

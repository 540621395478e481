//! Network attachments of a container: by the id of each network, with all aliases.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ServicePlanner;
use crate::action::{Action, Cause};
use crate::connectivity::{ConnectivityCheck, ConnectivityInput, LinkError, LinkResult};
use crate::desired::networks::EnvNetwork;
use crate::ident::{NetworkId, ResourceName};
use crate::observed::{Attachment, Container, ContainerState};
use crate::plan::{Decision, network};
use crate::wait::WaitReason;

/// Detaches a running container from a network that Argus replaces. The engine removes a network only without such containers.
/// This includes the container of an earlier file, which had the service on another network.
pub(super) fn leave_defective_network(planner: &ServicePlanner<'_>) -> Option<Decision> {
    let desired = &planner.accepted.desired;
    let is_used = |network: &EnvNetwork<'_>| desired.services.values().any(|service| service.is_on(network));
    desired.declared_networks().find_map(|network| {
        let found = network::find(planner.input, &network)?;
        let defect = network::find_defect(planner.input, found, &network, desired)?;
        let is_attached = |container: &&Arc<Container>| {
            let attachment = container.networks.get(&found.name);
            container.state.is_up() && attachment.is_some_and(|at| at.network.as_ref() == Some(&found.id))
        };
        let container = planner
            .owned
            .iter()
            .copied()
            .find(is_attached)
            .filter(|_| is_used(&network))?;
        let what = format!("its network is replaced: {defect}");
        let cause = planner.input.cause(&planner.subject, Cause::Drift { what });
        Some(Decision::Do(disconnect(&found.name, container), cause))
    })
}

fn disconnect(network: &str, container: &Container) -> Action {
    Action::DisconnectNetwork {
        network: network.to_owned(),
        container: container.id.to_string(),
    }
}

/// Plans the next action on the attachments: those of all networks, then a reattachment because of a connectivity check.
pub(super) fn check(planner: &ServicePlanner<'_>, container: &Container) -> Decision {
    let desired = &planner.accepted.desired;
    if let Err(wait) = network::check_service(planner.input, desired, planner.service) {
        return Decision::Wait(wait);
    }
    for network in desired.networks_of(planner.service) {
        match check_one(planner, container, &network) {
            Decision::Settled => {}
            decision => return decision,
        }
    }
    match find_suspect(planner, container) {
        Some(network) => Decision::Do(disconnect(network.as_str(), container), Cause::Unreachable),
        None => Decision::Settled,
    }
}

/// Plans the next action on the attachment to one network that exists.
fn check_one(planner: &ServicePlanner<'_>, container: &Container, network: &EnvNetwork<'_>) -> Decision {
    let (name, is_up) = (network.name.as_str(), container.state.is_up());
    let mut attachments = planner.spec.attachments();
    let Some((_, aliases)) = attachments.find(|(attached, _)| *attached == network.name) else {
        return Decision::Settled;
    };
    // The id of an external network is unknown.
    let id = network::find(planner.input, network).map(|found| &found.id);
    let id = id.filter(|_| !network.external);
    let drift = |what: &str| {
        let what = what.to_owned();
        planner.input.cause(&planner.subject, Cause::Drift { what })
    };
    let connect = |cause: Cause| {
        // The engine records the network of a stopped container as requested.
        let requested = id.filter(|_| is_up).map_or(name, NetworkId::as_str);
        let action = Action::ConnectNetwork {
            network: requested.to_owned(),
            container: container.id.clone(),
            aliases: aliases.clone(),
            external: network.external,
        };
        Decision::Do(action, cause)
    };
    let remove = |what: &str| super::remove(container, drift(what));
    match container.networks.get(name) {
        // The engine lists a container during its creation, before it attaches it.
        None if container.networks.is_empty() && container.inspect.is_none() && !is_up => {
            Decision::Wait(WaitReason::Inspection)
        }
        // The create request names one network. The container is connected to the others before its first start.
        None if container.state == ContainerState::Created && *network.name != planner.spec.network => {
            connect(planner.input.cause(&planner.subject, Cause::Missing))
        }
        // The engine records the network of a stopped container by name or id as requested, and may not find it later.
        None if !is_up => remove("not on its network"),
        None => connect(drift("not on its network")),
        // A container that never ran has no network id yet.
        Some(at) if at.network.is_some() && id.is_some_and(|id| at.network.as_ref() != Some(id)) => {
            if is_up {
                let cause = drift("on a network that was replaced");
                Decision::Do(disconnect(name, container), cause)
            } else {
                remove("its network was replaced")
            }
        }
        Some(at) => {
            let known = container.inspect.is_some() && !at.aliases.is_empty();
            let has_missing_alias = aliases.iter().any(|alias| !at.aliases.contains(alias));
            if known && has_missing_alias && is_up {
                Decision::Do(disconnect(name, container), drift("a DNS alias is missing"))
            } else {
                Decision::Settled
            }
        }
    }
}

/// Returns the network whose attachment is correct, but of which a connectivity check shows this container as the most likely cause.
///
/// Of several common networks, this is the one with the address that failed, else the first.
///
/// A reattachment breaks the container's connections. Therefore it never happens during a test or a hold, and happens
/// once per check result.
fn find_suspect<'a>(planner: &ServicePlanner<'a>, container: &Container) -> Option<&'a ResourceName> {
    let (input, name) = (planner.input, &planner.service.name);
    let desired = &planner.accepted.desired;
    let left_alone = input.requests.test_lease(input.env, input.now).is_some()
        || input.requests.hold(input.env, name, input.now).is_some()
        || desired.hold;
    let is_cause = |check: &&ConnectivityCheck| input.state.next_to_reattach(check) == Some(&container.id);
    let check = input
        .connectivity_check
        .filter(is_cause)
        .filter(|_| !left_alone)?;
    // The check can be of an earlier run of this container, or of a peer.
    let hashes = input.rendered.iter();
    let hashes: BTreeMap<_, _> = hashes
        .map(|(name, (_, hash))| (name.clone(), hash.clone()))
        .collect();
    let topology = ConnectivityInput {
        desired,
        observed: input.observed,
        hashes: Some(&hashes),
        health: input.health,
        outages: input.outages,
        engine_returned_at: None,
    };
    if !topology.is_current(check) {
        return None;
    }
    let concerns = |link: &&LinkResult| {
        let is_broken = link.error().is_some_and(LinkError::is_network_error);
        is_broken && (link.from == *name || link.target.to == *name)
    };
    let broken: Vec<&LinkResult> = check.link_results.iter().filter(concerns).collect();
    let is_common = |network: &EnvNetwork<'_>| {
        broken.iter().any(|link| {
            let is_source = link.from == *name;
            let peer = if is_source { &link.target.to } else { &link.from };
            desired.services.get(peer).is_some_and(|peer| peer.is_on(network))
        })
    };
    // A name that did not resolve shows no address.
    let has_failed_address = |network: &&EnvNetwork<'_>| {
        broken.iter().any(|link| {
            let target = topology.container(&link.target.to);
            let at = target.and_then(|target| target.networks.get(network.name.as_str()));
            let failed = link.result.as_ref().map_or(&[][..], |result| &result.addresses);
            at.and_then(Attachment::ip).is_some_and(|ip| failed.contains(&ip))
        })
    };
    let networks = desired.networks_of(planner.service);
    let networks: Vec<EnvNetwork<'_>> = networks.filter(is_common).collect();
    let suspect = networks.iter().find(has_failed_address).or(networks.first());
    suspect.map(|network| network.name)
}

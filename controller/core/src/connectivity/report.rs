//! A look in the words of the status: the matrix, and an error for each link that does not work.

use argus_crds::error::{Call, Code, StructuredError};
use argus_crds::status::{Connectivity, Link};
use serde_json::{Value, json};

use super::{ConnectivityCheck, LinkError, LinkResult, Target, Topology};
use crate::ident::ServiceName;
use crate::observed::{Container, ContainerState};

/// Who reaches whom.
pub fn matrix(look: &ConnectivityCheck) -> Connectivity {
    Connectivity {
        verified: look.is_good(),
        as_of: look.at.to_string(),
        links: look.links.iter().map(link).collect(),
    }
}

fn link(found: &LinkResult) -> Link {
    let error = match &found.result {
        Err(why) => Some(format!("not looked at: {why}")),
        Ok(seen) => seen.error.as_ref().map(words),
    };
    let resolved = |trouble: Option<&LinkError>| trouble.is_none_or(|trouble| !trouble.is_dns_error());
    let (dns, tcp) = match &found.result {
        Err(_) => (false, false),
        Ok(seen) => {
            let connected = seen.error.is_none() && found.target.port.is_some();
            (resolved(seen.error.as_ref()), connected)
        }
    };
    Link {
        from: found.from.to_string(),
        to: found.target.to.to_string(),
        host: found.target.host.clone(),
        port: found.target.port,
        dns,
        tcp,
        error,
    }
}

fn words(trouble: &LinkError) -> String {
    let what = match trouble {
        LinkError::NoSuchName(_) => "no such name",
        LinkError::NoResolver(_) => "the resolver does not answer",
        LinkError::Refused(_) => "connection refused",
        LinkError::TimedOut(_) => "no answer in time",
        LinkError::NoRoute(_) => "no way to it",
    };
    what.to_owned()
}

/// An error for each link that was looked at and does not work, each about the service that asks.
pub fn errors(look: &ConnectivityCheck, scene: &Topology<'_>) -> Vec<StructuredError> {
    let error = |found: &LinkResult| {
        let trouble = found.error()?;
        Some(of(found, trouble, scene).with_call(call(found, trouble)))
    };
    look.links.iter().filter_map(error).collect()
}

/// Whoever asks is stood in for by a helper.
fn call(found: &LinkResult, trouble: &LinkError) -> Call {
    let asked = [
        ("from", json!(found.from)),
        ("host", json!(found.target.host)),
        ("port", json!(found.target.port)),
    ];
    let asked = asked.into_iter().filter(|(_, value)| !value.is_null());
    let arguments = asked.map(|(name, value)| (name.to_owned(), value)).collect();
    Call::new("check-links", arguments).outcome([trouble.describe().to_owned()])
}

fn of(found: &LinkResult, trouble: &LinkError, scene: &Topology<'_>) -> StructuredError {
    let LinkResult {
        from, target: aim, ..
    } = found;
    let Target { to, host, port } = aim;
    let what = words(trouble);
    let state = standing(to, scene);
    let beside = match state {
        "attached" => String::new(),
        "notAttached" => format!("; `{to}` is not on the network"),
        _ => format!("; `{to}` does not run"),
    };
    let mut details = json!({
        "from": from, "to": to, "host": host, "failure": trouble.word(), "said": trouble.describe(),
        "source": { "service": from, "state": standing(from, scene) },
        "target": { "service": to, "state": state },
        "network": scene.network().map(|network| json!({ "name": network.name, "id": network.id })),
        "members": members(scene),
        "topology": topology(scene),
    });
    if trouble.is_dns_error() {
        let message = format!("`{from}` cannot resolve `{host}`: {what}{beside}");
        return StructuredError::new(Code::DnsResolutionFailed, message)
            .service(from.as_str())
            .details(details);
    }
    let addresses = found
        .result
        .as_ref()
        .map(|seen| seen.addresses.clone())
        .unwrap_or_default();
    let (at, port) = (
        addresses
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "),
        port.map(|port| format!(":{port}")).unwrap_or_default(),
    );
    if let Value::Object(map) = &mut details {
        map.insert("port".to_owned(), json!(aim.port));
        map.insert("addresses".to_owned(), json!(addresses));
    }
    let message = format!("`{from}` cannot connect to `{host}{port}` ({at}): {what}{beside}");
    StructuredError::new(Code::NetworkUnreachable, message)
        .service(from.as_str())
        .details(details)
}

/// Whether the container of a service runs, and is on the network.
fn standing(service: &ServiceName, scene: &Topology<'_>) -> &'static str {
    match scene.container(service) {
        None => "notRunning",
        Some(container) if is_member(container, scene) => "attached",
        Some(_) => "notAttached",
    }
}

fn is_member(container: &Container, scene: &Topology<'_>) -> bool {
    let Some(network) = scene.network() else {
        return false;
    };
    let at = container.networks.get(&network.name);
    // A list does not tell the id.
    at.is_some_and(|at| at.network.as_ref().is_none_or(|id| *id == network.id))
}

/// Who of the environment is on its network.
fn members(scene: &Topology<'_>) -> Vec<String> {
    let containers = scene.observed.containers.values();
    let members = containers
        .filter(|container| container.state == ContainerState::Running && is_member(container, scene));
    members.map(|container| container.name.clone()).collect()
}

/// Every container of the environment with what it is attached to.
fn topology(scene: &Topology<'_>) -> Vec<Value> {
    let containers = scene.observed.containers.values();
    let one = |container: &Container| {
        let networks: Vec<Value> = container
            .networks
            .iter()
            .map(|(name, at)| {
                json!({ "name": name, "id": at.network, "address": at.address, "aliases": at.aliases })
            })
            .collect();
        let service = container.owner().and_then(|owner| owner.service);
        json!({ "container": container.name, "service": service, "state": container.state, "networks": networks })
    };
    containers.map(|container| one(container)).collect()
}

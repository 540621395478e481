//! Status documents of a check: the connectivity matrix, and one error per failed link.

use argus_crds::error::{Call, Code, StructuredError};
use argus_crds::status::{Connectivity, Link};
use serde_json::{Value, json};

use super::{ConnectivityCheck, ConnectivityInput, LinkError, LinkResult, Target};
use crate::ident::ServiceName;
use crate::observed::{Container, ContainerState};

/// Returns the connectivity matrix of the status document.
pub fn matrix(check: &ConnectivityCheck) -> Connectivity {
    Connectivity {
        verified: check.is_good(),
        as_of: check.at.to_string(),
        links: check.link_results.iter().map(link).collect(),
    }
}

fn link(link: &LinkResult) -> Link {
    let resolved = |error: Option<&LinkError>| error.is_none_or(|error| !error.is_dns_error());
    let (dns, tcp) = match &link.result {
        Err(_) => (false, false),
        Ok(seen) => {
            let connected = seen.error.is_none() && link.target.port.is_some();
            (resolved(seen.error.as_ref()), connected)
        }
    };
    Link {
        from: link.from.to_string(),
        to: link.target.to.to_string(),
        host: link.target.host.clone(),
        port: link.target.port,
        dns,
        tcp,
        error: link.error().map(cause_text),
        unverified: link.result.as_ref().err().cloned(),
    }
}

fn cause_text(error: &LinkError) -> String {
    let what = match error {
        LinkError::NoSuchName(_) => "no such name",
        LinkError::NoResolver(_) => "the resolver does not respond",
        LinkError::Refused(_) => "connection refused",
        LinkError::TimedOut(_) => "no response in time",
        LinkError::NoRoute(_) => "no route to the host",
    };
    what.to_owned()
}

/// Returns one error per failed link; its subject is the service that opens the connection.
pub fn errors(check: &ConnectivityCheck, input: &ConnectivityInput<'_>) -> Vec<StructuredError> {
    let links = check.link_results.iter();
    links.filter_map(|link| error_of(link, input)).collect()
}

/// Returns the error of a link; `None` for a working or unchecked one.
pub fn error_of(link: &LinkResult, input: &ConnectivityInput<'_>) -> Option<StructuredError> {
    let error = link.error()?;
    Some(link_error(link, error, input).with_call(call(link, error)))
}

/// Returns the call trace of a check; a helper container connects in place of the service.
fn call(link: &LinkResult, error: &LinkError) -> Call {
    let arguments = json!({ "from": link.from, "host": link.target.host, "port": link.target.port });
    Call::new("check-links", arguments).outcome([error.describe().to_owned()])
}

fn link_error(link: &LinkResult, error: &LinkError, input: &ConnectivityInput<'_>) -> StructuredError {
    let LinkResult { from, target, .. } = link;
    let Target { to, host, port } = target;
    let what = cause_text(error);
    let state = attachment_state(to, input);
    let target_state = match state {
        "attached" => String::new(),
        "notAttached" => format!("; `{to}` is not on the network"),
        _ => format!("; `{to}` is not running"),
    };
    let mut details = json!({
        "from": from, "to": to, "host": host, "failure": error.word(), "message": error.describe(),
        "source": { "service": from, "state": attachment_state(from, input) },
        "target": { "service": to, "state": state },
        "network": input.network_of(from).map(|network| json!({ "name": network.name, "id": network.id })),
        "members": members(from, input, link),
        "topology": topology(input),
    });
    if error.is_dns_error() {
        let message = format!("`{from}` cannot resolve `{host}`: {what}{target_state}");
        return StructuredError::new(Code::DnsResolutionFailed, message)
            .service(from.as_str())
            .details(details);
    }
    let addresses = link
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
        map.insert("port".to_owned(), json!(target.port));
        map.insert("addresses".to_owned(), json!(addresses));
    }
    let message = format!("`{from}` cannot connect to `{host}{port}` ({at}): {what}{target_state}");
    StructuredError::new(Code::NetworkUnreachable, message)
        .service(from.as_str())
        .details(details)
}

/// Returns `attached`, `notAttached` or `notRunning` for the container of a service.
fn attachment_state(service: &ServiceName, input: &ConnectivityInput<'_>) -> &'static str {
    match input.container(service) {
        None => "notRunning",
        Some(container) if is_member(container, service, input) => "attached",
        Some(_) => "notAttached",
    }
}

/// Returns whether a container is on the first network of a service.
fn is_member(container: &Container, service: &ServiceName, input: &ConnectivityInput<'_>) -> bool {
    let Some(network) = input.network_of(service) else {
        return false;
    };
    let at = container.networks.get(&network.name);
    // A list does not contain the network id.
    at.is_some_and(|at| at.network.as_ref().is_none_or(|id| *id == network.id))
}

/// Returns the names of the running containers on the network of a service, and then those of other owners. The latter can have a name
/// that a service looks up.
fn members(service: &ServiceName, input: &ConnectivityInput<'_>, link: &LinkResult) -> Vec<String> {
    let containers = input.observed.containers.values();
    let own = containers.filter(|container| {
        container.state == ContainerState::Running && is_member(container, service, input)
    });
    let mut members: Vec<String> = own.map(|container| container.name.clone()).collect();
    let all = link.result.as_ref().map(|seen| seen.members.as_slice());
    for name in all.unwrap_or_default() {
        if !members.contains(name) {
            members.push(name.clone());
        }
    }
    members
}

/// Returns every container of the environment with its network attachments.
fn topology(input: &ConnectivityInput<'_>) -> Vec<Value> {
    let containers = input.observed.containers.values();
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

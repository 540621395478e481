//! Addresses of siblings: names that do not exist, and ports on which no sibling listens.

use argus_crds::error::SpecEdit;

use super::case::{Case, ports_in};
use crate::desired::Service;
use crate::desired::hosts::{dns_names, hosts};
use crate::desired::suggest::closest;
use crate::secrets::is_secret;

/// Parts of a message about a name that DNS does not know, in lower case.
const UNRESOLVED: [&str; 9] = [
    "enotfound",
    "eai_again",
    "no such host",
    "could not translate host name",
    "name or service not known",
    "temporary failure in name resolution",
    "host not found",
    "unknownhostexception",
    "nodename nor servname",
];

/// Name that is similar to the name of a sibling, in a variable or in the command.
pub(super) fn unknown_host(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&UNRESOLVED)?;
    let service = case.context.service;
    let names = dns_names(case.context.accepted.desired.services.values());
    let others = || {
        names
            .iter()
            .copied()
            .filter(|name| *name != service.name.as_str())
    };
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c));
    let used = |word: &str| {
        let in_variable = service
            .env_vars
            .iter()
            .find(|(name, value)| !is_secret(name) && names_host(value, word));
        let in_command = || {
            let mut words = service.command.iter().flatten();
            words.any(|text| text.contains(word))
        };
        match in_variable {
            Some((name, _)) => Some(format!("container.environment.{name}")),
            None => in_command().then(|| "command".to_owned()),
        }
    };
    words
        .filter(|word| word.len() >= 2 && !names.contains(word))
        .find_map(|word| {
            let dashed = word.replace('_', "-");
            let meant = others()
                .find(|name| *name == dashed)
                .or_else(|| closest(word, others()))?;
            let reason = format!("`{word}` is not a name of this environment");
            Some(case.context.edit(&used(word)?, reason).now(word).suggest(meant))
        })
}

/// Variable with a port on which the sibling does not listen, or with `localhost` for a sibling.
pub(super) fn refused(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&["econnrefused", "connection refused", "actively refused"])?;
    let named: Vec<u16> = ports_in(line).collect();
    let services = &case.context.accepted.desired.services;
    let own = case.context.service;
    let variables = own.env_vars.iter().filter(|(name, _)| !is_secret(name));
    variables
        .flat_map(|(name, value)| hosts(value).into_iter().map(move |found| (name, found)))
        .find_map(|(name, (host, port))| {
            let port = port.filter(|port| named.is_empty() || named.contains(port))?;
            let key = format!("container.environment.{name}");
            let mut siblings = services.values().filter(|sibling| sibling.name != own.name);
            if ["localhost", "127.0.0.1"].contains(&host) {
                let sibling = siblings.find(|sibling| ports(sibling).contains(&port))?;
                let is_own = ports(own).contains(&port);
                let reason = format!(
                    "`{host}` is the container itself; `{}` has the port {port}",
                    sibling.name
                );
                let edit = case
                    .context
                    .edit(&key, reason)
                    .now(host)
                    .suggest(sibling.name.as_str());
                return (!is_own).then_some(edit);
            }
            let sibling = siblings.find(|sibling| dns_names([*sibling].into_iter()).contains(host))?;
            let [listening] = ports(sibling)[..] else {
                return None;
            };
            let reason = format!("`{}` has the port {listening}", sibling.name);
            let edit = case.context.edit(&key, reason);
            is_misspelled(port, listening).then(|| edit.now(port.to_string()).suggest(listening.to_string()))
        })
}

/// Returns whether two ports differ in one digit. A sibling may listen on more ports than its health check names, so another port is no
/// mistake for that reason alone.
fn is_misspelled(port: u16, listening: u16) -> bool {
    let (one, other) = (port.to_string(), listening.to_string());
    let differing = one.bytes().zip(other.bytes()).filter(|(a, b)| a != b).count();
    one.len() == other.len() && differing == 1
}

fn names_host(value: &str, host: &str) -> bool {
    hosts(value).iter().any(|(name, _)| *name == host)
}

/// Ports of a service inside its container, from its health check and its published ports.
fn ports(service: &Service) -> Vec<u16> {
    let probed = service.probe.as_ref().and_then(|probe| probe.kind.port());
    let mut all: Vec<u16> = service
        .ports
        .iter()
        .map(|port| port.container)
        .chain(probed)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

//! Addresses of siblings: names that do not exist, and ports on which no sibling listens.

use argus_crds::error::SpecEdit;

use super::EditContext;
use super::case::{Case, contains, ports_in};
use crate::desired::Service;
use crate::desired::hosts::{dns_names, hosts};
use crate::desired::suggest::closest;
use crate::secrets::is_secret;
use crate::time::Timestamp;

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
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
    // A name with a dot is one of a module or outside of the environment.
    let words = words
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !word.contains('.'));
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

/// Parts of a message about a connection that nothing accepts, in lower case.
const REFUSED: [&str; 3] = ["econnrefused", "connection refused", "actively refused"];

/// Variable with a port on which the sibling does not listen, or with `localhost` for a sibling.
pub(super) fn refused(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&REFUSED)?;
    let services = &case.context.accepted.desired.services;
    let own = case.context.service;
    named_addresses(case, line).find_map(|(name, host, port)| {
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
        let sibling = siblings.find(|sibling| is_name_of(sibling, host))?;
        let [listening] = ports(sibling)[..] else {
            return None;
        };
        // Its health check succeeds on another port, so it refused this one.
        let was_healthy = healthy_since(case, sibling).is_some_and(|since| since <= case.run.at);
        let is_refuted = was_healthy && ports_in(line).any(|named| named == port);
        let is_wrong = port != listening && (is_refuted || is_misspelled(port, listening));
        let reason = format!("`{}` has the port {listening}", sibling.name);
        let edit = case.context.edit(&key, reason);
        is_wrong.then(|| edit.now(port.to_string()).suggest(listening.to_string()))
    })
}

/// Listen address of a sibling that accepts connections only from its own container.
pub(super) fn local_sibling(case: &Case<'_>) -> Option<SpecEdit> {
    const LOCAL: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
    let line = case.line_with(&REFUSED)?;
    let own = case.context.service;
    named_addresses(case, line).find_map(|(_, host, port)| {
        let mut siblings = case.context.accepted.desired.services.values();
        let sibling = siblings.find(|sibling| sibling.name != own.name && is_name_of(sibling, host))?;
        let context = EditContext {
            service: sibling,
            ..case.context
        };
        let (key, local) = context.listen_address(port, &LOCAL)?;
        let reason = format!(
            "`{}` listens on port {port} only inside its container",
            sibling.name
        );
        Some(context.edit(&key, reason).now(local).suggest("0.0.0.0"))
    })
}

/// Dependency that the file does not declare: the sibling became healthy after the program had ended.
pub(super) fn missing_dependency(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&REFUSED).or_else(|| case.line_with(&UNRESOLVED))?;
    let own = case.context.service;
    let desired = &case.context.accepted.desired;
    let is_declared = |sibling: &Service| {
        let mut needs = own.depends_on.iter();
        needs.any(|need| need.service == sibling.name)
    };
    let is_late = |sibling: &Service| healthy_since(case, sibling).is_some_and(|since| since > case.run.at);
    let is_named = |sibling: &Service| {
        let mut variables = own.env_vars.iter().filter(|(name, _)| !is_secret(name));
        let in_variable = variables.any(|(_, value)| {
            hosts(value).into_iter().any(|(host, port)| {
                let mut named = ports_in(line).peekable();
                let is_meant =
                    named.peek().is_none() || port.is_none_or(|port| named.any(|named| named == port));
                is_meant && is_name_of(sibling, host)
            })
        });
        let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
        in_variable || words.any(|word| is_name_of(sibling, word))
    };
    let mut siblings = desired
        .services
        .values()
        .filter(|sibling| sibling.name != own.name);
    let sibling = siblings.find(|sibling| {
        sibling.probe.is_some() && !is_declared(sibling) && is_late(sibling) && is_named(sibling)
    })?;
    let reason = format!("`{}` was not healthy yet when the process ended", sibling.name);
    let edit = case.context.edit("dependsOn", reason);
    if case.context.accepted.lines.is_compose() || !own.depends_on.is_empty() {
        return Some(edit.hint(format!("add `{}` with the condition `healthy`", sibling.name)));
    }
    Some(edit.suggest(format!("[{}]", sibling.name)))
}

/// Two listeners of one container on the same port.
pub(super) fn address_in_use(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&["address already in use", "eaddrinuse", "address in use"])?;
    let named: Vec<u16> = ports_in(line).collect();
    let variables = &case.context.service.env_vars;
    let listeners: Vec<(&str, u16)> = variables
        .iter()
        .filter(|(name, _)| name.to_uppercase().split('_').any(|part| part == "PORT"))
        .filter_map(|(name, value)| Some((name.as_str(), value.parse().ok()?)))
        .collect();
    let is_same = |(one, port): &(&str, u16)| {
        let mut others = listeners.iter().filter(|(other, _)| other != one);
        named.contains(port) && others.any(|(_, other)| other == port)
    };
    // The main port has the shortest name.
    let (name, port) = *listeners
        .iter()
        .filter(|listener| is_same(listener))
        .max_by_key(|(name, _)| name.len())?;
    let (other, _) = listeners
        .iter()
        .find(|(other, known)| *other != name && *known == port)?;
    let mut free =
        (port.checked_add(1)?..=u16::MAX).filter(|free| listeners.iter().all(|(_, used)| used != free));
    let reason = format!("`{other}` has the same port, so one of its two listeners fails");
    let key = format!("container.environment.{name}");
    let edit = case.context.edit(&key, reason).now(port.to_string());
    Some(edit.suggest(free.next()?.to_string()))
}

/// Parts of a message about TLS with a server that does not use it, in lower case.
const PLAIN_SERVER: [&str; 6] = [
    "server gave http response to https client",
    "wrong version number",
    "first record does not look like a tls handshake",
    "record_too_long",
    "unrecognized ssl message",
    "packet length too long",
];

/// Parts of a message about a request without TLS to a server that requires it, in lower case.
const TLS_SERVER: [&str; 2] = [
    "client sent an http request to an https server",
    "plain http request was sent to https port",
];

/// Address of a sibling whose scheme does not fit the server.
pub(super) fn scheme(case: &Case<'_>) -> Option<SpecEdit> {
    const SCHEMES: [(&str, &str); 4] = [
        ("https://", "http://"),
        ("wss://", "ws://"),
        ("rediss://", "redis://"),
        ("amqps://", "amqp://"),
    ];
    // The client of a server wrote nonsense.
    let of_server = |line: &str| contains(line, &["tls handshake error from"]);
    let line_with = |parts: &[&str]| {
        let mut lines = case.lines();
        lines.find(|line| contains(line, parts) && !of_server(line))
    };
    let plain = line_with(&PLAIN_SERVER);
    let is_plain = plain.is_some();
    let line = plain.or_else(|| line_with(&TLS_SERVER))?;
    let own = case.context.service;
    let services = &case.context.accepted.desired.services;
    let of_sibling = |value: &str| {
        let found = hosts(value);
        let mut siblings = services.values().filter(|sibling| sibling.name != own.name);
        siblings.find(|sibling| found.iter().any(|(host, _)| is_name_of(sibling, host)))
    };
    let change = |value: &str| {
        let mut pairs = SCHEMES
            .into_iter()
            .map(|(tls, plain)| if is_plain { (tls, plain) } else { (plain, tls) });
        pairs.find(|(now, _)| value.starts_with(now))
    };
    let is_only = own
        .env_vars
        .values()
        .filter(|value| change(value).is_some())
        .count()
        == 1;
    let is_named = |value: &str| {
        hosts(value).into_iter().any(|(host, port)| {
            let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
            words.any(|word| word == host)
                || port.is_some_and(|port| ports_in(line).any(|named| named == port))
        })
    };
    own.env_vars
        .iter()
        .filter(|(name, value)| !is_secret(name) && (is_only || is_named(value)))
        .find_map(|(name, value)| {
            let (now, needed) = change(value)?;
            let sibling = of_sibling(value)?;
            let spoken = if is_plain {
                "does not use TLS"
            } else {
                "accepts only TLS"
            };
            let reason = format!("`{}` {spoken}", sibling.name);
            let key = format!("container.environment.{name}");
            Some(case.context.edit(&key, reason).now(now).suggest(needed))
        })
}

/// TLS that a database does not have.
pub(super) fn database_tls(case: &Case<'_>) -> Option<SpecEdit> {
    const MODES: [&str; 4] = ["verify-full", "verify-ca", "require", "prefer"];
    case.line_with(&[
        "server does not support ssl",
        "ssl is not enabled on the server",
        "server does not support tls",
        "does not support ssl connections",
    ])?;
    let variables = case.context.service.env_vars.iter();
    variables
        .filter(|(name, _)| !is_secret(name))
        .find_map(|(name, value)| {
            let key = format!("container.environment.{name}");
            let edit = case
                .context
                .edit(&key, "its database does not use TLS".to_owned());
            if let Some((_, rest)) = value.split_once("sslmode=") {
                let mode = MODES.into_iter().find(|mode| rest.starts_with(mode))?;
                return Some(edit.now(format!("sslmode={mode}")).suggest("sslmode=disable"));
            }
            let is_mode = name.to_uppercase().ends_with("SSLMODE") && MODES.contains(&value.as_str());
            is_mode.then(|| edit.now(value.as_str()).suggest("disable"))
        })
}

/// Addresses in variables whose port a line names, or all if it names none: variable, host and port.
fn named_addresses<'a>(
    case: &Case<'a>,
    line: &str,
) -> impl Iterator<Item = (&'a str, &'a str, u16)> + use<'a> {
    let named: Vec<u16> = ports_in(line).collect();
    let variables = case.context.service.env_vars.iter();
    variables
        .filter(|(name, _)| !is_secret(name))
        .flat_map(|(name, value)| {
            let found = hosts(value).into_iter();
            found.map(move |(host, port)| (name.as_str(), host, port))
        })
        .filter_map(move |(name, host, port)| {
            let port = port.filter(|port| named.is_empty() || named.contains(port))?;
            Some((name, host, port))
        })
}

fn is_name_of(sibling: &Service, host: &str) -> bool {
    dns_names([sibling].into_iter()).contains(host)
}

/// Time since which a sibling is healthy.
fn healthy_since(case: &Case<'_>, sibling: &Service) -> Option<Timestamp> {
    let history = case.context.history.service(&sibling.name)?;
    history.healthy_run.as_ref().map(|run| run.since)
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

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;

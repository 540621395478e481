//! Siblings whose own keys are the cause: without a health check, or with an address that only they can use.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, unambiguous};
use super::classes::{ANSWERED, LATE, REFUSED, STARTING, UNRESOLVED};
use super::images::main_port;
use super::network::{is_name_of, meant_service, named_addresses, ports, siblings};
use crate::desired::hosts::hosts;
use crate::desired::networks::DEFAULT;
use crate::desired::{Condition, Service};
use crate::failed_run::host_view::differs_by_one_error;
use crate::secrets::is_secret;

/// Health checks of well-known images.
const CHECKS: [(&str, &str); 2] = [
    ("postgres", "{ type: exec, command: [pg_isready, -h, 127.0.0.1] }"),
    ("redis", "{ type: exec, command: [redis-cli, ping] }"),
];

/// Dependency without a health check, so that the service starts before it accepts connections.
pub(super) fn no_health_check(case: &Case<'_>) -> Option<SpecEdit> {
    let starting = case.line_with(&STARTING);
    let refused = || case.line_with(&REFUSED).filter(|line| !contains(line, &ANSWERED));
    let line = starting.or_else(refused)?;
    let needs = &case.context.service.depends_on;
    // A client without a port uses that of the image.
    let hosts_of = |(name, value): (&'_ String, &'_ String)| -> Vec<(String, u16)> {
        let found = hosts(value).into_iter().filter(|_| !is_secret(name));
        let bare = found.filter(|(_, port)| port.is_none()).map(|(host, _)| host);
        let of_host = |host: &str| siblings(case).find(|sibling| is_name_of(sibling, host));
        bare.filter_map(|host| Some((host.to_owned(), main_port(of_host(host)?)?)))
            .collect()
    };
    let named = named_addresses(case, line).map(|(_, host, port)| (host.to_owned(), port));
    let bare = case.context.service.env_vars.iter().flat_map(hosts_of);
    let (sibling, port) = named.chain(bare).find_map(|(host, port)| {
        let sibling = siblings(case).find(|sibling| is_name_of(sibling, &host))?;
        let mut needs = needs.iter();
        let is_waited =
            needs.any(|need| need.service == sibling.name && need.condition == Condition::Healthy);
        let known = ports(sibling);
        let is_port = known.is_empty() || known.contains(&port);
        (is_waited && is_port && sibling.probe.is_none()).then_some((sibling, port))
    })?;
    let reason = format!(
        "without a health check, nothing waits until `{}` accepts connections",
        sibling.name
    );
    let edit = case
        .context
        .with_service(sibling)
        .edit("container.healthcheck", reason);
    if case.context.accepted.lines.is_compose() {
        return Some(edit.hint("write a test of its connections"));
    }
    let image = sibling.image.reference();
    let image = image.rsplit('/').next().unwrap_or_default();
    let image = image.split([':', '@']).next().unwrap_or_default();
    let known = CHECKS.iter().find(|(name, _)| image == *name);
    let check = known.map_or_else(
        || format!("{{ type: tcp, port: {port} }}"),
        |(_, check)| (*check).to_owned(),
    );
    Some(edit.suggest(check))
}

/// Sibling whose name is right, but that has no network in common with the service.
pub(super) fn other_network(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&UNRESOLVED)?;
    let networks = |service: &Service| -> Vec<String> {
        let listed = service.networks.keys().map(ToString::to_string);
        let all: Vec<String> = listed.collect();
        if all.is_empty() {
            vec![DEFAULT.to_owned()]
        } else {
            all
        }
    };
    let own = networks(case.context.service);
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c));
    let sibling = words.find_map(|word| siblings(case).find(|sibling| is_name_of(sibling, word)))?;
    let theirs = networks(sibling);
    if theirs.iter().any(|name| own.contains(name)) {
        return None;
    }
    let reason = format!(
        "`{}` is only in the network `{}`",
        sibling.name,
        theirs.join("`, `")
    );
    let edit = case.context.edit("container.networks", reason);
    let all = [own, theirs.into_iter().take(1).collect()].concat();
    Some(edit.suggest(format!("[{}]", all.join(", "))))
}

/// Name of the sibling that a variable means by its own name, or by the scheme of its address.
pub(super) fn of_variable<'a>(case: &Case<'a>, name: &str, value: &str) -> Option<&'a str> {
    parts! {
        /// Parts of names that mean no sibling, in lower case.
        GENERAL: "host" "hosts" "hostname" "url" "uri" "server" "servers" "addr" "address" "endpoint" "port" "base" "app"
            "service" "http" "https" "name" "public" "internal" "tcp" "main" "connection" "string" "default" "primary";
    }
    let lower = name.to_lowercase();
    let scheme = value.split_once("://").map(|(scheme, _)| scheme.to_lowercase());
    let parts = lower.split(['_', '.']).chain(scheme.as_deref());
    let mut parts = parts.filter(|part| part.len() >= 2 && !GENERAL.contains(part));
    let sibling = parts.find_map(|part| meant_service(case, part, None))?;
    Some(sibling.name.as_str())
}

/// Value of a variable that does not exist, and that differs only by its writing from a name of a sibling.
pub(super) fn other_value(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        ABSENT: "does not exist" "doesn't exist" "not found" "no such" "unknown" "nosuch" "could not find";
        /// Kinds of what a server creates, which some messages name without the name itself.
        KINDS: "bucket" "topic" "queue" "stream" "index" "collection" "realm" "keyspace" "vhost" "exchange";
    }
    let line = case
        .line_with(ABSENT)
        .filter(|line| !contains(line, &["database"]) && !contains(line, &UNRESOLVED))?;
    let is_end = |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c);
    let public = |service: &'_ Service| -> Vec<String> {
        let variables = service.env_vars.iter().filter(|(name, _)| !is_secret(name));
        let words = service.entrypoint.iter().chain(&service.command).flatten();
        let texts = variables.map(|(_, value)| value).chain(words);
        texts
            .flat_map(|text| text.split(is_end))
            .map(str::to_owned)
            .collect()
    };
    let theirs: Vec<String> = siblings(case).flat_map(public).collect();
    let bare = |text: &str| text.replace(['-', '_', '.'], "").to_lowercase();
    let variables = case.context.service.env_vars.iter();
    variables
        .filter(|(name, _)| !is_secret(name))
        .find_map(|(name, value)| {
            let is_meant = |word: &&str| {
                let is_kind = KINDS
                    .iter()
                    .any(|kind| contains(name, &[*kind]) && contains(line, &[*kind]));
                let is_named = || {
                    line.split(is_end)
                        .any(|named| named.trim_end_matches('.') == *word)
                };
                word.len() >= 4 && theirs.iter().all(|other| other != word) && (is_kind || is_named())
            };
            let (word, meant) = value.split(is_end).filter(is_meant).find_map(|word| {
                let is_similar =
                    |other: &&String| bare(other) == bare(word) || differs_by_one_error(other, word);
                Some((word, theirs.iter().find(is_similar)?))
            })?;
            let reason = format!("`{word}` does not exist, and a sibling names `{meant}`");
            let (now, meant) = unambiguous(value, word, meant);
            Some(case.variable(name, reason).now(now).suggest(meant))
        })
}

/// Listener of Kafka that its advertised addresses name, and its own addresses do not.
pub(super) fn undefined_listener(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&["listener names must be equal to or a subset of"])?;
    let variables = &case.context.service.env_vars;
    let (advertised, addresses) = variables
        .iter()
        .find(|(name, _)| name.contains("ADVERTISED_LISTENERS"))?;
    let own = advertised.replacen("ADVERTISED_", "", 1);
    let value = variables.get(&own)?;
    let name_of = |address: &'_ str| address.trim().split_once("://").map(|(name, _)| name.to_owned());
    let defined: Vec<String> = value.split(',').filter_map(name_of).collect();
    let mut addresses = addresses.split(',');
    let (name, port) = addresses.find_map(|address| {
        let (name, rest) = address.trim().split_once("://")?;
        let is_missing = line.contains(name) && defined.iter().all(|defined| defined != name);
        Some((name, rest.rsplit_once(':')?.1)).filter(|_| is_missing)
    })?;
    // The port of the host can be a reference to the one of the container.
    let port: u16 = port
        .trim_end_matches(['}', ' '])
        .rsplit('.')
        .next()?
        .parse()
        .ok()?;
    let mut published = case.context.service.ports.iter();
    let port = published
        .find(|known| known.requested == Some(port))
        .map_or(port, |known| known.container);
    let reason = format!("`{advertised}` names the listener `{name}`, and `{own}` does not define it");
    let is_taken = |address: &str| address.trim().ends_with(&format!(":{port}"));
    if value.split(',').any(is_taken) {
        let hint = format!("give `{name}` a port of its own, and define it in `{own}`");
        return Some(case.variable(advertised, reason).hint(hint));
    }
    let edit = case.variable(&own, reason).now(value);
    Some(edit.suggest(format!("{value},{name}://:{port}")))
}

/// Address that a sibling sends to its clients, such as a broker of Kafka, and that means the client itself.
pub(super) fn advertised_address(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(&REFUSED).or_else(|| case.line_with(&LATE))?;
    named_addresses(case, "").find_map(|(_, host, port)| {
        let sibling = siblings(case).find(|sibling| is_name_of(sibling, host))?;
        let variables = sibling.env_vars.iter();
        let mut advertised = variables.filter(|(name, _)| name.contains("ADVERTISED"));
        let (name, local) = advertised.find_map(|(name, value)| {
            let mut found = hosts(value).into_iter();
            let is_local = |host: &str| ["localhost", "127.0.0.1"].contains(&host);
            let (local, _) = found.find(|(host, own)| is_local(host) && *own == Some(port))?;
            Some((name, local))
        })?;
        let reason = format!(
            "`{}` sends `{local}` to its clients, which is the client itself",
            sibling.name
        );
        let key = format!("container.environment.{name}");
        let edit = case.context.with_service(sibling).edit(&key, reason);
        Some(
            edit.now(format!("{local}:{port}"))
                .suggest(format!("{host}:{port}")),
        )
    })
}

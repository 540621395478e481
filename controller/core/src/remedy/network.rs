//! Addresses of siblings: names that do not exist, and ports on which no sibling listens.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_plain, paths, ports_in, quoted, unambiguous};
use super::files::number_in;
use crate::desired::Service;
use crate::desired::hosts::{dns_names, hosts};
use crate::desired::suggest::closest;
use crate::secrets::is_secret;
use crate::time::Timestamp;

parts! {
    /// Parts of a message about a database without TLS, in lower case.
    NO_TLS: "server does not support ssl" "ssl is not enabled on the server" "server does not support tls"
        "does not support ssl connections";
    /// Parts of a message about a name that DNS does not know, in lower case.
    pub(super) UNRESOLVED: " enotfound" "eai_again" "no such host" "could not translate host name"
        "name or service not known" "temporary failure in name resolution" "could not resolve address" "host not found"
        "unknownhostexception" "nodename nor servname";
}

/// Name in a variable, in the command or in a mounted file that means a sibling.
pub(super) fn unknown_host(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(UNRESOLVED)?;
    let service = case.context.service;
    let names = dns_names(case.context.accepted.desired.services.values());
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
    // A name with a dot is one of a module or outside of the environment.
    let mut words = words
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !word.contains('.') && word.len() >= 2 && !names.contains(word));
    // The same word can be the kind of a database, such as in `DB_CONNECTION`.
    let is_address = |name: &str, value: &str| {
        let is_named = ["HOST", "ADDR", "SERVER", "URL", "URI"]
            .iter()
            .any(|part| name.contains(part));
        is_named || value.contains(':')
    };
    let in_variable = |word: &str| {
        let variables = service.env_vars.iter();
        let variables = variables.filter(|(name, value)| !is_secret(name) && names_host(value, word));
        let (name, value) = variables.min_by_key(|(name, value)| !is_address(&name.to_uppercase(), value))?;
        let (_, port) = hosts(value).into_iter().find(|(host, _)| *host == word)?;
        let (now, meant) = unambiguous(value, word, meant(case, word, port)?);
        Some((format!("container.environment.{name}"), now, meant))
    };
    let in_command = |word: &str| {
        let mut texts = service.command.iter().flatten();
        let is_used = texts.any(|text| text.contains(word));
        let meant = similar(case, word).filter(|_| is_used)?;
        Some(("command".to_owned(), word.to_owned(), meant.to_owned()))
    };
    let found = words.find_map(|word| {
        let (key, now, meant) = in_variable(word).or_else(|| in_command(word))?;
        let reason = format!("`{word}` is not a name of this environment");
        Some(case.context.edit(&key, reason).now(now).suggest(meant))
    });
    found.or_else(|| host_in_file(case, line))
}

/// Mounted file with a name that is not one of the environment.
fn host_in_file(case: &Case<'_>, line: &str) -> Option<SpecEdit> {
    let (path, file) = paths(line).find_map(|path| Some((path, case.host_file(path)?)))?;
    // A name with a dot is one outside of the environment.
    let is_name = |host: &str| is_plain(host) && !host.contains(['.', '/']);
    let mut found = quoted(line).filter_map(|text| hosts(text).first().copied());
    let (host, port) = found.find(|(host, _)| is_name(host))?;
    let names = dns_names(siblings(case));
    // A sibling without a running container has a name that cannot be resolved.
    if names.contains(host) || names.is_empty() {
        return None;
    }
    let instead = meant(case, host, port).map_or_else(
        || "the name of a service".to_owned(),
        |meant| format!("`{meant}`"),
    );
    let (_, rest) = line.split_once(path)?;
    let reason = format!("`{host}` is not a name of this environment");
    let hint = format!("write {instead} instead of `{host}`, then `argus_retry`");
    Some(Case::host_edit(file, reason, hint).line(number_in(rest)))
}

/// Name of the sibling that an unknown name means: a similar one, that of its image, or the only one with the port.
fn meant<'a>(case: &Case<'a>, word: &str, port: Option<u16>) -> Option<&'a str> {
    let only = |fits: &dyn Fn(&Service) -> bool| {
        let mut found = siblings(case).filter(|sibling| fits(sibling));
        let first = found.next().filter(|_| found.next().is_none())?;
        Some(first.name.as_str())
    };
    let is_of_image = |sibling: &Service| {
        let name = sibling.image.reference().rsplit('/').next().unwrap_or_default();
        let name = name.split([':', '@']).next().unwrap_or_default();
        word.len() >= 4 && name.len() >= 4 && (name.starts_with(word) || word.starts_with(name))
    };
    let has_port = |sibling: &Service| port.is_some_and(|port| ports(sibling).contains(&port));
    similar(case, word)
        .or_else(|| only(&is_of_image))
        .or_else(|| only(&has_port))
}

/// Name of a sibling that is similar to a word.
fn similar<'a>(case: &Case<'a>, word: &str) -> Option<&'a str> {
    let names = dns_names(siblings(case));
    let dashed = word.replace('_', "-");
    let names = || names.iter().copied();
    names()
        .find(|name| *name == dashed)
        .or_else(|| closest(word, names()))
}

/// The other services of the environment.
pub(super) fn siblings<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a Service> + use<'a> {
    let own = case.context.service;
    let services = case.context.accepted.desired.services.values();
    services.filter(move |sibling| sibling.name != own.name)
}

parts! {
    /// Parts of a message about a connection that nothing accepts, in lower case.
    pub(super) REFUSED: "econnrefused" "connection refused" "actively refused" "can't reach database server"
        "couldn't connect to server" "unable to connect to" "failed to connect to";
}

/// Variable with a port on which the sibling does not listen, or with `localhost` for a sibling.
pub(super) fn refused(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(REFUSED)?;
    let own = case.context.service;
    named_addresses(case, line).find_map(|(name, host, port)| {
        let key = format!("container.environment.{name}");
        let mut siblings = siblings(case);
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
    let line = case.line_with(REFUSED)?;
    named_addresses(case, line).find_map(|(_, host, port)| {
        let sibling = siblings(case).find(|sibling| is_name_of(sibling, host))?;
        let context = case.context.with_service(sibling);
        let (key, local) = context.listen_address(port, &LOCAL)?;
        let reason = format!(
            "`{}` listens on port {port} only inside its container",
            sibling.name
        );
        Some(context.edit(&key, reason).now(local).suggest("0.0.0.0"))
    })
}

/// Dependency that the file does not declare: the sibling became healthy after the program had ended, or had no address yet.
pub(super) fn missing_dependency(case: &Case<'_>) -> Option<SpecEdit> {
    let refused = case.line_with(REFUSED);
    let line = refused.or_else(|| case.line_with(UNRESOLVED))?;
    let own = case.context.service;
    let is_declared = |sibling: &Service| {
        let mut needs = own.depends_on.iter();
        needs.any(|need| need.service == sibling.name)
    };
    let is_late = |sibling: &Service| {
        sibling.probe.is_some() && healthy_since(case, sibling).is_some_and(|since| since > case.run.at)
    };
    let words = |text: &'_ str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
        words.map(str::to_owned).collect()
    };
    let has_name = |sibling: &Service, text: &str| words(text).iter().any(|word| is_name_of(sibling, word));
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
        in_variable || has_name(sibling, line)
    };
    // A quoted name is the subject of the message.
    let is_unresolved = |sibling: &Service| {
        let mut subjects = quoted(line).peekable();
        let is_subject = match subjects.peek() {
            Some(_) => subjects.any(|text| has_name(sibling, text)),
            None => has_name(sibling, line),
        };
        refused.is_none() && is_subject
    };
    let sibling = siblings(case).find(|sibling| {
        !is_declared(sibling) && (is_unresolved(sibling) || (is_late(sibling) && is_named(sibling)))
    })?;
    let reason = format!("`{}` was not healthy yet when the process ended", sibling.name);
    let edit = case.context.edit("dependsOn", reason);
    if case.context.accepted.lines.is_compose() || !own.depends_on.is_empty() {
        return Some(edit.hint(format!("add `{}` with the condition `healthy`", sibling.name)));
    }
    Some(edit.suggest(format!("[{}]", sibling.name)))
}

parts! {
    /// Parts of a message about TLS with a server that does not use it, in lower case.
    PLAIN_SERVER: "server gave http response to https client" "wrong version number"
        "first record does not look like a tls handshake" "record_too_long" "unrecognized ssl message"
        "packet length too long";
    /// Parts of a message about a request without TLS to a server that requires it, in lower case.
    TLS_SERVER: "client sent an http request to an https server" "plain http request was sent to https port";
}

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
    let plain = line_with(PLAIN_SERVER);
    let is_plain = plain.is_some();
    let line = plain.or_else(|| line_with(TLS_SERVER))?;
    let own = case.context.service;
    let of_sibling = |value: &str| {
        let found = hosts(value);
        siblings(case).find(|sibling| found.iter().any(|(host, _)| is_name_of(sibling, host)))
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
    case.line_with(NO_TLS)?;
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
pub(super) fn named_addresses<'a>(
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

pub(super) fn is_name_of(sibling: &Service, host: &str) -> bool {
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
pub(super) fn ports(service: &Service) -> Vec<u16> {
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

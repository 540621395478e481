//! Addresses of siblings: names that do not exist, and ports on which no sibling listens.

use argus_crds::error::SpecEdit;
use argus_crds::suggestion::nearest;

use super::case::{Case, contains, is_plain, paths, ports_in, quoted, unambiguous};
use super::classes::{REFUSED, STARTING, UNRESOLVED};
use super::files::number_in;
use super::images::{all_ports, facts_of, is_of_kind, main_port, repository};
use super::process::add_dependency;
use super::siblings::of_variable;
use crate::desired::hosts::{dns_names, hosts};
use crate::desired::{Role, Service};
use crate::secrets::is_secret;
use crate::time::Timestamp;

/// Name in a variable, in the command or in a mounted file that means a sibling.
pub(super) fn unknown_host(case: &Case<'_>) -> Option<SpecEdit> {
    // A script that waits does not know the reason.
    let waiting = || case.line_with(&["timeout occurred after waiting", "timeout after waiting"]);
    let unresolved = case.line_with(&UNRESOLVED);
    let line = unresolved.or_else(waiting)?;
    let service = case.context.service;
    let names = dns_names(case.context.accepted.desired.services.values());
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
    // A name with a dot is one of a module or outside of the environment.
    let mut words = words
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| !word.contains('.') && word.len() >= 2 && !names.contains(word))
        .filter(|word| unresolved.is_some() || line.contains(&format!("{word}:")));
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
        // Another kind of server is outside of the environment.
        let is_of_sibling = |sibling| facts_of(sibling).is_some_and(|facts| facts.is_meant_by(word));
        let is_other = is_of_kind(word) && !siblings(case).any(is_of_sibling);
        let by_variable = || of_variable(case, name, value).filter(|_| !is_other);
        let meant = meant(case, word, port).or_else(by_variable)?;
        let (now, meant) = unambiguous(value, word, meant);
        Some((format!("container.environment.{name}"), now, meant))
    };
    let in_command = |word: &str| {
        let is_end = |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c);
        let is_used = case
            .words()
            .any(|text| text.split(is_end).any(|part| part == word));
        let meant = meant(case, word, None).filter(|_| is_used)?;
        let key = case.command_key(word).to_owned();
        Some((key, word.to_owned(), meant.to_owned()))
    };
    let edit = |word: &str| {
        let (key, now, meant) = in_variable(word).or_else(|| in_command(word))?;
        let reason = format!("`{word}` is not a name of this environment");
        Some(case.context.edit(&key, reason).now(now).suggest(meant))
    };
    // Some messages do not contain the name.
    let nameless = || {
        let variables = service.env_vars.iter();
        let addresses = variables.filter(|(name, value)| is_address(&name.to_uppercase(), value));
        let all = addresses
            .flat_map(|(_, value)| hosts(value))
            .map(|(host, _)| host);
        let mut unknown =
            all.filter(|host| !names.contains(host) && !host.contains('.') && *host != "localhost");
        let host = unknown.next().filter(|_| !names_domain(line))?;
        unknown.all(|other| other == host).then(|| edit(host)).flatten()
    };
    let found = words.find_map(edit).or_else(|| host_in_file(case, line, line));
    found.or_else(nameless)
}

/// Returns whether a line contains a name outside of the environment. Names of exceptions have dots too.
fn names_domain(line: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
    words.any(|word| {
        let end = word
            .trim_end_matches('.')
            .rsplit_once('.')
            .map_or("", |(_, end)| end);
        let is_end = end.len() >= 2 && end.chars().all(|c| c.is_ascii_alphabetic());
        is_end && !contains(end, &["exception", "error"])
    })
}

/// Mounted file with a name that is not one of the environment. Another line can name the file.
pub(super) fn host_in_file(case: &Case<'_>, line: &str, place: &str) -> Option<SpecEdit> {
    let (path, file) = paths(place).find_map(|path| Some((path, case.host_file(path)?)))?;
    // A name with a dot is one outside of the environment.
    let is_name = |host: &str| is_plain(host) && !host.contains(['.', '/']);
    let mut found = quoted(line).filter_map(|text| hosts(text).first().copied());
    let (host, port) = found.find(|(host, _)| is_name(host))?;
    let names = dns_names(siblings(case));
    // A sibling without a running container has a name that cannot be resolved.
    if names.contains(host) || names.is_empty() {
        return None;
    }
    let mut others = siblings(case).filter(|sibling| sibling.role == Role::Service);
    let only = others.next().filter(|_| others.next().is_none());
    let only = || Some(only?.name.as_str());
    let instead = meant(case, host, port).or_else(only).map_or_else(
        || "the name of a service".to_owned(),
        |meant| format!("`{meant}`"),
    );
    let (_, rest) = place.split_once(path)?;
    let reason = format!("`{host}` is not a name of this environment");
    let hint = format!("write {instead} instead of `{host}`");
    Some(Case::host_edit(file, reason, hint).line(number_in(rest)))
}

/// Name of the sibling that an unknown name means.
fn meant<'a>(case: &Case<'a>, word: &str, port: Option<u16>) -> Option<&'a str> {
    similar(case, word).or_else(|| Some(meant_service(case, word, port)?.name.as_str()))
}

/// Sibling that an unknown name means: one with a similar name, the only one of its image or kind, or the only one with the port.
pub(super) fn meant_service<'a>(case: &Case<'a>, word: &str, port: Option<u16>) -> Option<&'a Service> {
    let only = |fits: &dyn Fn(&Service) -> bool| {
        let mut found = siblings(case).filter(|sibling| fits(sibling));
        found.next().filter(|_| found.next().is_none())
    };
    let is_of_image = |sibling: &Service| {
        let name = repository(sibling.image.reference()).rsplit('/').next();
        let name = name.unwrap_or_default();
        let is_part = || word.len() >= 3 && name.split('-').any(|part| part == word);
        is_part()
            || (word.len() >= 4 && name.len() >= 4 && (name.starts_with(word) || word.starts_with(name)))
    };
    let is_of_kind = |sibling: &Service| facts_of(sibling).is_some_and(|facts| facts.is_meant_by(word));
    let has_port = |sibling: &Service| port.is_some_and(|port| all_ports(sibling).contains(&port));
    let similar = similar(case, word).and_then(|name| only(&|sibling| is_name_of(sibling, name)));
    similar
        .or_else(|| only(&is_of_image))
        .or_else(|| only(&is_of_kind))
        .or_else(|| only(&has_port))
}

/// Name of a sibling that is similar to a word.
fn similar<'a>(case: &Case<'a>, word: &str) -> Option<&'a str> {
    let names = dns_names(siblings(case));
    let dashed = word.replace('_', "-");
    let names = || names.iter().copied();
    // A container of Compose has the name of its project, its service and a number.
    let numbered = dashed.strip_suffix("-1").unwrap_or_default();
    let of_container = names().filter(|name| numbered.ends_with(&format!("-{name}")));
    names()
        .find(|name| *name == dashed)
        .or_else(|| of_container.max_by_key(|name| name.len()))
        .or_else(|| nearest(word, names()))
}

/// The other services of the environment.
pub(super) fn siblings<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a Service> + Clone + use<'a> {
    let own = case.context.service;
    let services = case.context.accepted.desired.services.values();
    services.filter(move |sibling| sibling.name != own.name)
}

/// Variable with a port on which the sibling does not listen, or with `localhost` for a sibling.
pub(super) fn refused(case: &Case<'_>) -> Option<SpecEdit> {
    let mut lines = case.lines().filter(|line| contains(line, &REFUSED));
    lines.find_map(|line| refused_by(case, line))
}

fn refused_by(case: &Case<'_>, line: &str) -> Option<SpecEdit> {
    let own = case.context.service;
    named_addresses(case, line).find_map(|(name, host, port)| {
        let key = format!("container.environment.{name}");
        let mut siblings = siblings(case);
        if ["localhost", "127.0.0.1"].contains(&host) {
            let published = |sibling: &Service| {
                let mut published = sibling.ports.iter();
                let of_host = published.find(|known| known.requested == Some(port))?;
                (of_host.container != port).then_some(of_host.container)
            };
            let is_own = ports(own).contains(&port);
            // The port of the host is another one.
            if let Some((sibling, meant)) = (!is_own)
                .then(|| {
                    siblings
                        .clone()
                        .find_map(|sibling| Some((sibling, published(sibling)?)))
                })
                .flatten()
            {
                let reason = format!("`{}` has the port {meant} in its own container", sibling.name);
                let is_whole = own
                    .env_vars
                    .get(name)
                    .is_some_and(|value| value.contains(&format!("{host}:{port}")));
                let (now, suggest) = if is_whole {
                    (format!("{host}:{port}"), format!("{}:{meant}", sibling.name))
                } else {
                    (host.to_owned(), sibling.name.to_string())
                };
                return Some(case.context.edit(&key, reason).now(now).suggest(suggest));
            }
            let sibling = siblings.find(|sibling| all_ports(sibling).contains(&port))?;
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
        let known = all_ports(sibling);
        let mut published = sibling.ports.iter();
        let of_host = published.find(|known| known.requested == Some(port));
        let listening = match (of_host, &ports(sibling)[..]) {
            (Some(published), _) => published.container,
            (None, [only]) => *only,
            (None, _) => main_port(sibling)?,
        };
        // Its health check succeeds on another port, so it refused this one.
        let was_healthy = healthy_since(case, sibling).is_some_and(|since| since <= case.run.at);
        let is_refuted = was_healthy && ports_in(line).any(|named| named == port);
        let is_named = ports_in(line).any(|named| named == port);
        let is_known = of_host.is_some() || facts_of(sibling).is_some();
        let is_other =
            is_refuted || is_misspelled(port, listening) || (is_named && is_known) || of_host.is_some();
        let is_wrong = !known.contains(&port) && is_other;
        let reason = format!("`{}` has the port {listening}", sibling.name);
        let edit = port_edit(case, name, reason);
        is_wrong.then(|| edit.now(port.to_string()).suggest(listening.to_string()))
    })
}

/// Listen address of a sibling that accepts connections only from its own container.
pub(super) fn local_sibling(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&REFUSED)?;
    named_addresses(case, line).find_map(|(_, host, port)| {
        let sibling = siblings(case).find(|sibling| is_name_of(sibling, host))?;
        case.context.with_service(sibling).local_listener(port)
    })
}

/// Dependency that the file does not declare: the sibling became healthy after the program had ended, or had no address yet.
pub(super) fn missing_dependency(case: &Case<'_>) -> Option<SpecEdit> {
    let refused = case.line_with(&REFUSED);
    let starting = || case.line_with(&STARTING);
    let line = refused
        .or_else(|| case.line_with(&UNRESOLVED))
        .or_else(starting)?;
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
    Some(add_dependency(case, sibling.name.as_str(), reason))
}

/// Addresses in variables whose port a line names, or all if it names none: variable, host and port.
pub(super) fn named_addresses<'a>(
    case: &Case<'a>,
    line: &str,
) -> impl Iterator<Item = (&'a str, &'a str, u16)> + use<'a> {
    let named: Vec<u16> = ports_in(line).collect();
    let set = &case.context.service.env_vars;
    set.iter()
        .filter(|(name, _)| !is_secret(name))
        .flat_map(|(name, value)| {
            let found = hosts(value).into_iter();
            found.map(move |(host, port)| (name.as_str(), host, port))
        })
        .filter_map(move |(name, host, port)| {
            // Another variable has the port of a host without one.
            let apart = || set.get(&port_variable(name))?.parse().ok();
            let port = port.or_else(apart);
            let port = port.filter(|port| named.is_empty() || named.contains(port))?;
            Some((name, host, port))
        })
}

/// Variable for the port next to one for the host, such as `DB_PORT` of `DB_HOST`.
fn port_variable(name: &str) -> String {
    match (name.strip_suffix("HOST"), name.rsplit_once('_')) {
        (Some(start), _) => format!("{start}PORT"),
        (None, Some((start, _))) => format!("{start}_PORT"),
        (None, None) => String::new(),
    }
}

/// Change of the variable with the port of an address.
pub(super) fn port_edit(case: &Case<'_>, name: &str, reason: String) -> SpecEdit {
    let set = &case.context.service.env_vars;
    let has_port = |value: &String| hosts(value).iter().any(|(_, port)| port.is_some());
    let apart = Some(port_variable(name)).filter(|other| set.contains_key(other));
    let apart = apart.filter(|_| !set.get(name).is_some_and(has_port));
    let name = apart.as_deref().unwrap_or(name);
    case.context
        .edit(&format!("container.environment.{name}"), reason)
}

/// Returns whether a value is the name of a service, or an address with it.
pub(super) fn names_service(value: &str, service: &Service) -> bool {
    is_name_of(service, value) || hosts(value).iter().any(|(host, _)| is_name_of(service, host))
}

pub(super) fn is_name_of(sibling: &Service, host: &str) -> bool {
    dns_names([sibling].into_iter()).contains(host)
}

/// Returns whether the service uses a sibling: a variable, the command or a line names it.
pub(super) fn uses(case: &Case<'_>, sibling: &Service, line: &str) -> bool {
    let mut texts = case.context.service.env_vars.values().chain(case.words());
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
    // Such as `--database=db:5432`.
    let is_option = |text: &str| {
        text.split_once('=')
            .is_some_and(|(_, value)| names_service(value, sibling))
    };
    texts.any(|text| names_service(text, sibling) || is_option(text))
        || words.any(|word| is_name_of(sibling, word))
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

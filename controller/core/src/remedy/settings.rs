//! Settings that a program names in its own words: the length of a value, and keys of a mounted file.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_plain, paths, quoted};
use super::classes::{CONFIGURATION, CONTENTS, DENIED, MISSING_FILE, REFUSED, UNRESOLVED, WEAK_SECRET};
use super::cures::output;
use super::files::number_in;
use super::images::{all_ports, is_named, main_port, repository, rows};
use super::listeners::LOCAL;
use super::network::{host_in_file, ports, siblings};
use super::values::ANY_SECRET;
use crate::desired::hosts::hosts;
use crate::desired::{Mount, Service};
use crate::secrets::{REDACTED, is_secret};

/// Secret that is shorter than the number of characters in the message.
pub(super) fn short_value(case: &Case<'_>) -> Option<SpecEdit> {
    /// Words in front of the least number of characters.
    const LEAST: [&str; 3] = ["at least ", "longer than or equal to ", "minimum is "];
    let weak = case.line_with(&WEAK_SECRET);
    let line = weak.or_else(|| case.line_with(&LEAST))?;
    let words: Vec<&str> = line
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let is_unit = |word: &str| {
        ["char", "byte"]
            .iter()
            .any(|unit| word.to_lowercase().starts_with(unit))
    };
    let rests = LEAST.iter().flat_map(|part| line.split(*part).skip(1));
    let numbers = rests.filter_map(|rest| {
        let mut next = rest
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty());
        let number = next.next()?.parse::<usize>().ok()?;
        is_unit(next.next()?).then_some(number)
    });
    let needed = numbers.max();
    let is_short = |value: &str| weak.is_some() || needed.is_some_and(|needed| value.len() < needed);
    let is_secret = |name: &str| is_secret(name) || name.ends_with("_KEY");
    let variables = case.context.service.env_vars.iter();
    let mut short = variables.filter(|(name, value)| is_secret(name) && !value.is_empty() && is_short(value));
    let named = short.clone().find(|(name, _)| words.contains(&name.as_str()));
    let only = || short.next().filter(|_| short.next().is_none());
    let (name, _) = named.or_else(only)?;
    let reason = match needed {
        Some(needed) if weak.is_none() => {
            format!("its value is shorter than the {needed} characters that the program requires")
        }
        _ => "its value is simpler than the program permits".to_owned(),
    };
    let edit = case.variable(name, reason);
    // Some programs also require several kinds of characters.
    let longer = ["Argus-Test-2026!", ANY_SECRET]
        .into_iter()
        .find(|text| needed.is_none_or(|needed| text.len() >= needed));
    Some(match longer {
        Some(longer) => edit.now(REDACTED).suggest(longer),
        None => edit.now(REDACTED).hint("write a longer value"),
    })
}

/// Setting of the configuration that the command or the only mounted file of the service contains.
pub(super) fn named_setting(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        PLACES: "configuration option" "configuration file" "config file" "in the configuration";
    }
    let mut lines = case.lines().filter(|line| {
        let is_request = contains(&format!(" {line}"), &[" set the ", " set `", " set '", " set \""]);
        is_request && contains(line, PLACES)
    });
    let is_name = |name: &&str| is_plain(name) && name.len() >= 3 && !name.contains('/');
    let name = lines.find_map(|line| quoted(line).find(is_name))?;
    let reason = format!("its program requires the setting `{name}`");
    let hint = format!("set `{name}` as the output describes");
    Some(Case::host_edit(configuration_file(case)?, reason, hint))
}

/// Configuration that the program cannot read: at the path in the message, or without one.
pub(super) fn configuration(case: &Case<'_>) -> Option<SpecEdit> {
    let is_meant = |line: &&str| contains(line, &CONFIGURATION) && !line.trim_start().starts_with('{');
    let file_of = |line: &str| {
        // Paths of a stack belong to the program.
        let line = line.split(":backtrace").next().unwrap_or(line);
        if paths(line).next().is_none() {
            return configuration_file(case);
        }
        let others = [&MISSING_FILE, &DENIED, &CONTENTS];
        let mut files = paths(line).filter_map(|path| case.host_file(path));
        files
            .next()
            .filter(|_| !others.iter().any(|parts| contains(line, parts)))
    };
    let mut lines = case.lines().filter(is_meant);
    let (line, file) = lines.find_map(|line| Some((line, file_of(line)?)))?;
    let number = line.split_once("line ").and_then(|(_, rest)| number_in(rest));
    let hint = "correct it as the output describes";
    let reason = "its program cannot read this configuration";
    Some(Case::host_edit(file, reason, hint).line(number))
}

/// Mounted configuration with the address on which the process listens only inside its container.
pub(super) fn local_listener(case: &Case<'_>) -> Option<SpecEdit> {
    let port = case.context.service.probe.as_ref()?.kind.port()?;
    let listening = case.run.evidence.as_ref()?.listening.as_deref()?;
    let mut of_port = listening.iter().filter(|at| at.port() == port).peekable();
    of_port.peek()?;
    if !of_port.all(|at| at.ip().is_loopback()) || case.context.healthcheck(case.run).is_some() {
        return None;
    }
    let reason = format!("the process listens on port {port} only inside its container");
    let hint = format!("set its address to `0.0.0.0:{port}`");
    Some(Case::host_edit(configuration_file(case)?, reason, hint))
}

/// Name of a host in a file of Varnish. Its message begins with the place of the error, and continues with that of the context.
pub(super) fn vcl_host(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(&["vcl compilation failed"])?;
    let is_host = |line: &&str| contains(line, &UNRESOLVED) && quoted(line).next().is_some();
    let place = output(case).find(|line| contains(line, &["' line "]))?;
    host_in_file(case, output(case).find(is_host)?, place)
}

/// Mounted configuration of a proxy with a port that nothing has, next to its only server, or with the address of its own container, also
/// of a program that collects logs or metrics.
pub(super) fn address_in_file(case: &Case<'_>) -> Option<SpecEdit> {
    const COLLECTORS: &str = "filebeat metricbeat logstash kibana telegraf promtail fluent-bit fluentd vector alloy \
        opentelemetry-collector opentelemetry-collector-contrib";
    let is_collector = is_named(case.context.service, COLLECTORS);
    let is_proxy = is_named(
        case.context.service,
        "nginx openresty haproxy envoy traefik caddy httpd kong",
    );
    let mut lines = case
        .lines()
        .filter(|line| (is_proxy || is_collector) && contains(line, &REFUSED));
    let is_mark = |c: char| "\"'`,;()[]".contains(c);
    let (host, port) = lines.find_map(|line| {
        let words = line.split_whitespace().map(|word| word.trim_matches(is_mark));
        words.flat_map(hosts).find_map(|(host, port)| Some((host, port?)))
    })?;
    let mut others = siblings(case);
    let only = others.next().filter(|_| others.next().is_none());
    if LOCAL.contains(&host) {
        let has_port = |sibling: &&Service| {
            let is_fpm = port == 9000 && sibling.image.reference().contains("fpm");
            is_fpm || all_ports(sibling).contains(&port)
        };
        let mut found = siblings(case).filter(has_port);
        let found = found.next().filter(|_| found.next().is_none());
        let unknown = || only.filter(|only| all_ports(only).is_empty());
        let is_own = ports(case.context.service).contains(&port);
        let name = &found.or_else(unknown).filter(|_| !is_own)?.name;
        let reason = format!("`{host}` is the container itself, and `{name}` is another one");
        let hint = format!("write `{name}:{port}` instead of `{host}:{port}`");
        return Some(Case::host_edit(configuration_file(case)?, reason, hint));
    }
    let only = only.filter(|_| is_proxy)?;
    let meant = main_port(only).filter(|_| !all_ports(only).contains(&port))?;
    let reason = format!(
        "nothing listens on port {port}, and `{}` has the port {meant}",
        only.name
    );
    let hint = format!("write {meant} instead of {port}");
    Some(Case::host_edit(configuration_file(case)?, reason, hint))
}

/// Mounted file that the command names, that the program or a message means, that the image reads, or the only one with an ending.
pub(super) fn configuration_file(case: &Case<'_>) -> Option<String> {
    let is_file = |path: &str| path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let named = || case.words().flat_map(|word| paths(word));
    let in_command = || {
        let mut all = named().filter(|path| is_file(path)).chain(named());
        all.find_map(|path| case.host_file(path))
    };
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let image = name(repository(case.context.service.image.reference()));
    // One of several has the name of the program, or is in a message.
    let is_named = |path: &str| {
        let name = name(path);
        let stem = name.split('.').next();
        let is_of_program = stem == case.program() || stem == Some(image.as_str());
        is_of_program || case.lines().any(|line| line.contains(name.as_str()))
    };
    let mounts = case.context.service.mounts.iter();
    let files = mounts.filter(|mount| matches!(mount, Mount::Bind { .. }) && is_file(mount.target()));
    let files: Vec<&str> = files.map(Mount::target).collect();
    let only = |fits: &dyn Fn(&str) -> bool| {
        let mut found = files.iter().filter(|path| fits(path));
        let only = found.next().filter(|_| found.next().is_none())?;
        case.host_file(only)
    };
    in_command()
        .or_else(|| only(&is_named))
        .or_else(|| image_file(case))
        .or_else(|| only(&|_| true))
}

/// Configuration that the image reads, below a mount: no folder, and no script or program for a first start.
fn image_file(case: &Case<'_>) -> Option<String> {
    let service = case.context.service;
    let mut known = rows(include_str!("facts/configs.txt"));
    known.find_map(|[image, place]: [&'static str; 2]| {
        let is_program = [".war", "initdb"].iter().any(|part| place.contains(part));
        let is_file = !place.ends_with('/') && !is_program;
        let facts = case.host_facts(place);
        let exists = facts.is_none_or(|facts| facts.file_mode().is_some());
        (is_file && exists && is_named(service, image)).then(|| case.host_file(place))?
    })
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;

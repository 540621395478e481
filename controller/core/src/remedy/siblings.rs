//! Siblings whose own keys are the cause: without a health check, or with an address that only they can use.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains};
use super::network::{REFUSED, is_name_of, named_addresses, ports, siblings};
use crate::desired::Condition;
use crate::desired::hosts::hosts;

parts! {
    /// Parts of a message about a connection without an answer, in lower case.
    LATE: "timed out" "timeout" "not available" "could not be established";
    /// Parts of a message of a server that does not accept connections yet, in lower case.
    pub(super) STARTING: "is starting up" "not yet accepting connections" "loading the dataset in memory"
        "not ready to accept";
    /// Parts of a message of a server that does accept connections, in lower case.
    ANSWERED: "auth" "password" "fatal" "tls" "ssl" "certificate";
}

/// Health checks of well-known images.
const CHECKS: [(&str, &str); 2] = [
    ("postgres", "{ type: exec, command: [pg_isready, -h, 127.0.0.1] }"),
    ("redis", "{ type: exec, command: [redis-cli, ping] }"),
];

/// Dependency without a health check, so that the service starts before it accepts connections.
pub(super) fn no_health_check(case: &Case<'_>) -> Option<SpecEdit> {
    let starting = case.line_with(STARTING);
    let refused = || case.line_with(REFUSED).filter(|line| !contains(line, ANSWERED));
    let line = starting.or_else(refused)?;
    let needs = &case.context.service.depends_on;
    let (sibling, port) = named_addresses(case, line).find_map(|(_, host, port)| {
        let sibling = siblings(case).find(|sibling| is_name_of(sibling, host))?;
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

/// Address that a sibling sends to its clients, such as a broker of Kafka, and that means the client itself.
pub(super) fn advertised_address(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(REFUSED).or_else(|| case.line_with(LATE))?;
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

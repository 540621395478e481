//! Connectivity part of a status.

use argus_crds::error::{SpecEdit, StructuredError};
use argus_crds::status::{Connectivity, Truth};

use super::StatusInput;
use super::condition::ConditionValue;
use super::error::ErrorScope;
use super::error::context::edit_context;
use crate::connectivity::{self, ConnectivityCheck, ConnectivityInput, LinkError, LinkResult, targets};
use crate::desired::Desired;
use crate::ident::ServiceName;
use crate::outcome::one_line;

/// Result of the last connectivity check, current or not; the condition `Verified` shows which.
pub(super) fn matrix(input: &StatusInput<'_>) -> Option<Connectivity> {
    desired(input)
        .and_then(|_| last_check(input))
        .map(connectivity::matrix)
}

/// An error for each broken link, while the check is current.
pub(super) fn errors(input: &StatusInput<'_>) -> Vec<StructuredError> {
    let (Some(desired), Some(check)) = (desired(input), current_check(input)) else {
        return Vec::new();
    };
    let container = |service: &str| {
        let run = check.key.runs.iter().find(|(name, _)| name.as_str() == service);
        run.map(|(_, (id, _))| id.as_str())
    };
    let location = |error: StructuredError| {
        let service = error.service.clone();
        let location = ErrorScope {
            service: service.as_deref(),
            container: service.as_deref().and_then(container),
            ..ErrorScope::environment(input)
        };
        let error = match check.retry_after {
            Some(pause) => error.retry_after_span(pause),
            None => error,
        };
        location.finish(error, check.at)
    };
    let topology = topology(input, desired);
    let error = |link: &LinkResult| {
        let error = connectivity::error_of(link, &topology)?;
        Some(location(match local_listener(input, link) {
            Some(edit) => error.edit(edit),
            None => error,
        }))
    };
    check.link_results.iter().filter_map(error).collect()
}

/// Listen address of the service that refused a connection, if only its own container can connect to it.
fn local_listener(input: &StatusInput<'_>, link: &LinkResult) -> Option<SpecEdit> {
    let is_refused = matches!(link.error()?, LinkError::Refused(_));
    let accepted = input.accepted.filter(|_| is_refused)?;
    let target = accepted.desired.services.get(&link.target.to)?;
    edit_context(input, accepted, target).local_listener(link.target.port?)
}

/// Returns whether another service connected to a port in the current check.
pub(super) fn has_connected(input: &StatusInput<'_>, to: &ServiceName, port: u16) -> bool {
    let links = current_check(input).map_or(&[][..], |check| &check.link_results);
    links.iter().any(|link| {
        let is_same = link.target.to == *to && link.target.port == Some(port);
        is_same && link.result.as_ref().is_ok_and(|result| result.error.is_none())
    })
}

/// Condition `Verified`: all declared connections work.
pub(super) fn verified(input: &StatusInput<'_>) -> ConditionValue {
    let unknown = |reason, message: &str| (Truth::Unknown, reason, message.to_owned());
    let Some(accepted) = input.accepted else {
        return unknown("SpecRemoved", "there is nothing to check");
    };
    if !accepted.desired.verify_connectivity {
        return unknown(
            "Disabled",
            "its file sets `resilience.network.verifyConnectivity: false`",
        );
    }
    if targets(&accepted.desired).is_empty() {
        return (Truth::True, "NoLinks", "no connections are declared".to_owned());
    }
    if !input.connectivity.helpers_allowed {
        return unknown("NoHelpers", "helper containers are disabled");
    }
    let Some(check) = last_check(input) else {
        return unknown(
            "NotChecked",
            "the check starts when the services are up or stay down",
        );
    };
    if current_check(input).is_none() {
        let message = format!("something changed since the last check ({})", check.at);
        return (Truth::Unknown, "Outdated", message);
    }
    let broken_links: Vec<_> = check
        .link_results
        .iter()
        .filter(|found| found.error().is_some())
        .collect();
    if let Some(first) = broken_links.first() {
        let port = first
            .target
            .port
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        let more = match broken_links.len() {
            1 => String::new(),
            all => format!(" (and {} more)", all - 1),
        };
        let message = format!(
            "`{}` does not reach `{}{port}`{more}",
            first.from, first.target.host
        );
        return (Truth::False, "ConnectionsFailed", message);
    }
    if let Some(why) = check
        .link_results
        .iter()
        .find_map(|found| found.result.as_ref().err())
    {
        let reason = if check.is_worth_repeating() {
            "CheckFailed"
        } else {
            "ServiceDown"
        };
        return (Truth::Unknown, reason, one_line(why));
    }
    let message = match check.link_results.len() {
        1 => "1 link works".to_owned(),
        all => format!("{all} links work"),
    };
    (Truth::True, "AllReached", message)
}

fn desired<'a>(input: &StatusInput<'a>) -> Option<&'a Desired> {
    let desired = &input.accepted?.desired;
    desired.verify_connectivity.then_some(desired)
}

fn last_check<'a>(input: &StatusInput<'a>) -> Option<&'a ConnectivityCheck> {
    input.connectivity.checks.get(input.env)
}

/// Last check, if it is one of the plan and of the objects of this status.
fn current_check<'a>(input: &StatusInput<'a>) -> Option<&'a ConnectivityCheck> {
    let (desired, plan) = (desired(input)?, input.plan?);
    let topology = ConnectivityInput {
        hashes: Some(&plan.hashes),
        ..topology(input, desired)
    };
    last_check(input).filter(|check| topology.is_current(check))
}

fn topology<'a>(input: &StatusInput<'a>, desired: &'a Desired) -> ConnectivityInput<'a> {
    ConnectivityInput {
        desired,
        observed: input.observed,
        hashes: None,
        health: input.health,
        outages: input.outages,
        engine_returned_at: None,
    }
}

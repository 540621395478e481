//! Events between two statuses, so that readers of the journal need not compare them.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{
    BreakerChange, BreakerScope, BreakerState, BreakerStatus, ControllerStatus, EnvironmentStatus, Orphan,
    Phase, PortMapping, PreflightCheck, PreflightReport, ServiceState, ServiceStatus,
};

use super::Event;
use super::step_result::environment_of;
use crate::ident::{EnvName, ProtocolPort, ServiceName};
use crate::state::{EnvHistory, RefusedPort};
use crate::time::Timestamp;

/// Events of an environment between two statuses, without phase changes.
pub fn events_between(
    env: &EnvName,
    before: Option<&EnvironmentStatus>,
    after: &EnvironmentStatus,
    history: &EnvHistory,
    refused: &BTreeMap<ProtocolPort, RefusedPort>,
) -> Vec<Event> {
    let mut events = Vec::new();
    let (old, new) = (all_errors(before), all_errors(Some(after)));
    error_events(
        Some(env),
        &old,
        &new,
        time_since_failure(history, &after.as_of),
        &mut events,
    );
    let no_service = ServiceStatus::default();
    for service in &after.services {
        let old = before.and_then(|before| before.services.iter().find(|old| old.name == service.name));
        service_events(env, old.unwrap_or(&no_service), service, &mut events);
    }
    port_events(env, before, after, refused, &mut events);
    let own = |status: &EnvironmentStatus| {
        let breaker = status.breaker.clone();
        breaker.filter(|breaker| breaker.scope == BreakerScope::Environment)
    };
    let since = before.and_then(|before| Timestamp::parse(&before.as_of));
    breaker_events(
        Some(env),
        before.and_then(own).as_ref(),
        own(after).as_ref(),
        since,
        &mut events,
    );
    let seen = |status: &EnvironmentStatus| status.connectivity.clone();
    if let Some(now) = seen(after).filter(|now| before.and_then(seen).as_ref() != Some(now)) {
        let broken = now.links.iter().filter(|link| link.error.is_some()).count();
        events.push(Event::Connectivity {
            environment: env.clone(),
            verified: now.verified,
            links: now.links.len() as u64,
            broken: broken as u64,
        });
    }
    // A settled environment creates nothing. The events of the controller have what changes later.
    if matches!(after.phase, Phase::Pending | Phase::Progressing) {
        let old = before.and_then(|before| before.preflight.as_ref());
        preflight_events(Some(env), old, after.preflight.as_ref(), &mut events);
    }
    events
}

fn port_events(
    env: &EnvName,
    before: Option<&EnvironmentStatus>,
    after: &EnvironmentStatus,
    refused: &BTreeMap<ProtocolPort, RefusedPort>,
    events: &mut Vec<Event>,
) {
    let errors: Vec<StructuredError> = [before, Some(after)].into_iter().flat_map(all_errors).collect();
    for port in &after.port_mappings {
        let is_same_port = |old: &&PortMapping| {
            (&old.service, old.container_port, &old.protocol)
                == (&port.service, port.container_port, &port.protocol)
        };
        let old = before.and_then(|before| before.port_mappings.iter().find(is_same_port));
        let from = old.map_or(port.original_port, |old| old.actual_port);
        if port.actual_port == from || port.actual_port == 0 || from == 0 {
            continue;
        }
        let moved = Event::PortMoved {
            environment: env.clone(),
            service: port.service.clone(),
            container_port: port.container_port,
            from,
            to: port.actual_port,
        };
        // All publications of a declared port move together.
        if events.contains(&moved) {
            continue;
        }
        // An error of this conflict was an event already.
        let is_reported = |error: &StructuredError| {
            error.code == Code::PortConflict
                && error.service.as_ref() == Some(&port.service)
                && error.details.get("port") == Some(&from.into())
        };
        if port.actual_port != port.original_port && !errors.iter().any(is_reported) {
            let declared =
                |port: &PortMapping| (port.service.clone(), port.container_port, port.original_port);
            let is_from = |(refused, _): &(&ProtocolPort, _)| {
                let mut publications = after
                    .port_mappings
                    .iter()
                    .filter(|it| declared(it) == declared(port));
                refused.number == from && publications.any(|it| refused.protocol.to_string() == it.protocol)
            };
            let owner = refused
                .iter()
                .find(is_from)
                .map(|(_, refused)| refused.refusal.owner.to_string());
            events.push(Event::PortConflict {
                environment: env.clone(),
                service: port.service.clone(),
                port: from,
                owner,
            });
        }
        events.push(moved);
    }
}

/// Events of the controller between two statuses, without mode changes.
pub fn controller_events(before: Option<&ControllerStatus>, after: &ControllerStatus) -> Vec<Event> {
    let mut events = Vec::new();
    let of = |status: Option<&ControllerStatus>| -> Vec<StructuredError> {
        status.map(|status| status.errors.clone()).unwrap_or_default()
    };
    error_events(None, &of(before), &of(Some(after)), |_| None, &mut events);
    let old = before.and_then(|before| before.breaker.as_ref());
    let since = before.and_then(|before| Timestamp::parse(&before.as_of));
    breaker_events(None, old, after.breaker.as_ref(), since, &mut events);
    let old = before.and_then(|before| before.preflight.as_ref());
    preflight_events(None, old, after.preflight.as_ref(), &mut events);
    events
}

/// All errors of a status, including those of its services.
fn all_errors(status: Option<&EnvironmentStatus>) -> Vec<StructuredError> {
    let Some(status) = status else {
        return Vec::new();
    };
    let of_services = status
        .services
        .iter()
        .filter_map(|service| service.last_error.clone());
    status.errors.iter().cloned().chain(of_services).collect()
}

fn error_events(
    env: Option<&EnvName>,
    before: &[StructuredError],
    after: &[StructuredError],
    after_ms: impl Fn(&StructuredError) -> Option<u64>,
    events: &mut Vec<Event>,
) {
    let key = |error: &StructuredError| match &error.error_id {
        Some(id) => id.clone(),
        None => format!("{} {:?} {}", error.code, error.service, error.message),
    };
    let mut reported: BTreeSet<String> = before.iter().map(key).collect();
    for error in after {
        if reported.insert(key(error)) {
            events.push(Event::Error {
                environment: env.cloned(),
                service: error.service.clone(),
                code: error.code,
                error_id: error.error_id.clone(),
                after_ms: after_ms(error),
            });
        }
    }
}

/// Time from the end of the failed run, or from its first failed probe, to the report.
fn time_since_failure(history: &EnvHistory, as_of: &str) -> impl Fn(&StructuredError) -> Option<u64> {
    let now = Timestamp::parse(as_of);
    move |error| {
        let fact = |name: &str| error.details.get(name);
        let ended = Timestamp::parse(fact("endedAt")?.as_str()?)?;
        let probe_failed_at = || {
            let service = ServiceName::new(error.service.as_deref()?).ok()?;
            let number = fact("run")?.as_u64()?;
            let mut failures = history.services.get(&service)?.failures.iter();
            let failed_run = failures.find(|failed_run| failed_run.number == number)?;
            failed_run
                .failing_since
                .filter(|_| error.code == Code::HealthCheckTimeout)
        };
        let took = now?.since(probe_failed_at().unwrap_or(ended));
        u64::try_from(took.as_millis()).ok()
    }
}

fn service_events(env: &EnvName, before: &ServiceStatus, after: &ServiceStatus, events: &mut Vec<Event>) {
    let code =
        |status: &ServiceStatus| -> Option<Code> { status.last_error.as_ref().map(|error| error.code) };
    let times = after.restarts.saturating_sub(before.restarts);
    if times > 0 {
        events.push(Event::Restart {
            environment: env.clone(),
            service: after.name.clone(),
            restarts: after.restarts,
            times,
            code: code(before).or(code(after)),
        });
    }
    if is_ready(after) && !is_ready(before) && after.restarts > 0 {
        events.push(Event::Recovered {
            environment: env.clone(),
            service: after.name.clone(),
        });
    }
    if let Some(high) = after
        .memory_warning
        .as_ref()
        .filter(|_| before.memory_warning.is_none())
    {
        events.push(Event::MemoryHigh {
            environment: env.clone(),
            service: after.name.clone(),
            used_bytes: high.used_bytes,
            limit_bytes: high.limit_bytes,
        });
    }
    if after.state == ServiceState::Failed && before.state != ServiceState::Failed {
        events.push(Event::RestartsExhausted {
            environment: env.clone(),
            service: after.name.clone(),
            code: code(after),
        });
    }
}

fn is_ready(service: &ServiceStatus) -> bool {
    matches!(service.state, ServiceState::Ready | ServiceState::Completed)
}

/// Events of a breaker. Its history shows states between two statuses, such as a short half-open state.
fn breaker_events(
    env: Option<&EnvName>,
    before: Option<&BreakerStatus>,
    after: Option<&BreakerStatus>,
    since: Option<Timestamp>,
    events: &mut Vec<Event>,
) {
    let history = |breaker: Option<&'_ BreakerStatus>| breaker.map_or_else(Vec::new, |it| it.history.clone());
    let known = history(before);
    // The breaker of an environment is hidden while the engine's is open; older changes were reported before that.
    let is_new = |change: &BreakerChange| {
        let earlier = |since| Timestamp::parse(&change.at).is_some_and(|at| at < since);
        !known.contains(change) && !since.is_some_and(earlier)
    };
    let changes = history(after).into_iter().filter(is_new);
    let mut states: Vec<BreakerState> = changes.map(|change| state_of(&change)).collect();
    let state = |breaker: Option<&BreakerStatus>| breaker.map_or(BreakerState::Closed, |it| it.state);
    let to = state(after);
    if *states.last().unwrap_or(&state(before)) != to {
        states.push(to);
    }
    events.extend(states.into_iter().map(|to| Event::Circuit {
        environment: env.cloned(),
        to,
        times_opened: after.map_or(0, |breaker| breaker.times_opened),
    }));
}

fn state_of(change: &BreakerChange) -> BreakerState {
    match change.to.as_str() {
        "open" => BreakerState::Open,
        "halfOpen" => BreakerState::HalfOpen,
        _ => BreakerState::Closed,
    }
}

/// Events of orphans between two lists of them. Each removal has an event of its own when it ends.
pub fn orphan_events(before: &[Orphan], after: &[Orphan]) -> Vec<Event> {
    let mut events = Vec::new();
    let count_removals = |orphans: &[Orphan]| {
        let is_removal = |orphan: &&Orphan| matches!(orphan.result.as_str(), "removing" | "failed");
        orphans.iter().filter(is_removal).count() as u64
    };
    let old: BTreeSet<&str> = before.iter().map(|orphan| orphan.id.as_str()).collect();
    let is_new = |orphan: &&Orphan| !orphan.is_kept() && !old.contains(orphan.id.as_str());
    for orphan in after.iter().filter(is_new) {
        events.push(Event::OrphanFound {
            environment: environment_of(orphan),
            what: orphan.kind.clone(),
            id: orphan.id.clone(),
            name: orphan.name.clone(),
            project: orphan.project.clone(),
            result: orphan.result.clone(),
        });
    }
    if count_removals(before) == 0 && count_removals(after) > 0 {
        events.push(Event::Cleanup {
            begins: true,
            orphans: count_removals(after),
        });
    }
    if count_removals(before) > 0 && count_removals(after) == 0 {
        events.push(Event::Cleanup {
            begins: false,
            orphans: 0,
        });
    }
    events
}

fn preflight_events(
    env: Option<&EnvName>,
    before: Option<&PreflightReport>,
    after: Option<&PreflightReport>,
    events: &mut Vec<Event>,
) {
    let Some(after) = after else { return };
    let has_changed = |check: &&PreflightCheck| {
        let old = before.and_then(|before| before.checks.iter().find(|old| old.name == check.name));
        old.map(|old| old.result) != Some(check.result)
    };
    let changed = after.checks.iter().filter(has_changed);
    let checks: Vec<Event> = changed.map(|check| check_event(env, check)).collect();
    if checks.is_empty() && before.map(|before| before.overall) == Some(after.overall) {
        return;
    }
    events.push(Event::PreflightStart {
        environment: env.cloned(),
        requested: false,
        skip: Vec::new(),
    });
    events.extend(checks);
    events.push(Event::PreflightEnd {
        environment: env.cloned(),
        overall: after.overall,
    });
}

/// Events of one round of a requested preflight run, regardless of earlier results.
pub fn preflight_check_events(checks: &[PreflightCheck]) -> impl Iterator<Item = Event> {
    checks.iter().map(|check| check_event(None, check))
}

fn check_event(env: Option<&EnvName>, check: &PreflightCheck) -> Event {
    Event::PreflightCheck {
        environment: env.cloned(),
        check: check.name,
        result: check.result,
    }
}

#[cfg(test)]
#[path = "status_diff_tests.rs"]
mod tests;

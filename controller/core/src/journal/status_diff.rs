//! What happened between two statuses, as records: so that whoever reads along need not compare them.

use std::collections::{BTreeMap, BTreeSet};

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{
    BreakerChange, BreakerScope, BreakerState, BreakerStatus, ControllerStatus, EnvironmentStatus, Orphan,
    PreflightCheck, PreflightReport, ServiceState, ServiceStatus,
};

use super::Event;
use crate::ident::{EnvName, ServiceName};
use crate::state::EnvHistory;
use crate::time::Timestamp;

/// What happened in an environment, phases apart.
pub fn events_between(
    env: &EnvName,
    before: Option<&EnvironmentStatus>,
    after: &EnvironmentStatus,
    memory: &EnvHistory,
) -> Vec<Event> {
    let mut notes = Vec::new();
    let (old, new) = (every_error(before), every_error(Some(after)));
    errors(
        Some(env),
        &old,
        &new,
        after_failing(memory, &after.as_of),
        &mut notes,
    );
    let nothing = ServiceStatus::default();
    for service in &after.services {
        let old = before.and_then(|before| before.services.iter().find(|old| old.name == service.name));
        service_story(env, old.unwrap_or(&nothing), service, &mut notes);
    }
    for port in &after.port_mappings {
        let alike = |old: &&argus_crds::status::PortMapping| {
            (&old.service, old.container_port, &old.protocol)
                == (&port.service, port.container_port, &port.protocol)
        };
        let old = before.and_then(|before| before.port_mappings.iter().find(alike));
        let from = old.map_or(port.original_port, |old| old.actual_port);
        if port.actual_port != from && port.actual_port != 0 && from != 0 {
            notes.push(Event::PortMoved {
                environment: env.clone(),
                service: port.service.clone(),
                container_port: port.container_port,
                from,
                to: port.actual_port,
            });
        }
    }
    let own = |status: &EnvironmentStatus| {
        let breaker = status.breaker.clone();
        breaker.filter(|breaker| breaker.scope == BreakerScope::Environment)
    };
    let since = before.and_then(|before| Timestamp::parse(&before.as_of));
    circuit(
        Some(env),
        before.and_then(own).as_ref(),
        own(after).as_ref(),
        since,
        &mut notes,
    );
    let seen = |status: &EnvironmentStatus| status.connectivity.clone();
    if let Some(now) = seen(after).filter(|now| before.and_then(seen).as_ref() != Some(now)) {
        let broken = now.links.iter().filter(|link| link.error.is_some()).count();
        notes.push(Event::Connectivity {
            environment: env.clone(),
            verified: now.verified,
            links: now.links.len() as u64,
            broken: broken as u64,
        });
    }
    notes
}

/// What happened to the controller, modes apart.
pub fn controller_events(before: Option<&ControllerStatus>, after: &ControllerStatus) -> Vec<Event> {
    let mut notes = Vec::new();
    let of = |status: Option<&ControllerStatus>| -> Vec<StructuredError> {
        status.map(|status| status.errors.clone()).unwrap_or_default()
    };
    errors(None, &of(before), &of(Some(after)), |_| None, &mut notes);
    let old = before.and_then(|before| before.breaker.as_ref());
    let since = before.and_then(|before| Timestamp::parse(&before.as_of));
    circuit(None, old, after.breaker.as_ref(), since, &mut notes);
    let none = Vec::new();
    orphans(
        before.map_or(&none, |before| &before.orphans),
        &after.orphans,
        &mut notes,
    );
    let old = before.and_then(|before| before.preflight.as_ref());
    preflight(old, after.preflight.as_ref(), &mut notes);
    notes
}

/// Those of the services stand with them as well.
fn every_error(status: Option<&EnvironmentStatus>) -> Vec<StructuredError> {
    let Some(status) = status else {
        return Vec::new();
    };
    let of_services = status
        .services
        .iter()
        .filter_map(|service| service.last_error.clone());
    status.errors.iter().cloned().chain(of_services).collect()
}

fn errors(
    env: Option<&EnvName>,
    before: &[StructuredError],
    after: &[StructuredError],
    after_ms: impl Fn(&StructuredError) -> Option<u64>,
    notes: &mut Vec<Event>,
) {
    let key = |error: &StructuredError| match &error.error_id {
        Some(id) => id.clone(),
        None => format!("{} {:?} {}", error.code, error.service, error.message),
    };
    let mut told: BTreeSet<String> = before.iter().map(key).collect();
    for error in after {
        if told.insert(key(error)) {
            notes.push(Event::Error {
                environment: env.cloned(),
                service: error.service.clone(),
                code: error.code,
                error_id: error.error_id.clone(),
                after_ms: after_ms(error),
            });
        }
    }
}

/// How long after the end of the run that an error is about; where its probe failed, after that began.
fn after_failing(memory: &EnvHistory, as_of: &str) -> impl Fn(&StructuredError) -> Option<u64> {
    let now = Timestamp::parse(as_of);
    move |error| {
        let fact = |name: &str| error.details.get(name);
        let ended = Timestamp::parse(fact("endedAt")?.as_str()?)?;
        let began = || {
            let service = ServiceName::new(error.service.as_deref()?).ok()?;
            let number = fact("run")?.as_u64()?;
            let mut failures = memory.services.get(&service)?.failures.iter();
            let failed_run = failures.find(|failed_run| failed_run.number == number)?;
            failed_run
                .failing_since
                .filter(|_| error.code == Code::HealthCheckTimeout)
        };
        let took = now?.since(began().unwrap_or(ended));
        u64::try_from(took.as_millis()).ok()
    }
}

fn service_story(env: &EnvName, before: &ServiceStatus, after: &ServiceStatus, notes: &mut Vec<Event>) {
    let code =
        |status: &ServiceStatus| -> Option<Code> { status.last_error.as_ref().map(|error| error.code) };
    let times = after.restarts.saturating_sub(before.restarts);
    if times > 0 {
        notes.push(Event::Restart {
            environment: env.clone(),
            service: after.name.clone(),
            restarts: after.restarts,
            times,
            code: code(before).or(code(after)),
        });
    }
    if is_well(after) && !is_well(before) && after.restarts > 0 {
        notes.push(Event::Recovered {
            environment: env.clone(),
            service: after.name.clone(),
        });
    }
    if after.state == ServiceState::Failed && before.state != ServiceState::Failed {
        notes.push(Event::RestartsExhausted {
            environment: env.clone(),
            service: after.name.clone(),
            code: code(after),
        });
    }
}

fn is_well(service: &ServiceStatus) -> bool {
    matches!(service.state, ServiceState::Ready | ServiceState::Completed)
}

/// One that is tried and closes between two looks was half-open all the same: its history tells what the states do not.
fn circuit(
    env: Option<&EnvName>,
    before: Option<&BreakerStatus>,
    after: Option<&BreakerStatus>,
    since: Option<Timestamp>,
    notes: &mut Vec<Event>,
) {
    let history = |breaker: Option<&'_ BreakerStatus>| breaker.map_or_else(Vec::new, |it| it.history.clone());
    let known = history(before);
    // An environment's own is out of sight while the engine's is open: what was told before that is older.
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
    notes.extend(states.into_iter().map(|to| Event::Circuit {
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

fn orphans(before: &[Orphan], after: &[Orphan], notes: &mut Vec<Event>) {
    let ids = |orphans: &[Orphan]| -> BTreeMap<String, Orphan> {
        orphans
            .iter()
            .map(|orphan| (orphan.id.clone(), orphan.clone()))
            .collect()
    };
    let going = |orphans: &[Orphan]| {
        let goes = |orphan: &&Orphan| matches!(orphan.result.as_str(), "removing" | "failed");
        orphans.iter().filter(goes).count() as u64
    };
    let (old, new) = (ids(before), ids(after));
    for orphan in new.values().filter(|orphan| !old.contains_key(&orphan.id)) {
        notes.push(Event::OrphanFound {
            what: orphan.kind.clone(),
            id: orphan.id.clone(),
            name: orphan.name.clone(),
            project: orphan.project.clone(),
        });
    }
    if going(before) == 0 && going(after) > 0 {
        notes.push(Event::Cleanup {
            begins: true,
            orphans: going(after),
        });
    }
    for orphan in old.values().filter(|orphan| !new.contains_key(&orphan.id)) {
        notes.push(Event::OrphanRemoved {
            what: orphan.kind.clone(),
            id: orphan.id.clone(),
        });
    }
    if going(before) > 0 && going(after) == 0 {
        notes.push(Event::Cleanup {
            begins: false,
            orphans: 0,
        });
    }
}

fn preflight(before: Option<&PreflightReport>, after: Option<&PreflightReport>, notes: &mut Vec<Event>) {
    let Some(after) = after else { return };
    let differs = |check: &&PreflightCheck| {
        let old = before.and_then(|before| before.checks.iter().find(|old| old.name == check.name));
        old.map(|old| old.result) != Some(check.result)
    };
    let checks: Vec<Event> = after.checks.iter().filter(differs).map(checked).collect();
    if checks.is_empty() && before.map(|before| before.overall) == Some(after.overall) {
        return;
    }
    notes.push(Event::PreflightStart {
        asked: false,
        skip: Vec::new(),
    });
    notes.extend(checks);
    notes.push(Event::PreflightEnd {
        overall: after.overall,
    });
}

/// What a look that somebody asked for came to, whatever was found before; that it began is told when it does.
pub fn looked(report: &PreflightReport) -> Vec<Event> {
    let before = report.before.iter().flat_map(|before| &before.checks);
    let checks = before.chain(&report.checks).map(checked);
    let end = Event::PreflightEnd {
        overall: report.overall,
    };
    checks.chain([end]).collect()
}

fn checked(check: &PreflightCheck) -> Event {
    Event::PreflightCheck {
        check: check.name,
        result: check.result,
    }
}

#[cfg(test)]
#[path = "status_diff_tests.rs"]
mod tests;

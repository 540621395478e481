//! Structured errors of an environment.

use argus_crds::error::{ActionId, Code, Severity, StructuredError};
use argus_crds::status::{ServiceState, ServiceStatus};
use serde_json::{Value, json};

use crate::desired::Service;
use crate::ident::HostPort;
use crate::outcome::PortOwner;
use crate::plan::{LeaseHolder, Subject, WaitingOn};
use crate::state::{ServiceHistory, restart};
use crate::time::Timestamp;

use super::StatusInput;
use super::redact;
use super::wait::{controller, holder, one_line};

pub(crate) mod breaker;
mod call;
pub(crate) mod engine_unavailable;
mod failed_action;
mod failed_run;
mod flaky;
mod location;
mod retry_after;
mod spec;

pub use failed_action::code_of;
use failed_run::FailureContext;
pub(super) use location::Place;
pub use location::error_id;
pub(super) use spec::of_spec;

/// Maximum number of errors in a status.
const MOST: usize = 50;

/// Error of mode `Safe`: Argus decides nothing, because it cannot write to the state directory.
#[must_use]
pub fn unwritable(state: &str, why: &str) -> StructuredError {
    StructuredError::new(Code::JournalUnwritable, one_line(why))
        .details(json!({ "path": state, "reason": why }))
}

/// All errors of the environment: of its file, the engine, its services and other objects. Warnings come last, so that the
/// first error is the most important one.
pub(super) fn all(input: &StatusInput<'_>, services: &[ServiceStatus]) -> Vec<StructuredError> {
    let mut errors = Vec::new();
    if let Some(rejection) = input.rejected {
        errors.extend(of_spec(Some(input.env.as_str()), rejection, input.now));
    }
    errors.extend(engine_unavailable::all(input));
    errors.extend(breaker::of(input));
    if let Some(why) = input.safe {
        errors.push(Place::environment(input).finish(unwritable(input.state_dir, why), input.now));
    }
    let unhealthy =
        |row: &&ServiceStatus| !matches!(row.state, ServiceState::Ready | ServiceState::Completed);
    errors.extend(
        services
            .iter()
            .filter(unhealthy)
            .filter_map(|row| row.last_error.clone()),
    );
    errors.extend(of_no_service(input));
    errors.extend(super::preflight::errors(input));
    errors.extend(flaky::all(input));
    errors.extend(super::connectivity::errors(input));
    // The running environment belongs to another file, so the order of these errors does not matter.
    for rival in input.rivals {
        errors.extend(of_spec(Some(input.env.as_str()), *rival, input.now));
    }
    errors.sort_by_key(|error| error.severity == Severity::Warning);
    errors.truncate(MOST);
    errors
        .into_iter()
        .map(|error| same_occurrence(input, error))
        .collect()
}

/// Error of a wait with the time of the next attempt; `None` for a wait without an error.
pub(super) fn of_wait(input: &StatusInput<'_>, place: &Place<'_>, on: &WaitingOn) -> Option<StructuredError> {
    let error = behind(input, place, on)?;
    Some(match on.until() {
        Some(until) => retry_after::told(error, until, input.now),
        None => error,
    })
}

fn behind(input: &StatusInput<'_>, place: &Place<'_>, on: &WaitingOn) -> Option<StructuredError> {
    let persisted = place
        .service
        .and_then(|name| input.state.services.iter().find(|(n, _)| n.as_str() == name));
    let nothing = ServiceHistory::default();
    let memory = persisted.map_or(&nothing, |(_, memory)| memory);
    let last = memory.failures.last();
    match on {
        WaitingOn::Retry { failure, until } => {
            // The delay counts from the failure, so that repeated reports of the same failure are equal.
            let error = failed_action::of(failure, Some(until.since(failure.at)));
            Some(place.finish(super::preflight::with_usage(input, error), failure.at))
        }
        WaitingOn::Failed { failure } => Some(place.finish(failed_action::of(failure, None), failure.at)),
        WaitingOn::GaveUp { restarts } => {
            let at = last.map_or(input.now, |failed_run| failed_run.at);
            Some(place.finish(
                failed_run::exhausted(&FailureContext::of(input, place), *restarts, &memory.failures),
                at,
            ))
        }
        WaitingOn::Backoff { .. } | WaitingOn::RateLimited { .. } => {
            of_spent(input, place, memory).or_else(|| of_last_death(input, place, memory))
        }
        WaitingOn::NotRestarted | WaitingOn::NotRunnable { .. } | WaitingOn::TestLease { .. } => {
            of_last_death(input, place, memory)
        }
        WaitingOn::Halted { repetitions } => {
            let at = last.map_or(input.now, |failed_run| failed_run.at);
            Some(place.finish(
                failed_run::halted(&FailureContext::of(input, place), *repetitions, &memory.failures),
                at,
            ))
        }
        WaitingOn::Held { until, why } => Some(place.finish(of_hold(input, *until, why), input.now)),
        WaitingOn::Port { port, owner, .. } => {
            Some(place.finish(of_port(input, *port, owner), input.now))
        }
        WaitingOn::Ports { tried, .. } => Some(place.finish(of_ports(input, *tried), input.now)),
        WaitingOn::Name { name, holder, .. } => {
            let error = StructuredError::new(
                Code::NameConflict,
                format!("the name `{name}` is held by {holder}"),
            );
            Some(place.finish(
                error
                    .details(json!({ "name": name, "holder": holder }))
                    .with_call(call::of_name(name.as_str(), holder)),
                input.now,
            ))
        }
        WaitingOn::NoHealthcheck => Some(place.finish(of_no_healthcheck(input, place), input.now)),
        WaitingOn::Leased { holder, .. } => Some(place.finish(of_lease(holder), input.now)),
        WaitingOn::Unhealthy { .. } => of_spent(input, place, memory)
            .or_else(|| of_last_death(input, place, memory))
            .or_else(|| Some(of_probe(input, place))),
        // This error is reported once for the whole environment.
        WaitingOn::Breaker { .. }
        | WaitingOn::Engine { .. }
        | WaitingOn::RampUp { .. }
        | WaitingOn::Specs
        | WaitingOn::Safe { .. }
        | WaitingOn::ControllerLease
        | WaitingOn::InFlight { .. }
        | WaitingOn::EffectPending { .. }
        | WaitingOn::RelistPending { .. }
        | WaitingOn::Dependency { .. }
        | WaitingOn::Image { .. }
        | WaitingOn::Network
        | WaitingOn::Volume { .. }
        | WaitingOn::Probe
        | WaitingOn::Completion
        | WaitingOn::StoppedExternally { .. }
        | WaitingOn::StabilityWindow { .. }
        | WaitingOn::SpecPending
        | WaitingOn::Containers
        // This error is reported once for the whole environment.
        | WaitingOn::Preflight { .. }
        | WaitingOn::Removal => None,
    }
}

/// Error of a valid file that does not fit its image.
fn of_no_healthcheck(input: &StatusInput<'_>, place: &Place<'_>) -> StructuredError {
    let image = service_of(input, place).map_or("", |service| service.image.reference());
    let message =
        format!("its `healthcheck` has the type `docker`, and the image `{image}` has no HEALTHCHECK");
    StructuredError::new(Code::SpecInvalid, message)
        .suggest(&[ActionId::FixHealthcheck, ActionId::FixImage])
        .details(json!({
            "path": "container.healthcheck.type",
            "image": image,
            "hint": "use the type `http`, `tcp` or `exec`, or an image with a HEALTHCHECK",
        }))
}

/// Error code of a wait, for tables.
pub(super) fn code_of_wait(on: &WaitingOn) -> Option<Code> {
    match on {
        WaitingOn::Engine { why } => (!why.is_empty()).then_some(Code::DockerUnavailable),
        WaitingOn::Retry { failure, .. } | WaitingOn::Failed { failure } => Some(code_of(&failure.error)),
        WaitingOn::GaveUp { .. } => Some(Code::ContainerRestartExhausted),
        WaitingOn::Port {
            owner: PortOwner::StaleAllocation,
            ..
        } => Some(Code::PortStaleAllocation),
        WaitingOn::Port { .. } => Some(Code::PortConflict),
        WaitingOn::Ports { .. } => Some(Code::PortExhaustion),
        WaitingOn::Name { .. } => Some(Code::NameConflict),
        WaitingOn::Unhealthy { .. } => Some(Code::HealthCheckTimeout),
        WaitingOn::Halted { .. } => Some(Code::LoopHalted),
        WaitingOn::NotRunnable { .. } => Some(Code::EntrypointNotFound),
        WaitingOn::NoHealthcheck => Some(Code::SpecInvalid),
        WaitingOn::Held { .. } => Some(Code::Held),
        WaitingOn::Breaker { .. } => Some(Code::CircuitOpen),
        WaitingOn::Safe { .. } => Some(Code::JournalUnwritable),
        WaitingOn::Preflight { code, .. } => *code,
        WaitingOn::Backoff { .. }
        | WaitingOn::NotRestarted
        | WaitingOn::RateLimited { .. }
        | WaitingOn::TestLease { .. } => Some(Code::ContainerCrash),
        WaitingOn::Leased { .. } => Some(Code::LeaseHeld),
        WaitingOn::Specs
        | WaitingOn::RampUp { .. }
        | WaitingOn::ControllerLease
        | WaitingOn::InFlight { .. }
        | WaitingOn::EffectPending { .. }
        | WaitingOn::RelistPending { .. }
        | WaitingOn::Dependency { .. }
        | WaitingOn::Image { .. }
        | WaitingOn::Network
        | WaitingOn::Volume { .. }
        | WaitingOn::Probe
        | WaitingOn::Completion
        | WaitingOn::StoppedExternally { .. }
        | WaitingOn::StabilityWindow { .. }
        | WaitingOn::SpecPending
        | WaitingOn::Containers
        | WaitingOn::Removal => None,
    }
}

fn of_hold(input: &StatusInput<'_>, until: Option<Timestamp>, why: &str) -> StructuredError {
    let message = if why.is_empty() {
        "it is on hold".to_owned()
    } else {
        format!("it is on hold: {}", one_line(why))
    };
    let until = until.map(|at| at.to_string());
    let error = StructuredError::new(Code::Held, message).details(json!({ "until": until, "reason": why }));
    if input.accepted.is_some_and(|accepted| accepted.desired.hold) {
        // No command ends a hold of the file.
        error.suggest(&[ActionId::FixSpec])
    } else {
        error
    }
}

fn of_lease(holder: &LeaseHolder) -> StructuredError {
    let message = format!("{} owns it", controller(holder));
    StructuredError::new(Code::LeaseHeld, message).details(json!({ "holder": holder }))
}

fn of_port(input: &StatusInput<'_>, port: HostPort, owner: &PortOwner) -> StructuredError {
    let code = match owner {
        PortOwner::StaleAllocation => Code::PortStaleAllocation,
        PortOwner::Environment { .. }
        | PortOwner::Container { .. }
        | PortOwner::Process { .. }
        | PortOwner::Unknown => Code::PortConflict,
    };
    let held = holder(owner);
    let times = input.refused.get(&port).map_or(1, |refused| refused.times);
    StructuredError::new(code, format!("host port {port} is held by {held}"))
        .details(json!({ "port": port.number, "protocol": port.protocol, "owner": owner }))
        .with_call(call::of_port(&port.to_string(), times, &held))
}

fn of_ports(input: &StatusInput<'_>, tried: u32) -> StructuredError {
    let range = input.accepted.map(|accepted| &accepted.desired.ports);
    let holders: Vec<Value> = input
        .refused
        .iter()
        .map(|(port, refused)| json!({ "port": port.number, "protocol": port.protocol, "owner": refused.refusal.owner }))
        .take(MOST)
        .collect();
    StructuredError::new(
        Code::PortExhaustion,
        format!("no host port is free, {tried} were tried"),
    )
    .details(json!({
        "tried": tried,
        "range": range.map(|range| [range.low, range.high]),
        "holders": holders,
    }))
}

fn of_probe(input: &StatusInput<'_>, place: &Place<'_>) -> StructuredError {
    let verdict = input
        .health
        .iter()
        .find(|(id, _)| Some(id.as_str()) == place.container)
        .map(|(_, verdict)| verdict);
    let output = verdict.map(|verdict| verdict.output.as_str()).unwrap_or_default();
    let output = FailureContext::of(input, place).redacted(output);
    let said = one_line(&output);
    let message = if said.is_empty() {
        "its health check fails".to_owned()
    } else {
        format!("its health check fails: {said}")
    };
    let error =
        StructuredError::new(Code::HealthCheckTimeout, message).details(json!({ "probeOutput": output }));
    let probe = service_of(input, place).and_then(|service| service.probe.as_ref());
    let error = match probe {
        Some(probe) => error.with_call(call::of_probe(probe, &output)),
        None => error,
    };
    place.finish(error, verdict.map_or(input.now, |verdict| verdict.since))
}

/// Errors of networks, volumes and extra objects. Services report the errors of their images.
fn of_no_service(input: &StatusInput<'_>) -> Vec<StructuredError> {
    let waits = input.plan.map(|plan| plan.waits.as_slice()).unwrap_or_default();
    let place = Place::environment(input);
    let error = |wait: &crate::plan::Wait| match &wait.subject {
        Subject::Service { service, .. } => {
            let told = input
                .accepted
                .is_some_and(|accepted| accepted.desired.services.contains_key(service));
            if told {
                None
            } else {
                of_wait(input, &place, &wait.on)
            }
        }
        Subject::Image { .. } => None,
        Subject::Network { .. }
        | Subject::Volume { .. }
        | Subject::ExtraContainer { .. }
        | Subject::ExtraNetwork { .. } => of_wait(input, &place, &wait.on),
    };
    waits.iter().filter_map(error).collect()
}

/// Keeps the time and id of an error that was reported before, unless the error has a time of its own.
pub(super) fn same_occurrence(input: &StatusInput<'_>, error: StructuredError) -> StructuredError {
    // The reported errors are redacted, so the comparison needs a redacted error.
    let error = redact::error(&redact::secrets(input), error);
    let Some(previous) = input.previous else {
        return error;
    };
    if error.timestamp.as_deref() != Some(input.now.to_string().as_str()) {
        return error;
    }
    let told = previous
        .services
        .iter()
        .filter_map(|row| row.last_error.as_ref())
        .chain(&previous.errors);
    let mut alike = told
        .filter(|old| old.code == error.code && old.service == error.service && old.message == error.message);
    match alike.next() {
        Some(old) => StructuredError {
            error_id: old.error_id.clone(),
            timestamp: old.timestamp.clone(),
            ..retry_after::lasting(error, old)
        },
        None => error,
    }
}

/// Desired service of an error.
fn service_of<'a>(input: &StatusInput<'a>, place: &Place<'_>) -> Option<&'a Service> {
    let services = &input.accepted?.desired.services;
    let mut services = services.iter();
    services
        .find(|(name, _)| Some(name.as_str()) == place.service)
        .map(|(_, service)| service)
}

/// Error of a spent restart budget while `slowRetry` continues.
fn of_spent(input: &StatusInput<'_>, place: &Place<'_>, memory: &ServiceHistory) -> Option<StructuredError> {
    let policy = &input.accepted?.desired.restart;
    let at = memory.failures.last()?.at;
    match restart::decide(
        policy,
        &memory.failures,
        input.outages,
        &memory.health_transitions,
    ) {
        restart::RestartDecision::At(_, attempt) if attempt > policy.max_restarts => {
            let case = FailureContext::of(input, place);
            Some(place.finish(failed_run::exhausted(&case, attempt - 1, &memory.failures), at))
        }
        restart::RestartDecision::At(..)
        | restart::RestartDecision::EngineRestart
        | restart::RestartDecision::GaveUp(_)
        | restart::RestartDecision::Halted(_)
        | restart::RestartDecision::NotRunnable(_)
        | restart::RestartDecision::Stay => None,
    }
}

/// Error of the last failed run in the history.
pub(super) fn of_last_death(
    input: &StatusInput<'_>,
    place: &Place<'_>,
    memory: &ServiceHistory,
) -> Option<StructuredError> {
    let last = memory.failures.last()?;
    let container = input.observed.containers.get(&last.container).map(AsRef::as_ref);
    Some(place.finish(
        failed_run::of(&FailureContext::of(input, place), last, container),
        last.at,
    ))
}

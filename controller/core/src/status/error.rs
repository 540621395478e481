//! Failures as the structured errors that leave the system.

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{ServiceState, ServiceStatus};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::memory::ServiceMemory;
use crate::outcome::PortOwner;
use crate::plan::{Subject, WaitingOn};
use crate::time::Timestamp;

use super::StatusInput;
use super::wait::{holder, one_line};

mod death;
mod failure;
mod flaky;
mod spec;

use death::Case;
pub use failure::code_of;
pub(super) use spec::of_spec;

/// More errors than this help nobody.
const MOST: usize = 50;

/// Everything that is wrong with the environment: its file, the engine, its services, what belongs to no service.
pub(super) fn all(input: &StatusInput<'_>, services: &[ServiceStatus]) -> Vec<StructuredError> {
    let mut errors = Vec::new();
    if let Some(rejection) = input.rejected {
        errors.extend(of_spec(Some(input.env.as_str()), rejection, input.now));
    }
    if !input.engine.reachable && !input.engine.reason.is_empty() {
        let message = format!("the engine does not answer: {}", one_line(input.engine.reason));
        errors.push(
            Place::environment(input)
                .finish(StructuredError::new(Code::DockerUnavailable, message), input.now),
        );
    }
    let unwell = |row: &&ServiceStatus| !matches!(row.state, ServiceState::Ready | ServiceState::Completed);
    errors.extend(
        services
            .iter()
            .filter(unwell)
            .filter_map(|row| row.last_error.clone()),
    );
    errors.extend(of_no_service(input));
    errors.extend(super::ground::errors(input));
    errors.extend(flaky::all(input));
    errors.truncate(MOST);
    errors
        .into_iter()
        .map(|error| same_occurrence(input, error))
        .collect()
}

/// The error behind a wait of a service; `None` when waiting is all there is to it.
pub(super) fn of_wait(input: &StatusInput<'_>, place: &Place<'_>, on: &WaitingOn) -> Option<StructuredError> {
    let remembered = place
        .service
        .and_then(|name| input.memory.services.iter().find(|(n, _)| n.as_str() == name));
    let nothing = ServiceMemory::default();
    let memory = remembered.map_or(&nothing, |(_, memory)| memory);
    let last = memory.deaths.last();
    match on {
        WaitingOn::Retry { failure, until } => {
            // Counted from the failure, so that the same failure is told in the same words at every look.
            let error = failure::of(failure, Some(until.since(failure.at)));
            Some(place.finish(super::ground::with_usage(input, error), failure.at))
        }
        WaitingOn::Failed { failure } => Some(place.finish(failure::of(failure, None), failure.at)),
        WaitingOn::GaveUp { restarts } => {
            let at = last.map_or(input.now, |death| death.at);
            Some(place.finish(
                death::exhausted(&Case::of(input, place), *restarts, &memory.deaths),
                at,
            ))
        }
        WaitingOn::Backoff { .. }
        | WaitingOn::NotRestarted
        | WaitingOn::NotRunnable { .. }
        | WaitingOn::Storm { .. }
        | WaitingOn::Deferred { .. } => of_last_death(input, place, memory),
        WaitingOn::Halted { repetitions } => {
            let at = last.map_or(input.now, |death| death.at);
            Some(place.finish(
                death::halted(&Case::of(input, place), *repetitions, &memory.deaths),
                at,
            ))
        }
        WaitingOn::Held { until, why } => Some(place.finish(of_hold(*until, why), input.now)),
        WaitingOn::Port { port, owner, .. } => {
            Some(place.finish(of_port(port.number, &port.protocol.to_string(), owner), input.now))
        }
        WaitingOn::Ports { tried, .. } => Some(place.finish(of_ports(input, *tried), input.now)),
        WaitingOn::Name { name, holder, .. } => {
            let error = StructuredError::new(
                Code::NameConflict,
                format!("the name `{name}` is held by {holder}"),
            );
            Some(place.finish(
                error.details(json!({ "name": name, "holder": holder })),
                input.now,
            ))
        }
        WaitingOn::Unhealthy { .. } => {
            of_last_death(input, place, memory).or_else(|| Some(of_probe(input, place)))
        }
        WaitingOn::Engine { .. }
        | WaitingOn::Specs
        | WaitingOn::InFlight { .. }
        | WaitingOn::Effect { .. }
        | WaitingOn::Relist { .. }
        | WaitingOn::Dependency { .. }
        | WaitingOn::Image { .. }
        | WaitingOn::Network
        | WaitingOn::Volume { .. }
        | WaitingOn::Probe
        | WaitingOn::Completion
        | WaitingOn::ByHand { .. }
        | WaitingOn::Stability { .. }
        | WaitingOn::File
        | WaitingOn::Containers
        // Told once for the whole environment.
        | WaitingOn::Preflight { .. }
        | WaitingOn::Removal => None,
    }
}

/// The code behind a wait, for its row in the table.
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
        WaitingOn::Held { .. } => Some(Code::Held),
        WaitingOn::Preflight { code, .. } => *code,
        WaitingOn::Backoff { .. }
        | WaitingOn::NotRestarted
        | WaitingOn::Storm { .. }
        | WaitingOn::Deferred { .. } => Some(Code::ContainerCrash),
        WaitingOn::Specs
        | WaitingOn::InFlight { .. }
        | WaitingOn::Effect { .. }
        | WaitingOn::Relist { .. }
        | WaitingOn::Dependency { .. }
        | WaitingOn::Image { .. }
        | WaitingOn::Network
        | WaitingOn::Volume { .. }
        | WaitingOn::Probe
        | WaitingOn::Completion
        | WaitingOn::ByHand { .. }
        | WaitingOn::Stability { .. }
        | WaitingOn::File
        | WaitingOn::Containers
        | WaitingOn::Removal => None,
    }
}

/// Where an error happened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) environment: Option<&'a str>,
    pub(super) service: Option<&'a str>,
    pub(super) container: Option<&'a str>,
    pub(super) revision: Option<&'a str>,
}

impl<'a> Place<'a> {
    pub(super) fn environment(input: &StatusInput<'a>) -> Self {
        let revision = input.accepted.map(|accepted| accepted.desired.revision.as_str());
        Self {
            environment: Some(input.env.as_str()),
            service: None,
            container: None,
            revision,
        }
    }

    pub(super) fn finish(&self, error: StructuredError, at: Timestamp) -> StructuredError {
        let id = error_id(
            self.environment.unwrap_or_default(),
            self.service,
            error.code,
            &error.message,
            at,
        );
        let mut error = error.error_id(id).timestamp(at.to_string());
        if let Some(environment) = self.environment {
            error = error.environment(environment);
        }
        if let Some(service) = self.service {
            error = error.service(service);
        }
        if let Some(container) = self.container {
            error = error.container_id(container);
        }
        if let Some(revision) = self.revision {
            error = error.revision(revision);
        }
        error
    }
}

/// The identity of an occurrence, shaped like a ULID: its time, then a hash of what it is, so that the same failure has the same id
/// however often it is told.
pub fn error_id(
    environment: &str,
    service: Option<&str>,
    code: Code,
    message: &str,
    at: Timestamp,
) -> String {
    const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let text = format!(
        "{environment}\0{}\0{code}\0{message}\0{}",
        service.unwrap_or_default(),
        at.0
    );
    let hash = Sha256::digest(text.as_bytes());
    let tail = hash
        .iter()
        .take(10)
        .fold(0_u128, |bits, byte| (bits << 8) | u128::from(*byte));
    let time = u128::try_from(at.0).unwrap_or(0) % (1 << 48);
    let bits = (time << 80) | tail;
    let digit = |place: u32| CROCKFORD[usize::try_from((bits >> (5 * place)) & 31).unwrap_or(0)];
    (0..26).rev().map(|place| char::from(digit(place))).collect()
}

fn of_hold(until: Option<Timestamp>, why: &str) -> StructuredError {
    let message = if why.is_empty() {
        "it is held as it is".to_owned()
    } else {
        format!("it is held as it is: {}", one_line(why))
    };
    let until = until.map(|at| at.to_string());
    StructuredError::new(Code::Held, message).details(json!({ "until": until, "reason": why }))
}

fn of_port(port: u16, protocol: &str, owner: &PortOwner) -> StructuredError {
    let code = match owner {
        PortOwner::StaleAllocation => Code::PortStaleAllocation,
        PortOwner::Environment { .. }
        | PortOwner::Container { .. }
        | PortOwner::Process { .. }
        | PortOwner::Unknown => Code::PortConflict,
    };
    StructuredError::new(
        code,
        format!("host port {port}/{protocol} is held by {}", holder(owner)),
    )
    .details(json!({ "port": port, "protocol": protocol, "owner": owner }))
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
    let output = Case::of(input, place).redacted(output);
    let said = one_line(&output);
    let message = if said.is_empty() {
        "its health check says unhealthy".to_owned()
    } else {
        format!("its health check says unhealthy: {said}")
    };
    let error =
        StructuredError::new(Code::HealthCheckTimeout, message).details(json!({ "probeOutput": output }));
    place.finish(error, verdict.map_or(input.now, |verdict| verdict.since))
}

/// Failures of the network, of volumes and of strays; those of images are told by the services that wait for them.
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
        | Subject::StrayContainer { .. }
        | Subject::StrayNetwork { .. } => of_wait(input, &place, &wait.on),
    };
    waits.iter().filter_map(error).collect()
}

/// An error without a time of its own was first seen when it was first told: it keeps that time and its id.
pub(super) fn same_occurrence(input: &StatusInput<'_>, error: StructuredError) -> StructuredError {
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
            ..error
        },
        None => error,
    }
}

/// The error of the death that is remembered last.
pub(super) fn of_last_death(
    input: &StatusInput<'_>,
    place: &Place<'_>,
    memory: &ServiceMemory,
) -> Option<StructuredError> {
    let last = memory.deaths.last()?;
    let container = input.observed.containers.get(&last.container).map(AsRef::as_ref);
    Some(place.finish(death::of(&Case::of(input, place), last, container), last.at))
}

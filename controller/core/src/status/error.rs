//! Structured errors of an environment.

use argus_crds::error::{ActionId, Class, Code, StructuredError};
use argus_crds::status::{ServiceState, ServiceStatus};
use serde_json::json;

use crate::action::Subject;
use crate::desired::Service;
use crate::lease::LeaseHolder;
use crate::socket_access::code_of_reason;
use crate::state::ServiceHistory;
use crate::wait::WaitReason;

use super::StatusInput;
use super::redact;
use super::wait::controller;
use crate::outcome::one_line;

mod blocking;
pub(crate) mod breaker;
mod call;
pub(super) mod context;
mod dependency;
pub(crate) mod engine_unavailable;
mod failed_action;
mod failed_run;
mod flaky;
mod image_command;
mod missing_source;
mod port;
pub(super) mod probe_result;
mod spec;
mod wait;

pub use blocking::is_blocking;
pub(super) use context::ErrorScope;
pub use context::{error_id, with_controller};
pub(super) use dependency::failing_checks;
pub use failed_action::{code_of, command_error};
use failed_run::{FailureContext, cause_of_spent_budget, spent_budget_error};
pub(super) use failed_run::{describe as describe_failed_run, error_of_last_run};
use port::{code_of_port, port_error, ports_error};
pub(super) use spec::of_spec;

/// Maximum number of errors in a status, and of port owners in an error.
const MAX_ERRORS: usize = 50;

/// Error of mode `Safe`: Argus decides nothing, because it cannot write to the state directory.
#[must_use]
pub fn unwritable(state_dir: &str, why: &str) -> StructuredError {
    StructuredError::new(Code::JournalUnwritable, one_line(why))
        .details(json!({ "path": state_dir, "reason": why }))
}

/// All errors of the environment: of its file, the engine, its services and other objects. Causes come first and warnings last, so
/// that the first error is the most important one.
pub(super) fn all(input: &StatusInput<'_>, services: &[ServiceStatus]) -> Vec<StructuredError> {
    let mut errors = Vec::new();
    if let Some(rejection) = input.rejected {
        errors.extend(of_spec(Some(input.env.as_str()), rejection, input.now));
    }
    errors.extend(engine_unavailable::all(input));
    errors.extend(breaker::of(input));
    if let Some(why) = input.safe_mode_reason {
        errors.push(ErrorScope::environment(input).finish(unwritable(input.state_dir, why), input.now));
    }
    let unhealthy =
        |row: &&ServiceStatus| !matches!(row.state, ServiceState::Ready | ServiceState::Completed);
    errors.extend(
        services
            .iter()
            .filter(unhealthy)
            .filter_map(|row| row.last_error.clone()),
    );
    errors.extend(
        services
            .iter()
            .filter_map(|row| cause_of_spent_budget(input, row)),
    );
    errors.extend(other_errors(input));
    let retried = wait::retried_removals(input, &errors);
    errors.extend(retried);
    errors.extend(super::preflight::errors(input));
    errors.extend(flaky::all(input, services));
    errors.extend(super::connectivity::errors(input));
    // The environment runs from another file, so its health is independent of these errors.
    for conflicting_spec in input.conflicting_specs {
        errors.extend(of_spec(Some(input.env.as_str()), *conflicting_spec, input.now));
    }
    dependency::sort_causes_first(&mut errors);
    errors.truncate(MAX_ERRORS);
    errors
        .into_iter()
        .map(|error| same_occurrence(input, error))
        .collect()
}

/// Error of a wait with the time of the next attempt; `None` for a wait without an error.
pub(super) fn error_of_wait(
    input: &StatusInput<'_>,
    error_scope: &ErrorScope<'_>,
    on: &WaitReason,
) -> Option<StructuredError> {
    let error = error_behind(input, error_scope, on)?;
    let error = match on {
        // Argus restarts the container, whatever its last run needs.
        WaitReason::RestartDelay { .. }
        | WaitReason::RestartRateLimited { .. }
        | WaitReason::TestLease { .. }
        | WaitReason::Unhealthy { until: Some(_) } => error.class(Class::Transient),
        on if on.is_given_up() || matches!(on, WaitReason::Unhealthy { until: None }) => without_retry(error),
        _ => error,
    };
    Some(match on.until() {
        Some(until) => context::with_next_attempt(error, until, input.now),
        None => error,
    })
}

/// Error that Argus does not retry.
fn without_retry(error: StructuredError) -> StructuredError {
    match error.class {
        Class::Transient => error.class(Class::Permanent),
        Class::Permanent | Class::Human => error,
    }
}

fn error_behind(
    input: &StatusInput<'_>,
    error_scope: &ErrorScope<'_>,
    on: &WaitReason,
) -> Option<StructuredError> {
    let name = error_scope.service;
    let persisted = name.and_then(|name| input.history.services.get(name));
    let no_history = ServiceHistory::default();
    let history = persisted.map_or(&no_history, AsRef::as_ref);
    let last_at = history
        .failures
        .last()
        .map_or(input.now, |failed_run| failed_run.at);
    let context = || FailureContext::of(input, error_scope);
    let (error, at) = match on {
        WaitReason::Retry { failure, until } => {
            // The delay counts from the failure, so that repeated reports of the same failure are equal.
            let error = failed_action::of(failure, Some(until.since(failure.at)));
            let error = missing_source::with_edit(input, error_scope, error, failure);
            (super::preflight::with_usage(input, error), failure.at)
        }
        WaitReason::Failed { failure } => {
            let error = failed_action::of(failure, None);
            let error = missing_source::with_edit(input, error_scope, error, failure);
            (error, failure.at)
        }
        WaitReason::GaveUp { restarts } => {
            let error = failed_run::exhausted(&context(), *restarts, &history.failures);
            (error, last_at)
        }
        WaitReason::RestartDelay { .. } | WaitReason::RestartRateLimited { .. } => {
            return spent_budget_error(input, error_scope, history)
                .or_else(|| error_of_last_run(input, error_scope, history));
        }
        WaitReason::RestartsDisabled
        | WaitReason::NotRunnable { .. }
        | WaitReason::ProbeNotRunnable
        | WaitReason::TestLease { .. } => return error_of_last_run(input, error_scope, history),
        WaitReason::Halted { budgets } => {
            let error = failed_run::halted(&context(), *budgets, &history.failures);
            (error, last_at)
        }
        WaitReason::Held { until, why } => (wait::hold(input, error_scope, *until, why), input.now),
        WaitReason::PortTaken { port, owner, .. } => (port_error(input, *port, owner), input.now),
        WaitReason::PortsExhausted { tried, holders, .. } => (ports_error(input, *tried, holders), input.now),
        WaitReason::NameTaken {
            name,
            conflicting_object: holder,
            attempts,
            compose_project,
            ..
        } => {
            let message = format!("the name `{name}` is held by {holder}");
            let error = StructuredError::new(Code::NameConflict, message);
            let error = match compose_project {
                Some(project) => wait::with_compose_volume(input, error, project),
                None => wait::with_other_name(input, error_scope, error, name),
            };
            let error = failed_action::with_attempts(error, attempts)
                .details(json!({ "name": name, "holder": holder }))
                .with_call(call::of_name(name.as_str(), holder));
            (error, input.now)
        }
        WaitReason::NoHealthcheck => (no_healthcheck_error(input, error_scope), input.now),
        WaitReason::LeaseHeldByOther {
            controller: holder, ..
        } => (lease_error(input, holder), input.now),
        WaitReason::Unhealthy { .. } => {
            return spent_budget_error(input, error_scope, history)
                .or_else(|| error_of_last_run(input, error_scope, history))
                .or_else(|| Some(probe_error(input, error_scope)));
        }
        WaitReason::WritableSource(on) if !on.writer.is_going => {
            (wait::writable_source(input, on), input.now)
        }
        WaitReason::InUse { object, containers } => (wait::in_use(object, containers), input.now),
        WaitReason::Obstacle { retry, .. } => {
            return error_behind(input, error_scope, persistent_retry(retry.as_deref())?);
        }
        // Waits without a code in `code_of_wait`, and those that are reported once for the whole environment.
        _ => return None,
    };
    Some(error_scope.finish(error, at))
}

/// Retry of a call that keeps failing although an obstacle is about to go. A spent budget is no error while Argus removes the obstacle.
fn persistent_retry(retry: Option<&WaitReason>) -> Option<&WaitReason> {
    retry.filter(|on| matches!(on, WaitReason::Retry { failure, .. } if failure.has_lasted()))
}

/// Error of a valid file that does not fit its image.
fn no_healthcheck_error(input: &StatusInput<'_>, error_scope: &ErrorScope<'_>) -> StructuredError {
    let image = service_of(input, error_scope).map_or("", |service| service.image.reference());
    let key = "container.healthcheck.type";
    let path = input
        .accepted
        .map_or_else(|| key.to_owned(), |accepted| accepted.lines.write_key(key));
    let message =
        format!("its `healthcheck` has the type `docker`, and the image `{image}` has no HEALTHCHECK");
    StructuredError::new(Code::SpecInvalid, message)
        .suggest(&[ActionId::FixHealthcheck, ActionId::FixImage])
        .details(json!({
            "path": path,
            "image": image,
            "hint": "use the type `http`, `tcp` or `exec`, or an image with a HEALTHCHECK",
        }))
}

/// Error code of a wait, for tables; `None` for other waits.
pub(super) fn code_of_wait(on: &WaitReason) -> Option<Code> {
    match on {
        WaitReason::Engine { why } => (!why.is_empty()).then(|| code_of_reason(why)),
        WaitReason::Retry { failure, .. } | WaitReason::Failed { failure } => Some(code_of(&failure.error)),
        WaitReason::GaveUp { .. } => Some(Code::ContainerRestartExhausted),
        WaitReason::PortTaken { owner, .. } => Some(code_of_port(owner)),
        WaitReason::PortsExhausted { .. } => Some(Code::PortExhaustion),
        WaitReason::NameTaken { .. } => Some(Code::NameConflict),
        WaitReason::Unhealthy { .. } | WaitReason::ProbeNotRunnable => Some(Code::HealthCheckTimeout),
        WaitReason::Halted { .. } => Some(Code::LoopHalted),
        WaitReason::NotRunnable { .. } => Some(Code::EntrypointNotFound),
        WaitReason::NoHealthcheck => Some(Code::SpecInvalid),
        WaitReason::Held { .. } => Some(Code::Held),
        WaitReason::Breaker { .. } => Some(Code::CircuitOpen),
        WaitReason::Safe { .. } => Some(Code::JournalUnwritable),
        WaitReason::Preflight { code, .. } => *code,
        WaitReason::RestartDelay { .. }
        | WaitReason::RestartsDisabled
        | WaitReason::RestartRateLimited { .. }
        | WaitReason::TestLease { .. } => Some(Code::ContainerCrash),
        WaitReason::LeaseHeldByOther { .. } => Some(Code::LeaseHeld),
        WaitReason::InUse { .. } => Some(Code::CleanupFailed),
        WaitReason::WritableSource(on) => (!on.writer.is_going).then_some(Code::PolicyViolation),
        WaitReason::Obstacle { retry, .. } => code_of_wait(persistent_retry(retry.as_deref())?),
        WaitReason::Specs
        | WaitReason::RampUp { .. }
        | WaitReason::ControllerLease
        | WaitReason::InFlight { .. }
        | WaitReason::Inspection
        | WaitReason::EffectPending { .. }
        | WaitReason::RelistPending { .. }
        | WaitReason::Dependency { .. }
        | WaitReason::Image { .. }
        | WaitReason::Network
        | WaitReason::Volume { .. }
        | WaitReason::Probe
        | WaitReason::MinimumRunTime { .. }
        | WaitReason::Completion
        | WaitReason::Shed { .. }
        | WaitReason::StoppedExternally { .. }
        | WaitReason::StabilityWindow { .. }
        | WaitReason::SpecPending
        | WaitReason::Containers
        | WaitReason::Dependent { .. }
        | WaitReason::Removal => None,
    }
}

fn lease_error(input: &StatusInput<'_>, holder: &LeaseHolder) -> StructuredError {
    let is_compose = wait::is_compose(input);
    let message = format!("{} owns it", controller(holder));
    let details = json!({ "holder": holder, "ofCompose": is_compose });
    let error = |message| StructuredError::new(Code::LeaseHeld, message).details(details);
    match &holder.other_specs {
        // It runs the same project, such as one in a folder that was created again.
        None if holder.stop.is_some() => {
            error(message).suggest(&[ActionId::StopOtherController, ActionId::Fork])
        }
        None => error(message),
        Some(specs) => error(format!("{message} from `{specs}`"))
            .suggest(&[ActionId::SetNamespace, ActionId::StopOtherController]),
    }
}

fn probe_error(input: &StatusInput<'_>, error_scope: &ErrorScope<'_>) -> StructuredError {
    let health = error_scope.container.and_then(|id| input.health.get(id));
    let output = health.map_or("", |health| health.last_output());
    let output = FailureContext::of(input, error_scope).redacted(output);
    let output_line = one_line(&output);
    let message = if output_line.is_empty() {
        "its health check fails".to_owned()
    } else {
        format!("its health check fails: {output_line}")
    };
    let error =
        StructuredError::new(Code::HealthCheckTimeout, message).details(json!({ "probeOutput": output }));
    let probe = service_of(input, error_scope).and_then(|service| service.probe.as_ref());
    let error = match probe {
        Some(probe) => error.with_call(call::of_probe(probe, &output)),
        None => error,
    };
    error_scope.finish(error, health.map_or(input.now, |health| health.since))
}

/// Errors of networks, volumes and extra objects. Services report the errors of their images.
fn other_errors(input: &StatusInput<'_>) -> Vec<StructuredError> {
    let waits = input.plan.map(|plan| plan.waits.as_slice()).unwrap_or_default();
    let error_scope = ErrorScope::environment(input);
    let error = |wait: &crate::wait::Wait| match &wait.subject {
        Subject::Service { service, .. } => {
            let reported = input
                .accepted
                .is_some_and(|accepted| accepted.desired.services.contains_key(service));
            if reported {
                None
            } else {
                error_of_wait(input, &error_scope, &wait.on)
            }
        }
        Subject::Image { .. } => None,
        _ => error_of_wait(input, &error_scope, &wait.on),
    };
    let mut errors: Vec<StructuredError> = waits.iter().filter_map(error).collect();
    // One cause, such as another controller, can block all objects.
    errors.dedup_by(|one, other| (one.code, &one.message) == (other.code, &other.message));
    errors
}

/// Keeps the time and id of an error that was reported before, unless the error has a time of its own. Adds the test of that time.
pub(super) fn same_occurrence(input: &StatusInput<'_>, error: StructuredError) -> StructuredError {
    context::with_test(input, reported_occurrence(input, error))
}

fn reported_occurrence(input: &StatusInput<'_>, error: StructuredError) -> StructuredError {
    let error = match input.accepted {
        Some(accepted) => error.map_edits(|edit| accepted.lines.as_written(edit)),
        None => error,
    };
    // The reported errors are redacted, so the comparison needs a redacted error.
    let error = context::complete(
        input,
        redact::error(&redact::secrets(input), &redact::edit_secrets(input), error),
    );
    let Some(previous) = input.previous else {
        return error;
    };
    if error.timestamp.as_deref() != Some(input.now.to_string().as_str()) {
        return error;
    }
    let reported = previous
        .services
        .iter()
        .filter_map(|row| row.last_error.as_ref())
        .chain(&previous.errors);
    let mut matching = reported
        .filter(|old| old.code == error.code && old.service == error.service && old.message == error.message);
    match matching.next() {
        Some(old) => StructuredError {
            error_id: old.error_id.clone(),
            correlation_id: old.correlation_id.clone(),
            timestamp: old.timestamp.clone(),
            ..context::keep_retry_after(error, old)
        },
        None => error,
    }
}

/// Desired service of an error.
fn service_of<'a>(input: &StatusInput<'a>, error_scope: &ErrorScope<'_>) -> Option<&'a Service> {
    input.accepted?.desired.services.get(error_scope.service?)
}

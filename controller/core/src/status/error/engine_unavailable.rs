//! Errors of an engine that does not answer.

use argus_crds::error::{Code, StructuredError};
use serde_json::{Value, json};

use super::{ErrorScope, call, context};
use crate::outcome::one_line;
use crate::socket_access::{errno, group_with_access, is_refused};
use crate::status::{EngineView, StatusInput};
use crate::time::Timestamp;

/// Errors of the current outage: no answer, and no answer for a long time.
pub(super) fn all(input: &StatusInput<'_>) -> Vec<StructuredError> {
    let mut errors = Vec::new();
    let error_scope = ErrorScope::environment(input);
    let reported = input.previous.map_or(&[][..], |previous| &previous.errors);
    if !input.engine.reachable && !input.engine.reason.is_empty() {
        let message = format!("the engine does not answer: {}", one_line(input.engine.reason));
        let error = unavailable(&input.engine, message, input.now).with_call(call::of_engine(
            input.breakers.reconnect_attempts(),
            input.engine.reason,
        ));
        let error = error_scope.finish(error, input.engine.since.unwrap_or(input.now));
        errors.push(with_kept_retry_after(error, reported));
    }
    if let Some(tries) = input.breakers.reconnects_to_report() {
        let message = format!("the engine did not return after {tries} attempts, Argus continues to retry");
        // `retryAfter` would make the error transient, but a person acts next.
        let error = StructuredError::new(Code::RetryExhausted, message)
            .details(retry_state(&input.engine))
            .with_call(call::of_engine(tries, input.engine.reason));
        errors.push(error_scope.finish(error, input.now));
    }
    if let Some(error) = events_unavailable(&input.engine) {
        let at = input.engine.events_lost.map_or(input.now, |(at, _)| at);
        errors.push(error_scope.finish(error, at));
    }
    errors
}

/// `EVENTS_UNAVAILABLE`, if the engine answers but delivers no events.
pub fn events_unavailable(engine: &EngineView<'_>) -> Option<StructuredError> {
    let (since, reason) = engine.events_lost?;
    let message = format!(
        "the engine delivers no events, so Argus notices changes up to 10 s later: {}",
        one_line(reason)
    );
    let error = StructuredError::new(Code::EventsUnavailable, message);
    Some(error.details(json!({
        "endpoint": engine.endpoint,
        "reason": reason,
        "since": since.to_string(),
    })))
}

/// `DOCKER_UNAVAILABLE` with this message, and with the address and the retry state of the engine. A socket that refuses
/// the user is `DOCKER_PERMISSION_DENIED` with its own message.
pub fn unavailable(engine: &EngineView<'_>, message: impl Into<String>, now: Timestamp) -> StructuredError {
    if is_refused(engine.reason) {
        return permission_denied(engine);
    }
    let error = StructuredError::new(Code::DockerUnavailable, message).details(retry_state(engine));
    match engine.retry.and_then(|retry| retry.next) {
        Some(next) => error.retry_after_span(next.since(now)),
        None => error,
    }
}

/// Keeps the reported `retryAfter` of an error with the same next attempt: it counts from the last attempt, and not from
/// the time of the report.
pub fn with_kept_retry_after(error: StructuredError, reported: &[StructuredError]) -> StructuredError {
    let code = error.code;
    let matching = reported.iter().filter(|old| old.code == code);
    matching.fold(error, context::keep_retry_after)
}

fn permission_denied(engine: &EngineView<'_>) -> StructuredError {
    let reason = engine.reason.trim_start_matches("engine unreachable: ");
    let message = format!("no access to the engine: {}", one_line(reason));
    StructuredError::new(Code::DockerPermissionDenied, message).details(json!({
        "endpoint": engine.endpoint,
        "reason": engine.reason,
        "errno": errno(engine.reason),
        "since": engine.since.map(|at| at.to_string()),
        "group": group_with_access(engine.reason),
    }))
}

/// Address of the engine, and its outage, as structured data.
fn retry_state(engine: &EngineView<'_>) -> Value {
    let next = engine.retry.and_then(|retry| retry.next);
    json!({
        "endpoint": engine.endpoint,
        "reason": engine.reason,
        "errno": errno(engine.reason),
        "since": engine.since.map(|at| at.to_string()),
        "tries": engine.retry.map_or(1, |retry| retry.attempts.max(1)),
        "nextTry": next.map_or(Value::Null, |at| at.to_string().into()),
    })
}

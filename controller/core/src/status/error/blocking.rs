//! Errors that block an environment.

use std::time::Duration;

use argus_crds::error::{Class, Code, Severity, StructuredError};
use serde_json::Value;

use crate::time::Timestamp;

/// True if the environment cannot become ready without an intervention. The budget of a transient cause is 30 s or five attempts; containers
/// and the engine have budgets of their own.
pub(in crate::status) fn is_blocking(error: &StructuredError) -> bool {
    const LIMIT: Duration = Duration::from_secs(30);
    const MAX_ATTEMPTS: u32 = 5;
    match error.class {
        // A hold with an end ends without an intervention.
        Class::Permanent | Class::Human if error.code == Code::Held => error.details["until"].is_null(),
        // An object that is only in the way of a removal blocks nothing else.
        Class::Permanent | Class::Human if error.code == Code::CleanupFailed => error.service.is_some(),
        Class::Permanent | Class::Human => error.severity != Severity::Warning,
        Class::Transient => {
            let time = |text: Option<&str>| text.and_then(Timestamp::parse);
            let first = time(error.details.get("since").and_then(Value::as_str));
            let last = time(error.timestamp.as_deref());
            let is_long = first
                .zip(last)
                .is_some_and(|(first, last)| last.since(first) >= LIMIT);
            let is_action = error.stage.is_some() && error.severity != Severity::Warning;
            is_action
                && !is_of_engine(error.code)
                && (is_long || error.attempt.is_some_and(|attempt| attempt >= MAX_ATTEMPTS))
        }
    }
}

/// True if the engine causes the error. Its breaker decides about the next call.
fn is_of_engine(code: Code) -> bool {
    matches!(
        code,
        Code::DockerUnavailable | Code::ConnectionLost | Code::CircuitOpen | Code::RetryExhausted
    )
}

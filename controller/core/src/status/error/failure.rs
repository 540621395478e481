//! A failed call on the engine as a structured error.

use std::time::Duration;

use argus_crds::error::{Call, Code, StructuredError};
use serde_json::{Value, json};

use crate::outcome::{ActError, PortOwner};
use crate::plan::Failure;
use crate::status::wait::{holder, one_line};

/// The code of a failed call.
pub fn code_of(error: &ActError) -> Code {
    match error {
        ActError::TimedOut(_) => Code::Timeout,
        ActError::ConnectionLost(_) => Code::ConnectionLost,
        ActError::CircuitOpen => Code::CircuitOpen,
        ActError::Unreachable(_) | ActError::Engine(_) => Code::DockerUnavailable,
        ActError::NameTaken { .. } | ActError::NotOurs(_) => Code::NameConflict,
        ActError::PortTaken(refusal) => match refusal.owner {
            PortOwner::StaleAllocation => Code::PortStaleAllocation,
            PortOwner::Environment { .. }
            | PortOwner::Container { .. }
            | PortOwner::Process { .. }
            | PortOwner::Unknown => Code::PortConflict,
        },
        ActError::ImageMissing | ActError::ImageNotFound(_) => Code::ImageNotFound,
        ActError::AuthRequired(_) => Code::AuthRequired,
        ActError::RateLimited { .. } => Code::RegistryRateLimited,
        ActError::PullFailed(_) => Code::ImagePullFailed,
        ActError::BuildFailed { .. } => Code::BuildFailed,
        ActError::EntrypointNotFound(_) => Code::EntrypointNotFound,
        ActError::BadMount(_)
        | ActError::StartFailed(_)
        | ActError::Unknown(_)
        | ActError::Rejected(_)
        | ActError::NetworkGone(_) => Code::ContainerStartFailed,
        ActError::Gone | ActError::Busy(_) => Code::CleanupFailed,
        ActError::PoolExhausted(_) => Code::NetworkPoolExhausted,
        ActError::NetworkInUse(_) => Code::NetworkStuck,
        ActError::DiskFull(_) => Code::DiskSpaceLow,
        ActError::JournalUnwritable(_) => Code::JournalUnwritable,
    }
}

/// The error of a failed call; `after` is how long it is until the next try.
pub(super) fn of(failure: &Failure, after: Option<Duration>) -> StructuredError {
    let removing = failure.verb.starts_with("remove-");
    let code = match (removing, code_of(&failure.error)) {
        (true, Code::ContainerStartFailed) => Code::CleanupFailed,
        (false, Code::CleanupFailed) => Code::ContainerStartFailed,
        (_, code) => code,
    };
    let mut error = StructuredError::new(code, message(failure))
        .details(details(failure))
        .stage(failure.verb.clone())
        .attempt(failure.attempts)
        .called(call(failure));
    let asked = match &failure.error {
        ActError::RateLimited { retry_after, .. } => *retry_after,
        _ => None,
    };
    // The memory waits for whichever is longer.
    if let Some(wait) = after.or(asked) {
        error = error.retry_after_span(wait);
    }
    error
}

/// Only here it is told in full: the message is one line of it.
fn call(failure: &Failure) -> Call {
    let said = match &failure.error {
        // The rest is among the details.
        ActError::BuildFailed { message, .. } => message.clone(),
        error => error.to_string(),
    };
    Call::new(failure.verb.clone(), failure.asked.arguments.clone())
        .within(failure.asked.deadline)
        .attempt(failure.attempts)
        .came_to([said])
}

fn message(failure: &Failure) -> String {
    match &failure.error {
        ActError::PortTaken(refusal) => {
            format!("host port {} is held by {}", refusal.port, holder(&refusal.owner))
        }
        ActError::ImageMissing => "the image is not on the engine".to_owned(),
        error => one_line(&error.to_string()),
    }
}

fn details(failure: &Failure) -> Value {
    match &failure.error {
        ActError::PortTaken(refusal) => json!({
            "port": refusal.port.number,
            "protocol": refusal.port.protocol,
            "owner": refusal.owner,
            "freeNow": refusal.free_now,
        }),
        ActError::BuildFailed { message, log } => json!({ "message": message, "log": log }),
        ActError::NameTaken { holder } => json!({ "holder": holder }),
        ActError::TimedOut(_) => json!({
            "verb": failure.verb,
            "reason": failure.error.to_string(),
            "deadlineMs": call(failure).deadline_ms,
        }),
        error => json!({ "verb": failure.verb, "reason": error.to_string() }),
    }
}

//! One call of the engine, with its deadline and its classified error.

use std::future::Future;
use std::time::Duration;

use argus_core::outcome::ActionError;

use crate::Shared;
use crate::error::{self, Op};

/// Deadline of a read. A longer one indicates a problem with the object or with the engine.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Deadline of a ping.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Deadline of a change. It also covers the response body, which the client's own timeout does not.
///
/// The caller of an action has its own deadline, up to `ARGUS_TIMEOUT_SHORT`.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Deadline of the removal of a container, which waits for the kill and for the file system.
pub(crate) const REMOVE_TIMEOUT: Duration = Duration::from_secs(120);

/// Waits for a call within its deadline and classifies its error.
pub(crate) async fn run<T>(
    op: Op,
    limit: Duration,
    call: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, ActionError> {
    match run_raw(op, limit, call).await {
        Ok(value) => Ok(value),
        Err(error) => Err(error.classify(op)),
    }
}

/// Like [`run`], for callers that treat some error responses as success.
pub(crate) async fn run_raw<T>(
    op: Op,
    limit: Duration,
    call: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(bollard::errors::Error::DockerResponseServerError { status_code, message })) => {
            Err(CallError::Response(status_code, message))
        }
        Ok(Err(other)) => Err(CallError::NoResponse(error::classify_transport(&other))),
        // A hanging read has changed nothing: the object is stuck, whatever the state of the engine is.
        Err(_) if op == Op::Inspect => Err(CallError::NoResponse(ActionError::Busy(format!(
            "no answer to an inspect within {} s",
            limit.as_secs()
        )))),
        Err(_) => Err(CallError::NoResponse(ActionError::TimedOut(format!(
            "no answer within {} s",
            limit.as_secs()
        )))),
    }
}

/// The failure of a call, before the caller has decided whether it is an error.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The engine responded with this status and message.
    Response(u16, String),
    /// The engine did not respond; the error is already classified.
    NoResponse(ActionError),
}

impl CallError {
    /// True when the object itself does not exist, as opposed to something that it needs.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Response(404, message) if error::is_gone(message))
    }

    /// True when the engine responded with this status.
    pub(crate) fn has_status(&self, status: u16) -> bool {
        matches!(self, Self::Response(found, _) if *found == status)
    }

    /// The engine's message in lower case; empty without a response.
    pub(crate) fn lowercase_message(&self) -> String {
        match self {
            Self::Response(_, message) => message.to_ascii_lowercase(),
            Self::NoResponse(_) => String::new(),
        }
    }

    /// Classifies this failure.
    pub(crate) fn classify(self, op: Op) -> ActionError {
        match self {
            Self::Response(status, message) => error::classify_response(op, status, &message),
            Self::NoResponse(error) => error,
        }
    }
}

/// Checks that the engine responds.
pub(crate) async fn ping(shared: &Shared) -> Result<(), ActionError> {
    let client = shared.connection.client()?;
    run(Op::Ping, PING_TIMEOUT, client.ping()).await.map(drop)
}

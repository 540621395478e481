//! One call on the engine, with a deadline of its own and its error sorted.

use std::future::Future;
use std::time::Duration;

use argus_core::outcome::ActionError;

use crate::Shared;
use crate::error::{self, Op};

/// A read that takes longer tells of trouble with one object or with the engine.
pub(crate) const READ: Duration = Duration::from_secs(5);
/// A ping that takes longer is no answer.
pub(crate) const PING: Duration = Duration::from_secs(2);
/// The client's timeout ends with the headers; a body that stalls is caught here. Whoever calls has a deadline of his own, which may be as
/// long as `ARGUS_TIMEOUT_QUICK`.
pub(crate) const WRITE: Duration = Duration::from_secs(60);
/// The removal of a container waits for its kill and its file system.
pub(crate) const REMOVE: Duration = Duration::from_secs(120);

/// Waits for a call within its deadline and sorts its error.
pub(crate) async fn within<T>(
    op: Op,
    limit: Duration,
    call: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, ActionError> {
    match raw(op, limit, call).await {
        Ok(value) => Ok(value),
        Err(refusal) => Err(refusal.into_error(op)),
    }
}

/// Like [`within`], for callers to whom some refusals are success.
pub(crate) async fn raw<T>(
    op: Op,
    limit: Duration,
    call: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, Refusal> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(bollard::errors::Error::DockerResponseServerError { status_code, message })) => {
            Err(Refusal::Answered(status_code, message))
        }
        Ok(Err(other)) => Err(Refusal::Sorted(error::transport(&other))),
        // A read that hangs has done nothing: the object is stuck, whatever the engine is.
        Err(_) if op == Op::Inspect => Err(Refusal::Sorted(ActionError::Busy(format!(
            "no answer to an inspect within {} s",
            limit.as_secs()
        )))),
        Err(_) => Err(Refusal::Sorted(ActionError::TimedOut(format!(
            "no answer within {} s",
            limit.as_secs()
        )))),
    }
}

/// How a call failed, before it is known whether that matters.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The engine answered with this status and message.
    Answered(u16, String),
    /// There was no answer.
    Sorted(ActionError),
}

impl Refusal {
    /// The object is gone (and nothing else is).
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Answered(404, message) if error::says_gone(message))
    }

    /// The engine answered with this status.
    pub(crate) fn is(&self, status: u16) -> bool {
        matches!(self, Self::Answered(found, _) if *found == status)
    }

    /// The engine's message, in lower case.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Answered(_, message) => message.to_ascii_lowercase(),
            Self::Sorted(_) => String::new(),
        }
    }

    pub(crate) fn into_error(self, op: Op) -> ActionError {
        match self {
            Self::Answered(status, message) => error::answered(op, status, &message),
            Self::Sorted(error) => error,
        }
    }
}

/// Asks whether the engine answers at all.
pub(crate) async fn ping(shared: &Shared) -> Result<(), ActionError> {
    let client = shared.connection.client()?;
    within(Op::Ping, PING, client.ping()).await.map(drop)
}

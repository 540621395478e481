//! One call of the engine, with its deadline and its classified error.

use std::future::Future;
use std::time::Duration;

use argus_core::action::Deadlines;
use argus_core::outcome::ActionError;

use crate::Shared;
use crate::error::{self, Op};

/// Maximum deadline of a call: a call that takes longer has no answer.
const MAX_CALL: Duration = Duration::from_secs(600);

/// Deadlines of calls by their kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallTimes {
    /// Deadline of a read. A longer one indicates a problem with the object or with the engine.
    pub(crate) read: Duration,
    /// Deadline of a ping.
    pub(crate) ping: Duration,
    /// Deadline of a change. It also covers the response body, which the client's own timeout does not.
    ///
    /// The caller of an action has its own deadline.
    pub(crate) write: Duration,
    /// Deadline of the removal of a container, which waits for the kill and for the file system.
    pub(crate) remove: Duration,
    /// Deadline of a collection of evidence, below that of its action: what arrives later is reported as missing.
    pub(crate) evidence: Duration,
}

impl CallTimes {
    /// Deadlines of a slow engine grow with the settings. Shorter settings only shorten actions: all else depends on these calls. Long settings
    /// are for pulls and builds, which have no deadline here.
    pub(crate) fn of(settings: Deadlines) -> Self {
        let least = Deadlines::default();
        let (short, long) = (
            settings.short.clamp(least.short, MAX_CALL),
            settings.long.clamp(least.long, MAX_CALL),
        );
        Self {
            read: short / 2,
            ping: short / 5,
            write: long / 2,
            remove: long,
            evidence: short * 2 / 5,
        }
    }
}

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

/// Like [`run`]; `None` for an error response that the caller accepts, such as that of an object which is gone already.
pub(crate) async fn run_accepting<T>(
    op: Op,
    limit: Duration,
    call: impl Future<Output = Result<T, bollard::errors::Error>>,
    is_accepted: impl Fn(&CallError) -> bool,
) -> Result<Option<T>, ActionError> {
    match run_raw(op, limit, call).await {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_accepted(&error) => Ok(None),
        Err(error) => Err(error.classify(op)),
    }
}

/// Like [`run`], for callers that use the error response.
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
    run(Op::Ping, shared.times.ping, client.ping()).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_of_calls_grow_with_the_settings() {
        let seconds = |short, long| {
            let times = CallTimes::of(Deadlines {
                short: Duration::from_secs(short),
                long: Duration::from_secs(long),
            });
            [times.ping, times.read, times.evidence, times.write, times.remove].map(|time| time.as_secs())
        };
        assert_eq!(seconds(10, 120), [2, 5, 4, 60, 120], "the default");
        assert_eq!(seconds(60, 600), [12, 30, 24, 300, 600]);
        assert_eq!(seconds(1, 5), seconds(10, 120));
        assert_eq!(seconds(86_400, 86_400), [120, 300, 240, 300, 600], "the longest");
    }
}

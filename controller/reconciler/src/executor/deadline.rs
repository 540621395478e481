//! Deadline of an engine call: after it, the outcome of the call is unknown.

use std::future::Future;
use std::time::Duration;

use argus_core::outcome::ActionError;

/// Awaits the call until its deadline, or without a limit if there is none. A late call has an unknown outcome.
pub async fn within<T>(
    deadline: Option<Duration>,
    verb: &str,
    call: impl Future<Output = Result<T, ActionError>>,
) -> Result<T, ActionError> {
    let Some(deadline) = deadline else {
        return call.await;
    };
    match tokio::time::timeout(deadline, call).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ActionError::TimedOut(format!(
            "{verb} did not answer within {} s",
            deadline.as_secs_f32()
        ))),
    }
}

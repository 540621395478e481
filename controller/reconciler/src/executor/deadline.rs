//! How long a call may take before nobody knows what came of it.

use std::future::Future;
use std::time::Duration;

use argus_core::outcome::ActionError;

/// Waits for the call, but not beyond its deadline: then its outcome is unknown.
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

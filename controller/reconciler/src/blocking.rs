//! Blocking work of tasks.

use std::panic;

/// Runs `work` on a thread that may block. A panic of the work continues in the calling task, and its supervisor reports it.
pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(payload) => panic::resume_unwind(payload),
            // The runtime is shutting down, and drops the calling task.
            Err(_) => std::future::pending().await,
        },
    }
}

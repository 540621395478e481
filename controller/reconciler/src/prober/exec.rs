//! Exec probe: a command in the container, successful with exit code 0.

use argus_backend::Backend;
use argus_core::ident::ContainerId;

use super::probe_history::ProbeResult;

/// Runs the command; the caller sets the deadline.
pub(super) async fn probe<B: Backend>(backend: &B, id: &ContainerId, command: &[String]) -> ProbeResult {
    match backend.exec(id, command).await {
        Ok(result) if result.exit_code == 0 => ProbeResult::success(result.output),
        Ok(result) => ProbeResult::failure(format!("exit code {}: {}", result.exit_code, result.output)),
        Err(error) => ProbeResult::unsent(error.to_string()),
    }
}

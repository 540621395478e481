//! Preflight checks through a controller: a running one performs them itself and records them in the journal.

use std::time::Duration;

use argus_core::journal::{Event, preflight_check_events};
use argus_core::preflight::skip_checks;
use argus_crds::error::Reason;
use argus_crds::status::{CheckName, PreflightCheck, PreflightOverall, PreflightReport};
use argus_reconciler::Handle;
use serde_json::json;
use tokio::sync::Semaphore;

use super::checks::{self, OnChecked};
use crate::client::http::{self, ClientError};
use crate::client::{ControllerClient, remote};
use crate::process::exit::Failure;

/// HTTP path of the preflight checks.
pub(crate) const PREFLIGHT: &str = "/api/v1/preflight";
/// Maximum time of a request: two check rounds with removals in between, after a run for another client.
const TIMEOUT: Duration = Duration::from_secs(150);
/// Allows one check run at a time, because a run calls the engine and writes to the disk.
static CHECK_RUNS: Semaphore = Semaphore::const_new(1);

/// Runs all checks except the skipped ones. With `fix`, it repairs safe problems and checks again. `starts` means that the command is about
/// to start its environments.
pub(crate) async fn run_preflight(
    client: &ControllerClient,
    skip: &[CheckName],
    fix: bool,
    starts: bool,
) -> Result<PreflightReport, Failure> {
    if !client.is_trusted() {
        return read_last_report(client, skip).await;
    }
    if client.has_own_specs() {
        return run_here(client, skip, fix, starts, &mut |_| {}).await;
    }
    let Some(parts) = client.in_process_parts() else {
        let body = json!({ "skip": skip, "autoFix": fix });
        return match http::post_within(TIMEOUT, &client.state().socket(), PREFLIGHT, &body).await {
            Ok(report) => serde_json::from_slice(&report)
                .map_err(|error| remote::command_failure(ClientError::InvalidResponse(error.to_string()))),
            // The checks work without a controller.
            Err(ClientError::Unreachable(_)) => run_here(client, skip, fix, starts, &mut |_| {}).await,
            Err(error) => Err(remote::command_failure(error)),
        };
    };
    // The semaphore is never closed.
    let _turn = CHECK_RUNS.acquire().await;
    let mut run = RunningPreflight::start(&parts.handle, skip);
    let mut record = |checks: &[PreflightCheck]| {
        for event in preflight_check_events(checks) {
            parts.handle.record_event(event);
        }
    };
    let report = run_here(client, skip, fix, starts, &mut record).await?;
    run.finish(report.overall);
    Ok(report)
}

/// Returns the last report of the controller. A caller without the token causes no call of the engine, and no record in the journal.
async fn read_last_report(client: &ControllerClient, skip: &[CheckName]) -> Result<PreflightReport, Failure> {
    let last = client.statuses().await?.controller.preflight.clone();
    let missing = || {
        let message = "the controller has no preflight report";
        Failure::with_reason(Reason::Unavailable, message).with_hint("send the token, which runs the checks")
    };
    Ok(skip_checks(last.ok_or_else(missing)?, skip))
}

async fn run_here(
    client: &ControllerClient,
    skip: &[CheckName],
    fix: bool,
    starts: bool,
    on_checked: OnChecked<'_>,
) -> Result<PreflightReport, Failure> {
    let settings = client.run_blocking(|client| Ok(client.query_settings())).await?;
    Box::pin(checks::run_checks(&settings, skip, fix, starts, on_checked)).await
}

/// Check run in the journal: each recorded start gets a recorded end.
struct RunningPreflight<'a> {
    handle: &'a Handle,
    ended: bool,
}

impl<'a> RunningPreflight<'a> {
    fn start(handle: &'a Handle, skip: &[CheckName]) -> Self {
        handle.record_event(Event::PreflightStart {
            environment: None,
            requested: true,
            skip: skip.to_vec(),
        });
        Self { handle, ended: false }
    }

    fn finish(&mut self, overall: PreflightOverall) {
        self.ended = true;
        self.handle.record_event(Event::PreflightEnd {
            environment: None,
            overall,
        });
    }
}

impl Drop for RunningPreflight<'_> {
    /// Records an unfinished run as unhealthy: it failed, or the client disconnected.
    fn drop(&mut self) {
        if !self.ended {
            self.finish(PreflightOverall::Unhealthy);
        }
    }
}

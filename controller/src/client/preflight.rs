//! Preflight checks through a controller: a running one performs them itself and records them in the journal.

use std::time::Duration;

use argus_core::journal::{Event, requested_preflight_events};
use argus_crds::status::{CheckName, PreflightOverall, PreflightReport};
use argus_reconciler::Handle;
use serde_json::json;
use tokio::sync::Semaphore;

use super::remote;
use super::{ControllerClient, Transport, socket_path};
use crate::api::preflight::checks as preflight;
use crate::client::http;
use crate::client::http::ClientError;
use crate::exit::Failure;

/// HTTP path of the preflight checks.
pub(crate) const PREFLIGHT: &str = "/api/v1/preflight";
/// Maximum time of a request: two check rounds with removals in between, after a run for another client.
const TIMEOUT: Duration = Duration::from_secs(150);
/// Allows one check run at a time, because a run calls the engine and writes to the disk.
static CHECK_RUNS: Semaphore = Semaphore::const_new(1);

impl ControllerClient {
    /// Runs all checks except the skipped ones. With `fix`, it repairs safe problems and checks again.
    pub(crate) async fn run_preflight(
        &self,
        skip: &[CheckName],
        fix: bool,
    ) -> Result<PreflightReport, Failure> {
        match &self.transport {
            Transport::InProcess(own) => {
                // The semaphore is never closed.
                let _turn = CHECK_RUNS.acquire().await;
                let mut run = RunningPreflight::start(&own.handle, skip);
                let report = self.run_checks(skip, fix).await?;
                run.finish(&report);
                Ok(report)
            }
            Transport::Remote => {
                let body = json!({ "skip": skip, "autoFix": fix });
                match http::post_within(TIMEOUT, &socket_path(&self.state), PREFLIGHT, &body).await {
                    Ok(report) => serde_json::from_slice(&report).map_err(|error| {
                        remote::command_failure(ClientError::InvalidResponse(error.to_string()))
                    }),
                    // The checks work without a controller.
                    Err(ClientError::Unreachable(_)) => self.run_checks(skip, fix).await,
                    Err(error) => Err(remote::command_failure(error)),
                }
            }
        }
    }

    async fn run_checks(&self, skip: &[CheckName], fix: bool) -> Result<PreflightReport, Failure> {
        let settings = self.run_blocking(|client| Ok(client.query_settings())).await?;
        Box::pin(preflight::run_checks(&settings, skip, fix)).await
    }
}

/// Check run in the journal: each recorded start gets a recorded end.
struct RunningPreflight<'a> {
    handle: &'a Handle,
    ended: bool,
}

impl<'a> RunningPreflight<'a> {
    fn start(handle: &'a Handle, skip: &[CheckName]) -> Self {
        handle.record_event(Event::PreflightStart {
            requested: true,
            skip: skip.to_vec(),
        });
        Self { handle, ended: false }
    }

    fn finish(&mut self, report: &PreflightReport) {
        for note in requested_preflight_events(report) {
            self.handle.record_event(note);
        }
        self.ended = true;
    }
}

impl Drop for RunningPreflight<'_> {
    /// Records an unfinished run as unhealthy: it failed, or the client disconnected.
    fn drop(&mut self) {
        if !self.ended {
            self.handle.record_event(Event::PreflightEnd {
                overall: PreflightOverall::Unhealthy,
            });
        }
    }
}

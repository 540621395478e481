//! Whether everything is fit, asked of a controller: one that is at work looks itself, and writes down that it did.

use std::time::Duration;

use argus_core::journal::{Event, looked};
use argus_crds::status::{CheckName, PreflightOverall, PreflightReport};
use argus_reconciler::Handle;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{ControllerClient, Transport, socket};
use crate::cli::{client as commands, preflight};
use crate::exit::Failure;
use crate::http::client::{self, ClientError};

/// Where a controller is asked.
pub(crate) const PREFLIGHT: &str = "/api/v1/preflight";
/// Two looks, and as long as removals between them are waited for; and one of somebody else before.
const LONGEST: Duration = Duration::from_secs(150);
/// It asks the engine and writes to the disk: one at a time, whoever asks.
static LOOKS: Semaphore = Semaphore::const_new(1);

impl ControllerClient {
    /// Looks at everything but what is skipped; mends what is safe to mend, if that is wanted, and looks again.
    pub(crate) async fn preflight(&self, skip: &[CheckName], mend: bool) -> Result<PreflightReport, Failure> {
        match &self.transport {
            Transport::InProcess(own) => {
                // Never closed.
                let _turn = LOOKS.acquire().await;
                let mut asked = RunningPreflight::by(&own.handle, skip);
                let report = self.look(skip, mend).await?;
                asked.told(&report);
                Ok(report)
            }
            Transport::Remote => {
                let body = json!({ "skip": skip, "fix": mend });
                match client::post_within(LONGEST, &socket(&self.state), PREFLIGHT, &body).await {
                    Ok(report) => serde_json::from_slice(&report)
                        .map_err(|error| commands::failure(ClientError::Broken(error.to_string()))),
                    // Nobody has to be there for a look.
                    Err(ClientError::Away(_)) => self.look(skip, mend).await,
                    Err(error) => Err(commands::failure(error)),
                }
            }
        }
    }

    async fn look(&self, skip: &[CheckName], mend: bool) -> Result<PreflightReport, Failure> {
        let settings = self.read(|client| Ok(client.looking())).await?;
        Box::pin(preflight::look(&settings, skip, mend)).await
    }
}

/// A look that somebody asked for: what begins in the journal ends there as well.
struct RunningPreflight<'a> {
    handle: &'a Handle,
    ended: bool,
}

impl<'a> RunningPreflight<'a> {
    fn by(handle: &'a Handle, skip: &[CheckName]) -> Self {
        handle.note(Event::PreflightStart {
            asked: true,
            skip: skip.to_vec(),
        });
        Self { handle, ended: false }
    }

    fn told(&mut self, report: &PreflightReport) {
        for note in looked(report) {
            self.handle.note(note);
        }
        self.ended = true;
    }
}

impl Drop for RunningPreflight<'_> {
    /// It failed, or whoever asked has gone: what could not be looked at is never fit.
    fn drop(&mut self) {
        if !self.ended {
            self.handle.note(Event::PreflightEnd {
                overall: PreflightOverall::Unhealthy,
            });
        }
    }
}

//! Handle of a running controller for the CLI, HTTP and MCP: it sends commands and reads snapshots.

use std::sync::Arc;
use std::time::Duration;

use argus_backend::HOST_FACTS_TIMEOUT;
use argus_core::ident::EnvName;
use argus_core::journal::Event;
use argus_core::wait::{Wait, WaitReason};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::command::{Command, CommandError, Reply, Request};
use crate::connectivity::{LinkState, link_state};
use crate::journal::Journal;
use crate::persisted::WriteResult;
use crate::reconciler::StateToPersist;
use crate::snapshot::Snapshot;
use crate::specs::SpecRegistry;
use crate::specs::sync_barrier::{SYNC_TIMEOUT, SyncRequester};
use crate::supervise::Heartbeat;

/// Capacity of the command channel. People and agents send few commands; a sender of more gets
/// [`CommandError::Busy`].
pub(crate) const COMMAND_CAPACITY: usize = 64;

/// Maximum time that the begin of a test waits for a connectivity check of the current state.
pub const LINKS_TIMEOUT: Duration = Duration::from_secs(30);

/// Client of a running controller; cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) commands: mpsc::Sender<Request>,
    pub(crate) snapshot: watch::Receiver<Arc<Snapshot>>,
    pub(crate) journal: Journal,
    pub(crate) spec_sync: SyncRequester,
    pub(crate) registries: watch::Receiver<Arc<SpecRegistry>>,
    /// Result of the last write of the commands in effect.
    pub(crate) saved: watch::Receiver<Option<WriteResult<StateToPersist>>>,
    /// Newest snapshot that the status files show.
    pub(crate) flushed: watch::Receiver<Arc<Snapshot>>,
    pub(crate) heartbeat: Heartbeat,
    /// Request for a preflight check.
    pub(crate) needs_preflight: Arc<Notify>,
}

impl Handle {
    /// Heartbeat of the reconcile loop.
    pub fn heartbeat(&self) -> &Heartbeat {
        &self.heartbeat
    }

    /// Sends a command, and waits until the reconciler has applied and persisted it, and the status files show it. The
    /// command takes effect after all spec edits that were made before it; only [`Command::Sync`] fails if the scan lasts too long. `id`
    /// identifies it in the journal.
    pub async fn send(&self, command: Command, id: String) -> Result<Reply, CommandError> {
        let is_synced = self.spec_sync.wait().await;
        if command == Command::Sync {
            if !is_synced {
                return Err(CommandError::SpecsNotRead);
            }
            self.repeat_failed_checks().await;
            self.wait_for_status_flush().await;
            return Ok(Reply::Done);
        }
        let unverified = match &command {
            Command::BeginTest { environment, .. } => self.wait_for_links(environment).await?,
            _ => None,
        };
        if command == Command::ResumeController {
            // The caller checks the disk, so that the reconciler does not wait for it.
            if self.snapshot().problems.safe.is_none() {
                let message = "the controller is not in mode `Safe`".to_owned();
                return Err(CommandError::Refused(message));
            }
            self.journal.leave_safe_mode().await.map_err(CommandError::Safe)?;
        }
        let (reply, replied) = oneshot::channel();
        self.commands
            .try_send(Request {
                command,
                id,
                unverified,
                reply,
            })
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => CommandError::Busy,
                mpsc::error::TrySendError::Closed(_) => CommandError::Stopped,
            })?;
        let (reply, number) = replied.await.unwrap_or(Err(CommandError::Stopped))?;
        self.wait_until_saved(number).await?;
        // A client that reads the status next must not find the state before its command.
        self.wait_for_status_flush().await;
        Ok(reply)
    }

    /// Repeats the preflight checks if an environment waits for one, so that the answer does not show a cause that a person has
    /// already removed.
    async fn repeat_failed_checks(&self) {
        let before = self.snapshot();
        let is_check = |wait: &Wait| matches!(wait.on, WaitReason::Preflight { .. });
        if !before.plans.values().any(|plan| plan.waits.iter().any(is_check)) {
            return;
        }
        self.needs_preflight.notify_one();
        let mut snapshots = self.snapshot.clone();
        let is_newer = |snapshot: &Arc<Snapshot>| snapshot.preflight.at > before.preflight.at;
        drop(tokio::time::timeout(HOST_FACTS_TIMEOUT, snapshots.wait_for(is_newer)).await);
    }

    /// Waits for the write of a command, which would not survive a crash before. The command is in effect even if the
    /// write fails.
    async fn wait_until_saved(&self, number: u64) -> Result<(), CommandError> {
        let mut saved = self.saved.clone();
        let is_written = |written: &Option<WriteResult<StateToPersist>>| {
            let value = written.as_ref().map(|written| &written.value);
            value.is_some_and(|value| value.accepted_commands >= number)
        };
        let written = saved.wait_for(is_written).await;
        let written = written.map_err(|_| CommandError::Stopped)?;
        let error = written.as_ref().and_then(|written| written.error.clone());
        error.map_or(Ok(()), |why| Err(CommandError::NotPersisted(why)))
    }

    /// Waits for a connectivity check of the current state of an environment. Returns the reason if the links are not
    /// verified; the test begins nevertheless.
    async fn wait_for_links(&self, env: &EnvName) -> Result<Option<String>, CommandError> {
        let mut snapshots = self.snapshot.clone();
        let is_checked =
            |snapshot: &Arc<Snapshot>| !matches!(link_state(snapshot, env), LinkState::Pending(_));
        drop(tokio::time::timeout(LINKS_TIMEOUT, snapshots.wait_for(is_checked)).await);
        match link_state(&self.snapshot(), env) {
            LinkState::Broken(error) => Err(CommandError::Unreachable(error)),
            LinkState::Verified => Ok(None),
            LinkState::Unverified(reason) | LinkState::Pending(reason) => Ok(Some(reason)),
        }
    }

    /// Waits until the status files show the last scan of the specs folder and all commands that are in effect. A full
    /// disk does not block the command.
    async fn wait_for_status_flush(&self) {
        let mut flushed = self.flushed.clone();
        let newest = self.snapshot();
        let is_current = |shown: &Arc<Snapshot>| {
            shown.accepted_commands >= newest.accepted_commands
                && shown.preflight.at >= newest.preflight.at
                && Arc::ptr_eq(&shown.specs, &self.registries.borrow())
        };
        drop(tokio::time::timeout(SYNC_TIMEOUT, flushed.wait_for(is_current)).await);
    }

    /// Records an event that is not the result of a command. The write is asynchronous.
    pub fn record_event(&self, event: Event) {
        self.journal.record_event(event);
    }

    /// Returns the newest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// Receiver of the snapshots. A slow reader sees only the newest one. The channel closes when the reconciler
    /// ends.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }
}

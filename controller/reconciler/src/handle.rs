//! What surfaces hold of a running controller: commands in, outlook out.

use std::sync::Arc;
use std::time::Duration;

use argus_core::ident::{EnvName, Revision, ServiceName};
use argus_core::journal::Event;
use argus_core::state::Disruption;
use argus_core::time::Timestamp;
use argus_core::user_requests::TestLease;
use argus_crds::error::StructuredError;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use crate::connectivity::{LinkState, link_state};
use crate::journal::Journal;
use crate::snapshot::Snapshot;
use crate::specs::SpecRegistry;
use crate::specs::sync_barrier::{SYNC_LIMIT, SyncRequester};

/// Commands that wait for the reconciler: people and agents send a few, whoever sends more is told that it is busy.
pub(crate) const COMMANDS: usize = 64;

/// A test that begins waits so long for the look at who reaches whom.
const LOOK: Duration = Duration::from_secs(6);

/// Something a person or an agent asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "verb",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Command {
    /// Take an environment down, until its file changes or a retry is asked for.
    Down {
        /// Environment.
        environment: EnvName,
    },
    /// Forget failures and counters of an environment and try again.
    Retry {
        /// Environment.
        environment: EnvName,
    },
    /// Leave an environment or a service as it is.
    Hold {
        /// Environment.
        environment: EnvName,
        /// One service of it; all of it without.
        #[serde(default)]
        service: Option<ServiceName>,
        /// When the hold ends by itself.
        #[serde(default)]
        until: Option<Timestamp>,
        /// Why, for whoever reads the status.
        #[serde(default)]
        reason: String,
        /// Who asks for it, for whoever reads the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// End a hold.
    Resume {
        /// Environment.
        environment: EnvName,
        /// One service of it; all of it without.
        #[serde(default)]
        service: Option<ServiceName>,
    },
    /// Abandon pulls and builds of an environment, and hold it.
    Cancel {
        /// Environment.
        environment: EnvName,
    },
    /// A test begins: what runs is left running until it ends.
    BeginTest {
        /// Environment.
        environment: EnvName,
        /// Name of the test case.
        case: String,
        /// How long at most.
        ttl: Duration,
        /// Who runs it, for whoever reads the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
        /// What for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        purpose: Option<String>,
    },
    /// A test ended.
    EndTest {
        /// Environment.
        environment: EnvName,
        /// Name of the test case.
        case: String,
    },
    /// End mode `Safe`.
    ResumeController,
    /// Read the spec folder, and answer when the status files tell of what lies in it now.
    Sync,
    /// Go back to the last other revision that was ready.
    Rollback {
        /// Environment.
        environment: EnvName,
    },
    /// Try the engine at once although a breaker is open.
    ResetBreaker {
        /// One environment's; all of them and the engine's without.
        #[serde(default)]
        environment: Option<EnvName>,
    },
    /// Remove what dead controllers left, whatever the specs say about that.
    CleanOrphans {
        /// Of these projects; of all whose specs are held without any.
        #[serde(default)]
        projects: Vec<String>,
    },
    /// Run the same revision beside itself.
    Fork {
        /// Environment.
        environment: EnvName,
        /// Name of the copy.
        to: EnvName,
    },
}

impl Command {
    /// The environment it is about; `None`: the whole controller.
    pub fn environment(&self) -> Option<&EnvName> {
        Some(match self {
            Self::ResetBreaker { environment } => return environment.as_ref(),
            Self::Down { environment }
            | Self::Retry { environment }
            | Self::Hold { environment, .. }
            | Self::Resume { environment, .. }
            | Self::Cancel { environment }
            | Self::BeginTest { environment, .. }
            | Self::EndTest { environment, .. }
            | Self::Rollback { environment }
            | Self::Fork { environment, .. } => environment,
            Self::CleanOrphans { .. } | Self::ResumeController | Self::Sync => return None,
        })
    }

    /// The command in a word.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Down { .. } => "down",
            Self::Retry { .. } => "retry",
            Self::Hold { .. } => "hold",
            Self::Resume { .. } => "resume",
            Self::Cancel { .. } => "cancel",
            Self::BeginTest { .. } => "beginTest",
            Self::EndTest { .. } => "endTest",
            Self::Rollback { .. } => "rollback",
            Self::Fork { .. } => "fork",
            Self::CleanOrphans { .. } => "cleanOrphans",
            Self::ResetBreaker { .. } => "resetBreaker",
            Self::ResumeController => "resumeController",
            Self::Sync => "sync",
        }
    }
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "camelCase")]
pub enum Reply {
    /// It is taken in.
    Done,
    /// A test began.
    TestLease(TestLease),
    /// A test ended.
    Test(TestReport),
    /// This revision is desired now.
    Revision(Revision),
    /// This environment is desired now.
    Forked(EnvName),
}

/// What happened while a test ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestReport {
    /// Environment.
    pub environment: EnvName,
    /// Name of the test case.
    pub case: String,
    /// When it began (RFC 3339).
    pub began: String,
    /// When it ended (RFC 3339).
    pub ended: String,
    /// When its lease ended by itself, if it did before (RFC 3339): what failed after that is not in here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired: Option<String>,
    /// How many failures of services fell into it.
    pub restarts_during_run: usize,
    /// Each of them, with whose doing it was.
    pub disruptions: Vec<Disruption>,
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Too many commands are waiting; later it will do.
    #[error("controller is busy")]
    Busy,
    /// The controller is stopping.
    #[error("controller is stopping")]
    Stopped,
    /// No such environment.
    #[error("no environment `{0}`")]
    Unknown(EnvName),
    /// It makes no sense as things stand.
    #[error("{0}")]
    Refused(String),
    /// It was taken in, and would not outlive the controller.
    #[error("taken in, but cannot be kept: {0}")]
    NotPersisted(String),
    /// A service does not reach whom it names: no test begins like that.
    #[error("{}", .0.message)]
    Unreachable(Box<StructuredError>),
    /// The journal cannot be written, or the state is corrupt: mode `Safe` does not end.
    #[error("mode `Safe` does not end yet: {0}")]
    Safe(String),
}

/// A command with the way back.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) reply: oneshot::Sender<Result<Reply, CommandError>>,
}

/// A running controller; cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) commands: mpsc::Sender<Request>,
    pub(crate) snapshot: watch::Receiver<Arc<Snapshot>>,
    pub(crate) journal: Journal,
    pub(crate) folder: SyncRequester,
    pub(crate) registries: watch::Receiver<Arc<SpecRegistry>>,
    pub(crate) flushed: watch::Receiver<Arc<SpecRegistry>>,
}

impl Handle {
    /// Sends a command and waits until the reconciler took it in and it is on disk. What lay in the spec folder before it
    /// counts before it.
    pub async fn send(&self, command: Command) -> Result<Reply, CommandError> {
        self.folder.wait().await;
        if command == Command::Sync {
            self.wait_for_status_flush().await;
            return Ok(Reply::Done);
        }
        if let Command::BeginTest { environment, .. } = &command {
            self.wait_for_links(environment).await?;
        }
        if command == Command::ResumeController {
            // The disk is asked by whoever asks us, so that the reconciler waits for nothing.
            if self.snapshot().problems.safe.is_none() {
                let message = "the controller is not in mode `Safe`".to_owned();
                return Err(CommandError::Refused(message));
            }
            self.journal.resume().await.map_err(CommandError::Safe)?;
        }
        let (reply, replied) = oneshot::channel();
        self.commands
            .try_send(Request { command, reply })
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => CommandError::Busy,
                mpsc::error::TrySendError::Closed(_) => CommandError::Stopped,
            })?;
        replied.await.unwrap_or(Err(CommandError::Stopped))
    }

    /// Until it was looked who reaches whom, where everybody is up and somebody looks; a look that takes long holds nobody up.
    async fn wait_for_links(&self, env: &EnvName) -> Result<(), CommandError> {
        let mut snapshots = self.snapshot.clone();
        let known = snapshots.wait_for(|snapshot| link_state(snapshot, env) != LinkState::Pending);
        drop(tokio::time::timeout(LOOK, known).await);
        match link_state(&self.snapshot(), env) {
            LinkState::Broken(error) => Err(CommandError::Unreachable(error)),
            LinkState::Fine | LinkState::Pending => Ok(()),
        }
    }

    /// Until the status files tell of the spec folder as it was read last; a disk that is full holds nobody up.
    async fn wait_for_status_flush(&self) {
        let mut told_of = self.flushed.clone();
        let told = told_of.wait_for(|told| Arc::ptr_eq(told, &self.registries.borrow()));
        drop(tokio::time::timeout(SYNC_LIMIT, told).await);
    }

    /// Writes down what was done beside commands, some time; nobody waits for it.
    pub fn note(&self, note: Event) {
        self.journal.record_event(note);
    }

    /// The newest outlook.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// Outlooks as they change; a slow reader sees the newest only. Closed when the reconciler has ended.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }
}

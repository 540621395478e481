//! Commands of people and agents, with their replies and errors.

use std::time::Duration;

use argus_core::ident::{EnvName, Revision, ServiceName};
use argus_core::state::{Disruption, TestRestart};
use argus_core::test_results::TestRun;
use argus_core::time::Timestamp;
use argus_core::user_requests::TestLease;
use argus_crds::error::StructuredError;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// Request of a person or an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "verb",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Command {
    /// Take an environment down until its file changes or a retry is requested.
    Down {
        /// Environment to take down.
        environment: EnvName,
        /// True to remove its named volumes too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        volumes: bool,
    },
    /// Try an environment again: forgets its failures and counters, ends a `Down` and stops of services, and reverts an automatic rollback.
    /// Or try one service again: forgets only its failures and counters, and ends its stop.
    Retry {
        /// Environment to retry.
        environment: EnvName,
        /// Service to retry; `None` for the whole environment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service: Option<ServiceName>,
    },
    /// Restart an environment or a service.
    Restart {
        /// Environment to restart.
        environment: EnvName,
        /// Service to restart; `None` for the whole environment.
        #[serde(default)]
        service: Option<ServiceName>,
    },
    /// Leave an environment or a service unchanged, or stop the service first.
    Hold {
        /// Environment to hold.
        environment: EnvName,
        /// Service to hold; `None` for the whole environment.
        #[serde(default)]
        service: Option<ServiceName>,
        /// End of the hold; `None` until a resume.
        #[serde(default)]
        until: Option<Timestamp>,
        /// True to stop the service until a retry or a resume.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stops: bool,
        /// Reason, shown in the status.
        #[serde(default)]
        reason: String,
        /// Name of the requester, shown in the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// End a hold.
    Resume {
        /// Held environment.
        environment: EnvName,
        /// Held service; `None` for the whole environment.
        #[serde(default)]
        service: Option<ServiceName>,
    },
    /// Abort the pulls and builds of an environment, and hold it.
    Cancel {
        /// Environment to cancel.
        environment: EnvName,
    },
    /// Begin a test: running services are not restarted until it ends.
    BeginTest {
        /// Environment under test.
        environment: EnvName,
        /// Name of the test case.
        case: String,
        /// Maximum duration of the test.
        ttl: Duration,
        /// Name of the test runner, shown in the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
        /// Purpose of the test, shown in the status.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        purpose: Option<String>,
    },
    /// End a test.
    EndTest {
        /// Environment under test.
        environment: EnvName,
        /// Name of the test case.
        case: String,
    },
    /// Record the results of a test run.
    RecordTests {
        /// Tested environment.
        environment: EnvName,
        /// Results of the run.
        run: TestRun,
    },
    /// Leave mode `Safe`.
    ResumeController,
    /// Scan the specs folder, and reply once the status files show its current content.
    Sync,
    /// Return to the newest known good revision other than the current one.
    Rollback {
        /// Environment to roll back.
        environment: EnvName,
    },
    /// Try the engine immediately although a breaker is open.
    ResetBreaker {
        /// Environment of the breaker; `None` for all breakers with the engine's.
        #[serde(default)]
        environment: Option<EnvName>,
    },
    /// Remove the orphans of dead controllers, even if the specs only report them.
    CleanOrphans {
        /// Projects of the orphans; empty for all projects of the known specs.
        #[serde(default)]
        projects: Vec<String>,
        /// True to remove their kept volumes too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        volumes: bool,
        /// True to include the kept volumes of other folders. Only `argus` in a terminal sets it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all_folders: bool,
    },
    /// Run a copy of the same revision.
    Fork {
        /// Environment to copy.
        environment: EnvName,
        /// Name of the copy.
        to: EnvName,
        /// Lifetime of the copy, or of its timed hold; `None` until a person removes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl: Option<Duration>,
    },
}

impl Command {
    /// Affected environment; `None` for the whole controller.
    pub fn environment(&self) -> Option<&EnvName> {
        Some(match self {
            Self::ResetBreaker { environment } => return environment.as_ref(),
            Self::Down { environment, .. }
            | Self::Retry { environment, .. }
            | Self::Restart { environment, .. }
            | Self::Hold { environment, .. }
            | Self::Resume { environment, .. }
            | Self::Cancel { environment }
            | Self::BeginTest { environment, .. }
            | Self::EndTest { environment, .. }
            | Self::RecordTests { environment, .. }
            | Self::Rollback { environment }
            | Self::Fork { environment, .. } => environment,
            Self::CleanOrphans { .. } | Self::ResumeController | Self::Sync => return None,
        })
    }
}

macro_rules! verbs {
    ($($command:ident = $verb:literal,)*) => {
        impl Command {
            /// Names of all commands, as on the wire.
            pub const VERBS: &[&str] = &[$($verb),*];

            /// Name of the command, as on the wire.
            pub fn verb(&self) -> &'static str {
                match self {
                    $(Self::$command { .. } => $verb,)*
                }
            }
        }
    };
}

verbs! {
    Down = "down",
    Retry = "retry",
    Restart = "restart",
    Hold = "hold",
    Resume = "resume",
    Cancel = "cancel",
    BeginTest = "beginTest",
    EndTest = "endTest",
    RecordTests = "recordTests",
    ResumeController = "resumeController",
    Sync = "sync",
    Rollback = "rollback",
    ResetBreaker = "resetBreaker",
    CleanOrphans = "cleanOrphans",
    Fork = "fork",
}

/// Reply to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "camelCase")]
pub enum Reply {
    /// The command was accepted.
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

/// Report of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestReport {
    /// Environment under test.
    pub environment: EnvName,
    /// Name of the test case.
    pub case: String,
    /// Begin of the test (RFC 3339).
    pub started: String,
    /// End of the test (RFC 3339).
    pub ended: String,
    /// End of its lease (RFC 3339), if that was before the end of the test. Later failures are not in the report.
    #[serde(default, rename = "expired", skip_serializing_if = "Option::is_none")]
    pub lease_ended_at: Option<String>,
    /// True if a connectivity check at the begin of the test found that all links work.
    #[serde(default)]
    pub verified: bool,
    /// Reason why the links were not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
    /// Number of restarts of services during the test.
    #[serde(rename = "restartsDuringRun")]
    pub restart_count: usize,
    /// Each restart with its reason.
    #[serde(default)]
    pub restarts: Vec<TestRestart>,
    /// Each failure and each interruption with its attribution.
    pub disruptions: Vec<Disruption>,
}

/// Reason why a command was not executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The command channel is full; the client may retry later.
    #[error("controller is busy")]
    Busy,
    /// The controller is stopping.
    #[error("controller is stopping")]
    Stopped,
    /// The scan of the spec files lasts longer than one request waits; the client may repeat it.
    #[error("the spec files are not read yet")]
    SpecsNotRead,
    /// The environment does not exist.
    #[error("no environment `{0}`")]
    Unknown(EnvName),
    /// The command does not apply in the current state.
    #[error("{0}")]
    Refused(String),
    /// The command is in effect, and will not survive a restart of the controller.
    #[error("accepted, but cannot be saved: {0}")]
    NotPersisted(String),
    /// A declared link does not work, so no test begins.
    #[error("{}", .0.message)]
    Unreachable(Box<StructuredError>),
    /// Mode `Safe` continues: the journal cannot be written, or the state is corrupt.
    #[error("cannot leave mode `Safe`: {0}")]
    Safe(String),
}

/// Command with the channel of its reply.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) command: Command,
    /// Identifier of the command, as in the journal.
    pub(crate) id: String,
    /// For the begin of a test: reason why its links are not verified.
    pub(crate) unverified: Option<String>,
    /// Answered once the command is in effect, with its number in [`Snapshot::accepted_commands`](crate::Snapshot).
    pub(crate) reply: oneshot::Sender<Result<(Reply, u64), CommandError>>,
}

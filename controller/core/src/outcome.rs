//! What came of an act, sorted by what happens next rather than by how the engine worded it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ident::{ContainerId, HostPort, NetworkId};

/// An act that the engine carried out (or found done already: every act can be repeated).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Done {
    /// Nothing to report but success.
    Ok,
    /// A container was created, or adopted by its name, label and hash.
    Container(ContainerId),
    /// A network was created or adopted.
    Network(NetworkId),
    /// What a failed container left was taken.
    Evidence(Box<Evidence>),
}

/// What a run left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Evidence {
    /// Its last lines on stdout, oldest first.
    pub stdout: Vec<String>,
    /// Its last lines on stderr, oldest first.
    pub stderr: Vec<String>,
    /// The most memory it used, in bytes, as far as that was measured.
    pub memory_peak: Option<u64>,
    /// What its probe found when it was asked once more, by what was asked.
    pub questions: BTreeMap<String, String>,
    /// What could not be taken, and why.
    pub missing: Vec<String>,
}

/// Why an act was not carried out, or why nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ActionError {
    /// The outcome is unknown: it may have happened, or may happen later. A full list decides.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// There was no answer in time: it may have happened, or may happen later.
    #[error("no answer in time: {0}")]
    TimedOut(String),
    /// The connection ended before the answer: it may have happened.
    #[error("connection lost: {0}")]
    ConnectionLost(String),
    /// It was turned away because a breaker opened after it was decided on; nothing was sent.
    #[error("circuit open")]
    CircuitOpen,
    /// The engine was not reached; nothing was sent.
    #[error("engine unreachable: {0}")]
    Unreachable(String),
    /// The engine itself is in trouble (502 to 504, containerd gone).
    #[error("engine failed: {0}")]
    Engine(String),
    /// The name belongs to something that is not this act's to adopt.
    #[error("name is held by {holder}")]
    NameTaken {
        /// Id, or a description, of what holds it.
        holder: String,
    },
    /// The engine could not bind a host port.
    #[error("host port {} is taken", .0.port)]
    PortTaken(Box<PortRefusal>),
    /// The image is not on the engine.
    #[error("image is not present")]
    ImageMissing,
    /// The registry does not have it.
    #[error("image not found: {0}")]
    ImageNotFound(String),
    /// The registry wants (other) credentials.
    #[error("registry refused access: {0}")]
    AuthRequired(String),
    /// The registry asks for patience.
    #[error("registry limits the rate: {message}")]
    RateLimited {
        /// What it said.
        message: String,
        /// How long it asked us to wait.
        retry_after: Option<Duration>,
    },
    /// The pull failed for another reason.
    #[error("pull failed: {0}")]
    PullFailed(String),
    /// The build failed; the tail of its log.
    #[error("build failed: {message}")]
    BuildFailed {
        /// The failing step's message.
        message: String,
        /// Last lines of the build's log.
        log: String,
    },
    /// The entry point or command does not exist or cannot be run (126, 127).
    #[error("entry point cannot be run: {0}")]
    EntrypointNotFound(String),
    /// A mount's source is missing or refused.
    #[error("mount failed: {0}")]
    BadMount(String),
    /// A mount's source leads elsewhere than it did when the file was accepted; no container has it.
    #[error("mount refused: {0}")]
    MountRefused(String),
    /// The container could not be started for another reason.
    #[error("start failed: {0}")]
    StartFailed(String),
    /// What the act is about is gone.
    #[error("no such object")]
    Gone,
    /// The network the container wants is gone.
    #[error("network not found: {0}")]
    NetworkGone(String),
    /// No address pool is left for a network.
    #[error("no free address pool: {0}")]
    PoolExhausted(String),
    /// Endpoints are still attached.
    #[error("network is in use: {0}")]
    NetworkInUse(String),
    /// Somebody else is at it already (removal in progress).
    #[error("busy: {0}")]
    Busy(String),
    /// The engine's disk is full.
    #[error("no space left: {0}")]
    DiskFull(String),
    /// What was to be done could not be written down first, so it was not done.
    #[error("journal cannot be written: {0}")]
    JournalUnwritable(String),
    /// Ownership was looked at again right before the act, and it is not ours.
    #[error("not ours: {0}")]
    NotOurs(String),
    /// The engine refuses the request as it stands; repeating it is of no use.
    #[error("engine refused: {0}")]
    Rejected(String),
}

impl ActionError {
    /// It may have happened, or may happen later.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(
            self,
            Self::Unknown(_) | Self::TimedOut(_) | Self::ConnectionLost(_)
        )
    }
}

/// What was seen right after the engine refused a host port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRefusal {
    /// The port.
    pub port: HostPort,
    /// It was free again when looked at after the refusal.
    pub free_now: bool,
    /// Who holds it, as far as that could be found.
    pub owner: PortOwner,
    /// Every port that was seen taken in that look; empty where nothing could be seen.
    pub busy: BTreeSet<HostPort>,
}

/// Who holds a host port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum PortOwner {
    /// Another environment of ours.
    Environment {
        /// Its name.
        environment: String,
        /// The service that publishes it.
        service: String,
    },
    /// A container that is not ours.
    Container {
        /// Its name.
        name: String,
        /// Its id.
        id: String,
    },
    /// A process on the host.
    Process {
        /// Process id.
        pid: u32,
        /// Its command line.
        command: String,
    },
    /// Nobody is there, or a leaked proxy.
    StaleAllocation,
    /// It could not be found out.
    Unknown,
}

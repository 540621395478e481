//! Results of actions, grouped by the next step that they require instead of by the text of the engine.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::dockerfile::Instruction;
use crate::ident::{ContainerId, NetworkId, ProtocolPort};
use crate::labels::describe_compose_project;

/// End of the holder in [`ActionError::NameTaken`] for a network without an owner.
pub const FOREIGN_NETWORK: &str = "a network that Argus did not create";

/// Maximum length of the name of an interpreter, in bytes.
const MAX_INTERPRETER: usize = 100;

/// Success of an action. Actions are idempotent, so this includes actions whose effect existed already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Done {
    /// The action has no further result.
    Applied,
    /// Id of the container that was created, or adopted by its name, labels and hash.
    Container(ContainerId),
    /// Id of the network that was created or adopted.
    Network(NetworkId),
    /// Evidence that was collected from a failed container.
    Evidence(Box<Evidence>),
    /// Results of the helper in the network of a failed container. They follow the evidence.
    Diagnosis(Box<Diagnosis>),
}

/// Results of a helper in the network of a failed run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Diagnosis {
    /// Results by check: `dns NAME` and `tcp NAME:PORT`.
    pub results: BTreeMap<String, String>,
    /// Reason of a check without results.
    pub missing: Option<String>,
}

/// Evidence of one run: its output and measurements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Evidence {
    /// Last lines of stdout, oldest first.
    pub stdout: Vec<String>,
    /// Last lines of stderr, oldest first.
    pub stderr: Vec<String>,
    /// Peak memory usage in bytes; `None` if it was not measured.
    pub memory_peak: Option<u64>,
    /// Highest number of processes and threads; `None` if it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids_peak: Option<u64>,
    /// Number of its processes that the kernel killed for a lack of memory; `None` if the kernel did not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// Results of the network checks by check: those from outside during the collection, and those of the helper.
    #[serde(rename = "probeAnswers")]
    pub network_diagnostics: BTreeMap<String, String>,
    /// Platforms of the image and of the engine, if the kernel rejected the format of the program and they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong_platform: Option<String>,
    /// TCP addresses on which its processes listened during the collection; `None` if they were not visible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listening: Option<Vec<SocketAddr>>,
    /// Common paths of health checks to which its port answered with success, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub healthy_paths: Vec<String>,
    /// True if its port answered to a request over HTTP with TLS only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub speaks_tls: bool,
    /// Files of the host that the output or the command names, by path in the container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub host_files: BTreeMap<String, HostFile>,
    /// `ENTRYPOINT` and `CMD` of the Dockerfile of its image, if the container could not run its command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_commands: Vec<Instruction>,
    /// Parts that could not be collected, with the reasons.
    pub missing: Vec<String>,
}

/// Facts of a path of the host, without following links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostFile {
    /// Type and permissions; `None` if nothing exists there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// User id of its owner.
    pub owner: u32,
    /// Size in bytes.
    pub size: u64,
    /// Interpreter in its first line, as `#!` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<String>,
    /// True if its first lines end with CRLF.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_crlf: bool,
    /// Similar name in its folder, if nothing exists there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similar: Option<String>,
    /// Path on the host of a file that the build copies into the image, or of the similar one; `None` for a file of a mount or of the
    /// project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<String>,
}

impl HostFile {
    /// Adds the facts of its first bytes.
    #[must_use]
    pub fn with_head(self, head: &[u8]) -> Self {
        let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Self {
            has_crlf: first.ends_with(b"\r") && first.len() < head.len(),
            interpreter: interpreter(first),
            ..self
        }
    }

    /// True for a folder.
    pub fn is_folder(&self) -> bool {
        self.mode.is_some_and(|mode| mode & 0o170_000 == 0o040_000)
    }

    /// Permissions of a regular file.
    pub fn file_mode(&self) -> Option<u32> {
        self.mode.filter(|mode| mode & 0o170_000 == 0o100_000)
    }
}

/// Interpreter that `#!` names; for `env`, the program that it starts.
fn interpreter(first: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(first.strip_prefix(b"#!")?).ok()?;
    let mut words = line.split_whitespace();
    let program = words.next()?;
    let name = if program.rsplit('/').next() == Some("env") {
        words.find(|word| !word.starts_with('-'))?
    } else {
        program
    };
    (name.len() <= MAX_INTERPRETER).then(|| name.to_owned())
}

impl Evidence {
    /// Adds the results of the helper.
    pub fn attach(&mut self, diagnosis: &Diagnosis) {
        self.network_diagnostics.extend(diagnosis.results.clone());
        self.missing.extend(diagnosis.missing.clone());
    }
}

/// Failure of an action, or an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ActionError {
    /// The outcome is unknown: the action may have taken effect, or may do so later. A full list decides.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// No response arrived in time: the action may have taken effect, or may do so later.
    #[error("timed out: {0}")]
    TimedOut(String),
    /// The connection ended before the response: the action may have taken effect.
    #[error("connection lost: {0}")]
    ConnectionLost(String),
    /// The circuit breaker opened after the action was planned; no request was sent.
    #[error("circuit breaker is open")]
    CircuitOpen,
    /// The engine is unreachable; no request was sent.
    #[error("engine unreachable: {0}")]
    Unreachable(String),
    /// The engine itself fails (status 502 to 504, or containerd is gone).
    #[error("engine failed: {0}")]
    Engine(String),
    /// The name belongs to an object that this action must not adopt.
    #[error("name is held by {holder}")]
    NameTaken {
        /// Id or description of the object with that name.
        holder: String,
    },
    /// The engine could not bind a host port.
    #[error("host port {} is taken", .0.port)]
    PortTaken(Box<PortRefusal>),
    /// The image is not on the engine.
    #[error("image is not present")]
    ImageMissing,
    /// The registry does not have the image.
    #[error("image not found: {0}")]
    ImageNotFound(String),
    /// The registry requires credentials, or other ones.
    #[error("registry refused access: {0}")]
    AuthRequired(String),
    /// The registry limits the request rate.
    #[error("registry rate limit reached: {message}")]
    RateLimited {
        /// Message of the registry.
        message: String,
        /// Requested delay before the next attempt.
        retry_after: Option<Duration>,
    },
    /// The pull failed for another reason.
    #[error("pull failed: {0}")]
    PullFailed(String),
    /// The build failed.
    #[error("build failed: {message}")]
    BuildFailed {
        /// Message of the failed step.
        message: String,
        /// Last lines of the build log.
        log: String,
        /// Failed instruction of the Dockerfile, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instruction: Option<Box<Instruction>>,
    },
    /// The build ended for a cause outside of it: the network, a registry's rate limit or the inactivity limit.
    #[error("build interrupted: {message}")]
    BuildInterrupted {
        /// Cause of the interruption.
        message: String,
        /// Last lines of the build log.
        log: String,
    },
    /// The entry point or command does not exist or is not executable (exit code 126 or 127).
    #[error("entry point cannot be run: {0}")]
    EntrypointNotFound(String),
    /// The source of a mount is missing or was refused.
    #[error("mount failed: {0}")]
    BadMount(String),
    /// The engine has no external volume with this name.
    #[error("the external volume `{0}` does not exist")]
    VolumeNotFound(String),
    /// The engine has no external network with this name.
    #[error("the external network `{0}` does not exist")]
    NetworkNotFound(String),
    /// A mount's source leads elsewhere than it did when the file was accepted; no container has it.
    #[error("mount refused: {0}")]
    MountRefused(String),
    /// The container could not be started for another reason.
    #[error("start failed: {0}")]
    StartFailed(String),
    /// The object of the action no longer exists.
    #[error("no such object")]
    Gone,
    /// The network of the container no longer exists.
    #[error("network not found: {0}")]
    NetworkGone(String),
    /// No address pool is free for another network.
    #[error("no free address pool: {0}")]
    PoolExhausted(String),
    /// Containers are still attached to the network.
    #[error("network is in use: {0}")]
    NetworkInUse(String),
    /// Another request already changes the object, such as a removal in progress.
    #[error("busy: {0}")]
    Busy(String),
    /// Argus ended the action early, because of `argus cancel` or its own stop.
    #[error("cancelled")]
    Cancelled,
    /// The disk of the engine is full.
    #[error("no space left: {0}")]
    DiskFull(String),
    /// The action could not be recorded in the journal, so it was not performed.
    #[error("journal cannot be written: {0}")]
    JournalUnwritable(String),
    /// The ownership check before the action found an object of another owner.
    #[error("not owned by this controller: {0}")]
    NotOwned(String),
    /// The engine rejects the request; an unchanged retry cannot succeed.
    #[error("engine refused: {0}")]
    Rejected(String),
}

impl ActionError {
    /// Returns whether the action may have taken effect, or may do so later.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(
            self,
            Self::Unknown(_) | Self::TimedOut(_) | Self::ConnectionLost(_)
        )
    }
}

/// Text between the reason of a missing image or file and a similar name that exists.
const SIMILAR: &str = "; a similar name exists: ";

impl ActionError {
    /// Adds a similar name that exists to the error of a missing image or file.
    #[must_use]
    pub fn with_similar(self, name: &str) -> Self {
        let add = |reason: String| format!("{reason}{SIMILAR}`{name}`");
        match self {
            Self::ImageNotFound(reason) => Self::ImageNotFound(add(reason)),
            Self::AuthRequired(reason) => Self::AuthRequired(add(reason)),
            Self::PullFailed(reason) => Self::PullFailed(add(reason)),
            Self::BadMount(reason) => Self::BadMount(add(reason)),
            other => other,
        }
    }

    /// Returns the similar name of a missing image or file.
    pub fn similar(&self) -> Option<&str> {
        let (Self::ImageNotFound(reason)
        | Self::AuthRequired(reason)
        | Self::PullFailed(reason)
        | Self::BadMount(reason)) = self
        else {
            return None;
        };
        let (_, name) = reason.rsplit_once(SIMILAR)?;
        name.strip_prefix('`')?.strip_suffix('`')
    }
}

/// State of a host port directly after the engine refused to bind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRefusal {
    /// Refused port.
    pub port: ProtocolPort,
    /// True if the port was free again when checked after the refusal.
    pub free_now: bool,
    /// Owner of the port, where it could be determined.
    pub owner: PortOwner,
    /// Owners of all ports that were taken at the time of that check; empty if the check was impossible.
    #[serde(skip)]
    pub busy: BTreeMap<ProtocolPort, PortOwner>,
}

/// Owner of a host port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum PortOwner {
    /// Another environment of this controller.
    Environment {
        /// Name of it.
        environment: String,
        /// Service that publishes the port.
        service: String,
    },
    /// A container that Argus does not manage.
    Container {
        /// Name of it.
        name: String,
        /// Container id.
        id: String,
        /// Compose project that created it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<String>,
    },
    /// A process on the host.
    Process {
        /// Process id.
        pid: u32,
        /// Command line of the process.
        command: String,
    },
    /// No process listens, or a leaked proxy of the engine holds the port.
    StaleAllocation,
    /// The owner could not be determined.
    Unknown,
}

impl fmt::Display for PortOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment { environment, service } => write!(f, "`{environment}/{service}`"),
            Self::Container { name, project, .. } => {
                write!(f, "container `{name}`")?;
                match project {
                    Some(project) => write!(f, " of {}", describe_compose_project(project)),
                    None => Ok(()),
                }
            }
            Self::Process { pid, command } => write!(f, "process {pid} (`{}`)", one_line(command)),
            Self::StaleAllocation => f.write_str("a stale allocation of the engine"),
            Self::Unknown => f.write_str("an unknown owner"),
        }
    }
}

/// First line of a text that is not empty, cut to 300 characters for tables.
pub(crate) fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 300;
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim();
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

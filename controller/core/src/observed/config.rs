//! Configuration of a container, as an inspect reports it.

use core::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::desired::Mount;
use crate::ident::ProtocolPort;

/// Part of the container configuration that Argus sets and compares.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Config {
    /// Environment variables as `KEY=value`, including those of the image.
    pub environment: Vec<String>,
    /// Memory limit in bytes, 0 for none.
    pub memory: u64,
    /// CPU limit in billionths of a core, 0 for none.
    pub nano_cpus: u64,
    /// Published ports as (container port, host port).
    pub bindings: Vec<(ProtocolPort, ProtocolPort)>,
    /// Host addresses of the published ports as (host port, address); the unspecified address means all addresses.
    #[serde(default)]
    pub addresses: Vec<(ProtocolPort, IpAddr)>,
    /// Restart policy of the engine; `no` on containers of Argus.
    pub restart_policy: String,
    /// Maximum number of processes, 0 for no limit; `None` if the engine does not report a limit.
    #[serde(default)]
    pub pids_limit: Option<u64>,
    /// True if the container is privileged.
    #[serde(default)]
    pub privileged: bool,
    /// Time between stop signal and kill; `None` if the create request did not set it.
    #[serde(default)]
    pub stop_grace: Option<Duration>,
    /// Image reference of the create request.
    #[serde(default)]
    pub image: String,
    /// Entry point, of the create request or of the image.
    #[serde(default)]
    pub entrypoint: Vec<String>,
    /// Command, of the create request or of the image.
    #[serde(default)]
    pub command: Vec<String>,
    /// Folders and volumes, without anonymous volumes.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Digest of the build of its image; empty for an image that Argus did not build.
    #[serde(default)]
    pub build: String,
    /// User, of the create request or of the image.
    #[serde(default)]
    pub user: String,
    /// Working directory, of the create request or of the image.
    #[serde(default)]
    pub working_dir: String,
    /// Paths with a tmpfs.
    #[serde(default)]
    pub tmpfs: Vec<String>,
}

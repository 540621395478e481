//! Calls on the engine as data: one act is one call.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::desired::{Build, Confinement, File, Mount};
use crate::ident::{ContainerId, NetworkId, ResourceName};
use crate::time::Timestamp;

/// One call on the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "camelCase")]
pub enum Action {
    /// Create a network with our labels.
    CreateNetwork {
        /// Name.
        name: ResourceName,
        /// Labels.
        labels: BTreeMap<String, String>,
    },
    /// Remove a network of ours, by id.
    RemoveNetwork {
        /// Id.
        id: NetworkId,
        /// Name, for people.
        name: String,
    },
    /// Create a named volume with our labels.
    CreateVolume {
        /// Name.
        name: ResourceName,
        /// Labels.
        labels: BTreeMap<String, String>,
    },
    /// Remove a named volume of ours.
    RemoveVolume {
        /// Name.
        name: ResourceName,
    },
    /// Pull an image from its registry.
    PullImage {
        /// Reference.
        reference: String,
    },
    /// Build an image.
    BuildImage(Build),
    /// Create a container (it does not run yet).
    CreateContainer {
        /// The name to create it under; not the final one while its predecessor still holds that.
        name: ResourceName,
        /// All the rest.
        spec: Box<ContainerSpec>,
    },
    /// Start a container.
    StartContainer {
        /// Id.
        id: ContainerId,
    },
    /// Stop a container: SIGTERM, then SIGKILL after the grace.
    StopContainer {
        /// Id.
        id: ContainerId,
        /// Grace.
        grace: Duration,
    },
    /// Unfreeze a container.
    UnpauseContainer {
        /// Id.
        id: ContainerId,
    },
    /// Rename a container.
    RenameContainer {
        /// Id.
        id: ContainerId,
        /// New name.
        to: ResourceName,
    },
    /// Remove a container of ours, by id, forced, with its anonymous volumes.
    RemoveContainer {
        /// Id.
        id: ContainerId,
        /// Name, for people.
        name: String,
    },
    /// Take what a failed run left, before anything is done to its container. Changes nothing.
    CollectEvidence {
        /// Container.
        id: ContainerId,
        /// Which failure of the service it is, from 1.
        number: u64,
        /// When the run began.
        since: Option<Timestamp>,
        /// How it ended; `None` where it still runs.
        exit_code: Option<i64>,
        /// The port that its probe asks; asked once more where the container still runs.
        port: Option<u16>,
        /// What its probe said last, oldest first, to be kept with the rest.
        probe_said: Vec<String>,
    },
    /// Put a file into a container, whether it runs or not, in place of the one that is there.
    CopyFile {
        /// Id.
        id: ContainerId,
        /// The file.
        file: File,
    },
    /// Attach a container to its network again.
    ConnectNetwork {
        /// Network.
        network: NetworkId,
        /// Container.
        container: ContainerId,
        /// DNS aliases on it.
        aliases: Vec<String>,
    },
    /// Detach a container from a network, forced; by name, because an id does not free a stuck endpoint.
    DisconnectNetwork {
        /// Network name or id.
        network: String,
        /// Container name or id.
        container: String,
    },
}

impl Action {
    /// The verb as a stable word for logs and metrics.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::CreateNetwork { .. } => "create-network",
            Self::RemoveNetwork { .. } => "remove-network",
            Self::CreateVolume { .. } => "create-volume",
            Self::RemoveVolume { .. } => "remove-volume",
            Self::PullImage { .. } => "pull-image",
            Self::BuildImage(_) => "build-image",
            Self::CreateContainer { .. } => "create-container",
            Self::StartContainer { .. } => "start-container",
            Self::StopContainer { .. } => "stop-container",
            Self::UnpauseContainer { .. } => "unpause-container",
            Self::RenameContainer { .. } => "rename-container",
            Self::RemoveContainer { .. } => "remove-container",
            Self::CollectEvidence { .. } => "collect-evidence",
            Self::CopyFile { .. } => "copy-file",
            Self::ConnectNetwork { .. } => "connect-network",
            Self::DisconnectNetwork { .. } => "disconnect-network",
        }
    }
}

/// Everything that a container is created from, with ports assigned and references resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSpec {
    /// Image reference.
    pub image: String,
    /// Digest of the build that must stand behind the reference; empty for images that are not built.
    pub build: String,
    /// Overrides the image's entry point.
    pub entrypoint: Option<Vec<String>>,
    /// Overrides the image's command.
    pub command: Option<Vec<String>>,
    /// Environment.
    pub environment: BTreeMap<String, String>,
    /// Labels; those that differ at every creation do not enter the hash.
    pub labels: BTreeMap<String, String>,
    /// Name of the network it is on.
    pub network: ResourceName,
    /// DNS aliases on that network.
    pub aliases: Vec<String>,
    /// Published ports.
    pub bindings: Vec<Binding>,
    /// Mounts.
    pub mounts: Vec<Mount>,
    /// Paths with a tmpfs, `/path` or `/path:options` each.
    pub tmpfs: Vec<String>,
    /// Lines for `/etc/hosts`.
    pub extra_hosts: Vec<String>,
    /// User.
    pub user: Option<String>,
    /// Working directory.
    pub working_dir: Option<String>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// CPU limit in billionths of a core.
    pub nano_cpus: Option<u64>,
    /// Stop grace.
    pub stop_grace: Duration,
    /// How tightly it is confined; the usual is not written, so that hashes stay what they are.
    #[serde(default, skip_serializing_if = "Confinement::is_default")]
    pub confinement: Confinement,
}

/// One published port of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// Address on the host.
    pub address: IpAddr,
    /// Port on the host.
    pub host: u16,
    /// Port in the container.
    pub container: u16,
    /// TCP or UDP.
    pub protocol: crate::ident::Protocol,
}

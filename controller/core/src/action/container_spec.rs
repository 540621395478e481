//! Configuration of a container, as the create request has it.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::desired::{ContainerLimits, Mount, ProcessOptions, image_key_of, is_default};
use crate::ident::{Protocol, ResourceName};

/// Configuration of a container, with assigned ports and resolved references.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSpec {
    /// Image reference.
    pub image: String,
    /// Digest of the build behind the reference; empty for images that are not built.
    pub build: String,
    /// Overrides the image's entry point.
    pub entrypoint: Option<Vec<String>>,
    /// Overrides the image's command.
    pub command: Option<Vec<String>>,
    /// Environment variables.
    #[serde(rename = "environment")]
    pub env_vars: BTreeMap<String, String>,
    /// Labels; labels that differ at every creation are not part of the hash.
    pub labels: BTreeMap<String, String>,
    /// Name of its network; the first one of several.
    pub network: ResourceName,
    /// DNS aliases on that network.
    pub aliases: Vec<String>,
    /// DNS aliases on its further networks, by their names. Argus connects the container to them before its first start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub further_networks: BTreeMap<ResourceName, Vec<String>>,
    /// Published ports.
    pub bindings: Vec<Binding>,
    /// Mounted volumes and directories.
    pub mounts: Vec<Mount>,
    /// Paths with a tmpfs, `/path` or `/path:options` each.
    pub tmpfs: Vec<String>,
    /// Additional lines of `/etc/hosts`.
    pub extra_hosts: Vec<String>,
    /// User of the process, as in `USER` of a Dockerfile.
    pub user: Option<String>,
    /// Working directory of the process.
    pub working_dir: Option<String>,
    /// Settings of the process that most files omit. The default is not serialized, so that hashes stay the same.
    #[serde(default, skip_serializing_if = "is_default")]
    pub process: Box<ProcessOptions>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// CPU limit in billionths of a core.
    pub nano_cpus: Option<u64>,
    /// Grace period of a stop.
    pub stop_grace: Duration,
    /// Security restrictions. The default is not serialized, so that hashes stay the same.
    #[serde(default, rename = "confinement", skip_serializing_if = "is_default")]
    pub container_limits: ContainerLimits,
}

impl ContainerSpec {
    /// Returns the names of its networks with its aliases, that of the create request first.
    pub fn attachments(&self) -> impl Iterator<Item = (&ResourceName, &Vec<String>)> {
        let own = self.process.shared_network.is_none();
        let first = own.then_some((&self.network, &self.aliases));
        first.into_iter().chain(&self.further_networks)
    }

    /// Returns the network mode of the create request: its first network, or the container whose network namespace it shares.
    pub fn network_mode(&self) -> String {
        let shared = self.process.shared_network.as_ref();
        match shared.and_then(|shared| shared.container.as_ref()) {
            Some(container) => format!("container:{container}"),
            None => self.network.to_string(),
        }
    }

    /// Returns the key of its image, see [`Image::key`](crate::desired::Image::key).
    pub fn image_key(&self) -> String {
        image_key_of(&self.image, &self.build)
    }
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
    pub protocol: Protocol,
}

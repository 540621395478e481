//! Desired state of an environment, as admission returns it: all texts are checked and all defaults are filled in.
//!
//! [`admit`](admit::admit) returns [`Desired`], [`conflict`] compares files, and [`template`] resolves `{{…}}`.

mod accepted;
pub mod admit;
mod aliases;
mod build;
pub mod ceiling;
pub mod conflict;
pub mod conflict_index;
mod container;
mod container_files;
mod container_labels;
mod container_limits;
pub(crate) mod covers;
mod dependency;
mod effective;
pub mod env_file;
pub mod excluded;
pub mod fork;
pub mod hash;
pub mod host;
pub(crate) mod hosts;
mod identity;
mod image;
pub mod key_lines;
mod mock;
pub mod mounted_file;
mod mounts;
pub mod namespace;
mod needs;
pub mod nested_mounts;
pub mod networks;
pub(crate) mod paths;
mod policy;
pub mod ports;
mod probe;
mod process;
mod referenced_services;
mod replicas;
pub(crate) mod secret_values;
mod service_conflicts;
mod settings;
mod shared_network;
mod shell_words;
mod suggest;
pub mod template;
mod tmpfs;
mod volumes;
pub mod worktree;

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::Growth;
use crate::ident::{EnvName, PortKey, Protocol, ProtocolPort, ResourceName, Revision, ServiceName};
use crate::secrets::Secrets;

pub use accepted::Accepted;
pub use argus_crds::suggestion::nearest;
pub use argus_crds::{PullPolicy, RestartMode};
pub use build::{
    Build, BuildOptions, CacheTarget, NamedContext, SENT_DOCKERFILE, SecretSource, substitute_tag,
};
pub use container_files::{FileAccess, InjectedFile};
pub use container_limits::ContainerLimits;
pub use dependency::{Condition, Criticality, Dependency};
pub(crate) use image::image_key_of;
pub use image::{OWN_IMAGE, is_reserved_tag, own_image_tag, short_reference};
pub use mock::RECORDINGS;
pub use networks::NamedNetwork;
pub use paths::{FILES_OF_ENGINE, KERNEL_FOLDERS};
pub use paths::{MAX_COMPONENTS, MAX_PATH_BYTES};
pub use policy::{Device, Privileges};
pub use ports::{PortPolicy, PortStrategy};
pub use probe::{HttpOptions, LogSearch, Probe, ProbeHandler};
pub use process::ProcessOptions;
pub use settings::{BreakerSettings, MAX_COOLDOWN, PreflightSettings};
pub use shared_network::SharedNetwork;
pub use suggest::similar_image;
pub use tmpfs::tmpfs_path;

/// Desired state of one environment at one revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "the settings are independent")]
pub struct Desired {
    /// Name of the environment.
    pub env: EnvName,
    /// Value of `project.name`, for labels and display.
    pub project: String,
    /// Hash of the settings that affect containers, with requested (not assigned) ports; see [`hash::revision_of`].
    pub revision: Revision,
    /// Network of the services that list no networks.
    pub network: ResourceName,
    /// True if its containers cannot reach other networks through `network`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub internal: bool,
    /// Further networks, by their names in the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<ResourceName, NamedNetwork>,
    /// Names on the engine of the networks that Argus neither creates nor removes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub external_networks: BTreeSet<ResourceName>,
    /// Names on the engine of the volumes that its services mount.
    pub volumes: Vec<ResourceName>,
    /// Subset of `volumes` that Argus neither creates nor removes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub external_volumes: BTreeSet<ResourceName>,
    /// Names of `volumes` in earlier versions, by their name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub former_volumes: BTreeMap<ResourceName, ResourceName>,
    /// Services and mocks, by name.
    pub services: BTreeMap<ServiceName, Service>,
    /// Range and strategy for ports that are taken.
    pub ports: PortPolicy,
    /// Restart policy for failed containers.
    pub restart: RestartPolicy,
    /// Limits and privileges of its containers.
    #[serde(default, rename = "confinement")]
    #[serde(skip_serializing_if = "is_default")]
    pub container_limits: ContainerLimits,
    /// Circuit breaker settings; `None` disables the breaker for this environment.
    #[serde(default)]
    pub breaker: Option<BreakerSettings>,
    /// Preflight settings.
    #[serde(default)]
    pub preflight: PreflightSettings,
    /// True if Argus removes the named volumes together with the environment.
    pub delete_volumes: bool,
    /// True if Argus removes the orphans of dead runs of its project.
    #[serde(default = "yes")]
    pub clean_orphans: bool,
    /// True if connectivity checks run.
    #[serde(default = "yes")]
    pub verify_connectivity: bool,
    /// True if the file puts the environment on hold.
    #[serde(default)]
    pub hold: bool,
    /// Lifetime after acceptance; `None` until the spec file is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
    /// Time after which a revision that is not `Ready` is rolled back to the last `Ready` one; `None` disables this.
    #[serde(default)]
    pub rollback: Option<Duration>,
    /// Values of `{{env.…}}` and of `vars` with a secret name, which outputs redact. Only private files contain them.
    #[serde(default)]
    pub secrets: Secrets,
    /// Path of the file in the project that contains its addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_file: Option<String>,
    /// Folder of the project of the file; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Git worktree of the file, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// Notes for the status about settings that Argus ignores.
    pub notes: Vec<String>,
}

fn yes() -> bool {
    true
}

/// Service or mock of an environment, which runs as one container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Name in the environment, also a DNS alias on its network.
    pub name: ServiceName,
    /// Service under test, or mock.
    pub role: Role,
    /// Name of the container on the engine.
    pub container_name: ResourceName,
    /// Additional DNS aliases: the container name of the file, and those that the file lists.
    pub aliases: Vec<String>,
    /// Names in the file of its networks, with the aliases that it has only there; empty for the default network.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<ResourceName, Vec<String>>,
    /// Image to run.
    pub image: Image,
    /// Time of its pull.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pull_policy: PullPolicy,
    /// Replaces the entry point of the image.
    pub entrypoint: Option<Vec<String>>,
    /// Replaces the command of the image.
    pub command: Option<Vec<String>>,
    /// Environment variables. Values can contain `{{ports…}}` and `{{services…}}`, which the renderer resolves.
    #[serde(rename = "environment")]
    pub env_vars: BTreeMap<String, String>,
    /// Labels of the file. Values can contain `{{ports…}}` and `{{services…}}`, which the renderer resolves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Published ports.
    pub ports: Vec<Port>,
    /// Bind mounts and named volumes.
    pub mounts: Vec<Mount>,
    /// Mounts that Argus adds below these, so that the container cannot change a git directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub covers: Vec<Mount>,
    /// Paths of tmpfs mounts, as `/path` or `/path:options`.
    pub tmpfs: Vec<String>,
    /// Entries for `/etc/hosts`, as `name:address`.
    pub extra_hosts: Vec<String>,
    /// User of the main process, as `user[:group]`.
    pub user: Option<String>,
    /// Working directory in the container.
    pub working_dir: Option<String>,
    /// Settings of the process that most files omit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub process: Box<ProcessOptions>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// CPU limit in billionths of a core.
    pub nano_cpus: Option<u64>,
    /// Time between stop signal and kill.
    pub stop_grace: Duration,
    /// Health probe; `None` uses the `HEALTHCHECK` of the image, and without one a running container is healthy.
    pub probe: Option<Probe>,
    /// Services that must reach a condition before this one starts.
    pub depends_on: Vec<Dependency>,
    /// True if the service runs to completion: exit code 0 satisfies its dependents, and Argus does not restart it.
    pub one_shot: bool,
    /// True if exit code 0 ends the service without a failure. Its dependents do not wait for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_complete: bool,
    /// Effect of its failure on the environment.
    pub criticality: Criticality,
    /// File that Argus copies into its container. A changed file does not replace the container.
    #[serde(default, rename = "file", skip_serializing_if = "Option::is_none")]
    pub injected_file: Option<InjectedFile>,
}

impl Service {
    /// Returns whether exit code 0 completes it.
    pub fn is_completable(&self) -> bool {
        self.one_shot || self.can_complete
    }
}

/// Role of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Service under test.
    Service,
    /// Replacement for a service outside the environment.
    Mock,
}

/// Source of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Image {
    /// Reference of an image that is on the engine, or that Argus pulls.
    Named(String),
    /// Build from a Dockerfile.
    Built(Build),
}

impl Image {
    /// Returns the reference for the create request of the container.
    pub fn reference(&self) -> &str {
        match self {
            Self::Named(reference) => reference,
            Self::Built(build) => &build.tag,
        }
    }

    /// Returns the key of the image's subject: the reference, with the digest of the build for built images.
    pub fn key(&self) -> String {
        match self {
            Self::Named(reference) => image_key_of(reference, ""),
            Self::Built(build) => image_key_of(&build.tag, build.digest.as_str()),
        }
    }
}

/// Published port, as the spec file requests it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Port inside the container.
    pub container: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Requested host port; `None` for any port of the range.
    pub requested: Option<u16>,
    /// Host address; `None` if the file does not name one.
    pub address: Option<IpAddr>,
}

impl Port {
    /// Returns the requested host port with its protocol.
    pub fn requested_host(&self) -> Option<ProtocolPort> {
        self.requested
            .map(|number| ProtocolPort::new(number, self.protocol))
    }

    /// Returns the port in the container of its service.
    pub fn key(&self, service: &ServiceName) -> PortKey {
        PortKey {
            service: service.clone(),
            container: ProtocolPort::new(self.container, self.protocol),
        }
    }
}

/// Mount of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mount {
    /// Folder or file of the host.
    Bind {
        /// Absolute path on the host.
        source: String,
        /// Absolute path in the container.
        target: String,
        /// True if the container cannot write to it.
        read_only: bool,
    },
    /// Named volume of the engine.
    Volume {
        /// Name of the volume on the engine.
        name: ResourceName,
        /// Absolute path in the container.
        target: String,
        /// True if the container cannot write to it.
        read_only: bool,
    },
}

impl Mount {
    /// Absolute path in the container.
    pub fn target(&self) -> &str {
        match self {
            Self::Bind { target, .. } | Self::Volume { target, .. } => target,
        }
    }
}

/// Returns whether a setting has its default. Hashes then omit it, so that an upgrade keeps revisions and containers.
pub(crate) fn is_default<T: Default + PartialEq>(setting: &T) -> bool {
    *setting == T::default()
}

/// Restart policy for failed containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// True if failed containers are restarted.
    pub enabled: bool,
    /// Maximum number of failed runs within `window` that Argus restarts, 0 to 10.
    pub max_restarts: u32,
    /// Delay before the first restart.
    pub delay: Duration,
    /// Growth of the delay.
    pub growth: Growth,
    /// Maximum delay.
    pub max_delay: Duration,
    /// Period in which failed runs count. Runs with a health check count regardless of their age.
    pub window: Duration,
    /// Healthy time after which earlier failures no longer count. Without a health check, it is run time.
    pub reset_after: Duration,
    /// Number of budgets in a row with the same failure after which restarts end; `None` for no such number.
    pub halt_after_same: Option<u32>,
    /// Behavior after the budget is used up.
    pub mode: RestartMode,
    /// Exit codes after which a container does not restart.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub never: BTreeSet<u8>,
    /// Share of its memory limit in percent above which a container is replaced; `None` for no share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_above: Option<u8>,
}

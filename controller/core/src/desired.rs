//! What an environment shall be, after admission: no option that validation settled, no text that was not checked.

pub mod admit;
mod confinement;
pub mod conflict;
mod container;
mod duplicates;
pub mod excluded;
pub mod fork;
pub mod hash;
pub mod host;
mod identity;
mod ignored;
mod image;
mod mock;
mod mounts;
mod needs;
mod paths;
mod peers;
mod policy;
mod port_policy;
pub mod ports;
mod probe;
mod settings;
mod shell_words;
mod suggest;
pub mod template;

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::Growth;
use crate::ident::{EnvName, Hash, HostPort, Protocol, ResourceName, Revision, ServiceName};
use crate::secrets::Secrets;
use crate::state::breaker::BreakerSettings;

pub use confinement::Confinement;
pub use port_policy::{PortPolicy, PortStrategy};

/// One admitted environment at one revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a wish of its own")]
pub struct Desired {
    /// Identity.
    pub env: EnvName,
    /// `project.name`, for labels and people.
    pub project: String,
    /// Hash of everything below, with wanted (not assigned) ports.
    pub revision: Revision,
    /// The one network of the environment.
    pub network: ResourceName,
    /// Named volumes that its services mount, by their name on the engine.
    pub volumes: Vec<ResourceName>,
    /// Services and mocks by name.
    pub services: BTreeMap<ServiceName, Service>,
    /// Where reassigned ports come from, and whether they may move at all.
    pub ports: PortPolicy,
    /// How failed containers are started again.
    pub restart: RestartPolicy,
    /// How tightly its containers are confined.
    #[serde(default, skip_serializing_if = "Confinement::is_default")]
    pub confinement: Confinement,
    /// When the engine is left alone for this environment; `None`: never.
    #[serde(default)]
    pub breaker: Option<BreakerSettings>,
    /// What must be so before anything of it is made.
    #[serde(default)]
    pub preflight: crate::preflight::Policy,
    /// Whether named volumes go when the environment goes.
    pub delete_volumes: bool,
    /// Whether what dead runs of its project left is removed.
    #[serde(default = "yes")]
    pub clean_orphans: bool,
    /// Whether it is looked at who reaches whom.
    #[serde(default = "yes")]
    pub verify_links: bool,
    /// Whether it is left as it is.
    #[serde(default)]
    pub hold: bool,
    /// How long it lives after it was accepted; `None`: until its file goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
    /// A revision that is not Ready within this time gives way to the last good one; `None`: never by itself.
    #[serde(default)]
    pub rollback: Option<Duration>,
    /// What it reads from outside and must not leave; written only to private files, as its environment is.
    #[serde(default)]
    pub secrets: Secrets,
    /// Said once in the status: what the file asks for that Argus carries but does not act on.
    pub notes: Vec<String>,
}

fn yes() -> bool {
    true
}

/// One container of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Name inside the environment, also a DNS alias on its network.
    pub name: ServiceName,
    /// Service under test, or a mock of something else.
    pub role: Role,
    /// The container's name on the engine.
    pub container_name: ResourceName,
    /// Further DNS aliases (the container name as the file has it).
    pub aliases: Vec<String>,
    /// What it runs.
    pub image: Image,
    /// Overrides the image's entry point.
    pub entrypoint: Option<Vec<String>>,
    /// Overrides the image's command.
    pub command: Option<Vec<String>>,
    /// Environment variables; values may still hold `{{ports…}}` and `{{services…}}`, resolved at render.
    pub environment: BTreeMap<String, String>,
    /// Published ports.
    pub ports: Vec<Port>,
    /// Bind mounts and named volumes.
    pub mounts: Vec<Mount>,
    /// Paths with a tmpfs on them, `/path` or `/path:options` each.
    pub tmpfs: Vec<String>,
    /// `name:address` lines for `/etc/hosts`.
    pub extra_hosts: Vec<String>,
    /// `user[:group]`.
    pub user: Option<String>,
    /// Working directory in the container.
    pub working_dir: Option<String>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// CPU limit in billionths of a core.
    pub nano_cpus: Option<u64>,
    /// How long a stop waits before the kill.
    pub stop_grace: Duration,
    /// What decides that it is healthy; `None`: the image's own HEALTHCHECK if it has one, else running is enough.
    pub probe: Option<Probe>,
    /// What must be there first.
    pub depends_on: Vec<Dependency>,
    /// Exit code 0 satisfies dependents, and it is not run again.
    pub one_shot: bool,
    /// What its loss means for the environment.
    pub criticality: Criticality,
    /// A file that is put into its container; another one there does not make it another container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<File>,
}

/// A file in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Absolute path in the container; its folder is there.
    pub path: String,
    /// Its contents.
    pub text: String,
    /// Where a mock passes requests on to; a port of the host that it names may move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl File {
    /// What tells it from any other.
    pub fn digest(&self) -> Hash {
        hash::hash_of(self)
    }
}

/// What a container stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A service under test.
    Service,
    /// A stand-in for something that is not part of the environment.
    Mock,
}

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Image {
    /// Present on the engine, or pulled by this reference.
    Named(String),
    /// Built from a Dockerfile.
    Built(Build),
}

impl Image {
    /// The reference that the container is created from.
    pub fn reference(&self) -> &str {
        match self {
            Self::Named(reference) => reference,
            Self::Built(build) => &build.tag,
        }
    }
}

/// How to build an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Build {
    /// The tag to build and to run.
    pub tag: String,
    /// Absolute path of the context folder.
    pub context: String,
    /// Path of the Dockerfile relative to the context, or absolute when it lies outside.
    pub dockerfile: String,
    /// Build arguments.
    pub args: BTreeMap<String, String>,
    /// Hash of the Dockerfile's and the context's contents: a new digest is a new build.
    pub digest: Hash,
    /// What the context never contains.
    #[serde(default, skip_serializing_if = "excluded::Excluded::is_empty")]
    pub excluded: excluded::Excluded,
}

/// The name of the images of this program, which stands before their tags.
pub const OWN_IMAGE: &str = "argus/mock";

/// The tag of the image of this program: another program is another tag.
pub fn own_image_tag(digest: &Hash) -> String {
    let short: String = digest.as_str().chars().take(12).collect();
    format!("{OWN_IMAGE}:{short}")
}

/// A published port as the file wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Port inside the container.
    pub container: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The wanted port on the host; `None`: any of the range.
    pub wanted: Option<u16>,
    /// Address on the host, when the file names one.
    pub address: Option<IpAddr>,
}

impl Port {
    /// The wanted host port with its protocol.
    pub fn wanted_host(&self) -> Option<HostPort> {
        self.wanted.map(|number| HostPort {
            number,
            protocol: self.protocol,
        })
    }
}

/// Something mounted into a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mount {
    /// A folder or file of the host.
    Bind {
        /// Absolute path on the host.
        source: String,
        /// Absolute path in the container.
        target: String,
        /// Not writable from inside.
        read_only: bool,
    },
    /// A named volume of the engine.
    Volume {
        /// Its name on the engine.
        name: ResourceName,
        /// Absolute path in the container.
        target: String,
        /// Not writable from inside.
        read_only: bool,
    },
}

/// What decides that a running container is healthy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// What is asked.
    pub kind: ProbeKind,
    /// Time between two probes once it was healthy; it is asked more often before.
    pub interval: Duration,
    /// How long one probe may take.
    pub timeout: Duration,
    /// Failures in a row that make it unhealthy.
    pub retries: u32,
    /// Successes in a row that make it healthy.
    pub success_threshold: u32,
    /// Failures within this time after the start do not count.
    pub start_period: Duration,
}

/// The question a probe asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeKind {
    /// GET, healthy on 2xx and 3xx.
    Http {
        /// Path with leading slash.
        path: String,
        /// Port inside the container.
        port: u16,
    },
    /// A connection is accepted.
    Tcp {
        /// Port inside the container.
        port: u16,
    },
    /// A command in the container exits with 0.
    Exec {
        /// Program with its arguments, no shell.
        command: Vec<String>,
    },
    /// The image's own HEALTHCHECK.
    Docker,
}

/// A service that must be there first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// The other service.
    pub service: ServiceName,
    /// How far it must have come.
    pub condition: Condition,
}

/// How far a dependency must have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// Its process runs (or has completed, for a one-shot).
    Started,
    /// It runs and its probe says healthy; running is enough without a probe.
    Healthy,
    /// It exited with 0.
    Completed,
}

/// What the loss of a service means for its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Criticality {
    /// The environment is `Failed`.
    Critical,
    /// The environment is `Degraded`.
    Important,
    /// A warning in an environment that is `Ready`; until it is given up, the environment waits for it.
    Recoverable,
    /// Nothing, and nobody waits for it.
    Optional,
}

impl Criticality {
    /// Whether the environment is not `Ready` without the service, which may have been given up.
    pub fn is_required(self, given_up: bool) -> bool {
        match self {
            Self::Critical | Self::Important => true,
            Self::Recoverable => !given_up,
            Self::Optional => false,
        }
    }
}

/// How failed containers are started again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// `false`: a failed container stays as it is.
    pub enabled: bool,
    /// Budget inside `window`.
    pub max_restarts: u32,
    /// Base delay.
    pub delay: Duration,
    /// How the delay grows.
    pub growth: Growth,
    /// No delay is longer.
    pub max_delay: Duration,
    /// Restarts older than this do not count.
    pub window: Duration,
    /// Healthy for this long, and everything is forgotten.
    pub reset_after: Duration,
    /// What happens when the budget is spent.
    pub mode: SpentMode,
}

/// What happens when the restart budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SpentMode {
    /// Wait for a new revision or a person.
    GiveUp,
    /// Try every 60 s.
    SlowRetry,
    /// Never start a failed container again.
    Never,
}

/// An environment that was admitted, with the facts of its file that are not part of its identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// What it shall be.
    pub desired: Desired,
    /// The file, for people.
    pub spec_path: String,
    /// When this revision was accepted; what it removes is removed 2 s later.
    pub accepted_at: crate::time::Timestamp,
    /// The file says something else by now that does not count (it is refused, or still being written):
    /// until it does, nothing is removed on its word.
    #[serde(default)]
    pub has_pending_edit: bool,
}

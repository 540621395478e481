//! What is right to do now, and what is waited for: decisions as data.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::desired::{Build, Condition, Mount};
use crate::ident::{
    ContainerId, EnvName, HostPort, NetworkId, ResourceName, Revision, ServiceName, SpecHash,
};
use crate::outcome::PortOwner;
use crate::time::Timestamp;

/// What an act is about. At most one act per subject is planned or in flight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Subject {
    /// A service's containers.
    Service {
        /// Environment.
        environment: EnvName,
        /// Service.
        service: ServiceName,
    },
    /// The network of an environment.
    Network {
        /// Environment.
        environment: EnvName,
    },
    /// A named volume.
    Volume {
        /// Environment.
        environment: EnvName,
        /// Its name on the engine.
        name: ResourceName,
    },
    /// An image; shared by every environment that wants it.
    Image {
        /// Reference, with the digest of its build where it is built.
        key: String,
    },
    /// A container that nobody desires.
    StrayContainer {
        /// Its id.
        id: ContainerId,
    },
    /// A network that nobody desires.
    StrayNetwork {
        /// Its id.
        id: NetworkId,
    },
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service { environment, service } => write!(f, "{environment}/{service}"),
            Self::Network { environment } => write!(f, "{environment} network"),
            Self::Volume { environment, name } => write!(f, "{environment} volume {name}"),
            Self::Image { key } => write!(f, "image {key}"),
            Self::StrayContainer { id } => write!(f, "stray container {id}"),
            Self::StrayNetwork { id } => write!(f, "stray network {id}"),
        }
    }
}

/// One call on the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "camelCase")]
pub enum Act {
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

impl Act {
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
    /// Paths with a tmpfs.
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

/// Why an act is right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "camelCase")]
pub enum Cause {
    /// The spec wants it and it is not there.
    Missing,
    /// The spec changed since it was made.
    SpecChanged,
    /// It was changed behind our back: what differs.
    Drift {
        /// What differs.
        what: String,
    },
    /// A replacement is ready to take its place.
    Replaced,
    /// It is made, and everything it depends on is there.
    Ready,
    /// It ended, and its delay is over.
    Restart {
        /// Which try this is, from 1.
        attempt: u32,
    },
    /// Somebody stopped or paused it by hand.
    ByHand,
    /// The engine lost it in a restart of its own.
    EngineRestart,
    /// Its host port was refused and another was assigned.
    PortMoved {
        /// The refused port.
        from: HostPort,
    },
    /// Its host port is free again.
    PortFree,
    /// Its service is no longer in the spec.
    ServiceRemoved,
    /// Its environment is no longer desired.
    EnvironmentRemoved,
    /// More than one container stands for one service.
    Duplicate,
    /// The earlier try failed, and its delay is over.
    Retry {
        /// Which try this is, from 2.
        attempt: u32,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::SpecChanged => f.write_str("spec changed"),
            Self::Drift { what } => write!(f, "drift: {what}"),
            Self::Replaced => f.write_str("replaced"),
            Self::Ready => f.write_str("ready to start"),
            Self::Restart { attempt } => write!(f, "restart {attempt}"),
            Self::ByHand => f.write_str("stopped by hand"),
            Self::EngineRestart => f.write_str("engine restarted"),
            Self::PortMoved { from } => write!(f, "port {from} was refused"),
            Self::PortFree => f.write_str("port is free again"),
            Self::ServiceRemoved => f.write_str("service removed from spec"),
            Self::EnvironmentRemoved => f.write_str("environment removed"),
            Self::Duplicate => f.write_str("duplicate"),
            Self::Retry { attempt } => write!(f, "try {attempt}"),
        }
    }
}

/// An act with what it is about and why it is right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// What it is about.
    pub subject: Subject,
    /// The call.
    pub act: Act,
    /// Why.
    pub because: Cause,
}

/// Why nothing is done about a subject, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// What it is about.
    pub subject: Subject,
    /// Why.
    pub on: WaitingOn,
}

/// What a subject waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "camelCase")]
pub enum WaitingOn {
    /// The engine has not been listed completely yet, or does not answer.
    Engine {
        /// Why.
        why: String,
    },
    /// The spec folder has not been scanned completely yet.
    Specs,
    /// An act on it is in flight.
    InFlight {
        /// Its verb.
        verb: String,
    },
    /// An act was done and its effect is not seen yet.
    Effect {
        /// Its verb.
        verb: String,
        /// After this the expectation is dropped.
        until: Timestamp,
    },
    /// The outcome of a call is unknown; a full list will tell.
    Relist {
        /// After this the wait ends even without a list.
        until: Timestamp,
    },
    /// A dependency has not come far enough.
    Dependency {
        /// Which.
        service: ServiceName,
        /// How far it must come.
        condition: Condition,
    },
    /// Its image is being pulled or built, or that failed.
    Image {
        /// Reference.
        reference: String,
    },
    /// The network is not there yet.
    Network,
    /// A volume is not there yet.
    Volume {
        /// Which.
        name: ResourceName,
    },
    /// Its process runs, its probe has not said healthy yet.
    Probe,
    /// Its process runs, its probe says unhealthy.
    Unhealthy,
    /// A one-shot is running.
    Completion,
    /// It failed and is started again after a delay.
    Backoff {
        /// When.
        until: Timestamp,
        /// Which try comes next, from 1.
        attempt: u32,
    },
    /// A call failed and is tried again after a delay.
    Retry {
        /// When.
        until: Timestamp,
        /// What failed.
        failure: Failure,
    },
    /// A call failed in a way that repeating does not mend.
    Failed {
        /// What failed.
        failure: Failure,
    },
    /// Its restart budget is spent.
    GaveUp {
        /// How many restarts were made.
        restarts: u32,
    },
    /// Its restart policy says that it stays down.
    NotRestarted,
    /// Strategy `fail`: the host port is taken.
    Port {
        /// Which.
        port: HostPort,
        /// By whom.
        owner: PortOwner,
        /// When it is tried again.
        until: Timestamp,
    },
    /// No port of the range is free.
    Ports {
        /// How many were looked at.
        tried: u32,
        /// When it is tried again.
        until: Timestamp,
    },
    /// Its name belongs to a container or network that is not ours.
    Name {
        /// The name.
        name: String,
        /// Who holds it.
        holder: String,
        /// When it is tried again.
        until: Timestamp,
    },
    /// Somebody stopped or paused it by hand; it is repaired after a grace.
    ByHand {
        /// When.
        until: Timestamp,
    },
    /// A new revision removes it; that waits until the revision has been stable for a while.
    Stability {
        /// When.
        until: Timestamp,
    },
    /// Its containers must go first.
    Containers,
    /// The engine is removing it already.
    Removal,
}

/// A failure as the memory keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The verb that failed.
    pub verb: String,
    /// How.
    pub error: crate::outcome::ActError,
    /// When it failed last.
    pub at: Timestamp,
    /// How often in a row.
    pub attempts: u32,
}

impl WaitingOn {
    /// When the passing of time alone ends this wait.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Effect { until, .. }
            | Self::Relist { until }
            | Self::Backoff { until, .. }
            | Self::Retry { until, .. }
            | Self::Port { until, .. }
            | Self::Ports { until, .. }
            | Self::Name { until, .. }
            | Self::ByHand { until }
            | Self::Stability { until } => Some(*until),
            Self::Engine { .. }
            | Self::Specs
            | Self::InFlight { .. }
            | Self::Dependency { .. }
            | Self::Image { .. }
            | Self::Network
            | Self::Volume { .. }
            | Self::Probe
            | Self::Unhealthy
            | Self::Completion
            | Self::Failed { .. }
            | Self::GaveUp { .. }
            | Self::NotRestarted
            | Self::Containers
            | Self::Removal => None,
        }
    }
}

/// Host ports by what they publish.
pub type PortMap = BTreeMap<PortKey, u16>;

/// A published port of a service, as the sticky map names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortKey {
    /// Service.
    pub service: ServiceName,
    /// Port in the container, with protocol.
    pub container: HostPort,
}

/// All that is right now for one environment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Acts, at most one per subject.
    pub steps: Vec<Step>,
    /// Why the other subjects are left alone.
    pub waits: Vec<Wait>,
    /// The host ports that the steps assume; becomes memory.
    #[serde(skip)]
    pub ports: PortMap,
    /// Revision planned for.
    pub revision: Option<Revision>,
    /// The hash each service's container must carry.
    #[serde(skip)]
    pub hashes: BTreeMap<ServiceName, SpecHash>,
}

impl Plan {
    /// Nothing to do and nothing to wait for.
    pub fn is_settled(&self) -> bool {
        self.steps.is_empty() && self.waits.is_empty()
    }

    /// When the passing of time alone changes something.
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.waits.iter().filter_map(|wait| wait.on.until()).min()
    }
}

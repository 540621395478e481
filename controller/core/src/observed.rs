//! Observed state: the objects of the engine, as the watch last reported them.
//!
//! A [`WatchEvent`] reports one change. [`Store`] merges all events and groups the objects by environment into
//! [`Observed`], which the planner compares with the desired state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ident::{ContainerId, ContainerSpecHash, NetworkId};
use crate::labels::{self, ObjectLabels};
use crate::time::Timestamp;

mod compose_volumes;
mod config;
mod containers;
mod merge;
mod network;
mod outage;
mod released;
pub mod store;

pub use config::Config;
pub use containers::Containers;
pub use network::Network;
pub use outage::Outage;
pub use released::{Released, ReleasedNames};
pub use store::{RetryState, Store};

/// Event of the watch on one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// A full list starts; objects that it does not contain by [`Self::InitDone`] no longer exist.
    Init,
    /// An object was added or changed; holds its current state.
    Apply(Object),
    /// An object was removed.
    Delete(ObjectId),
    /// The last started list is complete.
    InitDone,
    /// Another client stopped or killed this container.
    StoppedByOther(ContainerId, Timestamp),
    /// The kernel reported a lack of memory in this container.
    OutOfMemory(ContainerId, Timestamp),
    /// The memory use of this container is above 90 % of its limit and higher than reported before, or `None` when it is normal again.
    MemoryHigh(ContainerId, Option<MemoryUse>),
    /// The image reference of this container now names another image, or none.
    ImageRetagged(ContainerId),
    /// A container or network of any owner was removed or renamed.
    Released(Released),
    /// The engine became unreachable; the stored objects are from before this time. Holds the reason.
    Disconnected(Timestamp, String),
    /// The engine is still unreachable after several attempts.
    Retrying {
        /// Number of consecutive failed attempts, at least 1.
        tries: u32,
        /// Time of the next attempt.
        next: Option<Timestamp>,
    },
    /// The engine became reachable, initially or again.
    Connected(Timestamp),
    /// Start time of the engine, by its own clock. It follows [`Connected`](Self::Connected) where it is known.
    EngineStarted(Timestamp),
    /// The event stream stalled or ended, and is opened again. A list reports what it missed, so the state stays valid.
    StreamGap,
    /// Argus cannot read an event or a list. A new list follows.
    Unreadable(Box<Unreadable>),
    /// The engine answers, but delivers no events; only lists show changes. Holds the reason.
    EventsLost(Timestamp, String),
    /// The engine delivers events again.
    EventsRestored,
}

/// Response of the engine that Argus cannot read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unreadable {
    /// Kind of response, such as `an event` or `the list of containers`.
    pub what: String,
    /// Version of the engine.
    pub version: String,
    /// Reason why Argus cannot read it.
    pub cause: String,
    /// First 2 KiB of the response; empty if it is not JSON.
    pub text: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            version,
            cause,
            text,
        } = self;
        write!(
            f,
            "cannot read {what} of the engine (version {version}): {cause}: {text}"
        )
    }
}

/// Object of the engine with the labels of Argus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// Container.
    Container(Arc<Container>),
    /// Network.
    Network(Arc<Network>),
    /// Named volume.
    Volume(Arc<Volume>),
}

impl Object {
    /// Returns the key by which the engine identifies the object.
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Container(container) => ObjectId::Container(container.id.clone()),
            Self::Network(network) => ObjectId::Network(network.id.clone()),
            Self::Volume(volume) => ObjectId::Volume(volume.name.clone()),
        }
    }
}

/// Key by which the engine identifies an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// Container id.
    Container(ContainerId),
    /// Network id.
    Network(NetworkId),
    /// Volume name.
    Volume(String),
}

/// Container, as list and inspect report it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Id that the engine assigned.
    pub id: ContainerId,
    /// Name without the leading slash.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// Image reference of the create request.
    pub image: String,
    /// Current state.
    pub state: ContainerState,
    /// Creation time.
    pub created_at: Timestamp,
    /// Network attachments by network name.
    pub networks: BTreeMap<String, Attachment>,
    /// Fields that only an inspect reports; `None` until the first one.
    pub inspect: Option<InspectInfo>,
    /// Time of a stop or kill by another client since the last start.
    pub stopped_by_other: Option<Timestamp>,
    /// Time of a kernel out-of-memory event since the last start.
    #[serde(default)]
    pub oom_at: Option<Timestamp>,
}

impl Container {
    /// Returns whether the container is on a network, or shares the network namespace of another one.
    pub fn has_network(&self) -> bool {
        !self.networks.is_empty() || self.labels.contains_key(labels::NETWORK_OWNER)
    }

    /// Returns whether the engine runs the health check of its image. Only an inspect shows this.
    pub fn has_health_check(&self) -> bool {
        self.inspect.as_ref().is_some_and(|info| info.health.is_some())
    }

    /// Returns the ownership; `None` for an object that Argus does not manage.
    pub fn owner(&self) -> Option<ObjectLabels> {
        ObjectLabels::read(&self.labels)
    }

    /// Returns whether it was created from the specification with this hash.
    pub fn carries(&self, hash: &ContainerSpecHash) -> bool {
        self.labels
            .get(labels::SPEC_HASH)
            .is_some_and(|carried| carried == hash.as_str())
    }

    /// Returns whether this controller created it.
    pub fn is_made_by(&self, controller: &str) -> bool {
        self.labels.get(labels::CONTROLLER).map_or("", String::as_str) == controller
    }

    /// Returns whether a stop or kill by another client ended it.
    pub fn is_stopped_externally(&self, grace: Duration) -> bool {
        self.stopped_by_other
            .is_some_and(|at| self.is_ended_by_stop(at, grace))
    }

    /// Returns whether a stop or kill at this time ended it.
    ///
    /// The exit must follow within `grace` plus 10 s. A signal that the process survived does not explain a later exit.
    pub fn is_ended_by_stop(&self, at: Timestamp, grace: Duration) -> bool {
        let ended = self.inspect.as_ref().and_then(|inspect| inspect.finished_at);
        let is_soon = ended.is_none_or(|end| end.since(at) <= grace + Duration::from_secs(10));
        self.state == ContainerState::Exited && is_soon
    }
}

/// Container state, in the terms of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContainerState {
    /// Created, but never started successfully.
    Created,
    /// Its main process runs.
    Running,
    /// Its processes are frozen.
    Paused,
    /// The engine restarts it automatically.
    Restarting,
    /// Its removal is in progress.
    Removing,
    /// Its main process ended.
    Exited,
    /// Its removal failed partway.
    Dead,
}

impl ContainerState {
    /// Returns true if the container has a process.
    pub fn is_up(self) -> bool {
        match self {
            Self::Running | Self::Paused | Self::Restarting => true,
            Self::Created | Self::Exited | Self::Removing | Self::Dead => false,
        }
    }
}

/// Attachment of a container to a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Id of the network. A recreated network has another id.
    pub network: Option<NetworkId>,
    /// DNS aliases; lists do not contain them, so they are empty until an inspect.
    pub aliases: Vec<String>,
    /// IP address on the network, if any.
    pub address: Option<String>,
}

impl Attachment {
    /// Returns its IP address without the size of the subnet, which some engines add.
    pub fn ip(&self) -> Option<IpAddr> {
        self.address.as_ref()?.split('/').next()?.parse().ok()
    }
}

/// Fields of a container that only an inspect reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectInfo {
    /// Time of the last start.
    pub started_at: Option<Timestamp>,
    /// Time of the last exit.
    pub finished_at: Option<Timestamp>,
    /// Exit code of the last run; meaningless while the container runs.
    pub exit_code: i64,
    /// Out-of-memory flag of the engine.
    pub oom_killed: bool,
    /// Last error that the engine recorded for it; empty without one.
    pub error: String,
    /// Id of its image.
    #[serde(default)]
    pub image_id: Option<String>,
    /// Result of the health check that the image declares.
    pub health: Option<EngineHealth>,
    /// Configuration, for the detection of external changes.
    pub config: Config,
}

/// Result of the health check that the image declares, as the engine reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineHealth {
    /// `starting`, `healthy` or `unhealthy`.
    pub status: EngineHealthStatus,
    /// Number of consecutive failures.
    pub failing_streak: u32,
    /// Output of the last check, cut to 4 KiB.
    pub output: String,
    /// Last checks as request and response, oldest first.
    #[serde(default)]
    pub recent: Vec<String>,
    /// End time of the last check; one before the start of the run does not count.
    pub checked_at: Option<Timestamp>,
}

/// Health status, in the terms of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineHealthStatus {
    /// Undetermined.
    Starting,
    /// The check succeeds.
    Healthy,
    /// The check fails.
    Unhealthy,
}

impl Container {
    /// Returns whether the container runs, and its run began at `started_at`, if that time is known.
    pub fn is_run(&self, started_at: Option<Timestamp>) -> bool {
        let info = self.inspect.as_ref();
        let is_same = |info: &InspectInfo| started_at.is_none() || info.started_at == started_at;
        self.state == ContainerState::Running && info.is_some_and(is_same)
    }
}

/// Named volume with the labels of Argus or of Compose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Name on the engine, which also identifies it.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
}

impl Volume {
    /// Returns the ownership; `None` for an object that Argus does not manage.
    pub fn owner(&self) -> Option<ObjectLabels> {
        ObjectLabels::read(&self.labels)
    }

    /// Returns the creation time from its label. Engines report it in different forms, or not at all.
    pub fn created_at(&self) -> Option<Timestamp> {
        let made = self.labels.get(labels::CREATED_AT)?;
        Timestamp::parse(made)
    }
}

/// Memory use of a container with a memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Used bytes, without cache that the kernel can free.
    pub used: u64,
    /// Limit in bytes.
    pub limit: u64,
    /// Time since which the use is high.
    pub at: Timestamp,
}

impl MemoryUse {
    /// Returns whether the use is that of the current run of the container. A sample of an earlier run says nothing about this one.
    pub fn is_of(&self, container: &Container) -> bool {
        let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
        started_at.is_none_or(|started_at| started_at <= self.at)
    }

    /// Returns whether the use is above this share of the limit in percent.
    pub fn is_above(&self, percent: u8) -> bool {
        u128::from(self.used) * 100 > u128::from(self.limit) * u128::from(percent)
    }
}

/// Observed objects of one environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Containers by id and by service.
    pub containers: Containers,
    /// Networks by id.
    pub networks: BTreeMap<NetworkId, Arc<Network>>,
    /// Volumes by name.
    pub volumes: BTreeMap<String, Arc<Volume>>,
    /// Containers whose image reference now names another image.
    pub image_retagged: BTreeSet<ContainerId>,
    /// Memory use of the containers that are near their limits.
    pub memory_high: BTreeMap<ContainerId, MemoryUse>,
    /// Changes with every change of the fields above, so that the planner can skip an unchanged environment.
    pub version: u64,
}

impl Observed {
    /// Returns whether this controller created one of the containers or networks.
    pub fn has_containers_or_networks_of(&self, controller: &str) -> bool {
        let mut containers = self.containers.values();
        let mut networks = self.networks.values();
        containers.any(|container| container.is_made_by(controller))
            || networks.any(|network| network.is_made_by(controller))
    }

    /// Returns whether the environment has no objects.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.networks.is_empty() && self.volumes.is_empty()
    }
}

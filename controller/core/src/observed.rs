//! What is there: the engine's objects as the eyes last saw them.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ident::{ContainerId, HostPort, NetworkId, ServiceName, SpecHash};
use crate::labels::{self, Owner};
use crate::time::Timestamp;

pub mod store;

pub use store::{RetryState, Store};

/// One thing the eyes report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// A full list begins; what it does not show by its end is gone.
    Init,
    /// An object as it is now.
    Apply(Object),
    /// An object is no more.
    Delete(ObjectId),
    /// The list that began last is complete.
    InitDone,
    /// Somebody other than us asked the engine to stop or kill this container.
    Stopped(ContainerId, Timestamp),
    /// The kernel told of want of memory in this container.
    OutOfMemory(ContainerId, Timestamp),
    /// The name that this container's image goes by stands for another image by now, or for none.
    ImageMoved(ContainerId),
    /// The engine does not answer; everything known is from before this.
    Disconnected(Timestamp, String),
    /// It still does not answer, after so many tries in a row.
    Retrying {
        /// Tries in a row without an answer, the first included.
        tries: u32,
        /// When it is tried next.
        next: Option<Timestamp>,
    },
    /// The engine answers again (the first time, too).
    Connected(Timestamp),
    /// No event told of something that happened: they are listened to anew. Lists have shown what is, so nothing else changes.
    StreamStalled,
}

/// An object of the engine that carries our labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A container.
    Container(Arc<Container>),
    /// A network.
    Network(Arc<Network>),
    /// A named volume.
    Volume(Arc<Volume>),
}

impl Object {
    /// How the engine names it.
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Container(container) => ObjectId::Container(container.id.clone()),
            Self::Network(network) => ObjectId::Network(network.id.clone()),
            Self::Volume(volume) => ObjectId::Volume(volume.name.clone()),
        }
    }
}

/// How the engine names an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// By container id.
    Container(ContainerId),
    /// By network id.
    Network(NetworkId),
    /// By volume name.
    Volume(String),
}

/// A container as list and inspect show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Engine id.
    pub id: ContainerId,
    /// Name without the leading slash.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// Image reference as it was asked for.
    pub image: String,
    /// State.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
    /// Networks it is attached to, by network name.
    pub networks: BTreeMap<String, Attachment>,
    /// What only an inspect shows; `None` until then.
    pub inspect: Option<InspectInfo>,
    /// A stop or kill through the API that was not ours, since the last start.
    pub stopped_by_other: Option<Timestamp>,
    /// The kernel told of want of memory in it, since the last start.
    #[serde(default)]
    pub oom_at: Option<Timestamp>,
}

impl Container {
    /// Whose it is; `None`: not ours.
    pub fn owner(&self) -> Option<Owner> {
        Owner::read(&self.labels)
    }

    /// Whether it stands for this service of its environment. What a world holds is wholly ours, so that one label tells;
    /// [`Self::owner`] reads and checks all of them.
    pub fn is_of(&self, service: &ServiceName) -> bool {
        self.labels
            .get(labels::SERVICE)
            .is_some_and(|name| name == service.as_str())
    }

    /// Whether it was made from what has this hash.
    pub fn carries(&self, hash: &SpecHash) -> bool {
        self.labels
            .get(labels::SPEC_HASH)
            .is_some_and(|carried| carried == hash.as_str())
    }

    /// Whether this controller made it.
    pub fn is_made_by(&self, controller: &str) -> bool {
        self.labels.get(labels::CONTROLLER).map_or("", String::as_str) == controller
    }

    /// It ended because somebody else asked the engine to end it, and not long after that.
    ///
    /// A signal that the process survived does not excuse what happens to it later.
    pub fn stopped_by_hand(&self, grace: Duration) -> bool {
        let ended = self.inspect.as_ref().and_then(|facts| facts.finished_at);
        let soon = |at: Timestamp| ended.is_none_or(|end| end.since(at) <= grace + Duration::from_secs(10));
        self.state == ContainerState::Exited && self.stopped_by_other.is_some_and(soon)
    }
}

/// The engine's word for what a container is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContainerState {
    /// Made, never started (or its start failed).
    Created,
    /// Running.
    Running,
    /// Frozen.
    Paused,
    /// The engine restarts it by itself.
    Restarting,
    /// Its removal is under way.
    Removing,
    /// Ended.
    Exited,
    /// Its removal failed half-way.
    Dead,
}

/// One network attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Id of the network; a deleted and recreated network has another one.
    pub network: Option<NetworkId>,
    /// DNS aliases; empty in lists, known after an inspect.
    pub aliases: Vec<String>,
    /// Address on it, if any.
    pub address: Option<String>,
}

/// What only an inspect shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectInfo {
    /// Last start.
    pub started_at: Option<Timestamp>,
    /// Last end.
    pub finished_at: Option<Timestamp>,
    /// Exit code of the last run; meaningless while it runs.
    pub exit_code: i64,
    /// The engine's flag.
    pub oom_killed: bool,
    /// The engine's last error about it.
    pub error: String,
    /// Id of the image that it was made from.
    #[serde(default)]
    pub image_id: Option<String>,
    /// The image's own health check.
    pub health: Option<EngineHealth>,
    /// Configuration, to find what was changed by hand.
    pub config: Config,
}

/// What the engine says of the image's own health check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineHealth {
    /// `starting`, `healthy` or `unhealthy`.
    pub status: EngineHealthStatus,
    /// Failures in a row.
    pub failing_streak: u32,
    /// Output of the last check, cut to 4 KiB.
    pub output: String,
    /// When the last check ended; older than the start means that it says nothing.
    pub checked_at: Option<Timestamp>,
}

/// The engine's word on the image's own health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineHealthStatus {
    /// Not decided.
    Starting,
    /// Good.
    Healthy,
    /// Bad.
    Unhealthy,
}

/// The part of a container's configuration that Argus sets and compares.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Config {
    /// `KEY=value` lines, the image's own included.
    pub environment: Vec<String>,
    /// Memory limit in bytes, 0 for none.
    pub memory: u64,
    /// CPU limit in billionths of a core, 0 for none.
    pub nano_cpus: u64,
    /// Published ports: (container port, host port).
    pub bindings: Vec<(HostPort, HostPort)>,
    /// Addresses of the host that they are published at: (host port, address), the unspecified one for all of them.
    #[serde(default)]
    pub addresses: Vec<(HostPort, IpAddr)>,
    /// Name of the engine's restart policy, `no` on ours.
    pub restart_policy: String,
    /// The most processes, 0 for no limit; `None` where the engine is not known to keep one.
    #[serde(default)]
    pub pids_limit: Option<u64>,
    /// Whether it has every privilege.
    #[serde(default)]
    pub privileged: bool,
    /// How long it may take to stop before it is killed; `None` where it was made without a word on that.
    #[serde(default)]
    pub stop_grace: Option<Duration>,
}

/// A network with our labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Engine id.
    pub id: NetworkId,
    /// Name.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Network {
    /// Whose it is; `None`: not ours.
    pub fn owner(&self) -> Option<Owner> {
        Owner::read(&self.labels)
    }
}

/// A named volume with our labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Its name is its identity.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
}

impl Volume {
    /// Whose it is; `None`: not ours.
    pub fn owner(&self) -> Option<Owner> {
        Owner::read(&self.labels)
    }

    /// When we made it; engines tell this of volumes in a form of their own, or not at all.
    pub fn made_at(&self) -> Option<Timestamp> {
        let made = self.labels.get(labels::CREATED_AT)?;
        Timestamp::parse(made)
    }
}

/// A time during which the engine was away; deaths around it are not the containers' fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// When it was noticed.
    pub from: Timestamp,
    /// When the engine answered again; `None` while it lasts.
    pub until: Option<Timestamp>,
}

/// The objects of one environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Its containers, by id.
    pub containers: BTreeMap<ContainerId, Arc<Container>>,
    /// Its networks, by id.
    pub networks: BTreeMap<NetworkId, Arc<Network>>,
    /// Its volumes, by name.
    pub volumes: BTreeMap<String, Arc<Volume>>,
    /// Those of its containers whose image's name stands for another image by now.
    pub retagged: BTreeSet<ContainerId>,
    /// Grows whenever anything above changes, so that an unchanged environment need not be planned again.
    pub version: u64,
}

impl Observed {
    /// Nothing of it is there.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.networks.is_empty() && self.volumes.is_empty()
    }
}

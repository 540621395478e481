//! Facts about the engine and its host, as inputs of the preflight checks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use crate::secrets::Secrets;
use serde::{Deserialize, Serialize};

use crate::ident::ProtocolPort;
use crate::outcome::PortOwner;
use crate::published::overlap;

/// Fact, or the reason why it is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact<T> {
    /// The value is known.
    Known(T),
    /// The value could not be determined, for this reason.
    Unknown(String),
    /// The value does not exist, for this reason.
    NotApplicable(String),
}

impl<T> Default for Fact<T> {
    fn default() -> Self {
        Self::unknown("not checked yet")
    }
}

impl<T> Fact<T> {
    /// Creates an [`Fact::Unknown`] with a reason.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(why.into())
    }

    /// Returns the value if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            Self::Unknown(_) | Self::NotApplicable(_) => None,
        }
    }
}

/// Facts about one engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Version and properties; unknown for an unreachable engine.
    pub engine: Fact<EngineFact>,
    /// File system of its data root.
    pub disk: Fact<DiskFact>,
    /// Number of networks and free address pools.
    pub networks: Fact<NetworksFact>,
    /// Ports that processes hold on its host.
    pub listeners: Fact<ListenersFact>,
    /// Share of the last 10 s in which all tasks waited for memory, in percent. `None` for an engine on another host, and for a kernel
    /// that does not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_stall: Option<u8>,
}

impl HostFacts {
    /// Creates facts that are all unknown, for one reason.
    pub fn unknown(why: &str) -> Self {
        Self {
            engine: Fact::unknown(why),
            disk: Fact::unknown(why),
            networks: Fact::unknown(why),
            listeners: Fact::unknown(why),
            memory_stall: None,
        }
    }
}

/// Properties that an engine reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineFact {
    /// Address of its API.
    pub endpoint: String,
    /// Version of the engine.
    pub version: String,
    /// Highest supported API version.
    pub api_version: String,
    /// Operating system of its containers, usually `linux`; empty if it is not reported.
    pub os_type: String,
    /// Milliseconds by which its clock is ahead of the local one; `None` if it does not report its time.
    pub clock_ahead: Option<i64>,
    /// Available network drivers; empty if they are not reported.
    pub network_drivers: BTreeSet<String>,
}

/// File system of the data root of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskFact {
    /// Path of the data root.
    pub path: String,
    /// Free bytes.
    pub free: u64,
    /// Total bytes.
    pub total: u64,
    /// Free inodes; `None` for a file system without such a limit.
    #[serde(rename = "filesFree")]
    pub free_inodes: Option<u64>,
    /// Bytes that `argus prune` can free; `None` if they were not requested.
    pub reclaimable: Option<Reclaimable>,
}

/// Bytes that `argus prune` can free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reclaimable {
    /// Size of the images that Argus built and that newer builds replaced.
    pub images: u64,
    /// Size of the build cache.
    pub build_cache: u64,
}

/// Networks of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworksFact {
    /// Number of networks, managed or not.
    pub count: u64,
    /// Number of further networks that the address pools allow; `None` if it is unknown.
    pub free: Option<u64>,
}

/// Ports in use in the engine's network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenersFact {
    /// Sockets of processes other than the engine and its proxies.
    pub sockets: Vec<ListenerFact>,
    /// All ports in use, with their owners.
    #[serde(skip)]
    pub busy: BTreeMap<ProtocolPort, PortOwner>,
}

/// Socket that a process binds to a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerFact {
    /// Bound address.
    pub address: IpAddr,
    /// Bound port.
    pub port: ProtocolPort,
    /// Process of the socket.
    #[serde(rename = "holder")]
    pub owner: PortOwner,
}

impl ListenersFact {
    /// Owner of the socket that prevents the engine from publishing `port` on `address`, or takes the clients of `localhost`.
    pub fn owner_of(&self, port: ProtocolPort, address: IpAddr) -> Option<&PortOwner> {
        let holds = |socket: &&ListenerFact| socket.port == port && holds(socket.address, address);
        self.sockets.iter().find(holds).map(|socket| &socket.owner)
    }
}

/// True if a socket on `bound` prevents a socket on `published`, or if `localhost` can lead to it instead. A socket on `::` usually
/// serves IPv4 as well.
fn holds(bound: IpAddr, published: IpAddr) -> bool {
    let is_local = published.is_loopback() || published.is_unspecified();
    overlap(bound, published)
        || bound == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        || bound == IpAddr::V6(Ipv6Addr::LOCALHOST) && is_local
}

/// Host port that a spec file requests, with its current owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFact {
    /// Environment that requests it.
    pub environment: String,
    /// Service that requests it.
    pub service: String,
    /// Requested port.
    pub port: ProtocolPort,
    /// Owner of the port; `None` if it is free or in use by the service itself.
    #[serde(rename = "holder")]
    pub owner: Option<PortOwner>,
    /// Other process that listens on the port of the service, on an address to which `localhost` can lead.
    #[serde(default, rename = "otherHolder", skip_serializing_if = "Option::is_none")]
    pub other_owner: Option<PortOwner>,
    /// True if `localhost` leads to the port.
    #[serde(skip)]
    pub is_local: bool,
    /// True if Argus assigns another port if this one is taken.
    pub may_move: bool,
    /// First and last port that the host gives to outgoing connections, if this port is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outgoing: Option<(u16, u16)>,
}

/// Image that a spec file names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFact {
    /// Image reference.
    pub reference: String,
    /// True if the engine has the image.
    pub present: bool,
    /// True if Argus builds the image instead of pulling it.
    pub built: bool,
}

impl ImageFact {
    /// Creates the fact. Reports show the reference, so its secrets are redacted.
    pub fn new(reference: &str, present: bool, built: bool, secrets: &Secrets) -> Self {
        Self {
            reference: secrets.redacted(reference),
            present,
            built,
        }
    }
}

//! What can be found out before anything is created.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ident::HostPort;
use crate::outcome::PortOwner;

/// What was found out about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Observation<T> {
    /// This.
    Known(T),
    /// It could not be found out, for this reason.
    Unknown(String),
    /// There is nothing to find out, for this reason.
    NotApplicable(String),
}

impl<T> Observation<T> {
    /// It could not be found out, for this reason.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(why.into())
    }

    /// What is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            Self::Unknown(_) | Self::NotApplicable(_) => None,
        }
    }
}

/// What one look at the engine shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// The engine; unknown where it does not answer.
    pub engine: Observation<Engine>,
    /// The file system under its data.
    pub disk: Observation<Disk>,
    /// Its networks.
    pub networks: Observation<Networks>,
}

impl Default for HostFacts {
    fn default() -> Self {
        Self::unknown("it was not looked at")
    }
}

impl HostFacts {
    /// Nothing is known, for this reason.
    pub fn unknown(why: &str) -> Self {
        Self {
            engine: Observation::unknown(why),
            disk: Observation::unknown(why),
            networks: Observation::unknown(why),
        }
    }
}

/// What an engine says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// How it is reached.
    pub endpoint: String,
    /// Its version.
    pub version: String,
    /// The highest API version that it speaks.
    pub api_version: String,
    /// What its containers run on: `linux`, as a rule.
    pub os_type: String,
    /// How far its clock is ahead of ours, in milliseconds; `None` where it does not tell the time.
    pub clock_ahead: Option<i64>,
    /// What it can make networks with.
    pub network_drivers: BTreeSet<String>,
}

/// The file system under an engine's data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// The data root.
    pub path: String,
    /// Bytes that can still be written.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
    /// Files that can still be made; `None` where there is no such bound.
    pub files_free: Option<u64>,
    /// What could be had back, where that was asked for.
    pub reclaimable: Option<Reclaimable>,
}

/// What `argus prune` could give back, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reclaimable {
    /// Images that were built by Argus and have been followed by newer ones.
    pub images: u64,
    /// The builder's cache.
    pub build_cache: u64,
}

/// The networks of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Networks {
    /// How many there are, ours and others'.
    pub there: u64,
    /// How many more its address pools have room for; `None` where that cannot be told.
    pub room: Option<u64>,
}

/// A host port that a file wants and somebody has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The environment.
    pub environment: String,
    /// The service.
    pub service: String,
    /// The port.
    pub port: HostPort,
    /// Who has it; `None`: nobody, or the service itself.
    pub holder: Option<PortOwner>,
    /// It moves to another where it is taken.
    pub may_move: bool,
}

/// An image that a file names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its reference.
    pub reference: String,
    /// The engine has it.
    pub present: bool,
    /// It is built here, not pulled.
    pub built: bool,
}

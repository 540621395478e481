//! What can be found out before anything is created.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ident::{EnvName, HostPort};
use crate::labels::Owner;
use crate::observed::World;
use crate::outcome::PortOwner;
use crate::time::Timestamp;

/// What was found out about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact<T> {
    /// This.
    Known(T),
    /// It could not be found out, for this reason.
    Unknown(String),
    /// There is nothing to find out, for this reason.
    Nothing(String),
}

impl<T> Fact<T> {
    /// It could not be found out, for this reason.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(why.into())
    }

    /// What is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(known) => Some(known),
            Self::Unknown(_) | Self::Nothing(_) => None,
        }
    }
}

/// What one look at the engine shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ground {
    /// The engine; unknown where it does not answer.
    pub engine: Fact<Engine>,
    /// The file system under its data.
    pub disk: Fact<Disk>,
    /// Its networks.
    pub networks: Fact<Networks>,
}

impl Default for Ground {
    fn default() -> Self {
        Self::unknown("it was not looked at")
    }
}

impl Ground {
    /// Nothing is known, for this reason.
    pub fn unknown(why: &str) -> Self {
        Self {
            engine: Fact::unknown(why),
            disk: Fact::unknown(why),
            networks: Fact::unknown(why),
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

/// What `argus reclaim` could give back, in bytes.
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

/// Something that carries our labels and that nobody desires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// `container` or `network`.
    pub kind: String,
    /// The engine's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The project on its label.
    pub project: String,
    /// The environment on its label.
    pub environment: String,
    /// When it was made (RFC 3339).
    pub created_at: String,
    /// This controller made it.
    pub own: bool,
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

/// What carries our labels, belongs to no environment that is desired and was made by a controller that `is_dead`, or by
/// this one; oldest first.
pub fn orphans(
    world: &World,
    desired: &BTreeSet<EnvName>,
    controller: &str,
    is_dead: impl Fn(&str) -> bool,
) -> Vec<Orphan> {
    let one = |kind: &str, id: String, name: &str, owner: Owner, made: Timestamp| {
        let orphan = Orphan {
            kind: kind.to_owned(),
            id,
            name: name.to_owned(),
            own: owner.controller == controller,
            project: owner.project,
            environment: owner.environment.to_string(),
            created_at: made.to_string(),
        };
        let left = orphan.own || is_dead(&owner.controller);
        (left && !desired.contains(&owner.environment)).then_some((made, orphan))
    };
    let containers = world.containers().filter_map(|container| {
        let owner = container.owner()?;
        one(
            "container",
            container.id.to_string(),
            &container.name,
            owner,
            container.created_at,
        )
    });
    let networks = world
        .environments()
        .values()
        .flat_map(|observed| observed.networks.values())
        .filter_map(|network| {
            one(
                "network",
                network.id.to_string(),
                &network.name,
                network.owner()?,
                network.created_at,
            )
        });
    let mut all: Vec<_> = containers.chain(networks).collect();
    all.sort_by(|(one, a), (other, b)| (&a.kind, one, &a.id).cmp(&(&b.kind, other, &b.id)));
    all.into_iter().map(|(_, orphan)| orphan).collect()
}

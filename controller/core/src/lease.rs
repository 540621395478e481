//! Leases: which controllers live on an engine, what each of them claims, and whose something is because of that.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ident::EnvName;
use crate::time::Timestamp;

mod registry;

pub use registry::{Leases, OwnIdentity};

/// A lease that was not renewed for this long is dead, unless its holder was started with another time.
pub const TTL: Duration = Duration::from_secs(90);

/// What a controller says of itself on the engine, for every other one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseSpec {
    /// Identity of the controller; what it makes carries it.
    pub controller: String,
    /// Its run: two processes may have one identity, never one run.
    pub run: String,
    /// Its state directory, whose lock only one process holds at a time.
    pub place: String,
    /// Host it runs on, for people.
    pub host: String,
    /// Its process id, for people, and for whoever sees the same processes.
    pub pid: u32,
    /// Which processes it sees: who sees the same ones knows without waiting that it is gone.
    pub processes: String,
    /// After how long without a renewal it is dead.
    pub ttl: Duration,
    /// The environments it wants or still has something of, each with the engine's second at which it said so first;
    /// `None`: it says so now.
    pub claims: BTreeMap<EnvName, Option<Timestamp>>,
}

/// A lease as it lies on the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerLease {
    /// Name of the object; another one at every renewal.
    pub name: String,
    /// What its holder says.
    pub spec: LeaseSpec,
    /// When it was made, by the engine's clock.
    pub made_at: Timestamp,
    /// The same moment by our clock, as far as that could be told at the first look at it.
    pub renewed_at: Timestamp,
}

impl ControllerLease {
    /// Since when its holder claims an environment, by the engine's clock; `None`: it does not.
    pub fn claims(&self, env: &EnvName) -> Option<Timestamp> {
        self.spec
            .claims
            .get(env)
            .map(|since| since.unwrap_or(self.made_at))
    }
}

/// Whether an environment may be acted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership<'a> {
    /// It may.
    Ours,
    /// Our own lease does not say so (any more); it is written, or renewed, and then it may.
    Unclaimed,
    /// A living controller was there first.
    Theirs(&'a ControllerLease),
}

/// What is known of the controller that made something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness<'a> {
    /// It is this one.
    Own,
    /// It lives.
    Alive(&'a ControllerLease),
    /// It had a lease a moment ago, which may be all that was lost.
    Doubtful,
    /// It has no lease, or a dead one.
    Dead,
    /// The leases were not read.
    Unknown,
}

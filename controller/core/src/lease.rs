//! Controller leases: the controllers of one engine, their claims, and the ownership that follows.
//!
//! Each controller stores its [`LeaseSpec`] as a labelled object on the engine and renews it before its `ttl` ends.
//! [`ControllerLeases`] holds all leases of the last list and returns the [`Ownership`] of an environment. The first living
//! controller that claimed an environment owns it. Invariant 4: Argus changes only objects with its labels, and a dead or its own lease.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ident::EnvName;
use crate::time::Timestamp;

mod registry;

pub use registry::{ControllerLeases, ProcessIdentity};

/// Default time after which an unrenewed lease is dead; a controller can start with another one.
pub const TTL: Duration = Duration::from_secs(90);

/// Contents of a lease, which a controller publishes to all other controllers on the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseSpec {
    /// Identity of the controller, as on the label `argusai.controller` of its objects.
    pub controller: String,
    /// Run id of the process. Two processes can share an identity, but never a run id.
    pub run: String,
    /// State directory of the controller; only one process at a time holds its lock.
    pub state_dir: String,
    /// Folder or file of the spec files that it reads; `None` in a lease of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub specs: Option<String>,
    /// Name of its host, for display.
    pub host: String,
    /// Process id, for display and for processes in the same process namespace.
    pub pid: u32,
    /// Id of its process namespace. A controller in the same namespace can detect its exit before the `ttl` ends.
    pub pid_namespace: String,
    /// Time without a renewal after which the lease is dead.
    pub ttl: Duration,
    /// Engine time of the first lease of this run. `None` means that this lease is the first.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Claimed environments, desired or with remaining objects, each with the engine time of the first claim.
    ///
    /// `None` means that this lease is the first to claim the environment.
    pub claims: BTreeMap<EnvName, Option<Timestamp>>,
}

/// Lease as stored on the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerLease {
    /// Name of the object; each renewal creates a new one.
    pub name: String,
    /// Contents of the lease.
    pub spec: LeaseSpec,
    /// Creation time, by the clock of the engine.
    pub created_at: Timestamp,
    /// Creation time by the clock of this controller, as estimated at the first list that contained it.
    pub renewed_at: Timestamp,
}

impl ControllerLease {
    /// Returns the time of the first lease of this run, by the clock of the engine.
    pub fn since(&self) -> Timestamp {
        self.spec.since.unwrap_or(self.created_at)
    }

    /// Returns the time of the first claim on an environment, by the clock of the engine; `None` without a claim.
    pub fn claimed_at(&self, env: &EnvName) -> Option<Timestamp> {
        self.spec
            .claims
            .get(env)
            .map(|since| since.unwrap_or(self.created_at))
    }

    /// Returns whether both leases have the same holder and the same claims, so that they differ in their age only.
    fn is_renewal_of(&self, old: &Self) -> bool {
        let LeaseSpec {
            controller,
            run,
            state_dir,
            specs,
            host,
            pid,
            pid_namespace,
            ttl,
            since: _,
            claims,
        } = &self.spec;
        let other = &old.spec;
        (controller, run, state_dir) == (&other.controller, &other.run, &other.state_dir)
            && (host, pid, pid_namespace) == (&other.host, &other.pid, &other.pid_namespace)
            && (specs, ttl) == (&other.specs, &other.ttl)
            && self.since() == old.since()
            && claims.len() == other.claims.len()
            && claims
                .keys()
                .all(|env| self.claimed_at(env) == old.claimed_at(env))
    }
}

/// A live controller that holds a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseHolder {
    /// Identity of the controller.
    pub controller: String,
    /// Identifier of its run.
    pub run: String,
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// True if this controller observed a renewal of the lease or the process, which proves that its holder is alive.
    pub renews: bool,
    /// Spec files of the holder, if they are others than those of this controller: two projects have one name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_specs: Option<String>,
    /// Shell command that stops it; `None` unless its process is proven to be alive on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

impl LeaseHolder {
    /// Describes the holder of a lease.
    pub fn of(lease: &ControllerLease, leases: &ControllerLeases) -> Self {
        Self {
            controller: lease.spec.controller.clone(),
            run: lease.spec.run.clone(),
            host: lease.spec.host.clone(),
            pid: lease.spec.pid,
            renews: leases.renews(lease),
            other_specs: leases.own().and_then(|own| {
                let (own, theirs) = (&own.spec, &lease.spec);
                let differs = (&own.specs, &own.host) != (&theirs.specs, &theirs.host);
                theirs.specs.clone().filter(|_| differs && own.specs.is_some())
            }),
            stop: leases.own().and_then(|own| {
                let is_proven = leases.renews(lease);
                stop_command(&own.spec, &lease.spec).filter(|_| is_proven)
            }),
        }
    }
}

/// Command that stops the other controller. A process id means nothing on another host, and a folder could be that of this controller.
fn stop_command(own: &LeaseSpec, theirs: &LeaseSpec) -> Option<String> {
    let is_here = own.host == theirs.host && own.pid_namespace == theirs.pid_namespace;
    (is_here && !own.pid_namespace.is_empty()).then(|| format!("kill {}", theirs.pid))
}

/// Permission to act on an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership<'a> {
    /// This controller owns it.
    Own,
    /// The lease of this controller does not claim it, or has expired, or an equally early claim could still appear. The
    /// controller writes or reads leases first.
    Unclaimed,
    /// Another living controller claimed it first.
    HeldByOther(&'a ControllerLease),
}

/// Liveness of the controller that created an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness<'a> {
    /// It is this controller.
    Own,
    /// It has a living lease.
    Alive(&'a ControllerLease),
    /// Its lease disappeared recently. Possibly the lease was deleted while its holder still runs.
    LeaseLostRecently,
    /// Its lease expired, or has been missing for longer than the grace period.
    Dead,
    /// The leases have not been listed yet.
    Unknown,
}

/// Time after which all claims of one engine second are in a new list. The engine reports times in whole seconds.
const CLAIM_SECOND: Duration = Duration::from_millis(1_100);

/// Returns whether the lease of this process is still valid for it.
///
/// The validity ends at two thirds of the `ttl`, so that running actions can finish before others take over.
fn is_still_valid(own: &ControllerLease, now: Timestamp) -> bool {
    now.since(own.renewed_at) < validity_period(own)
}

/// Order of controllers that claimed an environment in the same second: the one that runs longer, then the lower run id.
fn seniority(lease: &ControllerLease) -> (Timestamp, &str) {
    (lease.since(), &lease.spec.run)
}

/// Own time from which a list contains every claim of this engine second.
fn end_of_second(own: &ControllerLease, claimed_at: Timestamp) -> Timestamp {
    let offset = own.renewed_at.0.saturating_sub(own.created_at.0);
    Timestamp(claimed_at.0.saturating_add(offset)) + CLAIM_SECOND
}

fn validity_period(own: &ControllerLease) -> Duration {
    own.spec.ttl * 2 / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_stops_a_controller_of_this_host() {
        let spec = |host: &str, pid_namespace: &str| LeaseSpec {
            controller: "c".to_owned(),
            run: "r".to_owned(),
            state_dir: "s".to_owned(),
            specs: None,
            host: host.to_owned(),
            pid: 42,
            pid_namespace: pid_namespace.to_owned(),
            ttl: TTL,
            since: None,
            claims: BTreeMap::new(),
        };
        let own = spec("here", "p");
        assert_eq!(stop_command(&own, &spec("here", "p")).as_deref(), Some("kill 42"));
        for (host, pid_namespace) in [("there", "p"), ("here", "other")] {
            assert_eq!(stop_command(&own, &spec(host, pid_namespace)), None);
        }
        let unknown = spec("here", "");
        assert_eq!(stop_command(&unknown, &unknown), None);
    }
}

//! What is right to do now, and what is waited for: decisions as data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::brain::Site;
use crate::connectivity::Look;
use crate::desired::{Accepted, Desired};
use crate::ident::{
    ContainerId, EnvName, HostPort, NetworkId, ResourceName, Revision, ServiceName, SpecHash,
};
use crate::lease::{Leases, Life};
use crate::memory::{EnvMemory, Memory};
use crate::observed::{Observed, Outage, World};
use crate::orders::Orders;
use crate::preflight::Survey;
use crate::probe::HealthBook;
use crate::time::Timestamp;

mod act;
mod call;
mod cause;
mod circuit;
mod drift;
pub mod forecast;
pub mod image;
pub mod moved;
mod network;
pub mod orphan;
pub mod port;
pub(crate) mod ready;
pub mod render;
mod required;
mod restraint;
mod retry;
mod service;
pub mod storm;
mod stray;
pub mod text;
mod volume;
mod wait;

pub use act::{Act, Binding, ContainerSpec};
pub use call::Deadlines;
pub use cause::Cause;
pub use wait::{Asked, Failure, Holder, WaitingOn};

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
    /// Services of which an older revision still runs, until what is wanted stands in its place.
    #[serde(skip)]
    pub outlived: BTreeSet<ServiceName>,
    /// What dead controllers left here, and what becomes of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<orphan::Orphan>,
}

impl Plan {
    /// Nothing to do and nothing to wait for.
    pub fn is_settled(&self) -> bool {
        self.steps.is_empty() && self.waits.is_empty()
    }

    /// Whether a subject is something that a dead controller left.
    pub fn is_about_an_orphan(&self, subject: &Subject) -> bool {
        let id = match subject {
            Subject::StrayContainer { id } => id.as_str(),
            Subject::StrayNetwork { id } => id.as_str(),
            Subject::Volume { name, .. } => name.as_str(),
            Subject::Service { .. } | Subject::Network { .. } | Subject::Image { .. } => return false,
        };
        self.orphans.iter().any(|orphan| orphan.id == id)
    }

    /// When the passing of time alone changes something.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let waits = self.waits.iter().filter_map(|wait| wait.on.until());
        let orphans = self.orphans.iter().filter_map(orphan::Orphan::until);
        waits.chain(orphans).min()
    }
}

/// Everything that one environment is planned from.
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    /// Which environment.
    pub env: &'a EnvName,
    /// What it shall be; `None`: it shall not be.
    pub accepted: Option<&'a Accepted>,
    /// What is there of it.
    pub observed: &'a Observed,
    /// What was tried, and what is expected.
    pub memory: &'a Memory,
    /// Verdicts of the probes.
    pub health: &'a HealthBook,
    /// Recent times without an engine.
    pub outages: &'a [Outage],
    /// Host ports, assigned beforehand for all services at once.
    pub ports: &'a port::Assignment,
    /// Its services, rendered under those ports.
    pub rendered: &'a render::Rendered,
    /// Who we are.
    pub site: &'a Site,
    /// Everything that is there, to know who holds a name.
    pub world: &'a World,
    /// Who else is at work on the engine.
    pub leases: &'a Leases,
    /// The projects of all accepted specs.
    pub projects: &'a orphan::Projects,
    /// What people and agents asked for.
    pub orders: &'a Orders,
    /// The last look at engine and disk; `None`: nobody looks, and nothing waits for it.
    pub survey: Option<&'a Survey>,
    /// The last look at who reaches whom in it.
    pub links: Option<&'a Look>,
    /// The time.
    pub now: Timestamp,
}

impl PlanInput<'_> {
    fn kept(&self) -> Option<&EnvMemory> {
        self.memory.environments.get(self.env)
    }

    /// What stands in the way of any act on a subject: one in flight, an effect not seen, a failure not over.
    fn barred(&self, subject: &Subject) -> Option<WaitingOn> {
        if let Some(flying) = self.memory.in_flight.get(subject) {
            return Some(WaitingOn::InFlight {
                verb: flying.verb.to_owned(),
            });
        }
        if let Some(expected) = self.memory.expectations.get(subject) {
            let (verb, until) = (expected.verb.to_owned(), expected.until);
            return Some(match expected.proof {
                crate::memory::Proof::Relisted(_) => WaitingOn::Relist { until },
                _ => WaitingOn::Effect { verb, until },
            });
        }
        self.failing(subject)
    }

    /// A name that is held by something of a living controller is that one's, and no conflict for a person to end.
    fn name_taken(&self, name: String, holder: String, until: Timestamp) -> WaitingOn {
        let containers = self.world.containers().filter(|held| held.name == name);
        let networks = self
            .world
            .environments()
            .values()
            .flat_map(|seen| seen.networks.values());
        let networks = networks.filter(|held| held.name == name);
        let owners = containers
            .map(|held| held.owner())
            .chain(networks.map(|held| held.owner()));
        let mut living =
            owners
                .flatten()
                .filter_map(|owner| match self.leases.life(&owner.controller, self.now) {
                    Life::Lives(lease) => Some(Holder::of(lease, self.leases)),
                    Life::Us | Life::Doubtful | Life::Dead | Life::Unknown => None,
                });
        match living.next() {
            Some(holder) => {
                let until = Some(until);
                WaitingOn::Leased { holder, until }
            }
            None => WaitingOn::Name { name, holder, until },
        }
    }

    /// Whether engine and disk are such that something new may be made. What is there may always be worked on.
    fn may_make(&self, desired: &Desired) -> Result<(), WaitingOn> {
        let first = self.observed.containers.is_empty();
        self.survey.map_or(Ok(()), |survey| {
            survey.may_make(&desired.preflight, first, self.memory.disk_full, self.now)
        })
    }

    fn failing(&self, subject: &Subject) -> Option<WaitingOn> {
        let failure = self.memory.failures.get(subject)?;
        match failure.retry_at(&subject.to_string()) {
            None => Some(WaitingOn::Failed {
                failure: failure.clone(),
            }),
            Some(until) if until > self.now => Some(match &failure.error {
                crate::outcome::ActError::NameTaken { holder } => WaitingOn::Name {
                    name: subject.to_string(),
                    holder: holder.clone(),
                    until,
                },
                _ => WaitingOn::Retry {
                    until,
                    failure: failure.clone(),
                },
            }),
            Some(_) => None,
        }
    }

    /// The cause of an act, or that it is one more try of one that failed.
    fn cause(&self, subject: &Subject, because: Cause) -> Cause {
        match self.memory.failures.get(subject) {
            Some(failure) => Cause::Retry {
                attempt: failure.attempts + 1,
            },
            None => because,
        }
    }
}

/// What one look at a subject comes to.
enum Decision {
    /// Do this now.
    Do(Act, Cause),
    /// Leave it alone, for this reason.
    Wait(WaitingOn),
    /// It is as it shall be.
    Settled,
}

/// What is right now for one environment. Total: never fails, never panics, never waits.
pub fn plan(input: &PlanInput<'_>) -> Plan {
    let mut plan = Plan::default();
    if let Some(accepted) = input.accepted {
        plan.revision = Some(accepted.desired.revision.clone());
        plan.ports.clone_from(&input.ports.ports);
        plan.hashes = input
            .rendered
            .iter()
            .map(|(name, (_, hash))| (name.clone(), hash.clone()))
            .collect();
        network::plan(input, &accepted.desired, &mut plan);
        volume::plan(input, &accepted.desired, &mut plan);
        for service in accepted.desired.services.values() {
            service::plan(input, accepted, service, &mut plan);
        }
        image::plan(input, &accepted.desired, &mut plan);
    }
    stray::plan(input, &mut plan);
    restraint::apply(input, &mut plan);
    storm::hold_back(&mut plan, &input.memory.restarts, input.now);
    circuit::hold_back(input, &mut plan);
    plan
}

impl Plan {
    fn take(&mut self, subject: Subject, decision: Decision) {
        match decision {
            Decision::Do(act, because) => self.steps.push(Step {
                subject,
                act,
                because,
            }),
            Decision::Wait(on) => self.waits.push(Wait { subject, on }),
            Decision::Settled => {}
        }
    }
}

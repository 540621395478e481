//! What is right to do now, and what is waited for: decisions as data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::connectivity::ConnectivityCheck;
use crate::desired::{Accepted, Desired};
use crate::ident::{
    ContainerId, EnvName, HostPort, NetworkId, ResourceName, Revision, ServiceName, SpecHash,
};
use crate::lease::{Leases, Liveness};
use crate::observed::{Observed, Outage, Store};
use crate::preflight::PreflightSnapshot;
use crate::probe::HealthStates;
use crate::reconcile::ControllerIdentity;
use crate::state::{EnvHistory, PlannerState};
use crate::time::Timestamp;
use crate::user_requests::UserRequests;

mod action;
mod breaker_filter;
mod call;
mod cause;
mod drift;
pub mod forecast;
mod gc;
mod holds;
pub mod image;
mod network;
pub mod orphan;
pub mod port;
pub mod port_references;
pub(crate) mod ready;
pub mod render;
mod required;
pub mod restart_rate_limit;
mod retry;
mod service;
pub mod text;
mod volume;
mod wait;

pub use action::{Action, Binding, ContainerSpec};
pub use call::Deadlines;
pub use cause::Cause;
pub use wait::{ActionFailure, CallArgs, LeaseHolder, WaitingOn};

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
    ExtraContainer {
        /// Its id.
        id: ContainerId,
    },
    /// A network that nobody desires.
    ExtraNetwork {
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
            Self::ExtraContainer { id } => write!(f, "stray container {id}"),
            Self::ExtraNetwork { id } => write!(f, "stray network {id}"),
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
    pub action: Action,
    /// Why.
    pub cause: Cause,
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
    pub replaced_but_running: BTreeSet<ServiceName>,
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
            Subject::ExtraContainer { id } => id.as_str(),
            Subject::ExtraNetwork { id } => id.as_str(),
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
    pub state: &'a PlannerState,
    /// Verdicts of the probes.
    pub health: &'a HealthStates,
    /// Recent times without an engine.
    pub outages: &'a [Outage],
    /// Host ports, assigned beforehand for all services at once.
    pub ports: &'a port::Assignment,
    /// Its services, rendered under those ports.
    pub rendered: &'a render::Rendered,
    /// Who we are.
    pub identity: &'a ControllerIdentity,
    /// Everything that is there, to know who holds a name.
    pub store: &'a Store,
    /// Who else is at work on the engine.
    pub leases: &'a Leases,
    /// The projects of all accepted specs.
    pub projects: &'a orphan::Projects,
    /// What people and agents asked for.
    pub requests: &'a UserRequests,
    /// The last look at engine and disk; `None`: nobody looks, and nothing waits for it.
    pub preflight: Option<&'a PreflightSnapshot>,
    /// The last look at who reaches whom in it.
    pub links: Option<&'a ConnectivityCheck>,
    /// The time.
    pub now: Timestamp,
}

impl PlanInput<'_> {
    fn kept(&self) -> Option<&EnvHistory> {
        self.state.environments.get(self.env)
    }

    /// What stands in the way of any act on a subject: one in flight, an effect not seen, a failure not over.
    fn blocked_by(&self, subject: &Subject) -> Option<WaitingOn> {
        if let Some(flying) = self.state.in_flight.get(subject) {
            return Some(WaitingOn::InFlight {
                verb: flying.verb.to_owned(),
            });
        }
        if let Some(expected) = self.state.expectations.get(subject) {
            let (verb, until) = (expected.verb.to_owned(), expected.until);
            return Some(match expected.proof {
                crate::state::Proof::Relisted(_) => WaitingOn::RelistPending { until },
                _ => WaitingOn::EffectPending { verb, until },
            });
        }
        self.backoff_of(subject)
    }

    /// A name that is held by something of a living controller is that one's, and no conflict for a person to end.
    fn name_taken(&self, name: String, holder: String, until: Timestamp) -> WaitingOn {
        let containers = self.store.containers().filter(|held| held.name == name);
        let networks = self
            .store
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
                .filter_map(|owner| match self.leases.liveness(&owner.controller, self.now) {
                    Liveness::Alive(lease) => Some(LeaseHolder::of(lease, self.leases)),
                    Liveness::Own | Liveness::Doubtful | Liveness::Dead | Liveness::Unknown => None,
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
    fn check_preflight(&self, desired: &Desired) -> Result<(), WaitingOn> {
        let first = self.observed.containers.is_empty();
        self.preflight.map_or(Ok(()), |preflight| {
            preflight.check_creation(&desired.preflight, first, self.state.disk_full, self.now)
        })
    }

    fn backoff_of(&self, subject: &Subject) -> Option<WaitingOn> {
        let failure = self.state.action_failures.get(subject)?;
        match failure.retry_at(&subject.to_string()) {
            None => Some(WaitingOn::Failed {
                failure: failure.clone(),
            }),
            Some(until) if until > self.now => Some(match &failure.error {
                crate::outcome::ActionError::NameTaken { holder } => WaitingOn::Name {
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
        match self.state.action_failures.get(subject) {
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
    Do(Action, Cause),
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
    gc::plan(input, &mut plan);
    holds::apply(input, &mut plan);
    restart_rate_limit::limit(&mut plan, &input.state.restarts, input.now);
    breaker_filter::apply(input, &mut plan);
    plan
}

impl Plan {
    fn take(&mut self, subject: Subject, decision: Decision) {
        match decision {
            Decision::Do(act, because) => self.steps.push(Step {
                subject,
                action: act,
                cause: because,
            }),
            Decision::Wait(on) => self.waits.push(Wait { subject, on }),
            Decision::Settled => {}
        }
    }
}

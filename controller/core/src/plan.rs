//! Planning of one environment: pure decisions as data, one [`Plan`] per environment.
//!
//! [`plan`] compares the desired state with the observed state, and returns [`Step`]s (actions that are possible now) and
//! [`Wait`]s (reasons why a subject cannot proceed). Invariant 3: each subject has at most one action, planned or in flight.
//!
//! The order of the stages matters: network, volumes, services, images, garbage collection (`gc`), then the filters that
//! turn steps into waits: `shed`, `holds` with the breakers, `stop_order` and [`restart_rate_limit`].

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::action::{Action, Cause, Step, Subject};
use crate::connectivity::ConnectivityCheck;
use crate::desired::{Accepted, Desired};
use crate::ident::{ContainerSpecHash, EnvName, PortMap, Revision, ServiceName};
use crate::labels;
use crate::lease::{ControllerLeases, LeaseHolder, Liveness};
use crate::observed::{Container, Observed, Outage, Store};
use crate::preflight::PreflightSnapshot;
use crate::preflight::snapshot::MAX_FACT_AGE;
use crate::probe::HealthStates;
use crate::state::{EnvHistory, PlannerState, Proof};
use crate::time::Timestamp;
use crate::user_requests::UserRequests;
use crate::wait::{Wait, WaitReason};

mod drift;
mod gc;
pub(crate) mod held_port;
mod holds;
pub mod image;
mod in_use;
mod network;
pub mod obstacle;
pub mod orphan;
pub mod port;
pub mod port_references;
pub(crate) mod ready;
pub mod render;
mod required;
pub mod restart_rate_limit;
mod service;
mod shed;
mod startup;
mod stop_order;
mod volume;

pub use startup::StartStage;
pub use stop_order::longest_stop;

/// Actions and waits of one environment at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Actions, at most one per subject.
    pub steps: Vec<Step>,
    /// Reasons of the subjects that cannot proceed.
    pub waits: Vec<Wait>,
    /// Host ports that the steps assume; stored in the planner state.
    #[serde(skip)]
    pub ports: PortMap,
    /// Planned revision; `None` for an environment that is not desired.
    pub revision: Option<Revision>,
    /// Spec hash that the container of each service must carry.
    #[serde(skip)]
    pub hashes: BTreeMap<ServiceName, ContainerSpecHash>,
    /// Services whose container of an older revision runs until its replacement is ready.
    #[serde(skip)]
    pub replaced_but_running: BTreeSet<ServiceName>,
    /// Services that run as desired while Argus reads the evidence of an earlier run.
    #[serde(skip)]
    pub reading_evidence: BTreeSet<ServiceName>,
    /// True for an environment that is not desired, and that another live controller holds: with its lease, or with all containers and networks
    /// that remain.
    #[serde(skip)]
    pub is_left_to_others: bool,
    /// Orphans of dead controllers, each with the decision about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphans: Vec<orphan::Orphan>,
}

impl Plan {
    /// True if the plan has neither actions nor waits.
    pub fn is_settled(&self) -> bool {
        self.steps.is_empty() && self.waits.is_empty()
    }

    /// True if the subject is an orphan of a dead controller.
    pub fn is_about_an_orphan(&self, subject: &Subject) -> bool {
        let id = subject.orphan_id();
        self.orphans.iter().any(|orphan| id == Some(orphan.id.as_str()))
    }

    /// Earliest time at which the plan changes without an event.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let waits = self.waits.iter().filter_map(|wait| wait.on.until());
        let orphans = self.orphans.iter().filter_map(orphan::Orphan::until);
        waits.chain(orphans).min()
    }
}

/// Identity of this controller and its publish address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerIdentity {
    /// Identity from the state directory; value of the label `argusai.controller`.
    pub controller: String,
    /// Identifier of this run of the controller; value of the label `argusai.run-id`.
    pub run: String,
    /// Host address of published ports where the file names none.
    pub publish_address: IpAddr,
}

/// Inputs of the plan of one environment.
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    /// Planned environment.
    pub env: &'a EnvName,
    /// Accepted spec; `None` if the environment is not desired.
    pub accepted: Option<&'a Accepted>,
    /// Observed objects of the environment.
    pub observed: &'a Observed,
    /// State of the planner.
    pub state: &'a PlannerState,
    /// Probe results by container.
    pub health: &'a HealthStates,
    /// Recent outages of the engine.
    pub outages: &'a [Outage],
    /// Host ports, assigned beforehand for all services together.
    pub ports: &'a port::Assignment,
    /// Rendered services with those ports.
    pub rendered: &'a render::Rendered,
    /// Identity of this controller.
    pub identity: &'a ControllerIdentity,
    /// All observed objects; they show which object has a name.
    pub store: &'a Store,
    /// Controller leases of the last list, including the own lease.
    pub leases: &'a ControllerLeases,
    /// Objects that are about to be removed and in the way of new ones.
    pub obstacles: &'a obstacle::Obstacles,
    /// Projects of all accepted specs, with their permission to remove orphans.
    pub projects: &'a orphan::Projects,
    /// Requests of people and agents.
    pub requests: &'a UserRequests,
    /// Last preflight snapshot; `None` without a preflight task, and then nothing waits for one.
    pub preflight: Option<&'a PreflightSnapshot>,
    /// Last connectivity check of the environment.
    pub connectivity_check: Option<&'a ConnectivityCheck>,
    /// Restarts of other environments that wait for a permit of the restart rate limit.
    pub restart_claims: &'a [restart_rate_limit::Urgency],
    /// Current time.
    pub now: Timestamp,
}

impl PlanInput<'_> {
    fn history(&self) -> Option<&EnvHistory> {
        self.state.history(self.env)
    }

    /// Returns whether a volume belongs to the project in another folder. Its data is not for this environment.
    fn is_foreign(&self, maker: labels::Maker<'_>) -> bool {
        let own = &self.identity.controller;
        match self.accepted {
            Some(accepted) => accepted.is_foreign(maker, own),
            None => maker.0 != own && self.projects.is_foreign(maker.1),
        }
    }

    /// Wait reason that blocks every action on a subject: an action in flight, a pending effect, or a backoff.
    fn blocked_by(&self, subject: &Subject) -> Option<WaitReason> {
        self.pending(subject).or_else(|| self.backoff_of(subject))
    }

    /// Wait reason for an action in flight or a pending effect.
    fn pending(&self, subject: &Subject) -> Option<WaitReason> {
        if let Some(call) = self.state.in_flight.get(subject) {
            return Some(WaitReason::InFlight { verb: call.verb });
        }
        if let Some(expected) = self.state.expectations.get(subject) {
            let (verb, until) = (expected.verb, expected.until);
            return Some(match expected.proof {
                Proof::Relisted(_) => WaitReason::RelistPending { until },
                Proof::Effect(_) => WaitReason::EffectPending { verb, until },
            });
        }
        None
    }

    /// Replaces the subject's name by the engine's name in a wait for a taken name. If a live controller owns the object with that
    /// name, the wait names the controller.
    fn with_engine_name(&self, mut wait: WaitReason, engine_name: &str) -> WaitReason {
        let WaitReason::NameTaken { name, until, .. } = &mut wait else {
            return wait;
        };
        let containers = self.store.containers().filter(|held| held.name == engine_name);
        let networks = self
            .store
            .environments()
            .values()
            .flat_map(|seen| seen.networks.values());
        let networks = networks.filter(|held| held.name == engine_name);
        let owners = containers
            .map(|held| held.owner())
            .chain(networks.map(|held| held.owner()));
        let mut alive =
            owners
                .flatten()
                .filter_map(|owner| match self.leases.liveness(&owner.controller, self.now) {
                    Liveness::Alive(lease) => Some(LeaseHolder::of(lease, self.leases)),
                    Liveness::Own | Liveness::LeaseLostRecently | Liveness::Dead | Liveness::Unknown => None,
                });
        if let Some(controller) = alive.next() {
            let (controller, until) = (Box::new(controller), Some(*until));
            return WaitReason::LeaseHeldByOther { controller, until };
        }
        engine_name.clone_into(name);
        wait
    }

    /// Checks that the engine and its disk allow new objects. Existing objects can always be changed. The facts must be fresh
    /// for the first container of a revision, and if `needs_fresh_facts`.
    fn check_preflight(&self, desired: &Desired, needs_fresh_facts: bool) -> Result<(), WaitReason> {
        let revision = desired.revision.as_str();
        let is_of_revision = |container: &Arc<Container>| {
            let label = container.labels.get(labels::REVISION);
            label.is_some_and(|label| label == revision)
        };
        let is_first = || !self.observed.containers.values().any(is_of_revision);
        let max_age = (needs_fresh_facts || is_first()).then_some(MAX_FACT_AGE);
        self.check_facts(desired, max_age)
    }

    /// Checks the facts, however old they are without `max_age`.
    fn check_facts(&self, desired: &Desired, max_age: Option<Duration>) -> Result<(), WaitReason> {
        self.preflight.map_or(Ok(()), |preflight| {
            preflight.check_creation(&desired.preflight, max_age, self.state.disk_full, self.now)
        })
    }

    fn backoff_of(&self, subject: &Subject) -> Option<WaitReason> {
        let failure = self.state.action_failures.get(subject)?;
        match failure.retry_at(&subject.to_string()) {
            None => Some(WaitReason::Failed {
                failure: failure.clone(),
            }),
            Some(until) if until > self.now => Some(match &failure.error {
                crate::outcome::ActionError::NameTaken { holder } => WaitReason::NameTaken {
                    name: match subject.image_key().and_then(|key| key.split("@build:").next()) {
                        Some(tag) => tag.to_owned(),
                        None => subject.to_string(),
                    },
                    conflicting_object: holder.clone(),
                    until,
                    attempts: failure.failed_attempts(),
                    compose_project: None,
                },
                _ => WaitReason::Retry {
                    until,
                    failure: failure.clone(),
                },
            }),
            Some(_) => None,
        }
    }

    /// Cause of an action: `default`, or a retry if the last attempt failed.
    fn cause(&self, subject: &Subject, default: Cause) -> Cause {
        match self.state.action_failures.get(subject) {
            Some(failure) => Cause::Retry {
                attempt: failure.attempts + 1,
            },
            None => default,
        }
    }
}

/// Decision about one subject.
enum Decision {
    /// Run this action now.
    Do(Action, Cause),
    /// Do nothing, for this reason.
    Wait(WaitReason),
    /// The observed state equals the desired state.
    Settled,
}

/// Plans one environment. Total: it never fails, panics or blocks.
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
    shed::apply(input, &mut plan);
    holds::apply(input, &mut plan);
    stop_order::apply(input, &mut plan);
    restart_rate_limit::apply(input, &mut plan);
    holds::apply_breakers(input, &mut plan);
    plan
}

impl Plan {
    fn add(&mut self, subject: Subject, decision: Decision) {
        match decision {
            Decision::Do(action, cause) => self.steps.push(Step {
                subject,
                action,
                cause,
            }),
            Decision::Wait(on) => self.waits.push(Wait { subject, on }),
            Decision::Settled => {}
        }
    }
}

//! State of the planner between passes: attempted actions, their results, failed runs and expected effects.
//!
//! The planner is pure: everything that it knows about the past is in [`PlannerState`]. Two inputs change it:
//!
//! - [`observe`] folds observed containers and probe results into it (restarts, failures, one-shot completions).
//! - [`action_results`] folds submitted and finished actions into it (in-flight calls, errors, evidence).
//!
//! [`breaker_registry`] holds the circuit breakers, [`restart`] decides about restarts, and [`expectation`] covers the
//! time between the end of an action and its observed effect. `forget` keeps the state as small as the desired and
//! observed environments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::action::{ActionFailure, ActionKind, Subject};
use crate::delays::Delays;
use crate::desired::{Accepted, Desired};
use crate::failed_run::FailedRun;
use crate::ident::PortMap;
use crate::ident::{
    ContainerId, ContainerSpecHash, EnvName, ProtocolPort, ResourceName, Revision, ServiceName,
};
use crate::outcome::PortRefusal;
use crate::retry::RetrySettings;
use crate::time::Timestamp;

pub mod action_results;
pub mod breaker;
pub mod breaker_registry;
mod case_attribution;
mod dependencies;
mod disruption;
pub mod expectation;
mod failed_dependency;
mod forget;
mod healthy_run;
mod interruption;
mod memory_use;
mod moved_network;
pub mod observe;
pub(crate) mod port_labels;
mod reattach;
mod refused_call;
mod requested_restart;
pub mod restart;
pub mod run_count;
mod run_end;

pub use breaker_registry::BreakerRegistry;
pub use case_attribution::{CaseAttribution, CaseEvidence, FailureOrigin};
pub use dependencies::Dependencies;
pub use disruption::{Disruption, TestRestart};
pub use expectation::{Expectation, Proof};
pub use healthy_run::HealthyRun;
pub use interruption::{Attribution, Interruption, Originator};
pub use moved_network::MovedNetwork;
pub use reattach::Reattached;
pub use refused_call::RefusedCall;
pub use restart::EndedBudget;

/// Time for which a refusal is remembered. When Argus searches the range, a remembered port comes last.
pub(crate) const REFUSAL_MEMORY: Duration = Duration::from_secs(600);
/// Window of the restart rate limit.
pub(crate) const RESTART_RATE_WINDOW: Duration = Duration::from_secs(60);

/// State of all environments on one engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannerState {
    /// History by environment; kept while the environment is desired or observed. Clones share the histories that do not change.
    pub environments: BTreeMap<EnvName, Arc<EnvHistory>>,
    /// Submitted actions without a result.
    pub in_flight: BTreeMap<Subject, InFlight>,
    /// Effects of finished actions that are not observed yet.
    pub expectations: BTreeMap<Subject, Expectation>,
    /// Last failure per subject, until a success or a new input.
    pub action_failures: BTreeMap<Subject, ActionFailure>,
    /// Host ports that the engine refused recently.
    pub refused: BTreeMap<ProtocolPort, RefusedPort>,
    /// State of images, by the key of [`Subject::Image`].
    pub images: BTreeMap<String, ImageState>,
    /// Containers that Argus stopped or is about to stop, with the start of that run if known: its end is not a failure.
    pub stopped_by_us: BTreeMap<ContainerId, Option<Timestamp>>,
    /// Containers whose inspect shows that Argus does not own them: their labels are inherited from their image.
    pub not_owned: BTreeSet<ContainerId>,
    /// Times of [repeated restarts](crate::action::Step::is_repeated_restart) within the last minute, over all environments.
    pub restarts: Vec<Timestamp>,
    /// Containers that were reattached because a peer was unreachable, each with the causing connectivity check.
    pub reattached: BTreeMap<ContainerId, Reattached>,
    /// Circuit breakers of the engine and of the environments.
    pub breakers: BreakerRegistry,
    /// Time of the last error "no space left", until a later write succeeds.
    pub disk_full: Option<Timestamp>,
    /// Volumes that were created or found. One without Argus labels is never observed and never removed.
    pub volumes: BTreeSet<(EnvName, ResourceName)>,
    /// External networks that were found.
    pub external_networks: BTreeSet<(EnvName, ResourceName)>,
    /// Limits of automatic retries and restarts.
    pub retries: RetrySettings,
    /// Delays of the planner.
    pub delays: Delays,
}

impl PlannerState {
    /// Environments with an action in flight, or with an effect that is not observed yet. Images belong to no environment.
    pub fn busy_environments(&self) -> impl Iterator<Item = &EnvName> {
        let in_flight = self.in_flight.iter();
        let in_flight = in_flight.filter(|(subject, _)| subject.image_key().is_none());
        let expected = self.expectations.keys().filter_map(Subject::environment);
        in_flight.map(|(_, action)| &action.environment).chain(expected)
    }
}

/// History of one environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvHistory {
    /// Assigned host ports; sticky.
    #[serde(with = "pairs")]
    pub ports: PortMap,
    /// Requested host ports at the time of the assignment, 0 for any. A changed request causes a new assignment.
    #[serde(with = "pairs")]
    pub requested_ports: PortMap,
    /// History by service. Clones share the histories that do not change.
    pub services: BTreeMap<ServiceName, Arc<ServiceHistory>>,
    /// Disruptions during tests, oldest first, at most 100.
    pub disruptions: Vec<Disruption>,
    /// Restarts of services during tests, oldest first, at most 100.
    pub restarts: Vec<TestRestart>,
    /// Containers of dead controllers that this controller adopted.
    pub adopted: BTreeSet<ContainerId>,
    /// True if the last accepted file requests the removal of the volumes with the environment.
    pub delete_volumes: Option<bool>,
    /// Dependencies of each service in the last accepted file, and of removed services that still have containers.
    #[serde(skip_serializing_if = "crate::desired::is_default")]
    pub depends_on: Arc<Dependencies>,
    /// External volumes of the last accepted file, which Argus never removes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub external_volumes: BTreeSet<ResourceName>,
    /// External networks of the last accepted file, which Argus never removes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub external_networks: BTreeSet<ResourceName>,
    /// Networks that have other names than the environment derives, by their derived names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub moved_networks: BTreeMap<ResourceName, MovedNetwork>,
    /// Last revision that became Ready.
    #[serde(rename = "lastGood")]
    pub last_ready: Option<Revision>,
    /// Revision of the recorded failures and restart counters.
    pub revision: Option<Revision>,
    /// First observation of this life of the environment; `None` in the state of an earlier version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl PlannerState {
    /// History of an environment, if it is known.
    pub fn history(&self, env: &EnvName) -> Option<&EnvHistory> {
        self.environments.get(env).map(AsRef::as_ref)
    }
}

impl EnvHistory {
    /// Start of the current revision in this life of the environment.
    pub fn started_at(&self, accepted: &Accepted) -> Timestamp {
        // The file of an earlier life was accepted before this one.
        self.since
            .map_or(accepted.accepted_at, |since| since.max(accepted.accepted_at))
    }

    /// History of a service, if it is known.
    pub fn service(&self, service: &ServiceName) -> Option<&ServiceHistory> {
        self.services.get(service).map(Arc::as_ref)
    }

    /// History of a service for changes. It is empty for an unknown service.
    pub fn service_mut(&mut self, service: &ServiceName) -> &mut ServiceHistory {
        Arc::make_mut(self.services.entry(service.clone()).or_default())
    }
}

/// A run: its container, and its start.
pub type Run = (ContainerId, Option<Timestamp>);

/// History of one service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceHistory {
    /// Failed runs, oldest first, at most 16.
    pub failures: Vec<FailedRun>,
    /// Earlier restart budgets since the last change, oldest first, at most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ended_budgets: Vec<EndedBudget>,
    /// Number of restarts at this revision, for any reason.
    pub restarts: u32,
    /// Newest run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest_run: Option<run_count::NewestRun>,
    /// Time at which the current run resets the restart budget.
    #[serde(skip)]
    pub budget_resets_at: Option<Timestamp>,
    /// Number of failures so far; the newest failure has this number.
    pub failure_count: u64,
    /// Times of changes between healthy and unhealthy, oldest first, at most 16.
    pub health_transitions: Vec<Timestamp>,
    /// Last probe result other than `Starting`.
    pub health: Option<crate::probe::ProbeStatus>,
    /// Hash of the one-shot that exited with 0.
    pub completed: Option<ContainerSpecHash>,
    /// Run whose failure a retry request cleared; its end is not counted again.
    #[serde(rename = "forgivenRun")]
    pub ignored_run: Option<Run>,
    /// Run whose restart was requested; without a time, the next observed run of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_requested: Option<Run>,
    /// Time since which the service is stopped or paused externally.
    pub stopped_externally_since: Option<Timestamp>,
    /// Current healthy run.
    pub healthy_run: Option<HealthyRun>,
    /// Number of the failed run before the first healthy one, if the health check failed before it ever succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_recovery: Option<u64>,
    /// Number of failures before the last healthy run.
    pub failures_before_recovery: u64,
    /// Container that received the service's files last, and their digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_files: Option<(ContainerId, ContainerSpecHash)>,
    /// Identifier of the last action that created or started a container of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_start: Option<String>,
    /// Last action that the engine refused on a container of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_call: Option<RefusedCall>,
    /// Time of the last known change of a file that the service mounts read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_changed_at: Option<Timestamp>,
}

/// A submitted action without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    /// Environment that the action was planned for.
    pub environment: EnvName,
    /// Identifier of the action, as in the journal.
    pub id: String,
    /// Kind of the action.
    pub verb: ActionKind,
    /// Time of the submission.
    pub since: Timestamp,
    /// For a start: start time of the newest run at the submission. The watch may report the new run before the call
    /// returns.
    pub run_before: Option<Timestamp>,
}

/// A host port that the engine refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPort {
    /// Time of the last refusal.
    pub at: Timestamp,
    /// Observation of the port right after the refusal.
    pub refusal: PortRefusal,
    /// Number of recent refusals.
    pub times: u32,
}

/// Last known state of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageState {
    /// A create failed because the image is missing.
    Missing,
    /// The image was pulled or built.
    Present,
}

impl EnvHistory {
    /// Stores an assignment together with the requests of the file. An unchanged history stays shared.
    pub fn remember_ports(self: &mut Arc<Self>, desired: &Desired, ports: &PortMap) {
        let services = desired.services.values();
        let all = services.flat_map(|service| service.ports.iter().map(|port| (&service.name, port)));
        let requested: PortMap = all
            .map(|(service, port)| (port.key(service), port.requested.unwrap_or(0)))
            .collect();
        if self.ports != *ports || self.requested_ports != requested {
            let history = Arc::make_mut(self);
            history.ports.clone_from(ports);
            history.requested_ports = requested;
        }
    }
}

mod pairs {
    //! Serde adapter: a map with structured keys as a list of pairs.

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::ident::{PortKey, PortMap};

    pub(super) fn serialize<S: Serializer>(map: &PortMap, to: S) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PortMap, D::Error> {
        Ok(Vec::<(PortKey, u16)>::deserialize(from)?.into_iter().collect())
    }
}

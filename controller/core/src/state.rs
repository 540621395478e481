//! The only past the brain keeps: what was tried, what came of it, and what is expected to be seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::desired::Desired;
use crate::diagnose::FailureCause;
use crate::ident::{ContainerId, EnvName, HostPort, ResourceName, Revision, ServiceName, SpecHash};
use crate::outcome::{Evidence, PortRefusal};
use crate::plan::{ActionFailure, PortKey, PortMap, Subject};
use crate::time::Timestamp;

pub mod action_results;
pub mod breaker;
pub mod breaker_registry;
pub mod expectation;
mod healthy_run;
mod image_replaced;
pub mod observe;
mod prune;
mod reattach;
pub mod restart;

pub use breaker_registry::BreakerRegistry;
pub use expectation::{Expectation, Proof};
pub use healthy_run::HealthyRun;
pub use reattach::Reattached;

/// Memory of all environments on one engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannerState {
    /// By environment; kept as long as anything of it is desired or seen.
    pub environments: BTreeMap<EnvName, EnvHistory>,
    /// Acts that were handed to the hands and have not come back.
    pub in_flight: BTreeMap<Subject, InFlight>,
    /// Effects that are not seen yet.
    pub expectations: BTreeMap<Subject, Expectation>,
    /// The last failure per subject, until a success or a new input.
    pub action_failures: BTreeMap<Subject, ActionFailure>,
    /// Host ports that the engine refused lately.
    pub refused: BTreeMap<HostPort, RefusedPort>,
    /// What is known of images, by the key of [`Subject::Image`].
    pub images: BTreeMap<String, ImageState>,
    /// Runs of containers that we stopped, or are about to, by their start where that is known: their end is no death.
    pub stopped_by_us: BTreeMap<ContainerId, Option<Timestamp>>,
    /// Containers that the engine, looked at closely, says are not ours: their labels came with their image.
    pub not_ours: BTreeSet<ContainerId>,
    /// When services were started again after a failure, over all environments; those of the last minute.
    pub restarts: Vec<Timestamp>,
    /// Containers that were attached anew because somebody was out of reach, each with the look that showed it.
    pub reattached: BTreeMap<ContainerId, Reattached>,
    /// The breakers.
    pub breakers: BreakerRegistry,
    /// When the engine last said that no space is left, until something could be made again.
    pub disk_full: Option<Timestamp>,
    /// Volumes that were created or found; one without our labels is never seen, and never ours to remove.
    pub volumes: BTreeSet<(EnvName, ResourceName)>,
}

/// What is remembered of one environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvHistory {
    /// Assigned host ports; sticky.
    #[serde(with = "pairs")]
    pub ports: PortMap,
    /// What the file wanted when a port was assigned, 0 for any: another wish is another assignment.
    #[serde(with = "pairs")]
    pub wanted: PortMap,
    /// By service.
    pub services: BTreeMap<ServiceName, ServiceHistory>,
    /// Failures during tests, oldest first, bounded.
    pub disruptions: Vec<Disruption>,
    /// Containers that a dead controller made and this one keeps: they are its own from then on.
    pub adopted: BTreeSet<ContainerId>,
    /// Whether its last accepted file wants the volumes to go with it.
    pub delete_volumes: Option<bool>,
    /// The last revision that became Ready.
    pub last_good: Option<Revision>,
    /// The revision that failures and restart counters belong to.
    pub revision: Option<Revision>,
}

/// What is remembered of one service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceHistory {
    /// Ends of its containers that nobody asked for, oldest first, bounded.
    pub failures: Vec<FailedRun>,
    /// Starts that followed a death, at this revision.
    pub restarts: u32,
    /// Failures so far; the newest has this number.
    pub failure_count: u64,
    /// When its probe went from healthy to unhealthy or back, oldest first, bounded.
    pub health_transitions: Vec<Timestamp>,
    /// What its probe said last, when that was decided.
    pub health: Option<crate::probe::ProbeStatus>,
    /// Hash of the one-shot that exited with 0.
    pub completed: Option<SpecHash>,
    /// The run whose end was forgiven: it is not counted when it is seen again.
    pub reset_baseline: Option<(ContainerId, Option<Timestamp>)>,
    /// Since when it is stopped or paused by somebody else.
    pub stopped_externally_since: Option<Timestamp>,
    /// The run that its probe calls healthy, as long as it does.
    pub healthy_run: Option<HealthyRun>,
    /// The container that its file was put into last, and the digest of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_files: Option<(ContainerId, SpecHash)>,
}

/// One failure: an end of a container that nobody asked for, or a probe that failed past its retries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct FailedRun {
    /// Which container.
    pub container: ContainerId,
    /// When it had been started.
    pub started_at: Option<Timestamp>,
    /// When it ended, by the engine's clock, or when that was seen.
    pub at: Timestamp,
    /// When it was seen, by our own clock; delays count from here, for the engine's clock may be another.
    #[serde(default)]
    pub observed_at: Option<Timestamp>,
    /// Exit code; 255 may mean that the engine lost it.
    pub exit_code: i64,
    /// The engine's flag.
    pub oom_killed: bool,
    /// The kernel told of want of memory during this run.
    #[serde(default)]
    pub oom_event: bool,
    /// How it failed.
    #[serde(default)]
    pub cause: FailureCause,
    /// What the container was made from; another hash is another try.
    #[serde(default)]
    pub hash: Option<SpecHash>,
    /// Which failure of the service it is, from 1; names its evidence.
    #[serde(default)]
    pub number: u64,
    /// Memory limit in bytes; `None`: none.
    #[serde(default)]
    pub memory_limit: Option<u64>,
    /// What the engine said of it.
    #[serde(default)]
    pub error: String,
    /// What its probe said last, oldest first, where that is how it failed.
    #[serde(default)]
    pub probe_output: Vec<String>,
    /// Since when its probe failed, where that is how it failed and the probe is ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// What it left; `None` until it was taken.
    #[serde(default)]
    pub evidence: Option<Evidence>,
    /// A later run was seen.
    #[serde(default)]
    pub followed_by_run: bool,
    /// It was given up, and the name of its image stands for another image by now: that one is tried as if for the first time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub image_replaced: bool,
    /// When its probe found it healthy again, before anything was done.
    #[serde(default)]
    pub recovered_at: Option<Timestamp>,
    /// How long the run was healthy before it failed; `None` where nothing but running is asked of it.
    #[serde(default)]
    pub healthy_for: Option<Duration>,
}

impl FailedRun {
    /// A death of which nothing is known but when.
    pub fn of(container: ContainerId, at: Timestamp) -> Self {
        Self {
            container,
            started_at: None,
            at,
            observed_at: None,
            exit_code: 0,
            oom_killed: false,
            oom_event: false,
            cause: FailureCause::Exited,
            hash: None,
            number: 0,
            memory_limit: None,
            error: String::new(),
            probe_output: Vec::new(),
            failing_since: None,
            evidence: None,
            followed_by_run: false,
            image_replaced: false,
            recovered_at: None,
            healthy_for: None,
        }
    }

    /// When it was seen to fail.
    pub fn seen(&self) -> Timestamp {
        self.observed_at.unwrap_or(self.at)
    }

    /// How long it ran.
    pub fn ran_for(&self) -> Duration {
        self.started_at
            .map_or(Duration::ZERO, |start| self.at.since(start))
    }

    /// The most memory it used, in bytes; the limit at least, where that ended it.
    pub fn peak(&self) -> Option<u64> {
        let measured = self.evidence.as_ref().and_then(|evidence| evidence.memory_peak);
        let reached = self.memory_limit.filter(|_| self.oom_killed || self.oom_event);
        measured.max(reached)
    }
}

/// A failure while a test held a lease on its environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// The test case.
    pub case: String,
    /// The service.
    pub service: ServiceName,
    /// Which failure of the service.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// Whose doing it was.
    pub attribution: Attribution,
}

/// Whose doing a failure during a test was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Attribution {
    /// The engine's, or that of somebody beside the test.
    Infrastructure,
    /// That of the tested service itself.
    Test,
}

/// An act that has not come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    /// The environment it was planned for.
    pub environment: EnvName,
    /// Its verb.
    pub verb: &'static str,
    /// Since when.
    pub since: Timestamp,
    /// Of a start: the newest earlier run that was known then. Eyes may be faster than hands, so that the new run
    /// is seen before the answer comes.
    pub run_before: Option<Timestamp>,
}

/// A host port that the engine refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPort {
    /// When.
    pub at: Timestamp,
    /// What was seen right after.
    pub refusal: PortRefusal,
    /// How often it was refused lately.
    pub times: u32,
}

/// What is known of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageState {
    /// A create said that it is not there.
    Missing,
    /// It was pulled or built.
    Present,
}

impl EnvHistory {
    /// Keeps an assignment, with what the file wanted at that time.
    pub fn remember_ports(&mut self, desired: &Desired, ports: &PortMap) {
        self.ports.clone_from(ports);
        self.wanted.clear();
        for service in desired.services.values() {
            for port in &service.ports {
                let container = HostPort {
                    number: port.container,
                    protocol: port.protocol,
                };
                let key = PortKey {
                    service: service.name.clone(),
                    container,
                };
                self.wanted.insert(key, port.wanted.unwrap_or(0));
            }
        }
    }
}

mod pairs {
    //! A map whose keys are not text, as a list of pairs.

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::plan::{PortKey, PortMap};

    pub(super) fn serialize<S: Serializer>(map: &PortMap, to: S) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PortMap, D::Error> {
        Ok(Vec::<(PortKey, u16)>::deserialize(from)?.into_iter().collect())
    }
}

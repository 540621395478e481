//! The only past the brain keeps: what was tried, what came of it, and what is expected to be seen.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::desired::Desired;
use crate::ident::{ContainerId, EnvName, HostPort, ResourceName, Revision, ServiceName, SpecHash};
use crate::outcome::PortRefusal;
use crate::plan::{Failure, PortKey, PortMap, Subject};
use crate::time::Timestamp;

pub mod expectation;
pub mod fold;
mod forget;
pub mod notice;
pub mod restart;

pub use expectation::{Expectation, Proof};

/// Memory of all environments on one engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// By environment; kept as long as anything of it is desired or seen.
    pub environments: BTreeMap<EnvName, EnvMemory>,
    /// Acts that were handed to the hands and have not come back.
    pub in_flight: BTreeMap<Subject, InFlight>,
    /// Effects that are not seen yet.
    pub expectations: BTreeMap<Subject, Expectation>,
    /// The last failure per subject, until a success or a new input.
    pub failures: BTreeMap<Subject, Failure>,
    /// Host ports that the engine refused lately.
    pub refused: BTreeMap<HostPort, Refused>,
    /// What is known of images, by the key of [`Subject::Image`].
    pub images: BTreeMap<String, ImageMemory>,
    /// Containers that this run stopped itself: their end is no death.
    pub stopped_by_us: BTreeSet<ContainerId>,
    /// Containers that the engine, looked at closely, says are not ours: their labels came with their image.
    pub not_ours: BTreeSet<ContainerId>,
    /// Volumes that were created or found; one without our labels is never seen, and never ours to remove.
    pub volumes: BTreeSet<(EnvName, ResourceName)>,
}

/// What is remembered of one environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvMemory {
    /// Assigned host ports; sticky.
    #[serde(with = "pairs")]
    pub ports: PortMap,
    /// What the file wanted when a port was assigned, 0 for any: another wish is another assignment.
    #[serde(with = "pairs")]
    pub wanted: PortMap,
    /// By service.
    pub services: BTreeMap<ServiceName, ServiceMemory>,
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
pub struct ServiceMemory {
    /// Ends of its containers that nobody asked for, oldest first, bounded.
    pub deaths: Vec<Death>,
    /// Starts that followed a death, at this revision.
    pub restarts: u32,
    /// Hash of the one-shot that exited with 0.
    pub completed: Option<SpecHash>,
    /// The run whose end was forgiven: it is not counted when it is seen again.
    pub forgiven: Option<(ContainerId, Option<Timestamp>)>,
    /// Since when it is stopped or paused by somebody else.
    pub by_hand: Option<Timestamp>,
}

/// One end of a container that nobody asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Death {
    /// Which container.
    pub container: ContainerId,
    /// When it had been started.
    pub started_at: Option<Timestamp>,
    /// When it ended, by the engine's clock, or when that was seen.
    pub at: Timestamp,
    /// Exit code; 255 may mean that the engine lost it.
    pub exit_code: i64,
    /// The engine's flag.
    pub oom_killed: bool,
}

/// An act that has not come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
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
pub struct Refused {
    /// When.
    pub at: Timestamp,
    /// What was seen right after.
    pub refusal: PortRefusal,
    /// How often it was refused lately.
    pub times: u32,
}

/// What is known of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageMemory {
    /// A create said that it is not there.
    Missing,
    /// It was pulled or built.
    Present,
}

impl EnvMemory {
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

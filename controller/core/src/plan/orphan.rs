//! What dead controllers left: whose it was, and why it is not removed, where it is not.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ActionFailure, PlanInput, WaitingOn};
use crate::labels::Owner;
use crate::lease::Liveness;
use crate::observed::Observed;
use crate::time::Timestamp;

/// Younger than this, somebody may be about to desire it.
pub const GRACE: Duration = Duration::from_secs(30);

/// Projects whose specs this controller holds, and whether all of them let orphans be removed.
pub type Projects = BTreeMap<String, bool>;

/// Something that carries our labels, that nobody desires, and whose controller is dead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// What it is.
    pub kind: OrphanKind,
    /// The engine's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What its labels say of whose it is.
    pub environment: String,
    /// The project on its label.
    pub project: String,
    /// The controller that made it; empty for the Node tool.
    pub controller: String,
    /// When it was made, by the engine's clock, as far as that is known.
    pub created_at: Option<Timestamp>,
    /// What becomes of it.
    pub decision: OrphanDecision,
}

/// What an orphan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OrphanKind {
    /// A container.
    Container,
    /// A network.
    Network,
    /// A named volume.
    Volume,
}

impl OrphanKind {
    /// As people and files write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Network => "network",
            Self::Volume => "volume",
        }
    }
}

/// What becomes of an orphan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum OrphanDecision {
    /// It is removed, or waits for its turn.
    Removing,
    /// Its removal failed; it is tried again.
    Failed {
        /// How.
        failure: ActionFailure,
    },
    /// It is too young to be judged.
    TooNew {
        /// Until then.
        until: Timestamp,
    },
    /// Its project is none of ours: a person has to ask for it.
    OtherProject,
    /// The specs of its project want orphans reported only.
    ReportOnly,
    /// Volumes are kept unless they were made to go.
    KeptVolume,
}

impl Orphan {
    /// Whether it is seen.
    pub(crate) fn is_in(&self, observed: &Observed) -> bool {
        let id = self.id.as_str();
        match self.kind {
            OrphanKind::Container => observed.containers.keys().any(|it| it.as_str() == id),
            OrphanKind::Network => observed.networks.keys().any(|it| it.as_str() == id),
            OrphanKind::Volume => observed.volumes.contains_key(id),
        }
    }

    /// When time alone changes what becomes of it.
    pub fn until(&self) -> Option<Timestamp> {
        match &self.decision {
            OrphanDecision::TooNew { until } => Some(*until),
            OrphanDecision::Removing
            | OrphanDecision::Failed { .. }
            | OrphanDecision::OtherProject
            | OrphanDecision::ReportOnly
            | OrphanDecision::KeptVolume => None,
        }
    }

    /// Nothing is done about it unless a person asks for it.
    pub fn is_only_reported(&self) -> bool {
        match self.decision {
            OrphanDecision::OtherProject | OrphanDecision::ReportOnly | OrphanDecision::KeptVolume => true,
            OrphanDecision::Removing | OrphanDecision::Failed { .. } | OrphanDecision::TooNew { .. } => false,
        }
    }
}

/// Whose something is that nobody desires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerStatus {
    /// This controller made it.
    Ours,
    /// Its controller is dead.
    Unowned,
    /// Its controller lives, or may.
    Another,
}

pub(super) fn owner_status(input: &PlanInput<'_>, controller: &str) -> OwnerStatus {
    if !controller.is_empty() && controller == input.identity.controller {
        return OwnerStatus::Ours;
    }
    // What was ours to keep is ours to take down.
    let kept = input.accepted.is_none() && input.kept().is_some_and(|kept| kept.revision.is_some());
    match input.leases.liveness(controller, input.now) {
        Liveness::Own => OwnerStatus::Ours,
        Liveness::Dead if kept => OwnerStatus::Ours,
        Liveness::Dead => OwnerStatus::Unowned,
        Liveness::Alive(_) | Liveness::Doubtful | Liveness::Unknown => OwnerStatus::Another,
    }
}

/// Why an orphan is left alone; `Ok` where it is to go.
pub(super) fn can_remove(
    input: &PlanInput<'_>,
    owner: &Owner,
    made: Option<Timestamp>,
) -> Result<(), OrphanDecision> {
    let asked = input.requests.is_cleaning(&owner.project, input.now);
    match input.projects.get(&owner.project) {
        _ if asked => {}
        Some(true) => {}
        Some(false) => return Err(OrphanDecision::ReportOnly),
        None => return Err(OrphanDecision::OtherProject),
    }
    // Its age is told by the clock that dated it.
    let now = input.leases.engine_time(input.now);
    let old = made.map(|made| made + GRACE);
    match old {
        Some(old) if old > now => Err(OrphanDecision::TooNew {
            until: input.now + old.since(now),
        }),
        Some(_) | None => Ok(()),
    }
}

/// What a wait for its removal means for it.
pub(crate) fn decide(on: &WaitingOn) -> OrphanDecision {
    match on {
        WaitingOn::Retry { failure, .. } | WaitingOn::Failed { failure } => OrphanDecision::Failed {
            failure: failure.clone(),
        },
        _ => OrphanDecision::Removing,
    }
}

//! What dead controllers left: whose it was, and why it is not removed, where it is not.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Failure, PlanInput, WaitingOn};
use crate::labels::Owner;
use crate::lease::Life;
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
    pub kind: Kind,
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
    pub fate: Fate,
}

/// What an orphan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A container.
    Container,
    /// A network.
    Network,
    /// A named volume.
    Volume,
}

impl Kind {
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
pub enum Fate {
    /// It is removed, or waits for its turn.
    Going,
    /// Its removal failed; it is tried again.
    Failed {
        /// How.
        failure: Failure,
    },
    /// It is too young to be judged.
    Young {
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
            Kind::Container => observed.containers.keys().any(|it| it.as_str() == id),
            Kind::Network => observed.networks.keys().any(|it| it.as_str() == id),
            Kind::Volume => observed.volumes.contains_key(id),
        }
    }

    /// When time alone changes what becomes of it.
    pub fn until(&self) -> Option<Timestamp> {
        match &self.fate {
            Fate::Young { until } => Some(*until),
            Fate::Going | Fate::Failed { .. } | Fate::OtherProject | Fate::ReportOnly | Fate::KeptVolume => {
                None
            }
        }
    }

    /// Nothing is done about it unless a person asks for it.
    pub fn is_only_reported(&self) -> bool {
        match self.fate {
            Fate::OtherProject | Fate::ReportOnly | Fate::KeptVolume => true,
            Fate::Going | Fate::Failed { .. } | Fate::Young { .. } => false,
        }
    }
}

/// Whose something is that nobody desires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// This controller made it.
    Ours,
    /// Its controller is dead.
    Nobodys,
    /// Its controller lives, or may.
    Another,
}

pub(super) fn whose(input: &PlanInput<'_>, controller: &str) -> Whose {
    if !controller.is_empty() && controller == input.site.controller {
        return Whose::Ours;
    }
    // What was ours to keep is ours to take down.
    let kept = input.accepted.is_none() && input.kept().is_some_and(|kept| kept.revision.is_some());
    match input.leases.life(controller, input.now) {
        Life::Us => Whose::Ours,
        Life::Dead if kept => Whose::Ours,
        Life::Dead => Whose::Nobodys,
        Life::Lives(_) | Life::Doubtful | Life::Unknown => Whose::Another,
    }
}

/// Why an orphan is left alone; `Ok` where it is to go.
pub(super) fn may_go(input: &PlanInput<'_>, owner: &Owner, made: Option<Timestamp>) -> Result<(), Fate> {
    let asked = input.orders.cleans(&owner.project, input.now);
    match input.projects.get(&owner.project) {
        _ if asked => {}
        Some(true) => {}
        Some(false) => return Err(Fate::ReportOnly),
        None => return Err(Fate::OtherProject),
    }
    // Its age is told by the clock that dated it.
    let now = input.leases.engine_time(input.now);
    let old = made.map(|made| made + GRACE);
    match old {
        Some(old) if old > now => Err(Fate::Young {
            until: input.now + old.since(now),
        }),
        Some(_) | None => Ok(()),
    }
}

/// What a wait for its removal means for it.
pub(crate) fn fate_of(on: &WaitingOn) -> Fate {
    match on {
        WaitingOn::Retry { failure, .. } | WaitingOn::Failed { failure } => Fate::Failed {
            failure: failure.clone(),
        },
        _ => Fate::Going,
    }
}

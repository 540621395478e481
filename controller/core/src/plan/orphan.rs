//! Orphans of dead controllers: ownership, and the decision to remove or to keep each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::PlanInput;
use crate::action::ActionFailure;
use crate::labels::{Maker, ObjectLabels};
use crate::lease::{ControllerLease, Liveness};
use crate::observed::Observed;
use crate::time::Timestamp;
use crate::user_requests::UserRequests;
use crate::wait::WaitReason;

/// Time after the list interval within which the leases are listed again.
const LEASE_LIST_MARGIN: Duration = Duration::from_secs(2);

/// Projects of the specs of this controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Projects {
    /// By name; the value is true if all specs of the project allow the removal of orphans.
    pub(crate) by_name: BTreeMap<String, bool>,
    /// Folders of the projects since the start.
    pub(crate) folders: BTreeSet<String>,
}

impl Projects {
    /// Returns whether a folder, as on the label of an object, is that of another project.
    pub(crate) fn is_foreign(&self, folder: Option<&str>) -> bool {
        folder.is_some_and(|folder| !self.folders.contains(folder))
    }
}

/// An undesired object with Argus labels whose controller is dead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Orphan {
    /// Kind of the object.
    pub kind: OrphanKind,
    /// Id on the engine.
    pub id: String,
    /// Name on the engine.
    pub name: String,
    /// Environment from its label.
    pub environment: String,
    /// Project from its label.
    pub project: String,
    /// Identity of its controller; empty for the Node tool.
    pub controller: String,
    /// Run of its controller that created it; empty if unknown.
    #[serde(default)]
    pub run: String,
    /// Creation time by the engine's clock; `None` if unknown.
    pub created_at: Option<Timestamp>,
    /// Decision about it.
    pub decision: OrphanDecision,
}

/// Kind of an orphan.
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
    /// Name of the kind in reports and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Network => "network",
            Self::Volume => "volume",
        }
    }
}

/// Decision about an orphan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum OrphanDecision {
    /// Argus removes it, now or after a wait.
    Removing,
    /// The removal failed and is retried.
    Failed {
        /// Last error.
        failure: ActionFailure,
    },
    /// Containers use it that Argus does not remove.
    InUse {
        /// Names of the containers, in backticks.
        containers: String,
    },
    /// It is newer than the last list of the leases, so its controller may be alive. It is not reported.
    Unconfirmed {
        /// Time of the next check.
        until: Timestamp,
    },
    /// It is younger than [`orphan_age`](crate::delays::Delays::orphan_age).
    TooNew {
        /// End of the grace period.
        until: Timestamp,
    },
    /// Its project has no spec here: only a request of a person removes it.
    OtherProject,
    /// The specs of its project allow only a report.
    ReportOnly,
    /// It is a volume without the label for removal, so it stays until a request. It is not reported as an orphan.
    KeptVolume {
        /// True if it belongs to the project in another folder.
        #[serde(default, rename = "isForeign")]
        is_foreign: bool,
    },
}

impl Orphan {
    /// True if the store still shows the orphan.
    pub(crate) fn is_in(&self, observed: &Observed) -> bool {
        let id = self.id.as_str();
        match self.kind {
            OrphanKind::Container => observed.containers.keys().any(|it| it.as_str() == id),
            OrphanKind::Network => observed.networks.keys().any(|it| it.as_str() == id),
            OrphanKind::Volume => observed.volumes.contains_key(id),
        }
    }

    /// Time at which the decision changes without an event.
    pub fn until(&self) -> Option<Timestamp> {
        match &self.decision {
            OrphanDecision::Unconfirmed { until } | OrphanDecision::TooNew { until } => Some(*until),
            OrphanDecision::Removing
            | OrphanDecision::Failed { .. }
            | OrphanDecision::InUse { .. }
            | OrphanDecision::OtherProject
            | OrphanDecision::ReportOnly
            | OrphanDecision::KeptVolume { .. } => None,
        }
    }
}

/// Owner of an undesired object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerStatus {
    /// This controller.
    Own,
    /// A dead controller.
    DeadController,
    /// Another controller that is alive or possibly alive.
    OtherController,
}

pub(super) fn owner_status(input: &PlanInput<'_>, maker: Maker<'_>) -> OwnerStatus {
    let (controller, _) = maker;
    if !controller.is_empty() && controller == input.identity.controller {
        return OwnerStatus::Own;
    }
    // An environment that this controller managed is also removed by it.
    let was_managed =
        input.accepted.is_none() && input.history().is_some_and(|history| history.revision.is_some());
    let is_claimed = |lease: &ControllerLease| lease.claimed_at(input.env).is_some();
    match input.leases.liveness(controller, input.now) {
        Liveness::Own => OwnerStatus::Own,
        Liveness::Dead if was_managed => OwnerStatus::Own,
        Liveness::Dead => OwnerStatus::DeadController,
        // The controller with the first claim removes all objects, also those of a controller that claimed later.
        Liveness::Alive(lease) if is_claimed(lease) && input.leases.own().is_some_and(is_claimed) => {
            OwnerStatus::Own
        }
        Liveness::Alive(_) | Liveness::LeaseLostRecently | Liveness::Unknown => OwnerStatus::OtherController,
    }
}

/// Checks that the specs of its project, or a person, allow the removal of an orphan.
pub(crate) fn check_project(
    projects: &Projects,
    requests: &UserRequests,
    project: &str,
    now: Timestamp,
) -> Result<(), OrphanDecision> {
    match projects.by_name.get(project) {
        _ if requests.is_orphan_removal_requested(project, now) => Ok(()),
        Some(true) => Ok(()),
        Some(false) => Err(OrphanDecision::ReportOnly),
        None => Err(OrphanDecision::OtherProject),
    }
}

/// Checks that an orphan may be removed; `Err` with the decision to keep it.
pub(super) fn can_remove(
    input: &PlanInput<'_>,
    owner: &ObjectLabels,
    id: &str,
    created_at: Option<Timestamp>,
) -> Result<(), OrphanDecision> {
    if created_at.is_some_and(|created_at| !input.leases.is_listed_since(created_at)) {
        let until = input.now + input.state.delays.list_interval + LEASE_LIST_MARGIN;
        return Err(OrphanDecision::Unconfirmed { until });
    }
    check_project(input.projects, input.requests, &owner.project, input.now)?;
    // A controller that is certainly dead declares the object no more.
    if input.obstacles.contains(id) && input.leases.is_proven_dead(&owner.controller, input.now) {
        return Ok(());
    }
    // The age is computed with the clock that recorded the creation.
    let now = input.leases.engine_time(input.now);
    let old = created_at.map(|created_at| created_at + input.state.delays.orphan_age);
    match old {
        Some(old) if old > now => Err(OrphanDecision::TooNew {
            until: input.now + old.since(now),
        }),
        Some(_) | None => Ok(()),
    }
}

/// Decision for an orphan whose removal waits.
pub(crate) fn decide_orphan(on: &WaitReason) -> OrphanDecision {
    match on {
        WaitReason::Retry { failure, .. } | WaitReason::Failed { failure } => OrphanDecision::Failed {
            failure: failure.clone(),
        },
        WaitReason::InUse { containers, .. } => OrphanDecision::InUse {
            containers: containers.clone(),
        },
        _ => OrphanDecision::Removing,
    }
}

//! Expectations: cover the time between the end of an action and its observed effect.
//!
//! An API call returns before the informer reports its effect. Until a [`Proof`] is observed, the planner plans nothing
//! for the subject; otherwise it would repeat the action.

use std::time::Duration;

use crate::action::Action;
use crate::ident::{ContainerId, NetworkId};
use crate::observed::{ContainerState, Store};
use crate::outcome::Done;
use crate::time::Timestamp;

/// Maximum time until an effect is observed; then Argus requests a full list.
pub const EFFECT_WITHIN: Duration = Duration::from_secs(5);
/// Maximum time to wait for a full list; then the plan continues with the known state.
pub const RELIST_WITHIN: Duration = Duration::from_secs(30);

/// An effect that is not observed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// Verb of the finished action.
    pub verb: &'static str,
    /// Observation that proves the effect.
    pub proof: Proof,
    /// Deadline of the expectation.
    pub until: Timestamp,
}

/// An observation that proves an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The container exists.
    Present(ContainerId),
    /// The container has a run that started later than `before`.
    Started {
        /// Container.
        id: ContainerId,
        /// Start of its previous run.
        before: Option<Timestamp>,
    },
    /// The container does not run.
    Stopped(ContainerId),
    /// The container is not paused.
    Unpaused(ContainerId),
    /// The container has this name.
    Named(ContainerId, String),
    /// The container does not exist.
    Absent(ContainerId),
    /// The container is on the network.
    Attached(ContainerId, NetworkId),
    /// The container is not on the network of this name.
    Detached(ContainerId, String),
    /// The network exists.
    NetworkPresent(NetworkId),
    /// The network does not exist.
    NetworkAbsent(NetworkId),
    /// The volume does not exist.
    VolumeAbsent(String),
    /// A list that started after the list of this number is complete.
    Relisted(u64),
}

impl Proof {
    /// Proof of the effect of `action`; `None` if its effect is not observable. For `run_before` see [`super::InFlight`].
    pub fn of(action: &Action, done: &Done, run_before: Option<Timestamp>) -> Option<Self> {
        match action {
            Action::CreateContainer { .. } => match done {
                Done::Container(id) => Some(Self::Present(id.clone())),
                Done::Applied | Done::Network(_) | Done::Evidence(_) => None,
            },
            Action::CreateNetwork { .. } => match done {
                Done::Network(id) => Some(Self::NetworkPresent(id.clone())),
                Done::Applied | Done::Container(_) | Done::Evidence(_) => None,
            },
            Action::StartContainer { id } => Some(Self::Started {
                id: id.clone(),
                before: run_before,
            }),
            Action::StopContainer { id, .. } => Some(Self::Stopped(id.clone())),
            Action::UnpauseContainer { id } => Some(Self::Unpaused(id.clone())),
            Action::RenameContainer { id, to } => Some(Self::Named(id.clone(), to.to_string())),
            Action::RemoveContainer { id, .. } => Some(Self::Absent(id.clone())),
            Action::ConnectNetwork {
                network, container, ..
            } => Some(Self::Attached(container.clone(), network.clone())),
            Action::DisconnectNetwork { network, container } => ContainerId::new(container.clone())
                .ok()
                .map(|id| Self::Detached(id, network.clone())),
            Action::RemoveNetwork { id, .. } => Some(Self::NetworkAbsent(id.clone())),
            Action::RemoveVolume { name } => Some(Self::VolumeAbsent(name.to_string())),
            Action::CollectEvidence { .. }
            | Action::CopyFile { .. }
            | Action::CreateVolume { .. }
            | Action::PullImage { .. }
            | Action::BuildImage(_) => None,
        }
    }

    /// True if the store shows the effect. A missing container counts as proof of every effect except `Present`.
    pub fn is_seen(&self, store: &Store) -> bool {
        match self {
            Self::Present(id) => store.container(id).is_some(),
            // A late report of an earlier run proves nothing, whether it runs or not.
            Self::Started { id, before } => store.container(id).is_none_or(|c| match &c.inspect {
                Some(info) => info.started_at > *before,
                None => c.state.is_up(),
            }),
            Self::Stopped(id) => store.container(id).is_none_or(|c| !c.state.is_up()),
            Self::Unpaused(id) => store
                .container(id)
                .is_none_or(|c| c.state != ContainerState::Paused),
            Self::Named(id, name) => store.container(id).is_none_or(|c| c.name == *name),
            Self::Absent(id) => store.container(id).is_none(),
            Self::Attached(id, network) => store
                .container(id)
                .is_none_or(|c| c.networks.values().any(|a| a.network.as_ref() == Some(network))),
            Self::Detached(id, name) => store.container(id).is_none_or(|c| !c.networks.contains_key(name)),
            Self::NetworkPresent(id) => store.network(id).is_some(),
            Self::NetworkAbsent(id) => store.network(id).is_none(),
            Self::VolumeAbsent(name) => store.volume(name).is_none(),
            Self::Relisted(after) => store.last_complete() > *after,
        }
    }
}

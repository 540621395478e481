//! Hands are faster than eyes: which sight proves that an act took effect, and until when it is waited for.

use std::time::Duration;

use crate::ident::{ContainerId, NetworkId};
use crate::observed::{ContainerState, Store};
use crate::outcome::Done;
use crate::plan::Action;
use crate::time::Timestamp;

/// An effect shows within this time, or a full list is asked for.
pub const EFFECT_WITHIN: Duration = Duration::from_secs(5);
/// A full list is waited for this long; after it the plan goes on with what is known.
pub const RELIST_WITHIN: Duration = Duration::from_secs(30);

/// An effect that is not seen yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The verb that was carried out.
    pub verb: &'static str,
    /// What proves it.
    pub proof: Proof,
    /// After this it is dropped.
    pub until: Timestamp,
}

/// A sight that proves an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The container is there.
    Present(ContainerId),
    /// The container was started after this start.
    Started {
        /// Which.
        id: ContainerId,
        /// Its start before this one.
        before: Option<Timestamp>,
    },
    /// The container does not run.
    Stopped(ContainerId),
    /// The container is not frozen.
    Unpaused(ContainerId),
    /// The container has this name.
    Named(ContainerId, String),
    /// The container is gone.
    Absent(ContainerId),
    /// The container is on the network.
    Attached(ContainerId, NetworkId),
    /// The container is not on the network of this name.
    Detached(ContainerId, String),
    /// The network is there.
    NetworkPresent(NetworkId),
    /// The network is gone.
    NetworkAbsent(NetworkId),
    /// The volume is gone.
    VolumeAbsent(String),
    /// A list that began after this one is complete.
    Relisted(u64),
}

impl Proof {
    /// What proves that `act` took effect; `run_before`: see [`super::InFlight`]; `None` where nothing of it can be seen.
    pub fn of(act: &Action, done: &Done, run_before: Option<Timestamp>) -> Option<Self> {
        match act {
            Action::CreateContainer { .. } => match done {
                Done::Container(id) => Some(Self::Present(id.clone())),
                Done::Ok | Done::Network(_) | Done::Evidence(_) => None,
            },
            Action::CreateNetwork { .. } => match done {
                Done::Network(id) => Some(Self::NetworkPresent(id.clone())),
                Done::Ok | Done::Container(_) | Done::Evidence(_) => None,
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

    /// Whether the world shows it. A container that is gone proves everything but its presence.
    pub fn is_seen(&self, store: &Store) -> bool {
        match self {
            Self::Present(id) => store.container(id).is_some(),
            // A sight of an earlier run that comes late proves nothing, running or not.
            Self::Started { id, before } => store.container(id).is_none_or(|c| match &c.inspect {
                Some(facts) => facts.started_at > *before,
                None => is_up(c.state),
            }),
            Self::Stopped(id) => store.container(id).is_none_or(|c| !is_up(c.state)),
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

/// A process of it exists.
pub fn is_up(state: ContainerState) -> bool {
    match state {
        ContainerState::Running | ContainerState::Paused | ContainerState::Restarting => true,
        ContainerState::Created
        | ContainerState::Exited
        | ContainerState::Removing
        | ContainerState::Dead => false,
    }
}

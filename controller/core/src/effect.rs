//! Observable effects of actions.
//!
//! One rule decides if the store shows the effect of an action. The planner waits for the effect of a finished action, and
//! the recovery asks for the effect of an action whose result is unknown.

use crate::action::Action;
use crate::ident::{ContainerId, EnvName, NetworkId, ServiceName};
use crate::observed::{Container, ContainerState, Store};
use crate::outcome::Done;
use crate::time::Timestamp;

/// Observable effect of an action. Names and ids are those of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservableEffect {
    /// The container exists.
    ContainerPresent(ContainerId),
    /// The service has a container of this name, regardless of its creator.
    ServiceContainerPresent {
        /// Environment of the service.
        environment: EnvName,
        /// Service.
        service: ServiceName,
        /// Name of the container.
        name: String,
    },
    /// The container has a newer run.
    Started(ContainerId, NewerThan),
    /// The container does not run.
    Stopped(ContainerId),
    /// The container is not paused.
    Unpaused(ContainerId),
    /// The container has this name.
    Named(ContainerId, String),
    /// The container does not exist.
    ContainerAbsent(ContainerId),
    /// The container is on the network of this name or id.
    Attached(ContainerId, String),
    /// The container is not on the network. Each is a name or an id.
    Detached {
        /// Name or id of the container.
        container: String,
        /// Name or id of the network.
        network: String,
    },
    /// The network exists.
    NetworkPresent(NetworkId),
    /// The environment has a network of this name.
    EnvironmentNetworkPresent {
        /// Environment of the network.
        environment: EnvName,
        /// Name of the network.
        name: String,
    },
    /// The network does not exist.
    NetworkAbsent(NetworkId),
    /// The volume exists.
    VolumePresent(String),
    /// The volume does not exist.
    VolumeAbsent(String),
}

/// Known fact about the run before a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewerThan {
    /// Start of the previous run, if there was one. A late report of that run proves nothing.
    Run(Option<Timestamp>),
    /// Time of the intent. The container did not run at that time.
    Intent(Timestamp),
}

/// Answer of the store about an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// The store shows the effect.
    Observed,
    /// The store does not show the effect.
    NotObserved,
    /// The container no longer exists, so the effect can never be observed.
    ContainerGone,
}

impl ObservableEffect {
    /// Effect of a finished action; `None` if it is not observable. For `run_before` see
    /// [`InFlight`](crate::state::InFlight).
    pub fn of(action: &Action, done: &Done, run_before: Option<Timestamp>) -> Option<Self> {
        match action {
            Action::CreateContainer { .. } => match done {
                Done::Container(id) => Some(Self::ContainerPresent(id.clone())),
                Done::Applied | Done::Network(_) | Done::Evidence(_) | Done::Diagnosis(_) => None,
            },
            Action::CreateNetwork { .. } => match done {
                Done::Network(id) => Some(Self::NetworkPresent(id.clone())),
                Done::Applied | Done::Container(_) | Done::Evidence(_) | Done::Diagnosis(_) => None,
            },
            Action::StartContainer { id } => Some(Self::Started(id.clone(), NewerThan::Run(run_before))),
            Action::StopContainer { id, .. } => Some(Self::Stopped(id.clone())),
            Action::UnpauseContainer { id } => Some(Self::Unpaused(id.clone())),
            Action::RenameContainer { id, to } => Some(Self::Named(id.clone(), to.to_string())),
            Action::RemoveContainer { id, .. } => Some(Self::ContainerAbsent(id.clone())),
            Action::ConnectNetwork {
                network, container, ..
            } => Some(Self::Attached(container.clone(), network.clone())),
            Action::DisconnectNetwork { network, container } => Some(Self::Detached {
                container: container.clone(),
                network: network.clone(),
            }),
            Action::RemoveNetwork { id, .. } => Some(Self::NetworkAbsent(id.clone())),
            Action::RemoveVolume { name } => Some(Self::VolumeAbsent(name.to_string())),
            // A volume without Argus labels is never observed.
            Action::CollectEvidence { .. }
            | Action::CopyFile { .. }
            | Action::CreateVolume { .. }
            | Action::PullImage { .. }
            | Action::BuildImage(_) => None,
        }
    }

    /// Observation of the effect in the store.
    pub fn observe(&self, store: &Store) -> Observation {
        let of = |id: &ContainerId, is_done: &dyn Fn(&Container) -> bool| match store.container(id) {
            Some(container) => Observation::from(is_done(container)),
            None => Observation::ContainerGone,
        };
        match self {
            Self::ContainerPresent(id) => store.container(id).is_some().into(),
            Self::ServiceContainerPresent {
                environment,
                service,
                name,
            } => {
                let observed = store.of(environment);
                let mut containers = observed.iter().flat_map(|it| it.containers.of(service));
                containers.any(|container| container.name == *name).into()
            }
            Self::Started(id, newer_than) => of(id, &|container| has_run(container, *newer_than)),
            Self::Stopped(id) => store
                .container(id)
                .is_none_or(|container| !container.state.is_up())
                .into(),
            Self::Unpaused(id) => of(id, &|container| container.state != ContainerState::Paused),
            Self::Named(id, name) => of(id, &|container| container.name == *name),
            Self::ContainerAbsent(id) => store.container(id).is_none().into(),
            Self::Attached(id, network) => of(id, &|container| is_attached(container, network)),
            Self::Detached { container, network } => find_container(store, container)
                .is_none_or(|container| !is_attached(container, network))
                .into(),
            Self::NetworkPresent(id) => store.network(id).is_some().into(),
            Self::EnvironmentNetworkPresent { environment, name } => {
                let observed = store.of(environment);
                let mut networks = observed.iter().flat_map(|it| it.networks.values());
                networks.any(|network| network.name == *name).into()
            }
            Self::NetworkAbsent(id) => store.network(id).is_none().into(),
            Self::VolumePresent(name) => store.volume(name).is_some().into(),
            Self::VolumeAbsent(name) => store.volume(name).is_none().into(),
        }
    }
}

impl From<bool> for Observation {
    fn from(observed: bool) -> Self {
        if observed {
            Self::Observed
        } else {
            Self::NotObserved
        }
    }
}

fn has_run(container: &Container, newer_than: NewerThan) -> bool {
    let started_at = container.inspect.as_ref().map(|info| info.started_at);
    match (newer_than, started_at) {
        (NewerThan::Run(before), Some(started_at)) => started_at > before,
        (NewerThan::Run(_), None) => container.state.is_up(),
        (NewerThan::Intent(at), started_at) => {
            container.state.is_up() || started_at.flatten().is_some_and(|started_at| started_at >= at)
        }
    }
}

fn find_container<'w>(store: &'w Store, id: &str) -> Option<&'w Container> {
    let by_id = ContainerId::new(id).ok().and_then(|id| store.container(&id));
    by_id
        .or_else(|| store.containers().find(|container| container.name == id))
        .map(AsRef::as_ref)
}

/// True if the container is on the network of this name or id.
fn is_attached(container: &Container, network: &str) -> bool {
    container
        .networks
        .iter()
        .any(|(name, at)| name == network || at.network.as_ref().is_some_and(|id| id.as_str() == network))
}

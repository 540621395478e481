//! Engine access of commands without a controller.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::action::Step;
use argus_core::ident::EnvName;
use argus_core::lease::{ControllerLeases, ProcessIdentity};
use argus_core::observed::{Object, Store, WatchEvent};
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::ControllerIdentity;
use argus_core::status::{EngineView, unavailable};
use argus_docker::Docker;
use argus_reconciler::lease::process;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{Deadlines, clock, identity};
use futures::StreamExt as _;
use futures::stream::BoxStream;

use crate::engine;
use crate::process::exit::Failure;

/// Maximum time until the first complete list, or until all containers are inspected.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs one action with its deadline.
pub(crate) async fn execute_step(docker: Docker, step: Step) -> (Step, Result<Done, ActionError>) {
    let limit = Deadlines::default()
        .of(&step.action)
        .unwrap_or(argus_backend::PROGRESS_TIMEOUT);
    let finished = tokio::time::timeout(limit, docker.execute(&step.action, &())).await;
    let outcome = finished.unwrap_or_else(|_| {
        Err(ActionError::Unknown(format!(
            "timed out after {} s",
            limit.as_secs()
        )))
    });
    (step, outcome)
}

/// Reads the leases of other controllers. The command itself holds no lease.
pub(crate) async fn read_leases(
    docker: &Docker,
    identity: &ControllerIdentity,
    state: &StateDir,
) -> Result<ControllerLeases, Failure> {
    let mut leases = ControllerLeases::new(ProcessIdentity {
        controller: identity.controller.clone(),
        run: identity.run.clone(),
        state_dir: identity::state_dir_id(state.locked_folder()),
        holds_lease: false,
    });
    let found = docker
        .leases()
        .await
        .map_err(|error| engine::engine_failure("cannot read the leases of other controllers", &error))?;
    let (found, exited) = process::split_exited(found);
    leases.on_exited(&exited);
    leases.on_listed(found, clock::now());
    Ok(leases)
}

/// Change of the connection to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EngineLink {
    Unchanged,
    /// Holds the reason.
    Lost(String),
    Restored,
}

/// Watches the engine and keeps a store of its objects.
pub(crate) struct EngineObserver {
    events: BoxStream<'static, WatchEvent>,
    endpoint: String,
    /// Environments whose objects are stored. `None` means all objects.
    only: Option<BTreeSet<EnvName>>,
    /// Last observed objects.
    pub(crate) store: Store,
}

impl EngineObserver {
    /// Starts the watch and waits for the first complete list.
    pub(crate) async fn open(docker: &Docker, only: Option<BTreeSet<EnvName>>) -> Result<Self, Failure> {
        let (events, endpoint) = (docker.watch(), docker.endpoint());
        let mut observer = Self {
            events,
            endpoint,
            only,
            store: Store::default(),
        };
        let first = async {
            while !observer.store.is_synced() {
                observer.next_event().await?;
            }
            Ok(())
        };
        let synced = tokio::time::timeout(LIST_TIMEOUT, first).await;
        synced.unwrap_or_else(|_| {
            Err(observer.engine_failure(&format!("no list within {} s", LIST_TIMEOUT.as_secs())))
        })?;
        Ok(observer)
    }

    /// Waits until all stored containers are inspected, but not longer than the timeout.
    pub(crate) async fn inspect(&mut self) -> Result<(), Failure> {
        let all = async {
            while self
                .store
                .containers()
                .any(|container| container.inspect.is_none())
            {
                self.next_event().await?;
            }
            Ok(())
        };
        // Containers whose inspect hangs keep the data of the list.
        tokio::time::timeout(LIST_TIMEOUT, all).await.unwrap_or(Ok(()))
    }

    /// Applies the next watch event. Cancel safe.
    pub(crate) async fn next_event(&mut self) -> Result<(), Failure> {
        match self.next_change().await? {
            EngineLink::Lost(reason) => Err(self.engine_failure(&reason)),
            EngineLink::Unchanged | EngineLink::Restored => Ok(()),
        }
    }

    /// Applies the next watch event. A lost engine is no error: the watch reconnects. Cancel safe.
    pub(crate) async fn next_change(&mut self) -> Result<EngineLink, Failure> {
        let Some(event) = self.events.next().await else {
            return Err(self.engine_failure("its event stream ended"));
        };
        let link = match &event {
            WatchEvent::Disconnected(_, reason) => EngineLink::Lost(reason.clone()),
            WatchEvent::Connected(_) => EngineLink::Restored,
            _ => EngineLink::Unchanged,
        };
        if self.is_relevant(&event) {
            self.store.apply(event);
        }
        Ok(link)
    }

    fn is_relevant(&self, event: &WatchEvent) -> bool {
        let (Some(only), WatchEvent::Apply(object)) = (&self.only, event) else {
            return true;
        };
        let owner = match object {
            Object::Container(container) => container.owner(),
            Object::Network(network) => network.owner(),
            Object::Volume(volume) => volume.owner(),
        };
        owner.is_some_and(|owner| only.contains(&owner.environment))
    }

    fn engine_failure(&self, reason: &str) -> Failure {
        let now = clock::now();
        let engine = EngineView {
            reachable: false,
            synced: false,
            reason,
            endpoint: &self.endpoint,
            since: Some(now),
            retry: None,
            events_lost: None,
        };
        let message = format!("engine `{}` does not answer: {reason}", self.endpoint);
        Failure::new(unavailable(&engine, message, now))
    }
}

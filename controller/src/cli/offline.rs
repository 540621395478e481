//! The engine as commands without a controller see and use it.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::ident::EnvName;
use argus_core::lease::{Leases, OwnIdentity};
use argus_core::observed::{Object, Store, WatchEvent};
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::Step;
use argus_core::reconcile::ControllerIdentity;
use argus_core::status::{EngineView, unavailable};
use argus_docker::Docker;
use argus_reconciler::lease::process;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{Deadlines, clock, identity};
use futures::StreamExt as _;
use futures::stream::BoxStream;

use crate::app;
use crate::exit::Failure;

/// How long a command waits for the engine's first list.
const LOOK: Duration = Duration::from_secs(10);

/// One act with its deadline.
pub(crate) async fn execute(docker: Docker, step: Step) -> (Step, Result<Done, ActionError>) {
    let limit = Deadlines::default()
        .of(&step.action)
        .unwrap_or(argus_backend::NO_PROGRESS);
    let acted = tokio::time::timeout(limit, docker.execute(&step.action, &())).await;
    let outcome = acted.unwrap_or_else(|_| {
        Err(ActionError::Unknown(format!(
            "deadline of {} s passed",
            limit.as_secs()
        )))
    });
    (step, outcome)
}

/// Who else is at work on the engine, for a command that comes and goes beside no controller on this state directory.
pub(crate) async fn leases(
    docker: &Docker,
    identity: &ControllerIdentity,
    state: &StateDir,
) -> Result<Leases, Failure> {
    let mut leases = Leases::of(OwnIdentity {
        controller: identity.controller.clone(),
        run: identity.run.clone(),
        place: identity::place(state.root()),
        holds: false,
    });
    let mut found = docker
        .leases()
        .await
        .map_err(|error| app::engine_failure("cannot read the leases of other controllers", &error))?;
    process::forget_the_dead(&mut found);
    leases.take(found, clock::now());
    Ok(leases)
}

/// The engine, watched.
pub(crate) struct EngineObserver {
    events: BoxStream<'static, WatchEvent>,
    endpoint: String,
    /// Only what belongs to these is seen; everything without.
    only: Option<BTreeSet<EnvName>>,
    /// As last seen.
    pub(crate) store: Store,
}

impl EngineObserver {
    /// Opens them and waits for the first complete list.
    pub(crate) async fn open(docker: &Docker, only: Option<BTreeSet<EnvName>>) -> Result<Self, Failure> {
        let (events, endpoint) = (docker.watch(), docker.endpoint());
        let mut eyes = Self {
            events,
            endpoint,
            only,
            store: Store::default(),
        };
        let first = async {
            while !eyes.store.synced() {
                eyes.see().await?;
            }
            Ok(())
        };
        let looked = tokio::time::timeout(LOOK, first).await;
        looked.unwrap_or_else(|_| Err(eyes.away(&format!("no list within {} s", LOOK.as_secs()))))?;
        Ok(eyes)
    }

    /// Waits until everything that is seen was looked at closely, as far as that can be.
    pub(crate) async fn inspect(&mut self) -> Result<(), Failure> {
        let all = async {
            while self
                .store
                .containers()
                .any(|container| container.inspect.is_none())
            {
                self.see().await?;
            }
            Ok(())
        };
        // What hangs is told as it was listed.
        tokio::time::timeout(LOOK, all).await.unwrap_or(Ok(()))
    }

    /// Takes in what is seen next. May be dropped and called again.
    pub(crate) async fn see(&mut self) -> Result<(), Failure> {
        let Some(event) = self.events.next().await else {
            return Err(self.away("its events ended"));
        };
        if let WatchEvent::Disconnected(_, why) = &event {
            return Err(self.away(why));
        }
        if self.counts(&event) {
            self.store.apply(event);
        }
        Ok(())
    }

    fn counts(&self, event: &WatchEvent) -> bool {
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

    fn away(&self, why: &str) -> Failure {
        let now = clock::now();
        let engine = EngineView {
            reachable: false,
            synced: false,
            reason: why,
            endpoint: &self.endpoint,
            since: Some(now),
            retry: None,
        };
        let message = format!("engine `{}` does not answer: {why}", self.endpoint);
        Failure::new(unavailable(&engine, message, now))
    }
}

//! Backend wrapper. It refuses queries unless the engine's breaker is closed, and actions that were planned before it last opened. Leases and
//! the watch are never refused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use argus_backend::{Backend, EngineInfo, ExecResult, LogLine, LogQuery, Progress};
use argus_core::action::Action;
use argus_core::connectivity::{LinkSource, Target, TargetResult};
use argus_core::ident::{ContainerId, EnvName};
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::observed::WatchEvent;
use argus_core::outcome::{ActionError, Done};
use argus_core::preflight::HostFacts;
use argus_core::state::BreakerRegistry;
use argus_core::time::Timestamp;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::watch;

/// State of the breakers that a call needs. The planner decides it; [`BreakerGuard`] and the executor only read it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BreakerOpenings {
    /// True while the engine's breaker is open or half-open.
    blocked: bool,
    engine: u64,
    environments: BTreeMap<EnvName, u64>,
}

impl BreakerOpenings {
    /// Snapshot of `breakers` for the given environments.
    pub fn of<'a>(breakers: &BreakerRegistry, environments: impl Iterator<Item = &'a EnvName>) -> Self {
        Self {
            blocked: !breakers.engine().is_closed(),
            engine: breakers.engine().openings(),
            environments: environments
                .filter(|env| breakers.of(env).is_some())
                .map(|env| (env.clone(), breakers.openings(env)))
                .collect(),
        }
    }

    /// Number of times the breaker of `env` has opened, or the engine's count without such a breaker. An action
    /// that was planned under another number of openings is not executed.
    pub fn openings(&self, env: &EnvName) -> u64 {
        self.environments.get(env).copied().unwrap_or(self.engine)
    }
}

/// State of the breaker under which the planner allowed an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedOpenings {
    env: EnvName,
    openings: u64,
}

/// Backend behind the breakers.
///
/// - A query needs a closed breaker of the engine.
/// - An action needs the [`PlannedOpenings`] under which the planner allowed it. The planner decides which actions may
///   test the engine; the gate refuses those that were planned before the breaker opened.
/// - Lease calls and the watch ignore the breaker.
#[derive(Debug)]
pub struct BreakerGuard<B> {
    engine: B,
    openings: watch::Receiver<BreakerOpenings>,
}

impl<B> BreakerGuard<B> {
    /// Takes ownership of `engine`, so that all calls pass through the guard.
    pub fn new(engine: B, openings: watch::Receiver<BreakerOpenings>) -> Self {
        Self { engine, openings }
    }

    /// The engine itself, for tests.
    #[cfg(test)]
    pub(crate) fn engine(&self) -> &B {
        &self.engine
    }

    /// Openings under which the planner allows an action for `env` now.
    pub fn planned_openings(&self, env: &EnvName) -> PlannedOpenings {
        PlannedOpenings {
            env: env.clone(),
            openings: self.openings.borrow().openings(env),
        }
    }

    /// Executes a planned action, within its deadline if it has one. The outcome of a late call is unknown.
    ///
    /// # Errors
    /// [`ActionError::CircuitOpen`] if a breaker opened after the plan, else those of the engine.
    pub async fn execute_planned(
        &self,
        planned: &PlannedOpenings,
        deadline: Option<Duration>,
        action: &Action,
        progress: &dyn Progress,
    ) -> Result<Done, ActionError>
    where
        B: Backend,
    {
        let call = self.enter(Some(planned))?.execute(action, progress);
        let Some(deadline) = deadline else {
            return call.await;
        };
        tokio::time::timeout(deadline, call).await.unwrap_or_else(|_| {
            Err(ActionError::TimedOut(format!(
                "{} did not answer within {} s",
                action.verb(),
                deadline.as_secs_f32()
            )))
        })
    }

    /// Returns the engine unless the breaker refuses the call. `planned` is `None` for a query.
    fn enter(&self, planned: Option<&PlannedOpenings>) -> Result<&B, ActionError> {
        let openings = self.openings.borrow();
        let is_refused = match planned {
            None => openings.blocked,
            Some(planned) => openings.openings(&planned.env) != planned.openings,
        };
        if is_refused {
            Err(ActionError::CircuitOpen)
        } else {
            Ok(&self.engine)
        }
    }
}

impl<B: Backend> Backend for BreakerGuard<B> {
    fn watch(&self) -> BoxStream<'static, WatchEvent> {
        self.engine.watch()
    }

    fn request_relist(&self) {
        self.engine.request_relist();
    }

    fn reconnect(&self) {
        self.engine.reconnect();
    }

    fn keep_images(&self, images: BTreeSet<String>) {
        self.engine.keep_images(images);
    }

    async fn execute(&self, action: &Action, progress: &dyn Progress) -> Result<Done, ActionError> {
        // The executor passes the openings of its plan; any other action is like a query.
        self.enter(None)?.execute(action, progress).await
    }

    fn logs(&self, id: &ContainerId, query: LogQuery) -> BoxStream<'static, Result<LogLine, ActionError>> {
        match self.enter(None) {
            Ok(engine) => engine.logs(id, query),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn exec(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecResult, ActionError> {
        self.enter(None)?.exec(id, command, timeout).await
    }

    async fn is_run_intact(
        &self,
        id: &ContainerId,
        started_at: Option<Timestamp>,
    ) -> Result<bool, ActionError> {
        self.enter(None)?.is_run_intact(id, started_at).await
    }

    async fn check_links(
        &self,
        source: &LinkSource,
        targets: &[Target],
    ) -> Result<Vec<TargetResult>, ActionError> {
        self.enter(None)?.check_links(source, targets).await
    }

    // Lease calls ignore the breaker: other controllers take over the environments of a controller whose lease
    // expires.
    async fn leases(&self) -> Result<Vec<ControllerLease>, ActionError> {
        self.engine.leases().await
    }

    async fn renew_lease(&self, spec: &LeaseSpec) -> Result<Vec<ControllerLease>, ActionError> {
        self.engine.renew_lease(spec).await
    }

    async fn release_lease(&self, run: &str) -> Result<(), ActionError> {
        self.engine.release_lease(run).await
    }

    async fn host_facts(&self) -> HostFacts {
        match self.enter(None) {
            Ok(engine) => engine.host_facts().await,
            Err(error) => HostFacts::unknown(&error.to_string()),
        }
    }

    async fn info(&self) -> Result<EngineInfo, ActionError> {
        self.enter(None)?.info().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_backend::FakeBackend;

    fn lease() -> LeaseSpec {
        LeaseSpec {
            controller: "c".to_owned(),
            run: "r".to_owned(),
            state_dir: String::new(),
            specs: None,
            host: String::new(),
            pid: 1,
            pid_namespace: String::new(),
            ttl: Duration::from_secs(90),
            since: None,
            claims: BTreeMap::new(),
        }
    }

    /// Results of all queries: true for one that the guard refused.
    async fn refusals(guard: &BreakerGuard<FakeBackend>) -> Vec<bool> {
        fn is_refused<T>(result: &Result<T, ActionError>) -> bool {
            matches!(result, Err(ActionError::CircuitOpen))
        }
        let id = ContainerId::new("c").unwrap();
        let source = LinkSource::Container(id.clone());
        let logs: Vec<_> = guard.logs(&id, LogQuery::default()).collect().await;
        let facts = guard.host_facts().await;
        vec![
            is_refused(&guard.exec(&id, &[], Duration::ZERO).await),
            is_refused(&guard.is_run_intact(&id, None).await),
            is_refused(&guard.check_links(&source, &[]).await),
            is_refused(&guard.info().await),
            logs.iter().any(is_refused),
            facts == HostFacts::unknown(&ActionError::CircuitOpen.to_string()),
        ]
    }

    #[tokio::test]
    async fn open_breaker_refuses_queries_but_no_lease_calls() {
        for blocked in [true, false] {
            let openings = BreakerOpenings {
                blocked,
                ..BreakerOpenings::default()
            };
            let (_sender, receiver) = watch::channel(openings);
            let guard = BreakerGuard::new(FakeBackend::empty(), receiver);
            assert_eq!(refusals(&guard).await, [blocked; 6]);
            assert!(guard.leases().await.is_ok());
            assert!(guard.renew_lease(&lease()).await.is_ok());
            assert!(guard.release_lease("r").await.is_ok());
        }
    }
}

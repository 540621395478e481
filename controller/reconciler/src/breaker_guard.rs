//! The engine behind its breaker: the one way to it, for everybody in this crate.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_backend::{Backend, EngineInfo, ExecResult, LogLine, LogQuery, Progress};
use argus_core::connectivity::{Target, TargetResult};
use argus_core::ident::{ContainerId, EnvName};
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::observed::WatchEvent;
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::Action;
use argus_core::preflight::HostFacts;
use argus_core::state::BreakerRegistry;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::watch;

/// What of the breakers concerns a call that is about to be made. The brain decides it; the gate only reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BreakerEpochs {
    /// The engine's breaker is not closed.
    blocked: bool,
    engine: u64,
    environments: BTreeMap<EnvName, u64>,
}

impl BreakerEpochs {
    /// Of these breakers.
    pub fn of<'a>(breakers: &BreakerRegistry, environments: impl Iterator<Item = &'a EnvName>) -> Self {
        Self {
            blocked: !breakers.engine().is_closed(),
            engine: breakers.engine().times_opened(),
            environments: environments
                .filter(|env| breakers.of(env).is_some())
                .map(|env| (env.clone(), breakers.times_opened(env)))
                .collect(),
        }
    }

    /// A call that was decided on under another number is not made any more.
    pub fn epoch(&self, env: &EnvName) -> u64 {
        self.environments.get(env).copied().unwrap_or(self.engine)
    }
}

/// An engine that is left alone while its breaker is not closed.
///
/// Acts pass here without a look at the breaker: the brain hands them out, one of them to try it, and
/// [`Hands`](crate::hands::Hands) turn back those that were decided on before it opened.
#[derive(Debug)]
pub struct BreakerGuard<B> {
    engine: Arc<B>,
    epochs: watch::Receiver<BreakerEpochs>,
}

impl<B> BreakerGuard<B> {
    /// The only holder of `engine`.
    pub fn new(engine: B, epochs: watch::Receiver<BreakerEpochs>) -> Self {
        let engine = Arc::new(engine);
        Self { engine, epochs }
    }

    /// What the brain says of the breakers.
    pub fn epochs(&self) -> watch::Receiver<BreakerEpochs> {
        self.epochs.clone()
    }

    fn enter(&self) -> Result<(), ActionError> {
        if self.epochs.borrow().blocked {
            Err(ActionError::CircuitOpen)
        } else {
            Ok(())
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

    async fn execute(&self, execute: &Action, progress: &dyn Progress) -> Result<Done, ActionError> {
        self.engine.execute(execute, progress).await
    }

    fn logs(&self, id: &ContainerId, query: LogQuery) -> BoxStream<'static, Result<LogLine, ActionError>> {
        match self.enter() {
            Ok(()) => self.engine.logs(id, query),
            Err(barred) => futures::stream::once(async { Err(barred) }).boxed(),
        }
    }

    async fn exec(&self, id: &ContainerId, command: &[String]) -> Result<ExecResult, ActionError> {
        self.enter()?;
        self.engine.exec(id, command).await
    }

    async fn check_links(
        &self,
        source: &ContainerId,
        targets: &[Target],
    ) -> Result<Vec<TargetResult>, ActionError> {
        self.enter()?;
        self.engine.check_links(source, targets).await
    }

    // What tells the others that we live is told whatever else fails: who falls silent here loses its environments.
    async fn leases(&self) -> Result<Vec<ControllerLease>, ActionError> {
        self.engine.leases().await
    }

    async fn renew_lease(&self, note: &LeaseSpec) -> Result<Vec<ControllerLease>, ActionError> {
        self.engine.renew_lease(note).await
    }

    async fn release_lease(&self, controller: &str) -> Result<(), ActionError> {
        self.engine.release_lease(controller).await
    }

    async fn host_facts(&self) -> HostFacts {
        match self.enter() {
            Ok(()) => self.engine.host_facts().await,
            Err(barred) => HostFacts::unknown(&barred.to_string()),
        }
    }

    async fn info(&self) -> Result<EngineInfo, ActionError> {
        self.enter()?;
        self.engine.info().await
    }
}

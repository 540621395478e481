//! The engine behind its breaker: the one way to it, for everybody in this crate.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_backend::{About, Backend, ExecResult, LogLine, LogQuery, Progress};
use argus_core::connectivity::{Aim, Seen};
use argus_core::ident::{ContainerId, EnvName};
use argus_core::lease::{Lease, Note};
use argus_core::memory::Circuits;
use argus_core::observed::Sighting;
use argus_core::outcome::{ActError, Done};
use argus_core::plan::Act;
use argus_core::preflight::Ground;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::watch;

/// What of the breakers concerns a call that is about to be made. The brain decides it; the gate only reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Openings {
    /// The engine's breaker is not closed.
    barred: bool,
    engine: u64,
    environments: BTreeMap<EnvName, u64>,
}

impl Openings {
    /// Of these breakers.
    pub fn of<'a>(circuits: &Circuits, environments: impl Iterator<Item = &'a EnvName>) -> Self {
        Self {
            barred: !circuits.engine().is_closed(),
            engine: circuits.engine().openings(),
            environments: environments
                .filter(|env| circuits.of(env).is_some())
                .map(|env| (env.clone(), circuits.openings(env)))
                .collect(),
        }
    }

    /// A call that was decided on under another number is not made any more.
    pub fn number(&self, env: &EnvName) -> u64 {
        self.environments.get(env).copied().unwrap_or(self.engine)
    }
}

/// An engine that is left alone while its breaker is not closed.
///
/// Acts pass here without a look at the breaker: the brain hands them out, one of them to try it, and
/// [`Hands`](crate::hands::Hands) turn back those that were decided on before it opened.
#[derive(Debug)]
pub struct Gated<B> {
    engine: Arc<B>,
    openings: watch::Receiver<Openings>,
}

impl<B> Gated<B> {
    /// The only holder of `engine`.
    pub fn new(engine: B, openings: watch::Receiver<Openings>) -> Self {
        let engine = Arc::new(engine);
        Self { engine, openings }
    }

    /// What the brain says of the breakers.
    pub fn openings(&self) -> watch::Receiver<Openings> {
        self.openings.clone()
    }

    fn enter(&self) -> Result<(), ActError> {
        if self.openings.borrow().barred {
            Err(ActError::CircuitOpen)
        } else {
            Ok(())
        }
    }
}

impl<B: Backend> Backend for Gated<B> {
    fn watch(&self) -> BoxStream<'static, Sighting> {
        self.engine.watch()
    }

    fn look_again(&self) {
        self.engine.look_again();
    }

    fn reconnect(&self) {
        self.engine.reconnect();
    }

    async fn act(&self, act: &Act, progress: &dyn Progress) -> Result<Done, ActError> {
        self.engine.act(act, progress).await
    }

    fn logs(&self, id: &ContainerId, query: LogQuery) -> BoxStream<'static, Result<LogLine, ActError>> {
        match self.enter() {
            Ok(()) => self.engine.logs(id, query),
            Err(barred) => futures::stream::once(async { Err(barred) }).boxed(),
        }
    }

    async fn exec(&self, id: &ContainerId, command: &[String]) -> Result<ExecResult, ActError> {
        self.enter()?;
        self.engine.exec(id, command).await
    }

    async fn look_from(&self, source: &ContainerId, aims: &[Aim]) -> Result<Vec<Seen>, ActError> {
        self.enter()?;
        self.engine.look_from(source, aims).await
    }

    // What tells the others that we live is told whatever else fails: who falls silent here loses its environments.
    async fn leases(&self) -> Result<Vec<Lease>, ActError> {
        self.engine.leases().await
    }

    async fn renew_lease(&self, note: &Note) -> Result<Vec<Lease>, ActError> {
        self.engine.renew_lease(note).await
    }

    async fn release_lease(&self, controller: &str) -> Result<(), ActError> {
        self.engine.release_lease(controller).await
    }

    async fn survey(&self) -> Ground {
        match self.enter() {
            Ok(()) => self.engine.survey().await,
            Err(barred) => Ground::unknown(&barred.to_string()),
        }
    }

    async fn about(&self) -> Result<About, ActError> {
        self.enter()?;
        self.engine.about().await
    }
}

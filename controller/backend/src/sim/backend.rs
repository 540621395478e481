//! The faulty engine as a [`Backend`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argus_core::action::Action;
use argus_core::connectivity::{LinkSource, Target, TargetResult};
use argus_core::ident::ContainerId;
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::observed::{Attachment, WatchEvent};
use argus_core::outcome::{ActionError, Done, Evidence};
use argus_core::preflight::{self, Fact, HostFacts};
use argus_core::time::Timestamp;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::Notify;

use super::{CallId, Engine, SimEvent};
use crate::run_log::{COLLECTION_TIMEOUT, Deadline, RunLog};
use crate::{Backend, EngineInfo, ExecResult, LogLine, LogQuery, Progress};

/// Minimum wait for the next event, so that other tasks get to run.
const MIN_WAIT: Duration = Duration::from_millis(1);

/// An engine in memory with faults, driven by the caller's clock, which may stand still.
#[derive(Clone)]
pub struct Sim {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    changed: Notify,
}

struct State {
    engine: Engine,
    /// Watch events that the consumer has not taken yet.
    events: Vec<WatchEvent>,
    /// Results of calls that their callers have not taken yet.
    results: BTreeMap<CallId, Result<Done, ActionError>>,
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").finish_non_exhaustive()
    }
}

impl Sim {
    /// A backend for `engine`; `now` is the caller's clock.
    pub fn new(engine: Engine, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let state = State {
            engine,
            events: Vec::new(),
            results: BTreeMap::new(),
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                now: Box::new(now),
                changed: Notify::new(),
            }),
        }
    }

    /// Reads or changes the engine directly, as another client would.
    pub fn with<T>(&self, work: impl FnOnce(&mut Engine, Timestamp) -> T) -> T {
        let (mut state, now) = self.shared.lock_advanced();
        let out = work(&mut state.engine, now);
        drop(state);
        self.shared.changed.notify_waiters();
        out
    }
}

impl Shared {
    /// The state, advanced to the current time.
    fn lock_advanced(&self) -> (MutexGuard<'_, State>, Timestamp) {
        let now = (self.now)();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for event in state.engine.advance_until(now) {
            match event {
                SimEvent::Observed(event) => state.events.push(event),
                SimEvent::Returned(id, result) => drop(state.results.insert(id, result)),
            }
        }
        (state, now)
    }

    /// Waits until `take` returns a value.
    async fn wait<T>(&self, take: impl Fn(&mut State) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // A notification between the check and the wait is not lost.
            changed.as_mut().enable();
            let pause = {
                let (mut state, now) = self.lock_advanced();
                if let Some(taken) = take(&mut state) {
                    drop(state);
                    // Another task may wait for an event that occurred during this call.
                    self.changed.notify_waiters();
                    return taken;
                }
                state.engine.next_at().map(|at| at.since(now).max(MIN_WAIT))
            };
            match pause {
                Some(pause) => {
                    let _elapsed_or_notified = tokio::time::timeout(pause, changed).await;
                }
                None => changed.await,
            }
        }
    }
}

impl Backend for Sim {
    fn watch(&self) -> BoxStream<'static, WatchEvent> {
        self.with(Engine::start_watch);
        let shared = self.shared.clone();
        let batches = futures::stream::unfold(shared, |shared| async move {
            let events = shared
                .wait(|state| (!state.events.is_empty()).then(|| std::mem::take(&mut state.events)))
                .await;
            Some((futures::stream::iter(events), shared))
        });
        batches.flatten().boxed()
    }

    fn request_relist(&self) {
        self.with(Engine::request_relist);
    }

    fn reconnect(&self) {}

    fn keep_images(&self, _: BTreeSet<String>) {}

    async fn execute(&self, action: &Action, _progress: &dyn Progress) -> Result<Done, ActionError> {
        let id = self.with(|engine, now| engine.begin(action, now));
        let done = self.shared.wait(|state| state.results.remove(&id)).await?;
        let Action::CollectEvidence { run, lines_since, .. } = action else {
            return Ok(done);
        };
        let log = RunLog {
            open: |query: LogQuery| self.logs(&run.container, query),
            since: *lines_since,
            ended_at: run.ended_at(),
            deadline: Deadline::start(COLLECTION_TIMEOUT),
        };
        let mut evidence = Box::<Evidence>::default();
        Box::pin(log.add_to(&mut evidence)).await?;
        Ok(Done::Evidence(evidence))
    }

    fn logs(&self, id: &ContainerId, query: LogQuery) -> BoxStream<'static, Result<LogLine, ActionError>> {
        let lines = self.with(|engine, _| engine.model.log(id, &query));
        futures::stream::iter(lines.into_iter().map(Ok)).boxed()
    }

    async fn exec(&self, _: &ContainerId, _: &[String], _: Duration) -> Result<ExecResult, ActionError> {
        Ok(ExecResult {
            exit_code: Some(0),
            output: String::new(),
        })
    }

    async fn is_run_intact(
        &self,
        id: &ContainerId,
        started_at: Option<Timestamp>,
    ) -> Result<bool, ActionError> {
        let runs = |engine: &mut Engine, _: Timestamp| {
            let model = &engine.model;
            let is_whole = |at: &Attachment| {
                let mut networks = model.networks();
                !networks.any(|network| at.network.as_ref() == Some(&network.id) && network.is_broken)
            };
            let mut containers = model.containers();
            containers.any(|container| {
                container.id == *id
                    && container.is_run(started_at)
                    && container.has_network()
                    && container.networks.values().all(is_whole)
            })
        };
        Ok(self.with(runs))
    }

    async fn check_links(
        &self,
        source: &LinkSource,
        targets: &[Target],
    ) -> Result<Vec<TargetResult>, ActionError> {
        self.with(|engine, _| engine.model.check_links(source, targets))
    }

    async fn leases(&self) -> Result<Vec<ControllerLease>, ActionError> {
        self.with(Engine::leases)
    }

    async fn renew_lease(&self, spec: &LeaseSpec) -> Result<Vec<ControllerLease>, ActionError> {
        self.with(|engine, now| engine.renew_lease(spec, now))
    }

    async fn release_lease(&self, run: &str) -> Result<(), ActionError> {
        self.with(|engine, now| engine.release_lease(run, now))
    }

    async fn host_facts(&self) -> HostFacts {
        HostFacts {
            engine: Fact::Known(preflight::EngineFact {
                endpoint: "memory".to_owned(),
                api_version: "1.41".to_owned(),
                ..preflight::EngineFact::default()
            }),
            disk: Fact::NotApplicable("it has no disk".to_owned()),
            networks: Fact::NotApplicable("its networks cost nothing".to_owned()),
            listeners: Fact::NotApplicable("it has no host".to_owned()),
            memory_stall: None,
        }
    }

    async fn info(&self) -> Result<EngineInfo, ActionError> {
        let text = str::to_owned;
        Ok(EngineInfo {
            version: text("0.0"),
            api_version: text("0.0"),
            endpoint: text("memory"),
            ..EngineInfo::default()
        })
    }
}

//! The faulty engine as a [`Backend`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argus_core::connectivity::{Target, TargetResult};
use argus_core::ident::ContainerId;
use argus_core::lease::{ControllerLease, LeaseSpec};
use argus_core::observed::WatchEvent;
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::Action;
use argus_core::preflight::{self, HostFacts, Observation};
use argus_core::time::Timestamp;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::Notify;

use super::{CallId, Engine, SimEvent};
use crate::{Backend, EngineInfo, ExecResult, LogLine, LogQuery, Progress};

/// However soon something happens, others get a chance before.
const SHORTEST: Duration = Duration::from_millis(1);

/// A faulty engine in memory that lives in the caller's time, which may stand still.
#[derive(Clone)]
pub struct Sim {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Mutex<State>,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    changed: Notify,
}

struct State {
    engine: Engine,
    seen: Vec<WatchEvent>,
    answers: BTreeMap<CallId, Result<Done, ActionError>>,
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").finish_non_exhaustive()
    }
}

impl Sim {
    /// This engine, with the caller's clock.
    pub fn new(engine: Engine, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let state = State {
            engine,
            seen: Vec::new(),
            answers: BTreeMap::new(),
        };
        Self {
            shared: Arc::new(Shared {
                engine: Mutex::new(state),
                now: Box::new(now),
                changed: Notify::new(),
            }),
        }
    }

    /// Looks at the engine, or changes it behind everybody's back.
    pub fn with<T>(&self, work: impl FnOnce(&mut Engine, Timestamp) -> T) -> T {
        let (mut state, now) = self.shared.now();
        let out = work(&mut state.engine, now);
        drop(state);
        self.shared.changed.notify_waiters();
        out
    }
}

impl Shared {
    /// The state as of now.
    fn now(&self) -> (MutexGuard<'_, State>, Timestamp) {
        let now = (self.now)();
        let mut state = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        for happening in state.engine.until(now) {
            match happening {
                SimEvent::Observed(seen) => state.seen.push(seen),
                SimEvent::Returned(ticket, answer) => drop(state.answers.insert(ticket, answer)),
            }
        }
        (state, now)
    }

    /// Waits until `take` finds something.
    async fn wait<T>(&self, take: impl Fn(&mut State) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Whoever notifies between the look and the wait is heard.
            changed.as_mut().enable();
            let pause = {
                let (mut state, now) = self.now();
                if let Some(taken) = take(&mut state) {
                    drop(state);
                    // What happened on the way may be what somebody else waits for.
                    self.changed.notify_waiters();
                    return taken;
                }
                state.engine.next_at().map(|at| at.since(now).max(SHORTEST))
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
        let sights = futures::stream::unfold(shared, |shared| async move {
            let seen = shared
                .wait(|state| (!state.seen.is_empty()).then(|| std::mem::take(&mut state.seen)))
                .await;
            Some((futures::stream::iter(seen), shared))
        });
        sights.flatten().boxed()
    }

    fn request_relist(&self) {
        self.with(Engine::request_relist);
    }

    fn reconnect(&self) {}

    async fn execute(&self, execute: &Action, _progress: &dyn Progress) -> Result<Done, ActionError> {
        let ticket = self.with(|engine, now| engine.begin(execute, now));
        self.shared.wait(|state| state.answers.remove(&ticket)).await
    }

    fn logs(&self, _: &ContainerId, _: LogQuery) -> BoxStream<'static, Result<LogLine, ActionError>> {
        futures::stream::empty().boxed()
    }

    async fn exec(&self, _: &ContainerId, _: &[String]) -> Result<ExecResult, ActionError> {
        Ok(ExecResult {
            exit_code: 0,
            output: String::new(),
        })
    }

    async fn check_links(
        &self,
        source: &ContainerId,
        targets: &[Target],
    ) -> Result<Vec<TargetResult>, ActionError> {
        self.with(|engine, _| engine.model.check_links(source, targets))
    }

    async fn leases(&self) -> Result<Vec<ControllerLease>, ActionError> {
        self.with(Engine::leases)
    }

    async fn renew_lease(&self, note: &LeaseSpec) -> Result<Vec<ControllerLease>, ActionError> {
        self.with(|engine, now| engine.renew_lease(note, now))
    }

    async fn release_lease(&self, run: &str) -> Result<(), ActionError> {
        self.with(|engine, now| engine.release_lease(run, now))
    }

    async fn host_facts(&self) -> HostFacts {
        HostFacts {
            engine: Observation::Known(preflight::Engine {
                endpoint: "memory".to_owned(),
                api_version: "1.41".to_owned(),
                ..preflight::Engine::default()
            }),
            disk: Observation::NotApplicable("it has no disk".to_owned()),
            networks: Observation::NotApplicable("its networks cost nothing".to_owned()),
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

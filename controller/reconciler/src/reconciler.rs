//! The reconciler: the one task that owns the brain. Every wake is the same turn; its reason is only logged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::connectivity::CheckResults;
use argus_core::ident::EnvName;
use argus_core::lease::Leases;
use argus_core::observed::Store;
use argus_core::plan::Plan;
use argus_core::preflight::PreflightSnapshot;
use argus_core::probe::HealthStates;
use argus_core::reconcile::{Inputs, Planner};
use argus_core::state::{EnvHistory, PlannerState};
use argus_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::breaker_guard::BreakerEpochs;
use crate::clock::{Clock, Stopwatch};
use crate::executor::{Executor, Finished, ProgressReader};
use crate::handle::Request;
use crate::journal::handle::JournalHealth;
use crate::journal::recorder::{EventRecorder, RecoveryInputs};
use crate::overrides::{self, DesiredState, Overrides};
use crate::persisted::Saved;
use crate::snapshot::Snapshot;
use crate::specs::SpecRegistry;
use crate::supervise::Heartbeat;

mod commands;

use commands::PendingReply;

/// However soon the brain wants to be woken, others get a chance before.
const SHORTEST: Duration = Duration::from_millis(10);

/// What of the memory outlives the process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistedState {
    /// Sticky ports and counters.
    pub environments: BTreeMap<EnvName, EnvHistory>,
    /// What people asked for.
    #[serde(flatten)]
    pub overrides: Overrides,
    /// How many commands were taken in so far; each of them is answered when this is on disk.
    #[serde(skip)]
    pub commands: u64,
}

/// The facts that the reconciler listens to.
#[derive(Debug)]
pub(crate) struct InputChannels {
    pub(crate) specs: watch::Receiver<Arc<SpecRegistry>>,
    pub(crate) stores: watch::Receiver<Arc<Store>>,
    pub(crate) healths: watch::Receiver<Arc<HealthStates>>,
    pub(crate) journal: watch::Receiver<JournalHealth>,
    pub(crate) leases: watch::Receiver<Leases>,
    pub(crate) preflights: watch::Receiver<Arc<PreflightSnapshot>>,
    pub(crate) links: watch::Receiver<Arc<CheckResults>>,
    pub(crate) commands: mpsc::Receiver<Request>,
    pub(crate) written: watch::Receiver<Option<Saved<PersistedState>>>,
}

/// What the reconciler tells.
#[derive(Debug)]
pub(crate) struct OutputChannels {
    pub(crate) desires: watch::Sender<Arc<DesiredState>>,
    pub(crate) snapshots: watch::Sender<Arc<Snapshot>>,
    pub(crate) persisted: watch::Sender<PersistedState>,
    pub(crate) epochs: watch::Sender<BreakerEpochs>,
    /// A look at engine and disk is wanted.
    pub(crate) needs_preflight: Arc<Notify>,
    /// The loop goes round.
    pub(crate) heartbeat: Heartbeat,
}

/// The reconciler with all that it owns.
pub(crate) struct Reconciler<B> {
    planner: Planner,
    backend: Arc<B>,
    executor: Executor<B>,
    progress: ProgressReader,
    clock: Clock,
    inputs: InputChannels,
    overrides: Overrides,
    plans: Arc<BTreeMap<EnvName, Arc<Plan>>>,
    outputs: OutputChannels,
    breakers_version: u64,
    commands: u64,
    pending_replies: Vec<PendingReply>,
    recorder: EventRecorder,
}

#[derive(Debug)]
enum Wake {
    Stop,
    Specs,
    Store,
    Health,
    Leases,
    Preflight,
    Links,
    Heartbeat,
    Progress,
    Persisted,
    Journal,
    Timer,
    ActionDone(Box<Finished>),
    Command(Option<Request>),
}

impl<B: Backend> Reconciler<B> {
    pub(crate) fn new(
        planner: Planner,
        backend: Arc<B>,
        executor: Executor<B>,
        clock: Clock,
        inputs: InputChannels,
        told: OutputChannels,
        recorder: EventRecorder,
    ) -> Self {
        let (board, overrides) = (executor.progress(), told.persisted.borrow().overrides.clone());
        let plans = Arc::default();
        Self {
            planner,
            backend,
            executor,
            progress: board,
            clock,
            inputs,
            overrides,
            plans,
            outputs: told,
            breakers_version: 0,
            commands: 0,
            pending_replies: Vec::new(),
            recorder,
        }
    }

    /// Reconciles until it is stopped, then waits for the acts in flight, but not longer than `grace`.
    pub(crate) async fn run(mut self, stop: CancellationToken, grace: Duration) {
        let mut wake_at = self.run_pass("start");
        loop {
            let wake = self.wake(&stop, wake_at).await;
            self.outputs.heartbeat.beat();
            let why = match wake {
                Wake::Stop => break,
                Wake::Specs => "specs",
                Wake::Store => "store",
                Wake::Health => "health",
                Wake::Leases => "leases",
                Wake::Preflight => "preflight",
                Wake::Links => "links",
                Wake::Timer => "timer",
                Wake::Journal => "journal",
                Wake::Progress => {
                    self.publish();
                    continue;
                }
                Wake::Persisted => {
                    self.reply_when_persisted();
                    continue;
                }
                Wake::ActionDone(finished) => {
                    self.on_result(&finished);
                    "action"
                }
                Wake::Command(Some(request)) => {
                    self.handle_command(request);
                    "command"
                }
                // Every handle is gone: nobody is left to command, the work goes on.
                Wake::Heartbeat | Wake::Command(None) => continue,
            };
            wake_at = self.run_pass(why);
        }
        self.finish(grace).await;
    }

    async fn wake(&mut self, stop: &CancellationToken, wake_at: Option<Timestamp>) -> Wake {
        let soonest = self.clock.now() + SHORTEST;
        let wake_at = wake_at.map(|at| at.max(soonest));
        let facts = &mut self.inputs;
        // A publisher that is gone was stopped, or is being restarted with the same channel: no wake.
        tokio::select! {
            biased;
            () = stop.cancelled() => Wake::Stop,
            finished = self.executor.next_result() => Wake::ActionDone(Box::new(finished)),
            Some(request) = facts.commands.recv() => Wake::Command(Some(request)),
            Ok(()) = facts.specs.changed() => Wake::Specs,
            Ok(()) = facts.stores.changed() => Wake::Store,
            Ok(()) = facts.healths.changed() => Wake::Health,
            Ok(()) = facts.journal.changed() => Wake::Journal,
            Ok(()) = facts.leases.changed() => Wake::Leases,
            Ok(()) = facts.preflights.changed() => Wake::Preflight,
            Ok(()) = facts.links.changed() => Wake::Links,
            () = self.outputs.heartbeat.requested() => Wake::Heartbeat,
            Ok(()) = self.progress.changed() => Wake::Progress,
            Ok(()) = facts.written.changed() => Wake::Persisted,
            () = self.clock.sleep_until(wake_at) => Wake::Timer,
            else => Wake::Command(None),
        }
    }

    fn run_pass(&mut self, why: &'static str) -> Option<Timestamp> {
        let watch = Stopwatch::start();
        let wake_at = self.reconcile_once(why);
        self.recorder.record_pass(why, watch.seconds());
        wake_at
    }

    /// One look at everything, the acts that follow from it, and the outlook for the others.
    fn reconcile_once(&mut self, why: &'static str) -> Option<Timestamp> {
        let specs = self.inputs.specs.borrow_and_update().clone();
        let store = self.inputs.stores.borrow_and_update().clone();
        let health = self.inputs.healths.borrow_and_update().clone();
        let leases = self.inputs.leases.borrow_and_update().clone();
        let preflight = self.inputs.preflights.borrow_and_update().clone();
        let links = self.inputs.links.borrow_and_update().clone();
        self.planner.on_links_changed(&links);
        let now = self.clock.now();
        self.overrides.drop_expired(&specs, now);
        let facts = overrides::OverrideInputs {
            specs: &specs,
            store: &store,
            memory: self.planner.state(),
            now,
        };
        let due = [
            self.overrides.roll_back_automatically(facts),
            self.overrides.expire(facts),
        ];
        let standing = self.overrides.effective(&specs);
        let desired = standing.as_ref().unwrap_or(&specs.environments);
        self.outputs.desires.send_if_modified(|told| {
            let differs = **told != *desired;
            if differs {
                self.executor.update_secrets(desired);
                *told = Arc::new(desired.clone());
            }
            differs
        });
        let looked = RecoveryInputs {
            specs: &specs,
            store: &store,
            desired,
            memory: self.planner.state(),
            identity: self.planner.identity(),
            now,
        };
        self.recorder.recover(&looked);
        let mut requests = self.overrides.requests.clone();
        requests.restrictions = self.recorder.restrictions(&looked);
        requests.expired.clone_from(&self.overrides.expired);
        let span = tracing::debug_span!("turn", why, now = now.0);
        let turn = span.in_scope(|| {
            self.planner.reconcile(&Inputs {
                specs: desired,
                scanned: specs.scanned,
                store: &store,
                health: &health,
                leases: &leases,
                requests: &requests,
                preflight: Some(&preflight),
                now,
            })
        });
        let proven = self.overrides.record_known_good(
            desired,
            overrides::OverrideInputs {
                specs: &specs,
                store: &store,
                memory: self.planner.state(),
                now,
            },
        );
        self.publish_breakers();
        for step in turn.actions {
            let planned_for = self.planner.state().in_flight.get(&step.subject);
            if let Some(env) = planned_for.map(|flying| flying.environment.clone()) {
                self.executor.submit(&env, step);
            }
        }
        if turn.relist {
            self.backend.request_relist();
        }
        if turn.needs_preflight {
            // A permit is kept until somebody takes it, and many permits are one.
            self.outputs.needs_preflight.notify_one();
        }
        if *self.plans != turn.plans {
            self.plans = Arc::new(turn.plans);
        }
        self.publish();
        self.persist();
        let wakes = [turn.wake_at, self.overrides.requests.next_end(now), proven];
        wakes.into_iter().chain(due).flatten().min()
    }

    fn on_result(&mut self, finished: &Finished) {
        let store = self.inputs.stores.borrow().clone();
        self.planner
            .finished(&finished.step, &finished.outcome, &store, self.clock.now());
        self.publish_breakers();
    }

    /// The gate hears of an opening before anything else is handed out, or let through.
    fn publish_breakers(&mut self) {
        let memory = self.planner.state();
        if std::mem::replace(&mut self.breakers_version, memory.breakers.version())
            != memory.breakers.version()
        {
            let epochs = BreakerEpochs::of(&memory.breakers, memory.environments.keys());
            self.outputs.epochs.send_replace(epochs);
        }
    }

    fn publish(&mut self) {
        let last = self.outputs.snapshots.borrow().clone();
        let specs = self.inputs.specs.borrow().clone();
        let store = self.inputs.stores.borrow().clone();
        let progress = self.progress.read();
        let mut snapshot = Snapshot {
            as_of: self.clock.now(),
            mode: last.mode,
            problems: self.recorder.problems(),
            identity: last.identity.clone(),
            specs,
            store,
            health: self.inputs.healths.borrow().clone(),
            preflight: self.inputs.preflights.borrow().clone(),
            links: self.inputs.links.borrow().clone(),
            plans: self.plans.clone(),
            state: shared(&last.state, self.planner.state()),
            progress: shared(&last.progress, &progress),
            desired: self.outputs.desires.borrow().clone(),
            overrides: shared(&last.overrides, &self.overrides),
        };
        snapshot.mode = snapshot.facts().mode();
        self.recorder.mode(&snapshot);
        if !snapshot.eq_ignoring_time(&last) {
            self.outputs.snapshots.send_replace(Arc::new(snapshot));
        }
    }

    fn persist(&self) {
        let PlannerState { environments, .. } = self.planner.state();
        self.outputs.persisted.send_if_modified(|kept| {
            let differs = kept.environments != *environments
                || kept.overrides != self.overrides
                || kept.commands != self.commands;
            if differs {
                *kept = PersistedState {
                    environments: environments.clone(),
                    overrides: self.overrides.clone(),
                    commands: self.commands,
                };
            }
            differs
        });
    }

    async fn finish(&mut self, grace: Duration) {
        self.executor.abort_long_running();
        let all = async {
            while self.executor.in_flight() > 0 {
                let finished = self.executor.next_result().await;
                let store = self.inputs.stores.borrow().clone();
                self.planner
                    .finished(&finished.step, &finished.outcome, &store, self.clock.now());
            }
        };
        if tokio::time::timeout(grace, all).await.is_err() {
            tracing::warn!(
                acts = self.executor.in_flight(),
                "acts in flight are left to the engine"
            );
        }
        self.publish();
        self.persist();
        self.recorder.stopped();
    }
}

/// The last one where it is equal, so that readers see at a glance that nothing changed.
fn shared<T: Clone + PartialEq>(last: &Arc<T>, now: &T) -> Arc<T> {
    if **last == *now {
        last.clone()
    } else {
        Arc::new(now.clone())
    }
}

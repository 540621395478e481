//! Reconciler task: the owner of the planner, the executor and the overrides.
//!
//! Every change of an input, every result of an action and every command causes the same pass (module `pass`). Commands take effect in the
//! module `commands`. A pass
//! reads the newest inputs, plans, submits actions and publishes a [`Snapshot`]. A delay never blocks a pass:
//! [`argus_core::state::restart`] decides restart times, and the task sleeps until the earliest wait of all plans ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::connectivity::CheckResults;
use argus_core::ident::EnvName;
use argus_core::lease::ControllerLeases;
use argus_core::observed::Store;
use argus_core::plan::Plan;
use argus_core::preflight::PreflightSnapshot;
use argus_core::probe::HealthStates;
use argus_core::reconcile::Planner;
use argus_core::repair::FailingRevisions;
use argus_core::time::Timestamp;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::breaker_guard::{BreakerGuard, BreakerOpenings};
use crate::clock::{Clock, Stopwatch};
use crate::command::Request;
use crate::executor::{Executor, Finished, ProgressReader};
use crate::journal::handle::JournalHealth;
use crate::overrides::{DesiredState, Overrides};
use crate::snapshot::Snapshot;
use crate::specs::SpecRegistry;
use crate::supervise::Heartbeat;

mod commands;
mod pass;
mod persisted_state;
pub(crate) mod recorder;
pub(crate) mod recovery;

use pass::PassInputs;
pub use persisted_state::PersistedState;
pub(crate) use persisted_state::StateToPersist;
use recorder::ReconcilerJournal;

/// Minimum time before a timer wakes the task, so that other tasks get their turn.
const MIN_DELAY: Duration = Duration::from_millis(10);

/// Input channels of the reconciler.
#[derive(Debug)]
pub(crate) struct InputChannels {
    pub(crate) specs: watch::Receiver<Arc<SpecRegistry>>,
    pub(crate) stores: watch::Receiver<Arc<Store>>,
    pub(crate) healths: watch::Receiver<Arc<HealthStates>>,
    pub(crate) journal: watch::Receiver<JournalHealth>,
    pub(crate) leases: watch::Receiver<ControllerLeases>,
    pub(crate) preflights: watch::Receiver<Arc<PreflightSnapshot>>,
    pub(crate) links: watch::Receiver<Arc<CheckResults>>,
    pub(crate) commands: mpsc::Receiver<Request>,
}

/// Output channels of the reconciler.
#[derive(Debug)]
pub(crate) struct OutputChannels {
    pub(crate) desired: watch::Sender<Arc<DesiredState>>,
    pub(crate) snapshots: watch::Sender<Arc<Snapshot>>,
    pub(crate) openings: watch::Sender<BreakerOpenings>,
    /// Request for a preflight check.
    pub(crate) needs_preflight: Arc<Notify>,
    /// Heartbeat of the loop.
    pub(crate) heartbeat: Heartbeat,
}

/// The reconciler with the state that it owns.
pub(crate) struct Reconciler<B> {
    planner: Planner,
    backend: Arc<BreakerGuard<B>>,
    executor: Executor<B>,
    progress: ProgressReader,
    clock: Clock,
    inputs: InputChannels,
    overrides: Overrides,
    failing: FailingRevisions,
    plans: Arc<BTreeMap<EnvName, Arc<Plan>>>,
    /// Inputs of the last pass.
    planned_inputs: PassInputs,
    outputs: OutputChannels,
    breakers_version: u64,
    accepted_commands: u64,
    recorder: ReconcilerJournal,
}

#[derive(Debug)]
enum Wake {
    Stop,
    /// An input changed; its value is the label `wake` of the metrics.
    Input(&'static str),
    Heartbeat,
    Progress,
    ActionDone(Box<Finished>),
    Command(Request),
}

impl<B: Backend> Reconciler<B> {
    pub(crate) fn new(
        planner: Planner,
        backend: Arc<BreakerGuard<B>>,
        executor: Executor<B>,
        clock: Clock,
        inputs: InputChannels,
        outputs: OutputChannels,
        recorder: ReconcilerJournal,
    ) -> Self {
        let overrides = Overrides::clone(&outputs.snapshots.borrow().overrides);
        let progress = executor.progress();
        let plans = Arc::default();
        Self {
            planner,
            backend,
            executor,
            progress,
            clock,
            inputs,
            overrides,
            failing: FailingRevisions::default(),
            plans,
            planned_inputs: PassInputs::default(),
            outputs,
            breakers_version: 0,
            accepted_commands: 0,
            recorder,
        }
    }

    /// Reconciles until `stop` is cancelled, then waits at most `grace` for the actions in flight.
    pub(crate) async fn run(mut self, stop: CancellationToken, grace: Duration) {
        let mut wake_at = self.run_pass("start");
        loop {
            let wake = self.wake(&stop, wake_at).await;
            self.outputs.heartbeat.beat();
            let why = match wake {
                Wake::Stop => break,
                Wake::Input(why) => why,
                Wake::Progress => {
                    self.publish();
                    continue;
                }
                Wake::ActionDone(finished) => {
                    self.on_result(&finished);
                    "action"
                }
                Wake::Command(request) => {
                    self.handle_command(request);
                    "command"
                }
                Wake::Heartbeat => continue,
            };
            wake_at = self.run_pass(why);
        }
        self.finish(grace).await;
    }

    async fn wake(&mut self, stop: &CancellationToken, wake_at: Option<Timestamp>) -> Wake {
        let soonest = self.clock.now() + MIN_DELAY;
        let wake_at = wake_at.map(|at| at.max(soonest));
        let inputs = &mut self.inputs;
        // A publisher that is gone was stopped, or will restart with the same channel: no wake. The wait for the stop is
        // always enabled, so the loop needs no branch for the end of all others.
        tokio::select! {
            biased;
            () = stop.cancelled() => Wake::Stop,
            finished = self.executor.next_result() => Wake::ActionDone(Box::new(finished)),
            Some(request) = inputs.commands.recv() => Wake::Command(request),
            Ok(()) = inputs.specs.changed() => Wake::Input("specs"),
            Ok(()) = inputs.stores.changed() => Wake::Input("store"),
            Ok(()) = inputs.healths.changed() => Wake::Input("health"),
            Ok(()) = inputs.journal.changed() => Wake::Input("journal"),
            Ok(()) = inputs.leases.changed() => Wake::Input("leases"),
            Ok(()) = inputs.preflights.changed() => Wake::Input("preflight"),
            Ok(()) = inputs.links.changed() => Wake::Input("links"),
            () = self.outputs.heartbeat.requested() => Wake::Heartbeat,
            Ok(()) = self.progress.changed() => Wake::Progress,
            () = self.clock.sleep_until(wake_at) => Wake::Input("timer"),
        }
    }

    fn run_pass(&mut self, why: &'static str) -> Option<Timestamp> {
        let stopwatch = Stopwatch::start();
        let wake_at = self.reconcile_once(why);
        self.recorder.record_pass(why, stopwatch.seconds());
        wake_at
    }

    fn on_result(&mut self, finished: &Finished) {
        self.recorder.record_result(finished);
        if let Some(took) = finished.answered_in {
            self.planner.answered(&finished.step, took);
        }
        let store = self.inputs.stores.borrow().clone();
        self.planner
            .finished(&finished.step, &finished.outcome, &store, self.clock.now());
        self.publish_breakers();
    }

    async fn finish(&mut self, grace: Duration) {
        self.executor.cancel_long_running();
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
                actions = self.executor.in_flight(),
                "actions still in flight at the end of the grace period"
            );
        }
        self.publish();
        self.recorder.record_stop();
    }
}

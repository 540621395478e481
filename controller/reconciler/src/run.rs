//! All tasks of a controller, wired together.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::lease::Leases;
use argus_core::plan::Deadlines;
use argus_core::reconcile::{ControllerIdentity, Planner};
use argus_core::state::breaker_registry::BreakerRegistry;
use argus_core::state::{PlannerState, breaker};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::breaker_guard::{BreakerEpochs, BreakerGuard};
use crate::clock::Clock;
use crate::executor::Executor;
use crate::handle::{COMMANDS, Handle};
use crate::journal::Journal;
use crate::journal::startup::{Started, Startup};
use crate::lock::{LOCK, Lock, LockHolder, host_name};
use crate::overrides::DesiredState;
use crate::prober::{Addresses, ProberIo};
use crate::reconciler::{InputChannels, OutputChannels, Reconciler};
use crate::snapshot::Snapshot;
use crate::specs::SpecRegistry;
use crate::specs::admitter::OwnImage;
use crate::specs::sync_barrier;
use crate::state_dir::{StateDir, StateError, write_private};
use crate::status_writer::StatusView;
use crate::supervise::watchdog::LOOP;
use crate::supervise::{Importance, Supervisor, TaskDied};
use crate::{identity, informer, lease, lock, status_writer};

mod tasks;

use tasks::{
    rules, start_connectivity, start_keepers, start_lease, start_preflight, start_prober, start_specs,
};

/// What the other tasks get to end after the acts in flight had their grace.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// What a controller is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The spec folder.
    pub specs: PathBuf,
    /// The state directory.
    pub state: PathBuf,
    /// Warnings refuse a file.
    pub strict: bool,
    /// Names of variables that files may read.
    pub env_allow: Vec<String>,
    /// The controller's own variables, as far as they are text.
    pub process_env: BTreeMap<String, String>,
    /// Folders outside a file's own that it may mount.
    pub allow_mounts: Vec<String>,
    /// The engine's socket, which no container may have; `None` where it has none.
    pub engine_socket: Option<PathBuf>,
    /// The image of this program, which serves mocks.
    pub own_image: OwnImage,
    /// Where ports are published when the file names no address.
    pub publish_address: IpAddr,
    /// The engine's host as seen from here, when that is not this host.
    pub engine_host: Option<IpAddr>,
    /// Helpers of our own image may be run on the engine, to look where nothing can be seen from here.
    pub helpers: bool,
    /// Deadlines of calls.
    pub deadlines: Deadlines,
    /// What the engine's breaker goes by.
    pub engine_breaker: breaker::BreakerSettings,
    /// After how long without a renewal other controllers call this one dead; 90 s unless somebody wants it otherwise.
    pub lease_ttl: Duration,
    /// How long a stop waits for the acts in flight; 30 s unless somebody wants it otherwise.
    pub stop_grace: Duration,
    /// How large a file of the journal becomes; [`crate::history::journal::LIMIT`] unless somebody wants it otherwise.
    pub journal_limit: u64,
    /// The time.
    pub clock: Clock,
}

/// A controller that holds its state directory and has not begun.
#[derive(Debug)]
pub struct Controller {
    options: Options,
    state: StateDir,
    lock: Lock,
    identity: ControllerIdentity,
    opening: Startup,
    place: String,
}

/// A controller at work.
#[derive(Debug)]
pub struct Running {
    supervisor: Supervisor,
    stop: CancellationToken,
    state: StateDir,
    clock: Clock,
    grace: Duration,
    /// Held until everything is written.
    lock: Arc<Lock>,
}

impl Controller {
    /// Takes the state directory: makes its folders, locks it, reads what was kept.
    ///
    /// # Errors
    /// [`StateError::Held`] with the holder when another controller has it.
    pub fn open(options: Options) -> Result<Self, StateError> {
        let cleared = StateDir::clear(&options.state, options.clock.now());
        let state = StateDir::prepare(&options.state, &options.specs)?;
        let now = options.clock.now();
        let run = identity::fresh(now);
        let me = LockHolder {
            pid: std::process::id(),
            host: host_name(),
            since: now.to_string(),
            run: run.clone(),
        };
        let lock = Lock::take(&state.lock(), &me)?;
        let opening = Startup::read(
            &state,
            &options.specs,
            &run,
            options.clock,
            options.journal_limit,
            cleared,
        );
        let place = identity::place(state.root());
        let identity = ControllerIdentity {
            controller: opening.controller.clone(),
            run,
            publish_address: options.publish_address,
        };
        Ok(Self {
            options,
            state,
            lock,
            identity,
            opening,
            place,
        })
    }

    /// The way to the journal, for those who have something to note.
    pub fn journal(&self) -> Journal {
        self.opening.journal.clone()
    }

    /// Who this controller is; for the backend, which looks at owners again before it removes.
    pub fn identity(&self) -> &ControllerIdentity {
        &self.identity
    }

    /// Its state directory.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// The last run on this state directory ended with a clean stop (or there was none to end).
    pub fn ended_cleanly(&self) -> bool {
        self.opening.recovery.clean
    }

    /// Starts all tasks. Must be called within a Tokio runtime.
    #[allow(
        clippy::too_many_lines,
        reason = "one line a task and a channel, read in one piece"
    )]
    pub fn start<B: Backend>(self, backend: B, view: Arc<dyn StatusView>) -> (Handle, Running) {
        let Self {
            options,
            state,
            lock,
            identity,
            opening,
            place,
        } = self;
        let clock = options.clock;
        let (epochs, openings_seen) = watch::channel(BreakerEpochs::default());
        // The one way to the engine from here on.
        let (backend, lock) = (
            Arc::new(BreakerGuard::new(backend, openings_seen.clone())),
            Arc::new(lock),
        );
        let stop = CancellationToken::new();
        let supervisor = Supervisor::new(clock, stop.clone());
        let Started {
            persisted,
            stopped,
            starting_point: kept,
            journal,
            recorder,
        } = opening.begin(&supervisor, &identity.run, state.incidents());
        // Facts travel on watch channels, which hold the newest value and cannot fill.
        let (books, specs_seen) = watch::channel(Arc::<SpecRegistry>::default());
        let (told_of, told_of_seen) = watch::channel(Arc::<SpecRegistry>::default());
        let (desires, desires_seen) = watch::channel(Arc::<DesiredState>::default());
        let (stores, worlds_seen) = watch::channel(Arc::default());
        let (healths, healths_seen) = watch::channel(Arc::default());
        let (kept, kept_seen) = watch::channel(kept);
        let holder = lease::OwnLease::new(&identity, place, options.lease_ttl);
        let (leases, leases_seen) = watch::channel(Leases::of(holder.identity.clone()));
        let memory = PlannerState {
            environments: persisted.environments.clone(),
            breakers: BreakerRegistry::new(options.engine_breaker),
            stopped_by_us: stopped.into_iter().map(|id| (id, None)).collect(),
            ..PlannerState::default()
        };
        let (persisted, remembered_seen) = watch::channel(persisted);
        let (written, written_seen) = watch::channel(None);
        let blank = Snapshot::blank(identity.clone(), memory.clone(), clock.now());
        let (snapshots, outlooks_seen) = watch::channel(Arc::new(blank));
        let (commands, requests) = mpsc::channel(COMMANDS);

        supervisor.spawn_once(
            LOCK,
            Importance::Critical,
            lock::watch(lock.clone(), stop.clone()),
        );
        let (folder, reader) = sync_barrier::sides();
        let told = (kept, books, reader);
        start_specs(&supervisor, rules(&options, &identity), told, clock, &stop);
        // The engine is watched by one watch for the life of the process: it cannot be made twice.
        supervisor.spawn_once(
            "informer",
            Importance::Critical,
            informer::run(
                backend.clone(),
                stores,
                journal.tally().clone(),
                clock,
                stop.clone(),
            ),
        );
        let places = Addresses {
            publish_address: options.publish_address,
            engine_host: options.engine_host,
        };
        let eyes = (desires_seen.clone(), worlds_seen.clone());
        let voice = ProberIo {
            healths,
            tally: journal.tally().clone(),
        };
        start_prober(&supervisor, &backend, eyes, voice, places, clock, &stop);
        start_keepers(&supervisor, &state, (remembered_seen, written), kept_seen);
        let about = lease::LeaseInputs {
            desires: desires_seen,
            stores: worlds_seen.clone(),
            snapshots: outlooks_seen.clone(),
        };
        start_lease(&supervisor, &backend, holder, about, leases, clock, &stop);
        let (wanted, surveys_seen) =
            start_preflight(&supervisor, &backend, &state, worlds_seen.clone(), clock, &stop);
        let links_seen = start_connectivity(
            &supervisor,
            &backend,
            options.helpers,
            outlooks_seen.clone(),
            clock,
            &stop,
        );
        supervisor.spawn("status", Importance::Critical, {
            let (state, snapshots) = (state.clone(), outlooks_seen.clone());
            move || status_writer::run(state.clone(), view.clone(), snapshots.clone(), told_of.clone())
        });
        // It owns all memory: one that died in the middle of a turn is not to be trusted with another.
        let executor = Executor::new(
            backend.clone(),
            openings_seen,
            options.deadlines,
            state.clone(),
            journal.clone(),
            clock,
        );
        let facts = InputChannels {
            specs: specs_seen.clone(),
            stores: worlds_seen,
            healths: healths_seen,
            journal: journal.health(),
            leases: leases_seen,
            preflights: surveys_seen,
            links: links_seen,
            commands: requests,
            written: written_seen,
        };
        let told = OutputChannels {
            desires,
            snapshots,
            persisted,
            epochs,
            needs_preflight: wanted,
            heartbeat: supervisor.pulses().of(LOOP),
        };
        let planner = Planner::new(identity, memory).with_deadlines(options.deadlines);
        let reconciler = Reconciler::new(planner, backend, executor, clock, facts, told, recorder);
        supervisor.spawn_once(
            "reconciler",
            Importance::Critical,
            reconciler.run(stop.clone(), options.stop_grace),
        );

        let running = Running {
            supervisor,
            stop,
            state,
            clock,
            grace: options.stop_grace + LAST_WRITES,
            lock,
        };
        (
            Handle {
                commands,
                snapshot: outlooks_seen,
                journal,
                folder,
                registries: specs_seen,
                flushed: told_of_seen,
            },
            running,
        )
    }
}

impl Running {
    /// Cancelling it is the clean stop.
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// For further tasks that belong to the controller, such as a server.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Waits for the end: after a clean stop everything is written, and so is the marker that says so.
    ///
    /// # Errors
    /// A critical task died for good.
    pub async fn ended(self) -> Result<(), TaskDied> {
        let ended = self.supervisor.run(self.grace).await;
        ended.map_err(|died| match died.task {
            LOCK => TaskDied {
                reason: self.lock.lost(&self.state),
                ..died
            },
            _ => died,
        })?;
        let (state, at) = (self.state.clone(), self.clock.now());
        let marked = tokio::task::spawn_blocking(move || {
            let told = status_writer::stopped(&state, at);
            let marked = write_private(&state.clean_shutdown(), b"");
            told.and(marked)
        });
        if let Ok(Err(error)) = marked.await {
            tracing::warn!(%error, "cannot mark the stop as clean");
        }
        tracing::info!("stopped");
        Ok(())
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;

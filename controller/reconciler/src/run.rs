//! Composition of a controller: creates all channels and starts all tasks.
//!
//! [`Controller::open`] locks and reads the state directory. [`Controller::start`] starts the tasks and returns a [`Handle`] for clients
//! and a [`Running`] for the owner of the process. The head of `tasks.rs` has the design of the tasks, and notes for the next one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::action::Deadlines;
use argus_core::delays::Delays;
use argus_core::desired::{BreakerSettings, ceiling::Ceiling, namespace::NamespaceFrom};
use argus_core::lease::ControllerLeases;
use argus_core::plan::ControllerIdentity;
use argus_core::state::{PlannerState, breaker_registry::BreakerRegistry};
use argus_core::{reconcile::Planner, retry::RetrySettings};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::breaker_guard::{BreakerGuard, BreakerOpenings};
use crate::clock::Clock;
use crate::executor::Executor;
use crate::handle::{COMMAND_CAPACITY, Handle};
use crate::journal::Journal;
use crate::lock::{LOCK_TASK, Lock, LockHolder, host_name};
use crate::overrides::DesiredState;
use crate::prober::{Addresses, Pressure, ProberIo};
use crate::reconciler::{InputChannels, OutputChannels, Reconciler};
use crate::snapshot::Snapshot;
use crate::specs::build_context::OwnImageContext;
use crate::specs::{SpecOutputs, SpecRegistry, parsed_file::Translate, sync_barrier};
use crate::state_dir::{StateDir, StateError, write_private};
use crate::status_writer::StatusView;
use crate::supervise::watchdog::RECONCILE_LOOP;
use crate::supervise::{Importance, Supervisor, TaskDied};
use crate::{identity, informer, lease, lock, state_modes, status_writer};

mod startup;
mod tasks;

use startup::{LoadedInputs, LoadedState};
use tasks::{Starter, start_writers};

/// Time for the other tasks to end, after the grace period of the actions in flight.
const FINAL_WRITE_GRACE: Duration = Duration::from_secs(5);

/// Settings of a controller.
#[derive(Debug, Clone)]
pub struct Options {
    /// Specs folder.
    pub specs: PathBuf,
    /// State directory.
    pub state: StateDir,
    /// True if warnings refuse a file.
    pub strict: bool,
    /// Names of variables that files may read.
    pub env_allow: Vec<String>,
    /// Source of the namespace of files without one.
    pub namespace_from: NamespaceFrom,
    /// Environment variables of the controller that are valid UTF-8.
    pub process_env: BTreeMap<String, String>,
    /// Folders outside the project that spec files may mount.
    pub allow_mounts: Vec<String>,
    /// Folder that a person allowed: containers of its files may write above the bind sources of others.
    pub allowed: Option<PathBuf>,
    /// External volumes that the spec files of a project without the permission may mount.
    pub allow_external: Vec<String>,
    /// True if containers may write git directories.
    pub git_writable: bool,
    /// Folders that no container may have besides those of `state`: private state of other controllers, and settings of the user.
    pub private_folders: Vec<PathBuf>,
    /// Limits of the operator for all files.
    pub ceiling: Ceiling,
    /// The engine's socket, which no container may have; `None` where it has none.
    pub engine_socket: Option<PathBuf>,
    /// The image of this program, which serves mocks.
    pub own_image: OwnImageContext,
    /// Default publish address, for ports without an address in the file.
    pub publish_address: IpAddr,
    /// Translator of Compose files.
    pub translate: Option<Translate>,
    /// Host of the engine as reachable from here; `None` if it is this host.
    pub engine_host: Option<IpAddr>,
    /// True if helper containers of Argus' own image may run on the engine, for checks that are impossible from here.
    pub helpers: bool,
    /// Deadlines of engine calls.
    pub deadlines: Deadlines,
    /// Settings of the engine's breaker.
    pub engine_breaker: BreakerSettings,
    /// Limits of automatic retries and restarts.
    pub retries: RetrySettings,
    /// Delays that tests shorten.
    pub delays: Delays,
    /// Time without a renewal after which other controllers consider this one dead [default: 90 s].
    pub lease_ttl: Duration,
    /// Maximum time that a stop waits for the actions in flight [default: 30 s].
    pub stop_grace: Duration,
    /// Maximum size of a journal file in bytes; the default is [`crate::journal::handle::DEFAULT_MAX_SIZE`].
    pub journal_limit: u64,
    /// Clock of all tasks.
    pub clock: Clock,
}

/// Controller that holds its state directory and has not started.
#[derive(Debug)]
pub struct Controller {
    options: Options,
    state: StateDir,
    lock: Lock,
    identity: ControllerIdentity,
    loaded: LoadedState,
    state_dir_id: String,
}

/// Running controller.
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
    /// Creates, locks and reads the state directory.
    ///
    /// # Errors
    /// [`StateError::Held`] with the holder if another controller has it.
    pub fn open(options: Options) -> Result<Self, StateError> {
        options.state.check_private()?;
        let quarantined = options.state.quarantine_misplaced(options.clock.now());
        let state = options.state.create(&options.specs)?;
        state.log_unread_private();
        let now = options.clock.now();
        let run = identity::new_ulid(now);
        let holder = LockHolder {
            pid: std::process::id(),
            host: host_name(),
            since: now.to_string(),
            run: run.clone(),
        };
        let lock = Lock::acquire(&state.lock(), &holder)?;
        state_modes::correct_modes(&state);
        let loaded = LoadedState::read(
            &state,
            &options.specs,
            &run,
            options.clock,
            options.journal_limit,
            quarantined,
        );
        let state_dir_id = identity::state_dir_id(state.locked_folder());
        let identity = ControllerIdentity {
            controller: loaded.controller.clone(),
            run,
            publish_address: options.publish_address,
        };
        Ok(Self {
            options,
            state,
            lock,
            identity,
            loaded,
            state_dir_id,
        })
    }

    /// Handle of the journal, for early events.
    pub fn journal(&self) -> Journal {
        self.loaded.journal.clone()
    }

    /// Identity of the controller. The backend needs it to check the owner of an object before a removal.
    pub fn identity(&self) -> &ControllerIdentity {
        &self.identity
    }

    /// State directory.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// Reports whether the last run on this state directory stopped cleanly, or there was none.
    pub fn ended_cleanly(&self) -> bool {
        self.loaded.recovery.ended_cleanly
    }

    /// Starts all tasks. Must be called within a Tokio runtime.
    #[allow(
        clippy::too_many_lines,
        reason = "one line per task and channel, easiest to read in one piece"
    )]
    pub fn start<B: Backend>(self, backend: B, view: Arc<dyn StatusView>) -> (Handle, Running) {
        let Self {
            options,
            state,
            lock,
            identity,
            loaded,
            state_dir_id,
        } = self;
        let clock = options.clock;
        let (openings, openings_seen) = watch::channel(BreakerOpenings::default());
        // From here on, all calls to the engine pass through the guard.
        let (backend, lock) = (
            Arc::new(BreakerGuard::new(backend, openings_seen)),
            Arc::new(lock),
        );
        let stop = CancellationToken::new();
        let supervisor = Supervisor::new(clock, stop.clone());
        let LoadedInputs {
            persisted,
            stopped_by_us,
            persisted_specs,
            journal,
            recorder,
        } = loaded.start_journal(&supervisor, &identity.run, state.incidents());
        // State travels on watch channels, which store the newest value and cannot fill up.
        let (registries, specs_seen) = watch::channel(Arc::<SpecRegistry>::default());
        let (desired, desired_seen) = watch::channel(Arc::<DesiredState>::default());
        let (stores, stores_seen) = watch::channel(Arc::default());
        let (healths, healths_seen) = watch::channel(Arc::default());
        let (persisted_specs, persisted_specs_seen) = watch::channel(persisted_specs);
        let specs = options.specs.canonicalize().ok();
        let specs = specs.map(|specs| specs.display().to_string());
        let own_lease = lease::OwnLease::new(&identity, state_dir_id, specs, options.lease_ttl);
        let (leases, leases_seen) = watch::channel(ControllerLeases::new(own_lease.identity.clone()));
        let planner_state = PlannerState {
            environments: persisted.environments,
            breakers: BreakerRegistry::new(options.engine_breaker),
            stopped_by_us: stopped_by_us.into_iter().map(|id| (id, None)).collect(),
            retries: options.retries,
            delays: options.delays,
            ..PlannerState::default()
        };
        let (saved, saved_seen) = watch::channel(None);
        let mut blank = Snapshot::blank(identity.clone(), planner_state.clone(), clock.now());
        blank.overrides = Arc::new(persisted.overrides);
        let blank = Arc::new(blank);
        let (flushed, flushed_seen) = watch::channel(blank.clone());
        let (snapshots, snapshots_seen) = watch::channel(blank);
        let (commands, requests) = mpsc::channel(COMMAND_CAPACITY);

        supervisor.spawn_once(
            LOCK_TASK,
            Importance::Critical,
            lock::watch(lock.clone(), stop.clone()),
        );
        let (spec_sync, sync_responder) = sync_barrier::channel();
        let outputs = SpecOutputs::new(persisted_specs, registries);
        let noticed = outputs.noticed.clone();
        let starter = Starter {
            supervisor: &supervisor,
            backend: &backend,
            clock,
            stop: &stop,
        };
        starter.start_specs((&options, &identity), (outputs, sync_responder));
        // One watch of the engine serves the whole process: it cannot be created twice.
        let (records, stopped) = (journal.clone(), stop.clone());
        let informer = informer::run(backend.clone(), stores, options.delays, records, clock, stopped);
        supervisor.spawn_once("informer", Importance::Critical, informer);
        let addresses = Addresses {
            publish_address: options.publish_address,
            engine_host: options.engine_host,
        };
        let watches = (desired_seen.clone(), stores_seen.clone());
        let io = ProberIo {
            healths,
            healthy_runs: planner_state.healthy_runs(),
            pressure: Pressure::read,
            metrics: journal.metrics().clone(),
        };
        starter.start_prober(watches, io, addresses);
        let state_io = (snapshots_seen.clone(), saved);
        start_writers(&supervisor, &state, state_io, persisted_specs_seen);
        let lease_inputs = lease::LeaseInputs {
            desired: desired_seen,
            stores: stores_seen.clone(),
            snapshots: snapshots_seen.clone(),
        };
        starter.start_lease(own_lease, lease_inputs, leases);
        let (needs_preflight, preflights_seen) =
            starter.start_preflight(&state, (stores_seen.clone(), noticed));
        let links_seen = starter.start_connectivity(options.helpers, snapshots_seen.clone());
        supervisor.spawn("status_writer", Importance::Critical, {
            let (state, snapshots) = (state.clone(), snapshots_seen.clone());
            move || status_writer::run(state.clone(), view.clone(), snapshots.clone(), flushed.clone())
        });
        // The reconciler owns all state. After a panic within a pass this state is inconsistent, so the task is not
        // restarted.
        let executor = Executor::new(
            backend.clone(),
            options.deadlines,
            state.clone(),
            journal.clone(),
            clock,
        );
        let inputs = InputChannels {
            specs: specs_seen.clone(),
            stores: stores_seen,
            healths: healths_seen,
            journal: journal.health(),
            leases: leases_seen,
            preflights: preflights_seen,
            links: links_seen,
            commands: requests,
        };
        let outputs = OutputChannels {
            desired,
            snapshots,
            openings,
            needs_preflight: needs_preflight.clone(),
            heartbeat: supervisor.heartbeats().of(RECONCILE_LOOP),
        };
        let planner = Planner::new(identity, planner_state).with_deadlines(options.deadlines);
        let reconciler = Reconciler::new(planner, backend, executor, clock, inputs, outputs, recorder);
        supervisor.spawn_once(
            "reconciler",
            Importance::Critical,
            reconciler.run(stop.clone(), options.stop_grace),
        );

        let heartbeat = supervisor.heartbeats().of(RECONCILE_LOOP);
        let running = Running {
            supervisor,
            stop,
            state,
            clock,
            grace: options.stop_grace + FINAL_WRITE_GRACE,
            lock,
        };
        (
            Handle {
                commands,
                snapshot: snapshots_seen,
                journal,
                spec_sync,
                registries: specs_seen,
                saved: saved_seen,
                flushed: flushed_seen,
                heartbeat,
                needs_preflight,
            },
            running,
        )
    }
}

impl Running {
    /// Token of the clean stop; cancel it to stop.
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Supervisor for further tasks of the controller, such as a server.
    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Waits for the end, see [`Supervisor::run`]. After a clean stop all files are written, with the marker of the clean stop.
    ///
    /// # Errors
    /// A critical task ended permanently.
    pub async fn ended(self) -> Result<(), TaskDied> {
        let ended = self.supervisor.run(self.grace).await;
        ended.map_err(|died| match died.task {
            LOCK_TASK => TaskDied {
                reason: self.lock.describe_loss(self.state.locked_folder()),
                ..died
            },
            _ => died,
        })?;
        let (state, at) = (self.state.clone(), self.clock.now());
        let marked = tokio::task::spawn_blocking(move || {
            let written = status_writer::write_stop_time(&state, at);
            written.and(write_private(&state.clean_shutdown(), b""))
        });
        match tokio::time::timeout(FINAL_WRITE_GRACE, marked).await {
            Ok(Ok(Err(error))) => tracing::warn!(%error, "cannot write the marker of a clean stop"),
            Ok(_) => {}
            Err(_) => tracing::warn!("the marker of a clean stop was not written in time"),
        }
        tracing::info!("stopped");
        Ok(())
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;

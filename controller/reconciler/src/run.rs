//! All tasks of a controller, wired together.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::brain::{Brain, Site};
use argus_core::lease::Leases;
use argus_core::memory::circuits::Circuits;
use argus_core::memory::{Memory, breaker};
use argus_core::plan::Deadlines;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::gated::{Gated, Openings};
use crate::handle::{COMMANDS, Handle};
use crate::hands::Hands;
use crate::history::Journal;
use crate::history::opening::{Beginning, Opening};
use crate::lock::{Holder, LOCK, Lock, host_name};
use crate::outlook::Outlook;
use crate::prober::{Places, Voice};
use crate::reconciler::{Facts, Reconciler, Told};
use crate::specs::SpecBook;
use crate::specs::caught;
use crate::specs::judge::OwnImage;
use crate::state::{StateDir, StateError, write_private};
use crate::status_writer::StatusView;
use crate::supervise::watchdog::LOOP;
use crate::supervise::{Importance, Supervisor, TaskDied};
use crate::wishes::Desires;
use crate::{identity, informer, lease, lock, status_writer};

mod tasks;

use tasks::{rules, start_keepers, start_lease, start_prober, start_specs, start_surveyor, start_verifier};

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
    pub engine_breaker: breaker::Settings,
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
    site: Site,
    opening: Opening,
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
        let me = Holder {
            pid: std::process::id(),
            host: host_name(),
            since: now.to_string(),
            run: run.clone(),
        };
        let lock = Lock::take(&state.lock(), &me)?;
        let opening = Opening::read(
            &state,
            &options.specs,
            &run,
            options.clock,
            options.journal_limit,
            cleared,
        );
        let place = identity::place(state.root());
        let site = Site {
            controller: opening.controller.clone(),
            run,
            publish_address: options.publish_address,
        };
        Ok(Self {
            options,
            state,
            lock,
            site,
            opening,
            place,
        })
    }

    /// The way to the journal, for those who have something to note.
    pub fn journal(&self) -> Journal {
        self.opening.journal.clone()
    }

    /// Who this controller is; for the backend, which looks at owners again before it removes.
    pub fn site(&self) -> &Site {
        &self.site
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
            site,
            opening,
            place,
        } = self;
        let clock = options.clock;
        let (openings, openings_seen) = watch::channel(Openings::default());
        // The one way to the engine from here on.
        let (backend, lock) = (
            Arc::new(Gated::new(backend, openings_seen.clone())),
            Arc::new(lock),
        );
        let stop = CancellationToken::new();
        let supervisor = Supervisor::new(clock, stop.clone());
        let Beginning {
            remembered,
            stopped,
            kept,
            journal,
            chronicle,
        } = opening.begin(&supervisor, &site.run, state.incidents());
        // Facts travel on watch channels, which hold the newest value and cannot fill.
        let (books, specs_seen) = watch::channel(Arc::<SpecBook>::default());
        let (told_of, told_of_seen) = watch::channel(Arc::<SpecBook>::default());
        let (desires, desires_seen) = watch::channel(Arc::<Desires>::default());
        let (worlds, worlds_seen) = watch::channel(Arc::default());
        let (healths, healths_seen) = watch::channel(Arc::default());
        let (kept, kept_seen) = watch::channel(kept);
        let holder = lease::Holder::new(&site, place, options.lease_ttl);
        let (leases, leases_seen) = watch::channel(Leases::of(holder.me.clone()));
        let memory = Memory {
            environments: remembered.environments.clone(),
            circuits: Circuits::new(options.engine_breaker),
            stopped_by_us: stopped.into_iter().map(|id| (id, None)).collect(),
            ..Memory::default()
        };
        let (remembered, remembered_seen) = watch::channel(remembered);
        let (written, written_seen) = watch::channel(None);
        let blank = Outlook::blank(site.clone(), memory.clone(), clock.now());
        let (outlooks, outlooks_seen) = watch::channel(Arc::new(blank));
        let (commands, requests) = mpsc::channel(COMMANDS);

        supervisor.spawn_once(
            LOCK,
            Importance::Critical,
            lock::watch(lock.clone(), stop.clone()),
        );
        let (folder, reader) = caught::sides();
        let told = (kept, books, reader);
        start_specs(&supervisor, rules(&options, &site), told, clock, &stop);
        // The engine is watched by one watch for the life of the process: it cannot be made twice.
        supervisor.spawn_once(
            "informer",
            Importance::Critical,
            informer::run(
                backend.clone(),
                worlds,
                journal.tally().clone(),
                clock,
                stop.clone(),
            ),
        );
        let places = Places {
            publish_address: options.publish_address,
            engine_host: options.engine_host,
        };
        let eyes = (desires_seen.clone(), worlds_seen.clone());
        let voice = Voice {
            healths,
            tally: journal.tally().clone(),
        };
        start_prober(&supervisor, &backend, eyes, voice, places, clock, &stop);
        start_keepers(&supervisor, &state, (remembered_seen, written), kept_seen);
        let about = lease::Facts {
            desires: desires_seen,
            worlds: worlds_seen.clone(),
            outlooks: outlooks_seen.clone(),
        };
        start_lease(&supervisor, &backend, holder, about, leases, clock, &stop);
        let (wanted, surveys_seen) =
            start_surveyor(&supervisor, &backend, &state, worlds_seen.clone(), clock, &stop);
        let links_seen = start_verifier(
            &supervisor,
            &backend,
            options.helpers,
            outlooks_seen.clone(),
            clock,
            &stop,
        );
        supervisor.spawn("status", Importance::Critical, {
            let (state, outlooks) = (state.clone(), outlooks_seen.clone());
            move || status_writer::run(state.clone(), view.clone(), outlooks.clone(), told_of.clone())
        });
        // It owns all memory: one that died in the middle of a turn is not to be trusted with another.
        let hands = Hands::new(
            backend.clone(),
            openings_seen,
            options.deadlines,
            state.clone(),
            journal.clone(),
            clock,
        );
        let facts = Facts {
            specs: specs_seen.clone(),
            worlds: worlds_seen,
            healths: healths_seen,
            journal: journal.health(),
            leases: leases_seen,
            surveys: surveys_seen,
            links: links_seen,
            commands: requests,
            written: written_seen,
        };
        let told = Told {
            desires,
            outlooks,
            remembered,
            openings,
            survey: wanted,
            pulse: supervisor.pulses().of(LOOP),
        };
        let brain = Brain::new(site, memory).with_deadlines(options.deadlines);
        let reconciler = Reconciler::new(brain, backend, hands, clock, facts, told, chronicle);
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
                outlook: outlooks_seen,
                journal,
                folder,
                books: specs_seen,
                told_of: told_of_seen,
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

//! All tasks of a controller, wired together.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use argus_backend::Backend;
use argus_core::brain::{Brain, Site};
use argus_core::memory::Memory;
use argus_core::observed::World;
use argus_core::preflight::Survey;
use argus_core::probe::HealthBook;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::handle::{COMMANDS, Handle};
use crate::hands::{Deadlines, Hands};
use crate::lock::{Holder, Lock, host_name};
use crate::outlook::Outlook;
use crate::prober::Places;
use crate::reconciler::{Facts, Reconciler, Remembered, Told};
use crate::specs::admission::Admission;
use crate::specs::{Kept, Rules, SpecBook};
use crate::state::{StateDir, StateError, write_private};
use crate::status_writer::StatusView;
use crate::supervise::watchdog::LOOP;
use crate::supervise::{Importance, Supervisor, TaskDied};
use crate::surveyor::Lines;
use crate::wishes::Desires;
use crate::{identity, informer, keeper, prober, specs, status_writer, surveyor};

/// How often the lock is looked at.
const LOCK_LOOK: Duration = Duration::from_secs(5);
/// What the other tasks get to end after the acts in flight had their grace.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// What the prober looks at.
type Eyes = (watch::Receiver<Arc<Desires>>, watch::Receiver<Arc<World>>);

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
    /// Where ports are published when the file names no address.
    pub publish_address: IpAddr,
    /// The engine's host as seen from here, when that is not this host.
    pub engine_host: Option<IpAddr>,
    /// Deadlines of calls.
    pub deadlines: Deadlines,
    /// How long a stop waits for the acts in flight; 30 s unless somebody wants it otherwise.
    pub stop_grace: Duration,
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
    clean: bool,
    remembered: Remembered,
    kept: Kept,
}

/// A controller at work.
#[derive(Debug)]
pub struct Running {
    supervisor: Supervisor,
    stop: CancellationToken,
    state: StateDir,
    grace: Duration,
    /// Held until everything is written.
    _lock: Arc<Lock>,
}

impl Controller {
    /// Takes the state directory: makes its folders, locks it, reads what was kept.
    ///
    /// # Errors
    /// [`StateError::Held`] with the holder when another controller has it.
    pub fn open(options: Options) -> Result<Self, StateError> {
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
        let at = |path: PathBuf| move |source| StateError::Io { path, source };
        let controller =
            identity::read_or_make(&state.identity(), &options.specs).map_err(at(state.identity()))?;
        let clean = state.take_clean_shutdown().map_err(at(state.clean_shutdown()))?;
        let remembered = keeper::read(&state.memory_json()).map_err(at(state.memory_json()))?;
        let kept = keeper::read(&state.book_json()).map_err(at(state.book_json()))?;
        let site = Site {
            controller,
            run,
            publish_address: options.publish_address,
        };
        Ok(Self {
            options,
            state,
            lock,
            site,
            clean,
            remembered,
            kept,
        })
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
        self.clean || self.remembered == Remembered::default()
    }

    /// Starts all tasks. Must be called within a Tokio runtime.
    pub fn start<B: Backend>(self, backend: B, view: Arc<dyn StatusView>) -> (Handle, Running) {
        let Self {
            options,
            state,
            lock,
            site,
            clean,
            remembered,
            kept,
        } = self;
        let clock = options.clock;
        tracing::info!(
            controller = site.controller,
            run = site.run,
            clean,
            "controller starts"
        );
        let (backend, lock) = (Arc::new(backend), Arc::new(lock));
        let stop = CancellationToken::new();
        let supervisor = Supervisor::new(clock, stop.clone());
        // Facts travel on watch channels, which hold the newest value and cannot fill.
        let (books, specs_seen) = watch::channel(Arc::<SpecBook>::default());
        let (desires, desires_seen) = watch::channel(Arc::<Desires>::default());
        let (worlds, worlds_seen) = watch::channel(Arc::default());
        let (healths, healths_seen) = watch::channel(Arc::default());
        let (kept, kept_seen) = watch::channel(kept);
        let memory = Memory {
            environments: remembered.environments.clone(),
            ..Memory::default()
        };
        let (remembered, remembered_seen) = watch::channel(remembered);
        let blank = Outlook::blank(site.clone(), memory.clone(), clock.now());
        let (outlooks, outlooks_seen) = watch::channel(Arc::new(blank));
        let (commands, requests) = mpsc::channel(COMMANDS);

        supervisor.spawn_once(
            "lock",
            Importance::Critical,
            watch_lock(lock.clone(), stop.clone()),
        );
        start_specs(&supervisor, rules(&options, &site), (kept, books), clock, &stop);
        // The engine is watched by one watch for the life of the process: it cannot be made twice.
        supervisor.spawn_once(
            "informer",
            Importance::Critical,
            informer::run(backend.clone(), worlds, stop.clone()),
        );
        let places = Places {
            publish_address: options.publish_address,
            engine_host: options.engine_host,
        };
        let eyes = (desires_seen, worlds_seen.clone());
        start_prober(&supervisor, &backend, eyes, healths, places, clock, &stop);
        let (wanted, surveys_seen) =
            start_surveyor(&supervisor, &backend, &state, worlds_seen.clone(), clock, &stop);
        supervisor.spawn_once(
            "memory",
            Importance::Critical,
            keeper::run(state.memory_json(), remembered_seen),
        );
        supervisor.spawn_once(
            "book",
            Importance::Critical,
            keeper::run(state.book_json(), kept_seen),
        );
        supervisor.spawn("status", Importance::Critical, {
            let (state, outlooks) = (state.clone(), outlooks_seen.clone());
            move || status_writer::run(state.clone(), view.clone(), outlooks.clone())
        });
        // It owns all memory: one that died in the middle of a turn is not to be trusted with another.
        let hands = Hands::new(backend.clone(), options.deadlines, state.clone(), clock);
        let facts = Facts {
            specs: specs_seen,
            worlds: worlds_seen,
            healths: healths_seen,
            surveys: surveys_seen,
            commands: requests,
        };
        let told = Told {
            desires,
            outlooks,
            remembered,
            survey: wanted,
            pulse: supervisor.pulses().of(LOOP),
        };
        let reconciler = Reconciler::new(Brain::new(site, memory), backend, hands, clock, facts, told);
        supervisor.spawn_once(
            "reconciler",
            Importance::Critical,
            reconciler.run(stop.clone(), options.stop_grace),
        );

        let running = Running {
            supervisor,
            stop,
            state,
            grace: options.stop_grace + LAST_WRITES,
            _lock: lock,
        };
        (
            Handle {
                commands,
                outlook: outlooks_seen,
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
        self.supervisor.run(self.grace).await?;
        let path = self.state.clean_shutdown();
        let marked = tokio::task::spawn_blocking(move || write_private(&path, b"")).await;
        if let Ok(Err(error)) = marked {
            tracing::warn!(%error, "cannot mark the stop as clean");
        }
        tracing::info!("stopped");
        Ok(())
    }
}

fn start_specs(
    supervisor: &Supervisor,
    rules: Rules,
    (kept, books): (watch::Sender<Kept>, watch::Sender<Arc<SpecBook>>),
    clock: Clock,
    stop: &CancellationToken,
) {
    let stop = stop.clone();
    supervisor.spawn("specs", Importance::Critical, move || {
        specs::run(rules.clone(), kept.clone(), books.clone(), clock, stop.clone())
    });
}

fn start_prober<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    eyes: Eyes,
    healths: watch::Sender<Arc<HealthBook>>,
    places: Places,
    clock: Clock,
    stop: &CancellationToken,
) {
    let (backend, stop) = (backend.clone(), stop.clone());
    supervisor.spawn("prober", Importance::Critical, move || {
        let (desires, worlds) = eyes.clone();
        prober::run(
            backend.clone(),
            desires,
            worlds,
            healths.clone(),
            places,
            clock,
            stop.clone(),
        )
    });
}

fn start_surveyor<B: Backend>(
    supervisor: &Supervisor,
    backend: &Arc<B>,
    state: &StateDir,
    worlds: watch::Receiver<Arc<World>>,
    clock: Clock,
    stop: &CancellationToken,
) -> (Arc<Notify>, watch::Receiver<Arc<Survey>>) {
    let (surveys, seen) = watch::channel(Arc::default());
    let wanted = Arc::new(Notify::new());
    let lines = Lines {
        wanted: wanted.clone(),
        worlds,
        surveys,
    };
    let (backend, state, stop) = (backend.clone(), state.clone(), stop.clone());
    // New environments wait for it.
    supervisor.spawn("surveyor", Importance::Critical, move || {
        surveyor::run(backend.clone(), state.clone(), lines.clone(), clock, stop.clone())
    });
    (wanted, seen)
}

fn rules(options: &Options, site: &Site) -> Rules {
    Rules {
        folder: std::path::absolute(&options.specs).unwrap_or_else(|_| options.specs.clone()),
        strict: options.strict,
        env_allow: options.env_allow.clone(),
        process_env: options.process_env.clone(),
        controller: site.controller.clone(),
        judge: Arc::new(Admission {
            allow_mounts: options.allow_mounts.clone(),
        }),
    }
}

/// Returns when the file at its path is another one, for then another controller may hold that.
async fn watch_lock(lock: Arc<Lock>, stop: CancellationToken) {
    while stop
        .run_until_cancelled(tokio::time::sleep(LOCK_LOOK))
        .await
        .is_some()
    {
        if !lock.is_at_its_path() {
            tracing::error!("the lock file was removed or replaced, another controller may be at work");
            return;
        }
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;

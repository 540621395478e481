//! Controllers on an engine in memory, in virtual time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::sim::{AfterRestart, Engine, FaultProfile, Sim};
use argus_core::ident::{EnvName, Protocol, ProtocolPort};
use argus_core::time::Timestamp;
use argus_crds::incident::Incident;
use argus_reconciler::clock::Clock;
use argus_reconciler::state_dir::StateDir;
use argus_reconciler::{Controller, EnvFiles, Handle, Options, Running, Snapshot, StatusView};

use crate::options::options;

/// Virtual time is free, but the disk may be slow.
const LIMIT: Duration = Duration::from_secs(600);

pub(crate) const SHOP: &str = "version: '1.0'\nproject:\n  name: shop\nservices:\n  - name: api\n    image: app:1\n    \
                               container:\n      name: shop-api\n      ports: ['8080:80']\n";
const MAIL: &str = "version: '1.0'\nproject:\n  name: mail\nservices:\n  - name: smtp\n    image: app:1\n    \
                    container:\n      name: mail-smtp\n";

pub(crate) struct Fixture {
    dir: tempfile::TempDir,
    clock: Clock,
    faults: FaultProfile,
}

pub(crate) struct Run {
    pub(crate) handle: Handle,
    running: Running,
    sim: Sim,
}

struct View;

impl StatusView for View {
    fn environment(&self, env: &EnvName, _: &Snapshot, _: Option<&str>) -> EnvFiles {
        EnvFiles {
            json: format!("{{\"environment\":\"{env}\"}}"),
            env: "ARGUS_API_80=127.0.0.1:8081\n".to_owned(),
            debug: None,
            project_file: None,
        }
    }

    fn keep_environment(&self, _: &EnvName) -> bool {
        true
    }

    fn controller(&self, snapshot: &Snapshot, _: Option<&str>) -> String {
        format!("{{\"mode\":\"{:?}\"}}", snapshot.mode)
    }
}

pub(crate) fn env(name: &str) -> EnvName {
    EnvName::new(name).unwrap()
}

impl Fixture {
    /// Writes two environments in two files. Must be called in a runtime with paused time.
    pub(crate) fn new(faults: FaultProfile) -> Self {
        let fixture = Self {
            dir: tempfile::tempdir().unwrap(),
            clock: Clock::virtual_from(Timestamp(1_763_000_000_000)),
            faults,
        };
        std::fs::create_dir(fixture.dir.path().join("specs")).unwrap();
        fixture.write("shop", SHOP);
        fixture.write("mail", MAIL);
        fixture
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.file(name)).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("specs").join(format!("{name}.e2e.yaml"))
    }

    pub(crate) fn state(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Creates an engine with the image, whose requested port is taken.
    pub(crate) fn fresh(&self) -> Engine {
        let mut engine = Engine::new(7, self.faults);
        engine.model.add_image("app:1");
        engine.model.occupy_port(ProtocolPort::new(8_080, Protocol::Tcp));
        engine
    }

    pub(crate) fn start(&self, state: &Path, engine: Engine) -> Run {
        self.start_in(None, state, engine)
    }

    /// Starts a controller after a person allowed the project.
    pub(crate) fn start_allowed(&self, state: &Path, engine: Engine) -> Run {
        let folder = self.dir.path().canonicalize().unwrap();
        self.start_in(Some(folder), state, engine)
    }

    fn start_in(&self, allowed: Option<PathBuf>, state: &Path, engine: Engine) -> Run {
        let clock = self.clock;
        let options = Options {
            state: StateDir::at(state),
            allowed,
            ..options(self.dir.path(), clock)
        };
        let sim = Sim::new(engine, move || clock.now());
        let opened = Controller::open(options);
        let controller = opened.unwrap_or_else(|error| panic!("{}: {error}", state.display()));
        let (handle, running) = controller.start(sim.clone(), Arc::new(View));
        Run { handle, running, sim }
    }
}

impl Run {
    /// Waits until both environments are settled and the recovery is complete.
    pub(crate) async fn settled(&self) -> Arc<Snapshot> {
        self.until("settled", |snapshot| {
            let settled = |name| {
                snapshot
                    .plans
                    .get(&env(name))
                    .is_some_and(|plan| plan.is_settled() && plan.revision.is_some())
            };
            snapshot.is_complete()
                && snapshot.problems.recovering.is_none()
                && snapshot.problems.safe.is_none()
                && settled("shop")
                && settled("mail")
                && snapshot.state.expectations.is_empty()
        })
        .await
    }

    pub(crate) async fn until(&self, what: &str, is: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let mut snapshots = self.handle.snapshots();
        let waited = tokio::time::timeout(LIMIT, snapshots.wait_for(|snapshot| is(snapshot))).await;
        waited.map_or_else(
            |_| panic!("{what}: {:#?}", self.handle.snapshot().plans),
            |found| found.unwrap().clone(),
        )
    }

    /// Advances the virtual time.
    pub(crate) async fn pause(&self, seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        let start = self.sim.with(|_, now| now);
        let later = start + Duration::from_secs(seconds);
        // In steps, so that the tasks run in between.
        while self.sim.with(|_, now| now) < later {
            tokio::time::advance(Duration::from_millis(250)).await;
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        }
    }

    /// Copies the current engine.
    pub(crate) fn engine(&self) -> Engine {
        self.sim.with(|engine, _| engine.clone())
    }

    /// Removes a container, as a person would.
    pub(crate) fn lose(&self, name: &str) {
        self.sim.with(|engine, now| {
            let id = engine
                .model
                .containers()
                .find(|it| it.name == name)
                .map(|it| it.id.clone());
            engine.change(now, |model| model.person_removes(&id.unwrap()));
        });
    }

    /// Takes the engine away for this time. Its containers continue to run.
    pub(crate) fn take_engine_away(&self, away: Duration) {
        self.sim
            .with(|engine, now| engine.restart_with(now, away, AfterRestart::Running));
    }

    /// Restarts the engine. Its containers end.
    pub(crate) fn reboot(&self) {
        self.sim.with(reboot);
    }

    /// Copies the engine, and restarts the copy.
    pub(crate) fn rebooted_copy(&self) -> Engine {
        self.sim.with(|engine, now| {
            let mut engine = engine.clone();
            reboot(&mut engine, now);
            engine
        })
    }

    pub(crate) async fn stop(self) {
        self.running.stop_token().cancel();
        self.running.ended().await.unwrap();
    }
}

fn reboot(engine: &mut Engine, now: Timestamp) {
    engine.restart_with(now, Duration::from_secs(2), AfterRestart::Ended);
}

/// Copies a folder recursively.
pub(crate) fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copied(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Reads the incident files.
pub(crate) fn incidents(state: &Path) -> Vec<Incident> {
    let entries = std::fs::read_dir(state.join("incidents")).into_iter().flatten();
    let files = entries.map(|entry| entry.unwrap().path());
    files
        .map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
        .collect()
}

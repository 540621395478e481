//! Tests of a whole controller on an empty and idle engine.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use argus_core::ident::EnvName;
use argus_core::mode::Mode;
use argus_core::observed::WatchEvent;
use argus_core::time::Timestamp;
use futures::StreamExt;

use super::*;
use crate::command::{Command, CommandError};
use crate::fake_backend::FakeBackend;
use crate::lock::LockError;
use crate::persisted;
use crate::reconciler::PersistedState;
use crate::status_writer::EnvFiles;

const LIMIT: Duration = Duration::from_secs(20);

struct View;

impl StatusView for View {
    fn environments(&self, snapshot: &Snapshot) -> BTreeSet<EnvName> {
        snapshot.specs.environments.keys().cloned().collect()
    }

    fn environment(&self, env: &EnvName, snapshot: &Snapshot, _: Option<&str>) -> EnvFiles {
        let down = snapshot.overrides.down.contains_key(env);
        EnvFiles {
            json: format!("{{\"environment\":\"{env}\",\"down\":{down}}}"),
            env: String::new(),
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

fn options(dir: &std::path::Path) -> Options {
    Options {
        specs: dir.join("specs"),
        state: StateDir::at(dir.join("state")),
        strict: false,
        env_allow: Vec::new(),
        namespace_from: argus_core::desired::namespace::NamespaceFrom::File,
        process_env: BTreeMap::new(),
        allow_mounts: Vec::new(),
        allowed: None,
        allow_external: Vec::new(),
        git_writable: false,
        private_folders: Vec::new(),
        ceiling: argus_core::desired::ceiling::Ceiling::default(),
        engine_socket: None,
        helpers: true,
        own_image: OwnImageContext {
            folder: "/nowhere/own-image".into(),
            write_context: None,
        },
        publish_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        translate: None,
        engine_host: None,
        deadlines: Deadlines::default(),
        engine_breaker: argus_core::desired::BreakerSettings::default(),
        retries: argus_core::retry::RetrySettings::default(),
        delays: Delays::default(),
        stop_grace: Duration::from_secs(2),
        journal_limit: crate::journal::handle::DEFAULT_MAX_SIZE,
        lease_ttl: argus_core::lease::TTL,
        clock: Clock::system(),
    }
}

fn down(env: &EnvName) -> Command {
    let environment = env.clone();
    Command::Down {
        environment,
        volumes: false,
    }
}

fn retry(env: &EnvName) -> Command {
    let environment = env.clone();
    Command::Retry {
        environment,
        service: None,
    }
}

async fn until(handle: &Handle, what: &str, is: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut snapshots = handle.snapshots();
    let waited = tokio::time::timeout(LIMIT, snapshots.wait_for(|snapshot| is(snapshot))).await;
    waited.map_or_else(|_| panic!("{what}"), |found| found.unwrap().clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controller_resumes_its_state_after_a_clean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let specs = dir.path().join("specs");
    std::fs::create_dir(&specs).unwrap();
    let shop = EnvName::new("shop").unwrap();
    let spec = "version: '1.0'\nproject:\n  name: shop\nservices:\n  - name: api\n    image: nginx:1\n    container:\n      name: shop-api\n";
    std::fs::write(specs.join("e2e.yaml"), spec).unwrap();

    let controller = Controller::open(options(dir.path())).unwrap();
    let identity = controller.identity().clone();
    match Controller::open(options(dir.path())).unwrap_err() {
        StateError::Held(LockError::Held { holder, .. }) => assert_eq!(holder.run, identity.run),
        other => panic!("{other}"),
    }
    let (handle, running) = controller.start(FakeBackend::empty(), Arc::new(View));
    let up = |snapshot: &Snapshot| snapshot.is_complete() && snapshot.mode == Mode::Full;
    until(&handle, "up", |snapshot| {
        up(snapshot) && snapshot.specs.environments.contains_key(&shop)
    })
    .await;
    let missing = EnvName::new("missing").unwrap();
    assert_eq!(
        handle.send(down(&missing), String::new()).await,
        Err(CommandError::Unknown(missing))
    );
    handle.send(down(&shop), String::new()).await.unwrap();
    let state = StateDir::at(dir.path().join("state"));
    let read_status = || std::fs::read_to_string(state.environments().join("shop.json")).unwrap();
    let shown = "{\"environment\":\"shop\",\"down\":true}";
    assert_eq!(read_status(), shown, "an answered command is in the status");
    let token = running.stop_token();
    let ended = tokio::join!(tokio::time::timeout(LIMIT, running.ended()), async {
        token.cancel();
    })
    .0;
    assert_eq!(ended.unwrap(), Ok(()));
    assert_eq!(
        handle.send(retry(&shop), String::new()).await,
        Err(CommandError::Stopped)
    );
    assert_eq!(read_status(), shown, "the last state is written");

    // The file became invalid while no controller ran: its last good revision stays in effect, and is still down.
    std::fs::write(specs.join("e2e.yaml"), "project: [").unwrap();
    let controller = Controller::open(options(dir.path())).unwrap();
    assert!(controller.ended_cleanly() && !state.clean_shutdown().exists());
    assert_eq!(controller.identity().controller, identity.controller);
    assert_ne!(controller.identity().run, identity.run);
    let (handle, running) = controller.start(FakeBackend::empty(), Arc::new(View));
    let snapshot = until(&handle, "up again", up).await;
    assert!(snapshot.specs.environments.contains_key(&shop) && snapshot.overrides.down.contains_key(&shop));
    handle.send(retry(&shop), String::new()).await.unwrap();
    until(&handle, "brought back", |snapshot| {
        snapshot.overrides.down.is_empty()
    })
    .await;
    running.stop_token().cancel();
    assert_eq!(
        tokio::time::timeout(LIMIT, running.ended()).await.unwrap(),
        Ok(())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delays_reach_the_planner_and_the_store() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("specs")).unwrap();
    let delays = Delays {
        scan_interval: Delays::default().scan_interval,
        external_stop: Duration::from_secs(1),
        orphan_age: Duration::from_secs(2),
        outage_margin: Duration::from_secs(3),
        list_interval: Duration::from_secs(4),
    };
    let options = Options {
        delays,
        ..options(dir.path())
    };
    let events = [
        WatchEvent::Connected(Timestamp(1)),
        WatchEvent::Disconnected(Timestamp(2), String::new()),
        WatchEvent::Connected(Timestamp(3)),
        WatchEvent::Init,
        WatchEvent::InitDone,
    ];
    let events = futures::stream::iter(events).chain(futures::stream::pending());
    let backend = FakeBackend::with_events(events.boxed());
    let (handle, running) = Controller::open(options).unwrap().start(backend, Arc::new(View));
    let snapshot = until(&handle, "up", Snapshot::is_complete).await;
    assert_eq!(snapshot.state.delays, delays);
    let outage = snapshot.store.outages()[0];
    assert!(outage.is_near(Timestamp(3_003)) && !outage.is_near(Timestamp(3_004)));
    running.stop_token().cancel();
    assert_eq!(
        tokio::time::timeout(LIMIT, running.ended()).await.unwrap(),
        Ok(())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_lock_ends_the_controller_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("specs")).unwrap();
    let (_handle, running) = Controller::open(options(dir.path()))
        .unwrap()
        .start(FakeBackend::empty(), Arc::new(View));
    std::fs::remove_file(StateDir::at(dir.path().join("state")).lock()).unwrap();
    let failure = tokio::time::timeout(LIMIT, running.ended())
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(failure.task, "lock");
    assert!(
        failure.reason.contains("was removed while the controller ran"),
        "{failure}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reply_is_done_only_for_persisted_commands() {
    let dir = tempfile::tempdir().unwrap();
    let specs = dir.path().join("specs");
    std::fs::create_dir(&specs).unwrap();
    let shop = EnvName::new("shop").unwrap();
    let spec = "version: '1.0'\nproject:\n  name: shop\nservices:\n  - name: api\n    image: nginx:1\n    container:\n      name: shop-api\n";
    std::fs::write(specs.join("e2e.yaml"), spec).unwrap();
    let controller = Controller::open(options(dir.path())).unwrap();
    let (handle, running) = controller.start(FakeBackend::empty(), Arc::new(View));
    until(&handle, "up", |snapshot| {
        snapshot.is_complete() && snapshot.specs.environments.contains_key(&shop)
    })
    .await;
    let state = StateDir::at(dir.path().join("state"));
    let hold = Command::Hold {
        environment: shop.clone(),
        service: None,
        until: None,
        stops: false,
        reason: "inspection".to_owned(),
        holder: None,
    };
    handle.send(hold.clone(), String::new()).await.unwrap();
    let persisted_state: PersistedState =
        persisted::read(&state.state_json(), argus_core::time::Timestamp(1))
            .value
            .unwrap();
    assert_eq!(persisted_state.overrides.requests.holds.len(), 1);
    // A folder at the path of the file prevents the write.
    std::fs::remove_file(state.state_json()).unwrap();
    std::fs::create_dir_all(state.state_json().join("full")).unwrap();
    let reply = tokio::time::timeout(LIMIT, handle.send(hold, String::new()))
        .await
        .unwrap();
    assert!(matches!(reply, Err(CommandError::NotPersisted(_))), "{reply:?}");
    std::fs::remove_dir_all(state.state_json()).unwrap();
    running.stop_token().cancel();
    assert_eq!(
        tokio::time::timeout(LIMIT, running.ended()).await.unwrap(),
        Ok(())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_ends_whatever_became_of_the_state_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("specs")).unwrap();
    let controller = Controller::open(options(dir.path())).unwrap();
    let state = controller.state().clone();
    let (handle, running) = controller.start(FakeBackend::empty(), Arc::new(View));
    until(&handle, "up", |snapshot| {
        snapshot.is_complete() && snapshot.mode == Mode::Full
    })
    .await;
    let written = async {
        while !state.controller_json().is_file() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, written).await.unwrap();
    // A read of a FIFO waits for a writer forever.
    std::fs::remove_file(state.controller_json()).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, state.controller_json(), fifo, mode, 0).unwrap();
    running.stop_token().cancel();
    let ended = tokio::time::timeout(LIMIT, running.ended()).await;
    assert_eq!(ended.unwrap(), Ok(()));
}

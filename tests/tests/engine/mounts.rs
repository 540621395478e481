//! Bind mounts on a real engine: no link and no swap gives a container anything outside the allowed directories.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]
#![allow(
    clippy::disallowed_methods,
    reason = "a real engine runs in real time, with a limit"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Once, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use argus_backend::Backend as _;
use argus_core::action::{Action, ContainerSpec};
use argus_core::desired::{ContainerLimits, Mount};
use argus_core::ident::{ContainerId, ResourceName};
use argus_core::outcome::{ActionError, Done};
use argus_core::time::Timestamp;
use argus_docker::{Docker, Endpoint};
use argus_tests::fixture::{LIMIT, engine, running, text};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, wait};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;

/// Number of swaps in the race.
const SWAPS: usize = 1_000;
/// Minimum number of create attempts during the swaps.
const CREATES: usize = 60;
/// Maximum number of create attempts.
const MAX_CREATES: usize = 600;

fn one_service(project: &str, volume: &str) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {project} }}\nservices:\n  app:\n    image: busybox:local\n    stopGrace: 1s\n    \
         command: [\"sh\", \"-c\", \"exec sleep 3600\"]\n    container: {{ name: {project}-app, volumes: [\"{volume}\"] }}\n"
    )
}

fn is_refused(status: &Value) -> bool {
    let errors = status["errors"].as_array().cloned().unwrap_or_default();
    errors.iter().any(|error| error["code"] == "POLICY_VIOLATION")
}

#[test]
fn symlinked_and_socket_mounts_are_refused() {
    let engine = engine();
    let socket = engine.socket();
    let home = socket.parent().expect("a socket has a directory");
    let granted = engine.scratch("granted");
    let argus = Controller::start(
        engine,
        RunOptions {
            // A flag allows the socket's own directory, but the socket is still rejected.
            args: [granted.as_path(), home]
                .iter()
                .flat_map(|path| ["--allow-mount".to_owned(), path.display().to_string()])
                .collect(),
            ..RunOptions::default()
        },
    );
    symlink("/etc", granted.join("leak")).expect("a link");
    let variants: [(&str, Option<&Path>, String); 5] = [
        ("to-root", Some(Path::new("/")), "./to-root:/x".to_owned()),
        ("to-socket", Some(&socket), "./to-socket:/x".to_owned()),
        ("to-directory", Some(home), "./to-directory:/x:ro".to_owned()),
        ("in-allowed", None, format!("{}/leak:/x", granted.display())),
        ("directory", None, format!("{}:/x", home.display())),
    ];
    for (name, target, volume) in &variants {
        let folder = argus.specs.join(name);
        fs::create_dir_all(&folder).expect("a directory");
        if let Some(target) = target {
            symlink(target, folder.join(name)).expect("a link");
        }
        argus.write_spec(&format!("{name}/e2e.yaml"), &one_service(name, volume));
    }
    for (name, ..) in &variants {
        argus.wait_status(name, LIMIT, "is rejected", is_refused);
        let made = engine.containers_with(&format!("argusai.project={name}"));
        assert!(made.is_empty(), "{name}: {made:?}");
    }

    // A link that stays inside is resolved, and the engine gets the path without it.
    let folder = argus.specs.join("inside");
    fs::create_dir_all(folder.join("real")).expect("a directory");
    symlink("real", folder.join("link")).expect("a link");
    argus.write_spec("inside/e2e.yaml", &one_service("inside", "./link:/x"));
    argus.wait_ready("inside", LIMIT);
    let found = engine.inspect("inside-app").expect("the container runs");
    let real = folder.join("real").canonicalize().expect("the directory exists");
    assert_eq!(text(&found["Mounts"][0]["Source"]), real.display().to_string());
    assert!(argus.cli(&["down", "inside"]).status.success());
}

#[test]
fn link_swapped_in_after_acceptance_is_refused() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let folder = argus.specs.join("swapped");
    fs::create_dir_all(folder.join("data")).expect("a directory");
    argus.write_spec("swapped/e2e.yaml", &one_service("swapped", "./data:/x"));
    argus.wait_ready("swapped", LIMIT);
    for gone in [["kill", "swapped-app"].as_slice(), &["rm", "-f", "swapped-app"]] {
        fs::rename(folder.join("data"), folder.join("old")).expect("a rename");
        symlink("/", folder.join("data")).expect("a link");
        engine.docker_ok(gone);
        argus.wait_status("swapped", LIMIT, "is rejected", is_refused);
        assert!(!running(engine, "swapped-app"), "{gone:?}");
        fs::remove_file(folder.join("data")).expect("it is a link");
        fs::rename(folder.join("old"), folder.join("data")).expect("a rename");
        argus.wait_status("swapped", 2 * LIMIT, "is Ready again", |status| {
            status["phase"] == "Ready" && !is_refused(status) && running(engine, "swapped-app")
        });
    }
    assert!(argus.cli(&["down", "swapped"]).status.success());
}

/// A project with a directory to mount, and a link that swaps places with it.
struct Project {
    data: PathBuf,
    link: PathBuf,
    outside: PathBuf,
    swaps: AtomicUsize,
}

impl Project {
    fn new(engine: &PrivateEngine, name: &str) -> Self {
        let home = engine.scratch(name).canonicalize().expect("the directory exists");
        let project = Self {
            data: home.join("project/data"),
            link: home.join("project/link"),
            outside: home.join("outside"),
            swaps: AtomicUsize::new(0),
        };
        for (directory, marker) in [(&project.data, "inside"), (&project.outside, "outside")] {
            fs::create_dir_all(directory).expect("a directory");
            fs::write(directory.join("marker"), marker).expect("a file");
        }
        symlink(&project.outside, &project.link).expect("a link");
        project
    }

    fn swap(&self) {
        renameat_with(CWD, &self.data, CWD, &self.link, RenameFlags::EXCHANGE).expect("an exchange");
        self.swaps.fetch_add(1, Ordering::SeqCst);
    }

    /// Number of swaps so far.
    fn swapped(&self) -> usize {
        self.swaps.load(Ordering::SeqCst)
    }

    /// Names of files that a container with access to the outside left.
    fn seen_outside(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.outside)
            .expect("the directory exists")
            .flatten();
        let names = entries.map(|entry| entry.file_name().display().to_string());
        names.filter(|name| name != "marker").collect()
    }

    /// Swaps about once per millisecond until the sender is dropped; an even number of times.
    fn swapping(self: &Arc<Self>, stop: mpsc::Receiver<()>) -> JoinHandle<()> {
        let project = Arc::clone(self);
        std::thread::spawn(move || {
            loop {
                project.swap();
                let ended =
                    stop.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Disconnected);
                if ended && project.swapped().is_multiple_of(2) {
                    return;
                }
            }
        })
    }
}

fn name(text: &str) -> ResourceName {
    ResourceName::new(text).expect("a name")
}

fn labels() -> BTreeMap<String, String> {
    [
        ("argusai.managed", "true"),
        ("argusai.environment", "race"),
        ("argusai.controller", "me"),
        ("argusai.created-at", "2026-01-01T00:00:00Z"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

fn docker(socket: &str) -> Docker {
    let now = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        Timestamp(i64::try_from(since.as_millis()).expect("before the end of time"))
    };
    Docker::new(Endpoint::parse(socket).expect("an endpoint"), Arc::new(now))
}

fn block<T>(work: impl Future<Output = T>) -> T {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().expect("a runtime")
    };
    RUNTIME.get_or_init(runtime).block_on(work)
}

/// Creates the network of these tests once. Two parallel requests would create two networks with one name.
fn network(engine: &PrivateEngine) {
    static MADE: Once = Once::new();
    MADE.call_once(|| {
        let action = Action::CreateNetwork {
            name: name("argus-race"),
            labels: labels(),
        };
        block(docker(&engine.host()).execute(&action, &())).expect("a network");
    });
}

/// Creates a container that writes a file into its mount.
async fn create(docker: &Docker, called: &str, source: &Path) -> Result<ContainerId, ActionError> {
    let leave = format!("cat /x/marker > /x/{called}; cat /x/marker; exec sleep 3600");
    let spec = ContainerSpec {
        image: "busybox:local".to_owned(),
        build: String::new(),
        entrypoint: None,
        command: Some(vec!["sh".to_owned(), "-c".to_owned(), leave]),
        env_vars: BTreeMap::new(),
        labels: labels(),
        network: name("argus-race"),
        aliases: vec![],
        bindings: vec![],
        mounts: vec![Mount::Bind {
            source: source.display().to_string(),
            target: "/x".to_owned(),
            read_only: false,
        }],
        tmpfs: vec![],
        extra_hosts: vec![],
        user: None,
        working_dir: None,
        memory: None,
        nano_cpus: None,
        stop_grace: Duration::from_secs(1),
        container_limits: ContainerLimits::default(),
    };
    let action = Action::CreateContainer {
        name: name(called),
        spec: Box::new(spec),
    };
    match docker.execute(&action, &()).await? {
        Done::Container(id) => Ok(id),
        other => panic!("{other:?}"),
    }
}

async fn start(docker: &Docker, id: &ContainerId) -> Result<Done, ActionError> {
    docker
        .execute(&Action::StartContainer { id: id.clone() }, &())
        .await
}

async fn remove(docker: &Docker, id: &ContainerId) {
    let action = Action::RemoveContainer {
        id: id.clone(),
        name: String::new(),
    };
    docker.execute(&action, &()).await.expect("a removal");
}

fn is_mount_refused<T: std::fmt::Debug>(received: &Result<T, ActionError>) -> bool {
    matches!(received, Err(ActionError::MountRefused(_)))
}

#[test]
fn racing_link_never_shows_the_outside() {
    let engine = engine();
    let project = Arc::new(Project::new(engine, "race"));
    let proxy = Proxy::start(&engine.scratch("race").join("p.sock"), &engine.socket());
    let docker = docker(&proxy.host());
    let (stop, stopped) = mpsc::channel();
    let swapper = project.swapping(stopped);
    let (mut refused, mut ran) = (0, 0);
    network(engine);
    for attempt in 0..MAX_CREATES {
        if attempt >= CREATES && project.swapped() >= SWAPS {
            break;
        }
        let called = format!("argus-race-{attempt}");
        let received = block(create(&docker, &called, &project.data));
        let Ok(id) = received else {
            assert!(is_mount_refused(&received), "{received:?}");
            assert!(engine.inspect(&called).is_none(), "nothing remains of {called}");
            refused += 1;
            continue;
        };
        match block(start(&docker, &id)) {
            Ok(_) => {
                let marker = ["cat", "/x/marker"].map(str::to_owned);
                let seen = block(docker.exec(&id, &marker)).expect("the container runs");
                assert_eq!(seen.output, "inside");
                ran += 1;
                block(remove(&docker, &id));
            }
            received => {
                assert!(is_mount_refused(&received), "{received:?}");
                assert!(engine.inspect(&called).is_none(), "nothing remains of {called}");
                refused += 1;
            }
        }
    }
    drop(stop);
    swapper.join().expect("it ends");
    let swaps = project.swapped();
    let created = proxy
        .counts()
        .get("POST /containers/create")
        .copied()
        .unwrap_or_default();
    eprintln!("{swaps} swaps, {created} creates, {refused} refused, {ran} ran");
    assert!(swaps >= SWAPS, "{swaps} swaps are too few for a race");
    assert!(refused > 0 && created > 0, "no race occurred");
    assert_eq!(project.seen_outside(), Vec::<String>::new());

    // After the last swap a container is created and runs.
    let id = block(create(&docker, "argus-race-last", &project.data)).expect("a container");
    block(start(&docker, &id)).expect("a start");
    wait::until(LIMIT, "the container has written inside", || {
        project.data.join("argus-race-last").exists().then_some(())
    });
    block(remove(&docker, &id));
}

#[test]
fn source_replaced_during_a_call_ends_the_container() {
    let engine = engine();
    let project = Project::new(engine, "during");
    let proxy = Proxy::start(&engine.scratch("during").join("p.sock"), &engine.socket());
    let docker = docker(&proxy.host());
    network(engine);
    for (number, class) in ["POST /containers/create", "POST /containers/*/start"]
        .iter()
        .enumerate()
    {
        let called = format!("argus-during-{number}");
        proxy.reset_counts();
        proxy.inject(class, Fault::Delay(LIMIT), 1);
        let received = std::thread::scope(|scope| {
            let call = scope.spawn(|| {
                block(async {
                    let id = create(&docker, &called, &project.data).await?;
                    start(&docker, &id).await.map(drop)
                })
            });
            // Held before the engine receives the request: after the check, before the mount.
            wait::until(LIMIT, "the call is in progress", || {
                proxy.counts().get(*class).copied()
            });
            project.swap();
            proxy.heal();
            call.join().expect("a call")
        });
        assert!(is_mount_refused(&received), "{class}: {received:?}");
        assert!(
            engine.inspect(&called).is_none(),
            "{class}: its container is removed"
        );
        project.swap();
    }
}

#[test]
fn source_replaced_before_the_start_is_refused() {
    let engine = engine();
    let project = Project::new(engine, "between");
    let docker = docker(&engine.host());
    network(engine);
    let id = block(create(&docker, "argus-between-1", &project.data)).expect("a container");
    project.swap();
    let received = block(start(&docker, &id));
    assert!(is_mount_refused(&received), "{received:?}");
    assert!(engine.inspect("argus-between-1").is_none());
    project.swap();

    // Another directory of the same name is not the one checked by the create.
    let id = block(create(&docker, "argus-between-2", &project.data)).expect("a container");
    fs::rename(&project.data, project.data.with_extension("old")).expect("a rename");
    fs::create_dir(&project.data).expect("a directory");
    let received = block(start(&docker, &id));
    assert!(is_mount_refused(&received), "{received:?}");

    // A restarted controller gets the sources from the engine.
    let id = block(create(&docker, "argus-between-3", &project.data)).expect("a container");
    project.swap();
    let restarted = self::docker(&engine.host());
    let received = block(start(&restarted, &id));
    assert!(is_mount_refused(&received), "{received:?}");
    assert_eq!(project.seen_outside(), Vec::<String>::new());
    block(remove(&docker, &id));
}

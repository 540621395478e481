//! Bind mounts on a real engine: no link and no exchange gives a container anything outside the allowed directories.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]
#![allow(
    clippy::disallowed_methods,
    reason = "a real engine runs in real time, with a limit"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use argus_backend::Backend as _;
use argus_core::action::{Action, ContainerSpec};
use argus_core::desired::{ContainerLimits, Mount};
use argus_core::ident::{ContainerId, ResourceName};
use argus_core::outcome::{ActionError, Done};
use argus_core::time::Timestamp;
use argus_docker::{Docker, Endpoint};
use argus_tests::fixture::{LIMIT, engine, running, text};
use argus_tests::{Controller, PrivateEngine, RunOptions, wait};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;

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
fn private_state_of_any_controller_is_never_mounted() {
    let engine = engine();
    let specs = engine.scratch("private-specs");
    let home = engine.scratch("private-home");
    let other = home.join("xdg/argus/other-0123456789abcdef");
    // The spec folder is the project of all its files.
    for folder in [&other, &home.join("data"), &specs.join(".git")] {
        fs::create_dir_all(folder).expect("a directory");
    }
    let shown = |path: &Path| path.display().to_string();
    let argus = Controller::start(
        engine,
        RunOptions {
            state: Some(specs.join("run/state")),
            specs: Some(specs.clone()),
            args: vec!["--allow-mount".to_owned(), shown(&home)],
            env: vec![("XDG_STATE_HOME".to_owned(), shown(&home.join("xdg")))],
            ..RunOptions::default()
        },
    );
    let data = one_service("plain-data", &format!("{}:/x", shown(&home.join("data"))));
    argus.write_spec("plain-data/e2e.yaml", &data);
    let refused = [
        ("state-around", "..".to_owned()),
        ("state-near", "../run".to_owned()),
        ("state-inside", "../run/state/private".to_owned()),
        ("private-around", shown(&home)),
        ("private-near", shown(&home.join("xdg"))),
        ("private-other", shown(&other)),
    ];
    for (name, source) in &refused {
        let text = one_service(name, &format!("{source}:/x:ro"));
        argus.write_spec(&format!("{name}/e2e.yaml"), &text);
    }
    argus.wait_ready("plain-data", LIMIT);
    for (name, _) in &refused {
        argus.wait_status(name, LIMIT, "is rejected", is_refused);
        let made = engine.containers_with(&format!("argusai.project={name}"));
        assert!(made.is_empty(), "{name}: {made:?}");
    }
    assert!(argus.cli(&["down", "plain-data"]).status.success());
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
}

impl Project {
    fn new(home: &Path) -> Self {
        let home = home.canonicalize().expect("the directory exists");
        let project = Self {
            data: home.join("project/data"),
            link: home.join("project/link"),
            outside: home.join("outside"),
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
    }

    /// Names of files that a container with access to the outside left.
    fn seen_outside(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.outside)
            .expect("the directory exists")
            .flatten();
        let names = entries.map(|entry| entry.file_name().display().to_string());
        names.filter(|name| name != "marker").collect()
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

fn network(engine: &PrivateEngine) {
    let action = Action::CreateNetwork {
        name: name("argus-race"),
        labels: labels(),
        external: false,
    };
    block(docker(&engine.host()).execute(&action, &())).expect("a network");
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
        further_networks: BTreeMap::new(),
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
        process: Box::default(),
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
fn source_replaced_before_the_start_is_refused() {
    let engine = engine();
    let project = Project::new(&engine.scratch("between"));
    let docker = docker(&engine.host());
    network(engine);
    let id = block(create(&docker, "argus-between", &project.data)).expect("a container");
    project.swap();
    let received = block(start(&docker, &id));
    assert!(is_mount_refused(&received), "{received:?}");
    let received = block(create(&docker, "argus-between-2", &project.data));
    assert!(is_mount_refused(&received), "{received:?}");
    // A restarted controller gets the sources from the engine.
    let restarted = self::docker(&engine.host());
    let received = block(start(&restarted, &id));
    assert!(is_mount_refused(&received), "{received:?}");
    assert!(!running(engine, "argus-between"));
    assert_eq!(project.seen_outside(), Vec::<String>::new());
    project.swap();
    block(start(&docker, &id)).expect("a start");
    wait::until(LIMIT, "the container has written inside", || {
        project.data.join("argus-between").exists().then_some(())
    });
    block(remove(&docker, &id));
}

/// A service that replaces `data` in its mount with a link to the outside, again and again, and does not end on SIGTERM.
fn exchanger(project: &str, outside: &Path) -> String {
    let swap = format!(
        "mv /w/data /w/real; ln -s {} /w/data; rm /w/data; mv /w/real /w/data; sleep 1",
        outside.display()
    );
    format!(
        "  exchanger:\n    image: busybox:local\n    stopGrace: 3s\n    command: [\"sh\", \"-c\", \"trap '' TERM; while :; do {swap}; done\"]\n    \
         container:\n      name: {project}-exchanger\n      volumes: [\"./w:/w\"]\n"
    )
}

/// A service that writes into the directory that the other one exchanges.
fn writer(project: &str) -> String {
    format!(
        "  writer:\n    image: busybox:local\n    stopGrace: 1s\n    command: [\"sh\", \"-c\", \"echo x > /x/written; exec sleep 3600\"]\n    \
         container:\n      name: {project}-writer\n      volumes: [\"./w/data:/x\"]\n"
    )
}

#[test]
fn source_that_a_container_can_exchange_is_refused() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let site = Project::new(&engine.scratch("exchange"));
    let file = |project: &str, services: &[String]| {
        format!(
            "version: \"1\"\nproject: {{ name: {project} }}\nservices:\n{}",
            services.concat()
        )
    };
    let data = argus.specs.join("w/data");
    fs::create_dir_all(&data).expect("a directory");
    let attack = |name: &str| vec![exchanger(name, &site.outside), writer(name)];
    argus.write_spec("both.e2e.yaml", &file("both", &attack("both")));
    let refused = argus.wait_status("both", LIMIT, "is rejected", is_refused);
    let shown = refused["errors"].to_string();
    for named in ["./w/data:/x", "./w:/w", "in line 10", "argus allow"] {
        assert!(shown.contains(named), "{named} in {shown}");
    }
    assert!(engine.containers_with("argusai.project=both").is_empty());

    // The services are in two files: the second file is refused while the first one has the mount.
    argus.write_spec("one.e2e.yaml", &file("one", &[exchanger("one", &site.outside)]));
    argus.wait_ready("one", LIMIT);
    argus.write_spec("two.e2e.yaml", &file("two", &[writer("two")]));
    argus.wait_status("two", LIMIT, "is rejected", |status| {
        let errors = status["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().any(|error| error["code"] == "SPEC_CONFLICT")
    });
    assert!(engine.containers_with("argusai.project=two").is_empty());
    argus.remove_spec("two.e2e.yaml");

    // The second revision moves the mount to the other service: the earlier container ends first.
    let mut earlier = engine.inspect("one-exchanger").expect("the container runs");
    let earlier = text(&earlier["Id"].take());
    argus.write_spec("one.e2e.yaml", &file("one", &[writer("one")]));
    wait::until(LIMIT, "the earlier container ends", || {
        let writes = running(engine, "one-writer");
        let is_up = running(engine, &earlier);
        assert!(!(writes && is_up), "both run");
        (!is_up).then_some(())
    });
    // It ended at any point of an exchange.
    drop(fs::remove_file(&data));
    fs::create_dir_all(&data).expect("a directory");
    argus.wait_status("one", 2 * LIMIT, "is Ready", |status| {
        status["phase"] == "Ready" && running(engine, "one-writer")
    });
    assert!(data.join("written").exists());
    assert_eq!(site.seen_outside(), Vec::<String>::new());
    assert!(argus.cli(&["down", "one"]).status.success());
}

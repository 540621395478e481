//! Builds by `BuildKit`: its instructions, its sessions, its failures, and a build that is cancelled.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]
#![allow(
    clippy::disallowed_methods,
    reason = "a real engine runs in real time, with a limit"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::action::Action;
use argus_core::desired::excluded::Excluded;
use argus_core::desired::{Build, BuildOptions, CacheTarget, NamedContext, SecretSource};
use argus_core::ident::Hash;
use argus_core::outcome::{ActionError, Done};
use argus_docker::{Docker, Endpoint};
use argus_reconciler::clock;
use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, Options, PrivateEngine, Proxy, Registry, RunOptions, wait};

use super::docker_backend::Received;
use super::networks;

const IMAGE: &str = "busybox:local";

pub(crate) fn block<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(work)
}

pub(crate) fn connect(host: &str) -> Docker {
    let endpoint = Endpoint::parse(host).expect("an endpoint");
    Docker::new(endpoint, Arc::new(clock::now))
}

pub(crate) fn build(folder: &Path, tag: &str, dockerfile: &str) -> Action {
    Action::BuildImage(build_with(folder, tag, dockerfile, BuildOptions::default()))
}

fn build_with(folder: &Path, tag: &str, dockerfile: &str, options: BuildOptions) -> Build {
    fs::write(folder.join("Dockerfile"), dockerfile).expect("a file");
    Build {
        tag: tag.to_owned(),
        context: folder.display().to_string(),
        dockerfile: "Dockerfile".to_owned(),
        target: None,
        args: BTreeMap::new(),
        digest: Hash::new("01").expect("a hash"),
        options: Box::new(options),
        excluded: Excluded::default(),
        allowed: false,
    }
}

fn output(engine: &PrivateEngine, image: &str, script: &str) -> String {
    engine.docker_ok(&["run", "--rm", "--network", "none", image, "sh", "-c", script])
}

fn major_version(engine: &PrivateEngine) -> u32 {
    let version = engine.api("GET", "/version", None).json()["Version"].to_string();
    let major = version.trim_start_matches('"').split('.').next();
    major.and_then(|major| major.parse().ok()).expect("a version")
}

#[test]
fn builds_leave_no_session_open() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("sessions");
    let proxy = Proxy::start(&engine.scratch("sessions-wire").join("p.sock"), &engine.socket());
    block(async {
        let docker = connect(&proxy.host());
        for round in 1..=3 {
            let dockerfile = format!(
                "FROM {IMAGE}\nRUN --mount=type=cache,target=/cache echo {round} >> /cache/rounds && cp /cache/rounds /rounds\n"
            );
            let act = build(&folder, "sessions:1", &dockerfile);
            assert_eq!(docker.execute(&act, &()).await, Ok(Done::Applied));
        }
    });
    assert_eq!(
        output(engine, "sessions:1", "cat /rounds"),
        "1\n2\n3",
        "the cache mount lasts from build to build"
    );
    assert_eq!(proxy.counts().get("POST /session").copied(), Some(3));
    wait::until(LIMIT, "the sessions are closed", || {
        (proxy.open_connections("POST /session") == 0).then_some(())
    });
}

#[test]
fn options_of_the_file_apply_to_the_build() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("options");
    let act = |build: Build| {
        let done = block(connect(&engine.host()).execute(&Action::BuildImage(build), &()));
        assert_eq!(done, Ok(Done::Applied));
    };
    let options = BuildOptions {
        platform: Some("linux/arm64".to_owned()),
        labels: [("team".to_owned(), "till".to_owned())].into(),
        ..BuildOptions::default()
    };
    act(build_with(
        &folder,
        "options:arm",
        "FROM scratch\nCOPY Dockerfile /\n",
        options,
    ));
    let format =
        "{{.Os}}/{{.Architecture}} {{.Config.Labels.team}} {{index .Config.Labels \"argusai.build-tag\"}}";
    let found = engine.docker_ok(&["image", "inspect", "-f", format, "options:arm"]);
    assert_eq!(found.trim(), "linux/arm64 till options:arm");

    let options = BuildOptions {
        network: Some("none".to_owned()),
        ..BuildOptions::default()
    };
    let dockerfile = format!("FROM {IMAGE}\nRUN ls /sys/class/net > /networks\n");
    act(build_with(&folder, "options:alone", &dockerfile, options));
    assert_eq!(output(engine, "options:alone", "cat /networks"), "lo");

    fs::write(folder.join("page"), "of the context").expect("a file");
    let options = BuildOptions {
        inline: Some(format!("FROM {IMAGE}\nCOPY page /page\n")),
        ..BuildOptions::default()
    };
    act(build_with(&folder, "options:inline", "FROM unused\n", options));
    assert_eq!(output(engine, "options:inline", "cat /page"), "of the context");
}

#[test]
fn labels_run_no_instruction_of_the_image() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("triggers");
    let act = build(
        &folder,
        "host.example:5000/triggers",
        &format!("FROM {IMAGE}\nONBUILD COPY missing /missing\n"),
    );
    for _ in 0..2 {
        let done = block(connect(&engine.host()).execute(&act, &()));
        assert_eq!(done, Ok(Done::Applied));
    }
    let format = "{{json .Config.OnBuild}}";
    let found = engine.docker_ok(&[
        "image",
        "inspect",
        "-f",
        format,
        "host.example:5000/triggers:latest",
    ]);
    assert_eq!(found, r#"["COPY missing /missing"]"#);
}

#[test]
fn engine_reads_the_named_build_cache() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("cache");
    let options = BuildOptions {
        cache_from: vec![IMAGE.to_owned()],
        ..BuildOptions::default()
    };
    let build = build_with(&folder, "cached:1", &format!("FROM {IMAGE}\nRUN true\n"), options);
    let received = Received::default();
    let done = block(connect(&engine.host()).execute(&Action::BuildImage(build), &received));
    assert_eq!(done, Ok(Done::Applied));
    let steps = received.0.into_inner().expect("a list");
    let expected = format!("importing cache manifest from {IMAGE}");
    assert!(steps.contains(&expected), "{steps:?}");
}

/// Options that push the cache of all stages to this image.
fn cache_to(reference: &str) -> BuildOptions {
    let target = CacheTarget {
        reference: reference.to_owned(),
        all_stages: true,
    };
    BuildOptions {
        cache_to: vec![target],
        ..BuildOptions::default()
    }
}

#[test]
fn cache_in_a_registry_needs_an_engine_that_can_push_it() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("pushed-cache");
    let dockerfile = format!("FROM {IMAGE}\nRUN head -c 8 /dev/urandom | md5sum > /random\n");
    let options = cache_to("127.0.0.1:5067/cache:1");
    let build = build_with(&folder, "pushed:1", &dockerfile, options);
    match block(connect(&engine.host()).execute(&Action::BuildImage(build), &())) {
        Err(ActionError::BuildFailed { message, .. }) => {
            assert!(message.contains("the containerd image store"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    if major_version(engine) < 28 {
        return;
    }
    let engine = PrivateEngine::start_with(Options {
        args: vec!["--feature=containerd-snapshotter=true".to_owned()],
        ..Options::default()
    });
    engine.make_busybox_image(IMAGE, &[]);
    let registry = Registry::start(&engine, 5067);
    let cache = format!("{}/cache:1", registry.address);
    let random = |tag: &str, options: BuildOptions| {
        let build = build_with(&folder, tag, &dockerfile, options);
        let done = block(connect(&engine.host()).execute(&Action::BuildImage(build), &()));
        assert_eq!(done, Ok(Done::Applied));
        output(&engine, tag, "cat /random")
    };
    let first = random("pushed:1", cache_to(&cache));
    engine.docker_ok(&["rmi", "-f", "pushed:1"]);
    engine.docker_ok(&["builder", "prune", "-a", "-f"]);
    let options = BuildOptions {
        cache_from: vec![cache],
        ..BuildOptions::default()
    };
    assert_eq!(
        random("pulled:1", options),
        first,
        "the step comes from the registry"
    );
}

#[test]
fn agent_of_the_controller_is_in_its_step_of_an_allowed_project() {
    let engine = networks::fixture::engine();
    let home = engine.scratch("agent").canonicalize().expect("a folder");
    let socket = home.join("agent.sock");
    let agent = UnixListener::bind(&socket).expect("a socket");
    let (sender, received) = mpsc::channel();
    thread::spawn(move || {
        let (mut client, _) = agent.accept().expect("a client");
        let mut head = [0; 5];
        client.read_exact(&mut head).expect("a request");
        client
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .expect("an answer");
        sender.send(head)
    });
    let argus = Controller::start(
        engine,
        RunOptions {
            specs: Some(home.clone()),
            env: vec![("SSH_AUTH_SOCK".to_owned(), socket.display().to_string())],
            // A permission holds for the current folder.
            launcher: ["env", "-C", home.to_str().expect("UTF-8")]
                .map(str::to_owned)
                .to_vec(),
            ..RunOptions::default()
        },
    );
    // A client of any protocol: it connects to the socket that it gets.
    let dockerfile = format!(
        "FROM {bare}\nCOPY --from={IMAGE} /bin /bin\nENV PATH=/bin\n\
         RUN --mount=type=ssh test -S $SSH_AUTH_SOCK && (DOCKER_HOST=unix://$SSH_AUTH_SOCK /argus preflight || true)\n\
         RUN test ! -S /run/buildkit/ssh_agent.0 && touch /built\n",
        bare = networks::fixture::BARE
    );
    fs::write(argus.specs.join("Dockerfile"), dockerfile).expect("a file");
    let spec = "version: \"1\"\nproject: { name: agent }\nservices:\n  app:\n    build: { context: ., ssh: [default] }\n    \
                entrypoint: [\"sh\", \"-c\", \"test -e /built && exec sleep 3600\"]\n    container: { name: agent-app }\n";
    argus.write_spec("e2e.yaml", spec);
    let refused = argus.cli(&["validate"]);
    let shown =
        String::from_utf8_lossy(&refused.stdout).into_owned() + &String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{shown}");
    assert!(shown.contains("only an allowed project"), "{shown}");
    assert!(argus.cli(&["allow"]).status.success());
    argus.stop();
    argus.start_again();
    argus.wait_ready("agent", LIMIT);
    let received = received.recv_timeout(LIMIT).expect("the agent is asked");
    assert_eq!(&received, b"GET /");
    assert!(argus.cli(&["down", "agent"]).status.success());
}

#[test]
fn secret_is_in_its_step_and_nowhere_else() {
    const SECRET: &str = "till-opens-at-nine";
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("secrets");
    let sources = engine.scratch("secret-sources").canonicalize().expect("a folder");
    fs::write(sources.join("token"), SECRET).expect("a file");
    let file = SecretSource::File(sources.join("token").display().to_string());
    let options = BuildOptions {
        // Cargo sets this variable for each test.
        secrets: [
            ("token".to_owned(), file),
            (
                "name".to_owned(),
                SecretSource::Environment("CARGO_PKG_NAME".to_owned()),
            ),
        ]
        .into(),
        ..BuildOptions::default()
    };
    let mounts = "--mount=type=secret,id=token --mount=type=secret,id=name";
    let dockerfile = format!(
        "FROM {IMAGE}\nRUN {mounts} cat /run/secrets/token; wc -c < /run/secrets/token > /size; cp /run/secrets/name /name\n"
    );
    let build = build_with(&folder, "secrets:1", &dockerfile, options.clone());
    let received = Received::default();
    let done = block(connect(&engine.host()).execute(&Action::BuildImage(build), &received));
    assert_eq!(done, Ok(Done::Applied));
    let found = output(
        engine,
        "secrets:1",
        "cat /size; cat /name; ls /run/secrets | wc -l",
    );
    let expected = format!("{}\n{}0", SECRET.len(), env!("CARGO_PKG_NAME"));
    assert_eq!(found, expected);
    let steps = received.0.into_inner().expect("a list");
    assert!(!steps.concat().contains(SECRET), "{steps:?}");
    let history = engine.docker_ok(&["history", "--no-trunc", "secrets:1"]);
    assert!(!history.contains(SECRET), "{history}");

    let failing = format!("FROM {IMAGE}\nRUN {mounts} cat /run/secrets/token; exit 3\n");
    let build = build_with(&folder, "secrets:2", &failing, options);
    match block(connect(&engine.host()).execute(&Action::BuildImage(build), &())) {
        Err(ActionError::BuildFailed { message, log, .. }) => {
            assert!(log.contains("[redacted]"), "{log}");
            assert!(!format!("{message}{log}").contains(SECRET), "{message}: {log}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn replaced_builds_do_not_add_up() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("replaced");
    block(async {
        let docker = connect(&engine.host());
        for round in 1..=4 {
            let dockerfile = format!("FROM {IMAGE}\nRUN echo {round} > /round\n");
            let act = build(&folder, "replaced:1", &dockerfile);
            assert_eq!(docker.execute(&act, &()).await, Ok(Done::Applied));
        }
        let left = || {
            let filter = "label=argusai.build-tag=replaced:1";
            engine
                .docker_ok(&["images", "-q", "--filter", filter])
                .lines()
                .count()
        };
        // The newest, and one before it.
        let cleaned = tokio::time::timeout(LIMIT, async {
            while left() != 2 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        // In a controller, the clean-up is a task without an end.
        tokio::select! {
            () = docker.clean_up_builds(|_| ()) => {}
            ended = cleaned => assert!(ended.is_ok(), "{} builds are left", left()),
        }
    });
    assert_eq!(output(engine, "replaced:1", "cat /round"), "4");
}

#[test]
fn named_contexts_are_folders_and_images() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("contexts");
    let libs = engine.scratch("context-libs").canonicalize().expect("a folder");
    fs::create_dir_all(libs.join("inner")).expect("a folder");
    for (name, text) in [
        ("inner/page", "of the libraries"),
        ("left-out", "x"),
        (".dockerignore", "left-out\n"),
    ] {
        fs::write(libs.join(name), text).expect("a file");
    }
    let options = BuildOptions {
        contexts: [
            (
                "libs".to_owned(),
                NamedContext::Folder {
                    path: libs.display().to_string(),
                    excluded: Excluded::default(),
                },
            ),
            ("base".to_owned(), NamedContext::Image(IMAGE.to_owned())),
        ]
        .into(),
        ..BuildOptions::default()
    };
    let dockerfile = "FROM base\nCOPY --from=libs . /libs\n";
    let build = build_with(&folder, "contexts:1", dockerfile, options);
    let done = block(connect(&engine.host()).execute(&Action::BuildImage(build), &()));
    if major_version(engine) < 23 {
        match done {
            Err(ActionError::BuildFailed { message, .. }) => {
                assert!(message.contains("needs a newer BuildKit"), "{message}");
            }
            other => panic!("{other:?}"),
        }
        return;
    }
    assert_eq!(done, Ok(Done::Applied));
    let found = output(engine, "contexts:1", "cat /libs/inner/page; ls /libs");
    assert_eq!(found, "of the librariesinner");
}

/// Checks that an engine whose frontend is older than a syntax names it.
fn refuses_syntax(done: Result<Done, ActionError>, syntax: &str) {
    match done {
        Err(ActionError::BuildFailed { message, .. }) => {
            let expected = format!("`{syntax}` needs a newer BuildKit");
            assert!(message.contains(&expected), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn heredocs_and_linked_copies_are_built() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("modern");
    fs::write(folder.join("file"), "linked").expect("a file");
    let dockerfile = format!(
        "FROM {IMAGE} AS base\nRUN <<END\necho one > /lines\necho two >> /lines\nEND\nFROM base\nCOPY --link file /file\n"
    );
    let act = build(&folder, "modern:1", &dockerfile);
    let done = block(connect(&engine.host()).execute(&act, &()));
    if major_version(engine) < 23 {
        refuses_syntax(done, "<<");
        let linked = format!("FROM {IMAGE}\nCOPY --link file /file\n");
        let act = build(&folder, "modern:1", &linked);
        refuses_syntax(block(connect(&engine.host()).execute(&act, &())), "link");
        return;
    }
    assert_eq!(done, Ok(Done::Applied));
    assert_eq!(output(engine, "modern:1", "cat /lines /file"), "one\ntwo\nlinked");
}

#[test]
fn failed_step_is_named_with_its_output() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("failing");
    let failing = build(
        &folder,
        "modern:2",
        &format!("FROM {IMAGE}\nRUN echo before; exit 3\n"),
    );
    match block(async { connect(&engine.host()).execute(&failing, &()).await }) {
        Err(ActionError::BuildFailed {
            message,
            log,
            instruction,
        }) => {
            assert!(
                message.contains("RUN echo before") && message.contains("exit code: 3"),
                "{message}"
            );
            assert!(log.contains("before"), "{log}");
            assert_eq!(instruction.map(|found| found.line), Some(2));
        }
        other => panic!("{other:?}"),
    }
    let misspelled = build(
        &folder,
        "modern:3",
        &format!("FROM {IMAGE} AS build\nFROM {IMAGE}\nCOPY --from=biuld /bin/busybox /x\n"),
    );
    match block(async { connect(&engine.host()).execute(&misspelled, &()).await }) {
        Err(ActionError::BuildFailed {
            message,
            instruction: Some(found),
            ..
        }) => {
            assert!(message.contains("the nearest one is `build`"), "{message}");
            let corrected = "COPY --from=build /bin/busybox /x";
            assert_eq!((found.line, found.corrected.as_deref()), (3, Some(corrected)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn cancelled_build_ends_in_the_engine() {
    let engine = PrivateEngine::shared();
    engine.make_busybox_image(IMAGE, &[]);
    let folder = engine.scratch("cancelled");
    let act = build(
        &folder,
        "cancelled:1",
        &format!("FROM {IMAGE}\nRUN exec sleep 98765\n"),
    );
    let sleeps = || {
        let found = fs::read_dir("/proc").expect("procfs").filter_map(Result::ok);
        let mut lines = found.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.any(|line| line == b"sleep\098765\0")
    };
    block(async {
        let docker = connect(&engine.host());
        let cancelled = async {
            while !sleeps() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            outcome = docker.execute(&act, &()) => panic!("{outcome:?}"),
            started = tokio::time::timeout(LIMIT, cancelled) => started.expect("the step starts"),
        }
    });
    wait::until(LIMIT, "the step ends", || (!sleeps()).then_some(()));
}

//! `argus selftest` on a shared engine: every fault is recovered, nothing else is touched, nothing remains.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use argus_tests::fixture::{LIMIT, container_runs, images, running, selftest, shop};
use argus_tests::{Controller, PrivateEngine, RunOptions, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const FAULTS: [&str; 9] = [
    "exit-crash",
    "oom-crash",
    "stopped",
    "paused",
    "removed",
    "detached",
    "stale-network",
    "port-conflict",
    "orphan",
];

/// The command on an engine, with a separate directory for its temporary files.
struct Run<'e> {
    engine: &'e PrivateEngine,
    temporary: PathBuf,
}

impl<'e> Run<'e> {
    fn new(engine: &'e PrivateEngine, name: &str) -> Self {
        let temporary = engine.scratch(name);
        Self { engine, temporary }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = selftest(self.engine, &self.temporary);
        command.args(args);
        command
    }

    /// Starts a run and returns when it has paused a container, with its project.
    fn in_the_middle(&self) -> (Child, String) {
        let mut command = self.command(&["--only", "paused"]);
        let quiet = command.stderr(Stdio::null()).stdout(Stdio::null());
        let child = quiet.spawn().expect("argus starts");
        let project = wait::until(4 * LIMIT, "the fault is in progress", || {
            let all = self.engine.containers();
            let found = all.iter().find(|one| one["State"] == "paused")?;
            found["Labels"]["argusai.project"].as_str().map(str::to_owned)
        });
        (child, project)
    }

    /// Names of all containers, networks, volumes except leases, and images on the engine.
    fn inventory(&self) -> BTreeSet<String> {
        [
            ["container", "ls", "--all", "--format", "{{.Names}}"].as_slice(),
            ["network", "ls", "--format", "{{.Name}} {{.ID}}"].as_slice(),
            ["volume", "ls", "--format", "{{.Name}}"].as_slice(),
            ["image", "ls", "--all", "--format", "{{.Repository}} {{.ID}}"].as_slice(),
        ]
        .iter()
        .flat_map(|words| {
            let kind = words[0];
            let text = self.engine.docker_ok(words);
            text.lines()
                .filter(|line| !line.starts_with("argus-lease-"))
                .map(|line| format!("{kind} {line}"))
                .collect::<Vec<_>>()
        })
        .collect()
    }

    fn is_tidy(&self) -> bool {
        let mut left = std::fs::read_dir(&self.temporary).expect("the directory exists");
        left.next().is_none()
    }
}

fn prepared() -> PrivateEngine {
    let engine = PrivateEngine::start();
    images(&engine);
    engine
}

#[test]
fn selftest_recovers_all_and_cleans_up() {
    let engine = prepared();
    // A foreign environment, a foreign container, and a process with the selftest's preferred port.
    let argus = Controller::start(&engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &shop("mine", 18800, "one"));
    argus.wait_ready("mine", LIMIT);
    let taken = [
        "run",
        "-d",
        "--name",
        "foreign",
        "-p",
        "18990:8080",
        "busybox:local",
    ];
    engine.docker_ok(&taken);
    let foreign = engine.inspect("foreign").expect("the container runs");
    let before = container_runs(&engine, "mine");
    let run = Run::new(&engine, "st");
    let inventory = run.inventory();
    let output = run.command(&["-o", "json"]).output().expect("argus runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    eprintln!("{text}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    eprintln!("{report:#}");
    assert!(output.status.success(), "{text}");
    let names: Vec<_> = report["faults"]
        .as_array()
        .expect("faults")
        .iter()
        .map(|row| row["name"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(names, FAULTS);
    assert_eq!((&report["recovered"], &report["total"]), (&9.into(), &9.into()));
    assert_eq!(
        report["leftOut"],
        serde_json::json!(["daemon-restart", "disk-pressure"])
    );
    assert_eq!(
        run.inventory(),
        inventory,
        "nothing remains and nothing is missing"
    );
    assert!(run.is_tidy(), "no file remains");
    assert_eq!(
        container_runs(&engine, "mine"),
        before,
        "foreign objects are untouched"
    );
    let now = engine.inspect("foreign").expect("the container still runs");
    assert_eq!((&now["Id"], &now["State"]), (&foreign["Id"], &foreign["State"]));
    let leases = engine.docker_ok(&["volume", "ls", "-q", "--filter", "label=argusai.lease"]);
    assert_eq!(leases.lines().count(), 1, "its own lease is removed: {leases}");
}

#[test]
fn interrupted_selftest_cleans_up() {
    let engine = prepared();
    let run = Run::new(&engine, "ctrlc");
    let inventory = run.inventory();
    let (mut child, _project) = run.in_the_middle();
    kill_process(Pid::from_child(&child), Signal::INT).expect("our own child takes a signal");
    let ended = wait::until(2 * LIMIT, "the process exits", || {
        child.try_wait().expect("our own child")
    });
    assert_eq!(ended.code(), Some(130));
    assert_eq!(run.inventory(), inventory, "nothing remains");
    assert!(run.is_tidy(), "no file remains");
}

#[test]
fn killed_selftest_leaves_only_orphans() {
    let engine = prepared();
    let run = Run::new(&engine, "killed");
    let inventory = run.inventory();
    let (mut child, project) = run.in_the_middle();
    child.kill().expect("our own child");
    child.wait().expect("our own child");
    let no_one = Controller::prepare(&engine, RunOptions::default());
    wait::until(4 * LIMIT, "its containers and its network are removed", || {
        no_one.cli(&["orphans", "--project", &project, "--clean"]);
        let left: Vec<_> = run.inventory().difference(&inventory).cloned().collect();
        left.iter().all(|line| line.starts_with("image ")).then_some(())
    });
    let image = format!("{project}:local");
    engine.docker_ok(&["image", "rm", &image]);
    assert_eq!(run.inventory(), inventory);
}

#[test]
fn selftest_without_an_engine_starts_nothing() {
    let engine = prepared();
    let run = Run::new(&engine, "away");
    engine.docker_ok(&["run", "-d", "--name", "foreign", "busybox:local"]);
    let output = run
        .command(&["-o", "json"])
        .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .output()
        .expect("argus runs");
    assert_eq!(output.status.code(), Some(4));
    let error: Value = serde_json::from_slice(&output.stderr).expect("an error as JSON");
    assert_eq!(error["code"], "DOCKER_UNAVAILABLE");
    assert!(run.is_tidy() && running(&engine, "foreign"));
}

#[test]
fn preflight_prevents_failed_actions() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selftest"));
    let output = command
        .args(["--only", "preflight", "--rounds", "1"])
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("100 % fewer"), "{text}");
}

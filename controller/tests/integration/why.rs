//! `argus why`, `argus evidence` and `argus logs` on a prepared state directory, without a controller and an engine.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::process::{Command, Output, Stdio};

use argus_core::failed_run::FailedRun;
use argus_core::ident::{ContainerId, EnvName, ServiceName};
use argus_core::state::{EnvHistory, ServiceHistory};
use argus_core::time::Timestamp;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{EnvironmentStatus, Health, Phase, ServiceState, ServiceStatus, WaitingOn};
use argus_reconciler::reconciler::PersistedState;
use serde_json::{Value, json};

use crate::controller_socket::answer_commands;

/// A temporary state directory.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("state/environments")).unwrap();
        Self { dir }
    }

    /// Like [`Self::new`], with the socket of a controller.
    fn with_controller() -> Self {
        let home = Self::new();
        answer_commands(&home.dir.path().join("state"));
        home
    }

    fn status(&self, status: &EnvironmentStatus) {
        let name = format!("state/environments/{}.json", status.environment);
        std::fs::write(self.dir.path().join(name), serde_json::to_vec(status).unwrap()).unwrap();
    }

    /// Writes the evidence of a failed run in the form of the controller.
    fn evidence(&self, service: &str, number: u64, stdout: &str, stderr: &str) {
        let folder = format!("state/private/evidence/shop/{service}/{number}");
        let folder = self.dir.path().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("stdout.log"), stdout).unwrap();
        std::fs::write(folder.join("stderr.log"), stderr).unwrap();
        let facts = json!({
            "environment": "shop",
            "service": service,
            "run": number,
            "containerId": "c0ffee",
            "startedAt": "2026-11-21T10:00:00.000Z",
            "takenAt": format!("2026-11-21T10:0{number}:08.000Z"),
            "memoryPeak": 12_582_912,
            "probeAnswers": { "tcp 10.1.0.2:5432": "connection refused" },
            "stdoutLines": stdout.lines().count(),
            "stderrLines": stderr.lines().count(),
            "missing": [],
        });
        std::fs::write(folder.join("evidence.json"), facts.to_string()).unwrap();
    }

    /// Runs the binary. The state directory in its output is replaced by `STATE`.
    fn run(&self, args: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argus"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ARGUS_")) {
            command.env_remove(name);
        }
        let state = self.dir.path().join("state");
        let output = command
            .env("ARGUS_STATE", &state)
            .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
            .env_remove("DOCKER_CONTEXT")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .args(args)
            .output()
            .unwrap();
        let Output {
            status,
            stdout,
            stderr,
        } = output;
        let text = |bytes| {
            let text = String::from_utf8(bytes).unwrap();
            text.replace(state.to_str().unwrap(), "STATE")
        };
        Ran {
            code: status.code().unwrap(),
            out: text(stdout),
            err: text(stderr),
        }
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{}", ran.err);
        serde_json::from_str(&ran.out).unwrap()
    }
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn fails(&self, code: i32, message: &str, hint: &str) {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{}", self.err);
        assert!(self.err.contains(message), "{}", self.err);
        assert!(self.err.contains(&format!("hint: {hint}")), "{}", self.err);
    }
}

fn row(name: &str, state: ServiceState) -> ServiceStatus {
    ServiceStatus {
        name: name.to_owned(),
        state,
        health: Health::None,
        ..ServiceStatus::default()
    }
}

fn waits(reason: &str, message: &str) -> WaitingOn {
    WaitingOn {
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..WaitingOn::default()
    }
}

fn waits_for(service: &str) -> WaitingOn {
    WaitingOn {
        service: Some(service.to_owned()),
        ..waits("DependencyNotReady", &format!("`{service}` to be healthy"))
    }
}

fn attempt(number: u64) -> Value {
    json!({
        "kind": "exit",
        "containerId": "c0ffee",
        "startedAt": "2026-11-21T10:00:00.000Z",
        "endedAt": "2026-11-21T10:00:07.000Z",
        "exitCode": 3,
        "exitCodeKnown": true,
        "signal": null,
        "oomKilled": false,
        "oomEvent": false,
        "oomSuspected": false,
        "memoryLimit": 67_108_864,
        "memoryPeak": 12_582_912,
        "run": number,
        "evidence": format!("private/evidence/shop/db/{number}"),
        "lastLines": ["FATAL: no configuration"],
    })
}

fn error(code: Code, message: &str, details: Value) -> StructuredError {
    StructuredError::new(code, message)
        .details(details)
        .environment("shop")
        .service("db")
        .timestamp("2026-11-21T10:00:07.000Z")
}

/// `api` waits for `web`, which waits for `db`, which is given up. `cache` is ready.
fn shop() -> EnvironmentStatus {
    let db = ServiceStatus {
        health: Health::Unhealthy,
        restarts: 2,
        container_id: Some("decaf".to_owned()),
        waiting_on: Some(waits(
            "GaveUp",
            "a new revision or `argus retry`, because Argus gave up after 2 restarts",
        )),
        last_error: Some(error(
            Code::ContainerRestartExhausted,
            "gave up after 2 restarts; last failure: process ended with exit code 3 after 7 s",
            json!({ "restarts": 2, "attempts": [attempt(1), attempt(2), attempt(3)], "crashLoop": true }),
        )),
        ..row("db", ServiceState::Failed)
    };
    let dependent = |name: &str, on: &str| ServiceStatus {
        waiting_on: Some(waits_for(on)),
        ..row(name, ServiceState::Waiting)
    };
    EnvironmentStatus {
        environment: "shop".to_owned(),
        phase: Phase::Failed,
        services: vec![
            dependent("api", "web"),
            row("cache", ServiceState::Ready),
            db,
            dependent("web", "db"),
        ],
        as_of: "2026-11-21T10:00:09.000Z".to_owned(),
        ..EnvironmentStatus::default()
    }
}

fn failed_shop() -> Home {
    let home = Home::with_controller();
    home.status(&shop());
    home.evidence("db", 1, "", "one\n");
    home.evidence(
        "db",
        3,
        "2026-11-21T10:00:01.5Z starting\n2026-11-21T10:00:06.000000001Z bye\n",
        "2026-11-21T10:00:01.25Z warning: empty\n2026-11-21T10:00:06Z FATAL: no configuration\n",
    );
    home
}

const DB: &str = "\
`db` is Failed, Unhealthy, 2 restarts
  <- waits for: a new revision or `argus retry`, because Argus gave up after 2 restarts
  <- failed: CONTAINER_RESTART_EXHAUSTED gave up after 2 restarts; last failure: process ended with exit code 3 after 7 s (at 2026-11-21T10:00:07.000Z)
  <- run 3: exit code 3 after 7s; memory peak 12 MiB of 64 MiB
     earlier runs 1 to 2: exit code 3 (2 times)
  <- evidence: last line on stderr: FATAL: no configuration (in STATE/private/evidence/shop/db/3)
  hint: see the crash report of run 3 with `argus evidence shop db 3`
  hint: read the container's log: `argus logs shop db`
  hint: fix the program or its image, then see the last failure: `argus evidence shop db`
  hint: retry with the same inputs: `argus retry shop`
  hint: roll back to the last good revision: `argus rollback shop`
";

#[test]
fn environment_chains_are_printed_once_and_root_first() {
    let home = failed_shop();
    let ran = home.run(&["why", "shop"]);
    let expected = format!(
        "environment `shop` is Failed, 1 of 4 services ready\n{DB}\
`web` is Waiting
  <- waits for: `db` to be healthy
  <- `db` is Failed, Unhealthy, 2 restarts: see above
`api` is Waiting
  <- waits for: `web` to be healthy
  <- `web` is Waiting: see above
"
    );
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, expected.as_str()),
        "{}",
        ran.err
    );
}

#[test]
fn service_chain_follows_its_dependencies() {
    let home = failed_shop();
    let whole = format!(
        "`api` is Waiting\n  <- waits for: `web` to be healthy\n  <- `web` is Waiting\n  <- waits for: `db` to be healthy\n  <- {DB}"
    );
    assert_eq!(home.run(&["why", "shop/api"]).out, whole);
    assert_eq!(home.run(&["why", "shop", "api"]).out, whole);
    let report = home.json(&["why", "shop/api", "-o", "json"]);
    let chain = &report["chains"][0];
    let links = chain["links"].as_array().unwrap();
    let kinds: Vec<_> = links.iter().map(|link| link["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "state", "wait", "state", "wait", "state", "wait", "failure", "run", "evidence"
        ]
    );
    for pair in links.windows(2) {
        assert_eq!(pair[0]["cause"], pair[1]["what"]);
    }
    assert_eq!(links[8]["cause"], Value::Null);
    assert_eq!(links[6]["code"], "CONTAINER_RESTART_EXHAUSTED");
    assert_eq!(links[7]["ending"]["exitCode"], 3);
    assert_eq!(links[7]["at"], "2026-11-21T10:00:07.000Z");
    let before = &links[7]["before"];
    assert_eq!(before.as_array().map(Vec::len), Some(1), "the same end: {before}");
    let numbers = ["count", "first", "last", "exitCode"].map(|key| before[0][key].as_i64());
    assert_eq!(numbers, [Some(2), Some(1), Some(2), Some(3)], "{before}");
    let path = links[8]["evidence"].as_str().unwrap();
    assert!(path.ends_with("/evidence/shop/db/3"), "{path}");
    assert_eq!(
        (&chain["service"], &chain["remedies"][2]["command"]),
        (&json!("api"), &json!("argus retry shop"))
    );
    assert!(
        home.run(&["why", "shop", "-o", "yaml"])
            .out
            .contains("kind: failure")
    );
    assert_eq!(
        home.run(&["why", "shop", "-o", "name"]).out,
        "shop/db\nshop/web\nshop/api\n"
    );
}

#[test]
fn circular_wait_ends_the_chain() {
    let home = Home::with_controller();
    let mut status = shop();
    status.services.retain(|row| row.name != "db");
    status.services[2].waiting_on = Some(waits_for("api"));
    home.status(&status);
    let text = home.run(&["why", "shop/api"]).out;
    assert!(text.ends_with("  <- `api` again: circular wait\n"), "{text}");
}

#[test]
fn ready_environment_lists_its_restarts() {
    let home = Home::with_controller();
    let mut status = shop();
    status.phase = Phase::Ready;
    status
        .services
        .retain(|row| matches!(row.name.as_str(), "cache" | "db"));
    status.services[1].state = ServiceState::Ready;
    status.services[1].waiting_on = None;
    status.services[1].health = Health::Healthy;
    status.services[1].last_error = Some(error(
        Code::ContainerOom,
        "process ran out of memory after 7 s",
        attempt(3),
    ));
    home.status(&status);
    let ran = home.run(&["why", "shop"]);
    assert_eq!(
        ran.out,
        "environment `shop` is Ready, 2 of 2 services ready\n  `db` recovered after 2 restarts, last CONTAINER_OOM: process ran \
         out of memory after 7 s (at 2026-11-21T10:00:07.000Z)\n"
    );
    let report = home.json(&["why", "shop", "-o", "json"]);
    assert_eq!(
        (
            &report["restarts"][0]["restarts"],
            &report["chains"][0]["remedies"]
        ),
        (&json!(2), &json!([]))
    );
    let one = home.run(&["why", "shop/db"]).out;
    assert!(one.starts_with("`db` is Ready, Healthy, 2 restarts\n"), "{one}");
    assert!(one.contains("  <- run 3: exit code 3 after 7s"), "{one}");
    assert!(
        one.contains("  <- evidence: last line on stderr: FATAL: no configuration\n"),
        "{one}"
    );
    assert!(
        !one.contains("hint:"),
        "no evidence is stored and no action is suggested: {one}"
    );
}

#[test]
fn errors_without_a_service_belong_to_the_environment() {
    let home = Home::new();
    let mut status = shop();
    status.services.clear();
    status.errors = vec![
        StructuredError::new(Code::NetworkPoolExhausted, "no address range is left").environment("shop"),
        StructuredError::new(Code::DockerUnavailable, "the engine does not answer").environment("shop"),
    ];
    home.status(&status);
    let text = home.run(&["why", "shop"]).out;
    assert!(
        text.starts_with("environment `shop` is Failed, 0 of 0 services ready\n  <- failed: NETWORK_POOL_EXHAUSTED no address range is left\n  <- failed: DOCKER_UNAVAILABLE"),
        "{text}"
    );
    let links = home.json(&["why", "shop", "-o", "json"])["chains"][0]["links"].clone();
    assert_eq!(links[0]["cause"], "no address range is left");
    assert_eq!(
        links[1]["cause"],
        Value::Null,
        "two failures do not explain each other"
    );
}

#[test]
fn why_for_an_unknown_name_lists_the_known_names() {
    let home = failed_shop();
    let why = |args: &[&str]| home.run(&[&["why"], args].concat());
    why(&["shpo"]).fails(1, "environments: shop", "list the environments with `argus get`");
    why(&["shop/bd"]).fails(
        1,
        "no service `bd`; its services: api, cache, db, web",
        "list its services with `argus get shop`",
    );
    why(&["../shop"]).fails(2, "error: ", "list the environments with");
    why(&["shop/db", "web"]).fails(2, "but two are given", "pass only `shop/db`");
}

#[test]
fn evidence_shows_facts_and_last_lines() {
    let home = failed_shop();
    let expected = "\
Service:    shop/db
Run:        3 (failed)
Ended:      exit code 3 after 7s
Memory:     memory peak 12 MiB of 64 MiB
Container:  c0ffee
Started:    2026-11-21T10:00:00.000Z
Taken:      2026-11-21T10:03:08.000Z
Port check: tcp 10.1.0.2:5432: connection refused
Folder:     STATE/private/evidence/shop/db/3
Stderr:
  warning: empty
  FATAL: no configuration
Stdout:
  starting
  bye
";
    for args in [
        &["evidence", "shop", "db"][..],
        &["evidence", "shop/db"],
        &["evidence", "shop", "db", "3"],
        &["evidence", "shop/db", "3"],
    ] {
        assert_eq!(home.run(args).out, expected, "{args:?}");
    }
    let cut = home
        .run(&["evidence", "shop/db", "--tail", "1", "--timestamps"])
        .out;
    assert!(
        cut.contains(
            "Stderr (last 1 of 2 lines):\n  2026-11-21T10:00:06Z FATAL: no configuration\nStdout (last"
        ),
        "{cut}"
    );
    let report = home.json(&["evidence", "shop/db", "-o", "json"]);
    assert_eq!(
        (&report["run"], &report["ending"]["exitCode"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(
        report["stdout"][0],
        json!({ "at": "2026-11-21T10:00:01.5Z", "text": "starting" })
    );
    let older = home.run(&["evidence", "shop/db", "1"]).out;
    assert!(older.ends_with("Stderr:\n  one\nStdout: empty\n"), "{older}");
}

#[test]
fn evidence_outlives_its_environment() {
    let home = failed_shop();
    std::fs::remove_file(home.dir.path().join("state/environments/shop.json")).unwrap();
    let text = home.run(&["evidence", "shop/db"]).out;
    assert!(
        text.contains("Memory:     memory peak 12 MiB\n") && text.contains("FATAL"),
        "{text}"
    );
    assert!(!text.contains("Ended:"), "the end of the run is unknown: {text}");
}

#[test]
fn evidence_reads_old_failures_from_the_saved_state() {
    let home = failed_shop();
    let mut status = shop();
    status.services[2].last_error = None;
    home.status(&status);
    let failed_run = FailedRun {
        exit_code: 137,
        oom_killed: true,
        number: 3,
        memory_limit: Some(64 << 20),
        ..FailedRun::new(ContainerId::new("c0ffee").unwrap(), Timestamp(0))
    };
    let service = ServiceHistory {
        failures: vec![failed_run],
        ..ServiceHistory::default()
    };
    let environment = EnvHistory {
        services: [(ServiceName::new("db").unwrap(), service.into())].into(),
        ..EnvHistory::default()
    };
    let persisted = PersistedState {
        environments: [(EnvName::new("shop").unwrap(), environment.into())].into(),
        ..PersistedState::default()
    };
    let path = home.dir.path().join("state/private/state.json");
    std::fs::write(path, serde_json::to_vec(&persisted).unwrap()).unwrap();
    let text = home.run(&["evidence", "shop/db"]).out;
    assert!(
        text.contains("Ended:      out of memory (exit code 137)\n")
            && text.contains("the engine reports out of memory; memory peak 64 MiB of 64 MiB\n"),
        "{text}"
    );
}

#[test]
fn evidence_is_listed() {
    let home = failed_shop();
    home.evidence("cache", 2, "", "");
    // The facts file is written last, so this evidence is incomplete.
    std::fs::create_dir_all(home.dir.path().join("state/private/evidence/shop/db/4")).unwrap();
    let list = home.run(&["evidence", "shop/db", "--list"]).out;
    let lines: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split("   ").map(str::trim).collect())
        .map(|cells: Vec<&str>| cells.into_iter().filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(
        lines[0],
        ["SERVICE", "N", "TAKEN AT", "ENDED", "STDOUT", "STDERR", "SIZE"]
    );
    assert_eq!(
        lines[1][..6],
        [
            "db",
            "1",
            "2026-11-21T10:01:08.000Z",
            "exit code 3 after 7s",
            "0 lines",
            "1 line"
        ]
    );
    assert_eq!((lines.len(), lines[2][1]), (3, "3"));
    for args in [
        &["evidence", "shop", "-o", "name"][..],
        &["evidence", "shop", "--list", "-o", "name"],
    ] {
        assert_eq!(home.run(args).out, "shop/cache 2\nshop/db 1\nshop/db 3\n");
    }
    let report = home.json(&["evidence", "shop", "-o", "json"]);
    assert_eq!(report["items"][1]["ending"]["exitCode"], 3);
    assert_eq!(
        report["items"][0]["ending"],
        Value::Null,
        "the end of the run is unknown"
    );
}

#[test]
fn missing_evidence_has_a_reason_and_a_hint() {
    let home = failed_shop();
    let evidence = |args: &[&str]| home.run(&[&["evidence"], args].concat());
    evidence(&["shop/db", "2"]).fails(
        1,
        "run 2 of `shop/db` is not stored; stored runs: 1, 3",
        "list the stored runs with `argus evidence",
    );
    evidence(&["shop/cache"]).fails(
        1,
        "no evidence for `shop/cache`",
        "read its logs with `argus logs shop cache`",
    );
    evidence(&["shop/cache", "--list"]).fails(
        1,
        "no evidence for `shop/cache`",
        "read its logs with `argus logs",
    );
    evidence(&["shop/nope"]).fails(1, "no service `nope`", "list its services with `argus get shop`");
    evidence(&["shpo", "db"]).fails(1, "environments: shop", "list the environments with `argus get`");
    evidence(&["shop", "db", "1", "--list"]).fails(2, "cannot list one run", "omit the run number");
    let broken = home
        .dir
        .path()
        .join("state/private/evidence/shop/db/3/evidence.json");
    std::fs::write(broken, "{").unwrap();
    let ran = evidence(&["shop/db"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("it is not the evidence of a run"), "{}", ran.err);
    let list = evidence(&["shop/db", "--list"]);
    assert_eq!((list.code, list.out.lines().count()), (0, 2), "{}", list.err);
    assert!(list.err.contains("note: `STATE/"), "{}", list.err);
}

#[test]
fn logs_of_a_failed_run_are_merged_by_timestamp() {
    let home = failed_shop();
    for args in [
        &["logs", "shop", "db", "--previous"][..],
        &["logs", "shop/db", "--run", "3"],
    ] {
        let ran = home.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (0, "starting\nbye\n"));
        assert_eq!(ran.err, "warning: empty\nFATAL: no configuration\n");
    }
    let ran = home.run(&["logs", "shop/db", "--previous", "--tail", "3", "--timestamps"]);
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str()),
        (
            "2026-11-21T10:00:01.5Z starting\n2026-11-21T10:00:06.000000001Z bye\n",
            "2026-11-21T10:00:06Z FATAL: no configuration\n"
        )
    );
    let older = home.run(&["logs", "shop/db", "--run", "1"]);
    assert_eq!((older.out.as_str(), older.err.as_str()), ("", "one\n"));
    home.run(&["logs", "shop/db", "--run", "2"]).fails(
        1,
        "stored runs: 1, 3",
        "list the stored runs with `argus evidence",
    );
    home.run(&["logs", "shop", "--previous"]).fails(
        2,
        "so the command needs exactly one",
        "list the stored runs with `argus evidence shop --list`",
    );
    for args in [["--run=3", "--follow"], ["--previous", "--follow"]] {
        let ran = home.run(&[&["logs", "shop/db"][..], &args].concat());
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("--follow"), "{}", ran.err);
    }
}

#[test]
fn missing_container_logs_point_to_the_stored_run() {
    let home = failed_shop();
    let ran = home.run(&["logs", "shop", "db"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(
        ran.err
            .contains("note: run 3 failed, see its logs with `argus logs shop db --previous`"),
        "{}",
        ran.err
    );
}

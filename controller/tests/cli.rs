//! The command line from outside: output, exit codes, what it does with closed pipes. No engine is needed.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on ends; so do its helpers"
)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{
    Condition, ControllerStatus, EnvironmentStatus, Phase, ServiceState, ServiceStatus, Truth,
};
use serde_json::Value;

/// A folder with a state directory and a specs folder in it.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("state/environments")).unwrap();
        std::fs::create_dir_all(dir.path().join("specs")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn spec(&self, name: &str, text: &str) {
        std::fs::write(self.path("specs").join(name), text).unwrap();
    }

    fn status(&self, status: &EnvironmentStatus) {
        let name = format!("state/environments/{}.json", status.environment);
        std::fs::write(self.path(&name), serde_json::to_vec(status).unwrap()).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argus"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ARGUS_")) {
            command.env_remove(name);
        }
        command
            .env("ARGUS_STATE", self.path("state"))
            .env("ARGUS_SPECS", self.path("specs"));
        command
            .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
            .env_remove("DOCKER_CONTEXT");
        command
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn shop(phase: Phase) -> EnvironmentStatus {
    let ready = if phase == Phase::Ready {
        Truth::True
    } else {
        Truth::False
    };
    let web = ServiceStatus {
        name: "web".to_owned(),
        state: if phase == Phase::Ready {
            ServiceState::Ready
        } else {
            ServiceState::Pulling
        },
        ..ServiceStatus::default()
    };
    EnvironmentStatus {
        environment: "shop".to_owned(),
        phase,
        revision: Some("aaaa".to_owned()),
        observed_revision: Some("aaaa".to_owned()),
        services: vec![web],
        conditions: vec![Condition {
            kind: "Ready".to_owned(),
            status: ready,
            reason: "NotReady".to_owned(),
            message: "`web`: image `web:1` is being pulled".to_owned(),
            last_transition_time: "2026-01-01T00:00:00.000Z".to_owned(),
        }],
        ..EnvironmentStatus::default()
    }
}

const GOOD: &str = "\
version: '1.0'
project:
  name: shop
service:
  name: web
  image: web:1
  container:
    name: shop-web
    ports: ['8080:80']
";

#[test]
fn a_good_file_is_ok_and_a_bad_one_tells_all_that_is_wrong() {
    let home = Home::new();
    home.spec("e2e.yaml", GOOD);
    let good = home.run(&["validate", "specs"]);
    assert_eq!(code(&good), 0, "{}{}", out(&good), err(&good));
    assert!(
        out(&good).contains("ok environment `shop`, 1 service,"),
        "{}",
        out(&good)
    );

    home.spec("e2e.yaml", "version: '1.0'\nproject:\n  name: shop\nservice:\n  name: web\n  container:\n    name: shop-web\n    ports: ['x']\n");
    for target in ["specs", "specs/e2e.yaml"] {
        let bad = home.run(&["validate", target]);
        assert_eq!(code(&bad), 3, "{}", err(&bad));
        assert!(out(&bad).contains("refused"), "{}", out(&bad));
        assert!(
            err(&bad).contains("e2e.yaml:") && err(&bad).contains(" | "),
            "{}",
            err(&bad)
        );
    }
    let bad = home.run(&["validate", "specs", "-o", "json"]);
    let value: Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!((code(&bad), &value["accepted"]), (3, &Value::Bool(false)));
    assert!(
        value["files"][0]["diagnostics"]
            .as_array()
            .is_some_and(|diagnostics| !diagnostics.is_empty())
    );
}

#[test]
fn unknown_keys_warn_and_strict_refuses_them() {
    let home = Home::new();
    home.spec("e2e.yaml", &format!("{GOOD}sevices: []\n"));
    let usual = home.run(&["validate"]);
    assert_eq!(code(&usual), 0, "{}", err(&usual));
    assert!(err(&usual).contains("warning: "), "{}", err(&usual));
    assert_eq!(code(&home.run(&["validate", "--strict"])), 3);
    assert_eq!(
        code(
            &home
                .command(&["validate"])
                .env("ARGUS_STRICT", "true")
                .output()
                .unwrap()
        ),
        3
    );
    std::fs::write(home.path("argus.toml"), "strict = true\n").unwrap();
    assert_eq!(code(&home.run(&["validate"])), 3);
    std::fs::write(home.path("argus.toml"), "strikt = true\n").unwrap();
    let typo = home.run(&["validate"]);
    assert_eq!(code(&typo), 2);
    assert!(err(&typo).contains("strikt"), "{}", err(&typo));
}

#[test]
fn two_files_with_one_identity_conflict() {
    let home = Home::new();
    home.spec("a.e2e.yaml", GOOD);
    home.spec("b.e2e.yaml", GOOD);
    let both = home.run(&["validate", "specs"]);
    assert_eq!(code(&both), 3, "{}", err(&both));
    assert!(err(&both).contains("`a.e2e.yaml`"), "{}", err(&both));
}

#[test]
fn schemas_and_completions_are_printed() {
    let home = Home::new();
    for which in ["e2e", "status", "error"] {
        let printed = home.run(&["schema", which]);
        let schema: Value = serde_json::from_slice(&printed.stdout).unwrap();
        assert!(schema["$schema"].is_string(), "{which}");
    }
    assert!(out(&home.run(&["schema", "crd"])).contains("CustomResourceDefinition"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            out(&home.run(&["completions", shell])).contains("argus"),
            "{shell}"
        );
    }
}

#[test]
fn every_code_is_explained_and_a_wrong_one_gets_the_nearest() {
    let home = Home::new();
    let all = out(&home.run(&["explain"]));
    for code in Code::ALL {
        assert!(all.contains(code.as_str()), "{code}");
        let page = home.run(&["explain", code.as_str(), "-o", "json"]);
        let value: Value = serde_json::from_slice(&page.stdout).unwrap();
        assert_eq!(value["code"], code.as_str());
    }
    assert!(out(&home.run(&["explain", "port_conflict"])).starts_with("PORT_CONFLICT: "));
    let wrong = home.run(&["explain", "PORT_CONFLICKT"]);
    assert_eq!(code(&wrong), 2);
    assert!(err(&wrong).contains("`PORT_CONFLICT`"), "{}", err(&wrong));
    assert_eq!(hints(&wrong), 1, "{}", err(&wrong));
}

#[test]
fn get_and_describe_read_the_status_files_and_say_that_nobody_keeps_them() {
    let home = Home::new();
    let none = home.run(&["get"]);
    assert_eq!((code(&none), out(&none).as_str()), (0, ""));
    assert!(err(&none).contains("no environments"));
    home.status(&shop(Phase::Progressing));
    let controller = ControllerStatus {
        as_of: "2026-01-01T00:00:00.000Z".to_owned(),
        ..ControllerStatus::default()
    };
    std::fs::write(
        home.path("state/controller.json"),
        serde_json::to_vec(&controller).unwrap(),
    )
    .unwrap();
    let table = home.run(&["get"]);
    assert!(out(&table).starts_with("NAME   PHASE "), "{}", out(&table));
    assert!(
        out(&table)
            .lines()
            .all(|line| line == line.trim_end() && !line.contains('\u{1b}'))
    );
    assert!(
        err(&table).contains("controller is not running since 2026-01-01"),
        "{}",
        err(&table)
    );
    assert_eq!(out(&home.run(&["get", "-o", "name"])), "shop\n");
    assert_eq!(out(&home.run(&["get", "shop", "-o", "name"])), "shop/web\n");
    let list: Value = serde_json::from_slice(&home.run(&["get", "-o", "json"]).stdout).unwrap();
    assert_eq!(list["items"][0]["phase"], "Progressing");
    let one: Value = serde_json::from_slice(&home.run(&["get", "shop", "-o", "json"]).stdout).unwrap();
    assert_eq!(one["environment"], "shop");
    assert!(out(&home.run(&["get", "shop", "-o", "yaml"])).contains("environment: shop"));
    assert!(out(&home.run(&["get", "shop", "-o", "wide"])).contains("IMAGE"));
    let told = out(&home.run(&["describe", "shop"]));
    assert!(
        told.contains("Waits for:") && told.contains("Conditions:"),
        "{told}"
    );
    let missing = home.run(&["get", "shpo"]);
    assert_eq!(code(&missing), 1);
    assert!(err(&missing).contains("there are: shop"), "{}", err(&missing));
    assert_eq!(hints(&missing), 1, "{}", err(&missing));
    let odd = home.run(&["get", "../shop"]);
    assert_eq!(code(&odd), 2);
    assert!(err(&odd).contains("hint: `argus get`"), "{}", err(&odd));
    assert_eq!(hints(&odd), 1, "{}", err(&odd));
}

/// How many hints a failure gives: its own, and none of its code's.
fn hints(output: &Output) -> usize {
    err(output).matches("hint: ").count()
}

#[test]
fn a_refused_edit_is_marked_beside_what_keeps_running() {
    let home = Home::new();
    let mut status = shop(Phase::Ready);
    status.conditions.push(Condition {
        kind: "SpecAccepted".to_owned(),
        status: Truth::False,
        ..status.conditions[0].clone()
    });
    status.diagnostics = vec![argus_crds::diagnostic::Diagnostic::error("services", "is no map")];
    home.status(&status);
    let table = out(&home.run(&["get"]));
    assert!(table.contains("file refused: 1 mistake\n"), "{table}");
}

#[test]
fn describe_shows_errors_with_what_to_do() {
    let home = Home::new();
    let mut status = shop(Phase::Failed);
    let error = StructuredError::new(Code::ImageNotFound, "image not found: web:1")
        .environment("shop")
        .service("web");
    status.errors.push(error);
    home.status(&status);
    let told = out(&home.run(&["describe", "shop"]));
    assert!(
        told.contains("IMAGE_NOT_FOUND web: image not found: web:1") && told.contains("hint: "),
        "{told}"
    );
}

#[test]
fn wait_ends_with_the_code_that_tells_how() {
    let home = Home::new();
    home.status(&shop(Phase::Ready));
    assert_eq!(code(&home.run(&["wait", "shop"])), 0);
    assert_eq!(
        code(&home.run(&["wait", "--all", "--for", "ready", "--timeout", "5s"])),
        0
    );
    assert_eq!(code(&home.run(&["wait", "gone", "--for", "gone"])), 0);
    home.status(&shop(Phase::Progressing));
    let late = home.run(&["wait", "shop", "--timeout", "200ms"]);
    assert_eq!(code(&late), 5);
    assert!(
        err(&late).contains("image `web:1` is being pulled"),
        "{}",
        err(&late)
    );
    assert_eq!(
        code(&home.run(&["wait", "shop", "--for", "gone", "--timeout", "200ms"])),
        5
    );
    let mut failed = shop(Phase::Failed);
    failed.errors.push(StructuredError::new(
        Code::ContainerRestartExhausted,
        "gave up after 3 restarts",
    ));
    home.status(&failed);
    let gave_up = home.run(&["wait", "shop", "-o", "json"]);
    assert_eq!(code(&gave_up), 6);
    let notes = err(&gave_up);
    let error: Value = serde_json::from_str(&notes[notes.find('{').unwrap()..]).unwrap();
    assert_eq!(error["code"], "CONTAINER_RESTART_EXHAUSTED");
}

#[test]
fn wait_notices_a_change_while_it_waits() {
    let home = Home::new();
    home.status(&shop(Phase::Progressing));
    let mut waiting = home
        .command(&["wait", "shop", "--timeout", "60s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(waiting.try_wait().unwrap().is_none());
    home.status(&shop(Phase::Ready));
    assert!(waiting.wait().unwrap().success());
}

#[test]
fn usage_is_2_and_help_is_0() {
    let home = Home::new();
    for args in [
        &["bogus"][..],
        &["get", "--bogus"],
        &["wait"],
        &["run", "--publish-address", "x"],
        &[],
    ] {
        assert_eq!(code(&home.run(args)), 2, "{args:?}");
    }
    assert_eq!(code(&home.run(&["--help"])), 0);
    assert!(!out(&home.run(&["help"])).contains("demo-service"));
    assert_eq!(code(&home.run(&["--version"])), 0);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let home = Home::new();
    for args in [
        &["schema"][..],
        &["explain"],
        &["completions", "zsh"],
        &["explain", "-o", "json"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = home
            .command(args)
            .stdout(writer)
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn colour_is_for_terminals_or_on_request() {
    let home = Home::new();
    home.status(&shop(Phase::Ready));
    assert!(!out(&home.run(&["get"])).contains('\u{1b}'));
    assert!(out(&home.run(&["get", "--color", "always"])).contains("\u{1b}[32mReady"));
}

#[test]
fn the_engine_out_of_reach_is_exit_4() {
    let home = Home::new();
    let logs = home.run(&["logs", "shop"]);
    assert_eq!(code(&logs), 4, "{}", err(&logs));
    assert!(
        err(&logs).contains("error: ") && err(&logs).contains("hint: "),
        "{}",
        err(&logs)
    );
}

#[test]
fn a_demo_service_answers_and_ends_as_it_was_told() {
    let home = Home::new();
    assert_eq!(code(&home.run(&["demo-service", "--run-once"])), 0);
    let crash = home.run(&[
        "demo-service",
        "--listen",
        "127.0.0.1:0",
        "--crash-after",
        "50ms",
        "--exit-with",
        "42",
    ]);
    assert_eq!(code(&crash), 42);
}

#[test]
fn a_state_directory_that_is_not_there_is_an_empty_one() {
    let home = Home::new();
    let state = home.path("nowhere");
    let get = home
        .command(&["get", "--state", state.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(code(&get), 0);
    assert!(!Path::new(&state).exists());
}

/// A controller that runs; killed when a test ends before it does.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Running {
    fn start(home: &Home) -> (Self, impl Iterator<Item = String>) {
        let mut child = home
            .command(&["run"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(child.stdout.take().unwrap());
        (Self(child), std::io::BufRead::lines(lines).map(Result::unwrap))
    }

    fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

#[test]
fn run_without_an_engine_says_so_works_on_and_stops_cleanly() {
    let home = Home::new();
    home.spec("e2e.yaml", GOOD);
    let (running, mut lines) = Running::start(&home);
    let mut told = |wanted: &str| {
        lines
            .find(|line| line.contains(wanted))
            .unwrap_or_else(|| panic!("no line with {wanted}"))
    };
    told("the engine does not answer");
    told("shop/web");
    // It is said before it is written.
    let mut looks = (0..500).map(|_| home.run(&["get", "shop", "-o", "json"]));
    let status = looks.find(|status| status.status.success()).unwrap();
    assert!(!err(&status).contains("not running"), "{}", err(&status));
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["phase"], "Pending");
    assert!(
        status["services"][0]["waitingOn"]["message"]
            .as_str()
            .unwrap()
            .contains("engine"),
        "{status:#}"
    );

    let second = home.run(&["run"]);
    assert_eq!(code(&second), 7, "{}", err(&second));
    assert!(err(&second).contains("is held by process"), "{}", err(&second));
    let down = home.run(&["down", "shop"]);
    assert_eq!(code(&down), 4, "{}{}", out(&down), err(&down));
    let retry = home.run(&["retry", "nobody"]);
    assert_eq!(code(&retry), 1, "{}", err(&retry));
    assert!(err(&retry).contains("no environment `nobody`"), "{}", err(&retry));
    assert!(err(&retry).contains("hint: `argus get` lists"), "{}", err(&retry));
    let missing = home.run(&["get", "nobody"]);
    assert!(err(&missing).contains("there are: shop"), "{}", err(&missing));
    assert_eq!(code(&home.run(&["plan", "specs/e2e.yaml"])), 2);
    assert_eq!(code(&home.run(&["plan"])), 4);

    assert_eq!(running.stop(), Some(0));
    assert!(home.path("state/private/clean_shutdown").exists());
    assert!(err(&home.run(&["get"])).contains("controller is not running since"));
}

#[test]
fn a_refused_file_is_told_in_the_lines_the_files_and_by_wait() {
    let home = Home::new();
    home.spec("e2e.yaml", &GOOD.replace("8080:80", "x:y"));
    let (running, mut lines) = Running::start(&home);
    assert!(lines.any(|line| line.contains("SPEC_INVALID")));
    let wait = home.run(&["wait", "shop", "--timeout", "10s"]);
    assert_eq!(code(&wait), 3, "{}", err(&wait));
    assert!(err(&wait).contains("e2e.yaml"), "{}", err(&wait));
    assert_eq!(running.stop(), Some(0));
}

//! The command line of the binary: output, exit codes, closed pipes. These tests need no engine.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{
    Condition, ControllerStatus, EnvironmentStatus, Phase, ServiceState, ServiceStatus, Truth,
};
use serde_json::{Value, json};

use crate::controller_socket::answer_commands;

/// A folder with a state directory and a specs folder.
pub(crate) struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("state/environments")).unwrap();
        std::fs::create_dir_all(dir.path().join("specs")).unwrap();
        Self { dir }
    }

    /// Like [`Self::new`], with the socket of a controller.
    pub(crate) fn with_controller() -> Self {
        let home = Self::new();
        answer_commands(&home.path("state"));
        home
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn spec(&self, name: &str, text: &str) {
        std::fs::write(self.path("specs").join(name), text).unwrap();
    }

    pub(crate) fn status(&self, status: &EnvironmentStatus) {
        let name = format!("state/environments/{}.json", status.environment);
        std::fs::write(self.path(&name), serde_json::to_vec(status).unwrap()).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_argus"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ARGUS_")) {
            command.env_remove(name);
        }
        // A CI system gets plain text.
        for name in [
            "CI",
            "GITHUB_ACTIONS",
            "GITLAB_CI",
            "TEAMCITY_VERSION",
            "TF_BUILD",
        ] {
            command.env_remove(name);
        }
        command
            .env("ARGUS_STATE", self.path("state"))
            .env("XDG_STATE_HOME", self.path("xdg"))
            .env("XDG_CONFIG_HOME", self.path("xdg-config"))
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

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
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

pub(crate) const GOOD: &str = "\
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
fn misspelled_variable_is_a_warning_with_its_nearest_name() {
    let home = Home::new();
    home.spec("e2e.yaml", GOOD);
    let mut command = home.command(&["validate"]);
    command
        .env("ARGUS_STRCT", "1")
        .env("ARGUS_WEB_8080", "127.0.0.1:80");
    let shown = command.output().unwrap();
    assert_eq!(code(&shown), 0, "{}", err(&shown));
    let text = err(&shown);
    assert!(text.contains("`ARGUS_STRCT` is unknown"), "{text}");
    assert!(text.contains("the nearest is `ARGUS_STRICT`"), "{text}");
    assert_eq!(text.matches("is unknown").count(), 1, "{text}");
}

#[test]
fn validate_accepts_good_file_and_reports_all_errors() {
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
        assert!(out(&bad).contains("rejected"), "{}", out(&bad));
        for part in ["e2e.yaml:4:1", "e2e.yaml:8:13", " | "] {
            assert!(err(&bad).contains(part), "{part}: {}", err(&bad));
        }
    }
    let missing = home.run(&["validate", "nowhere"]);
    assert_eq!(code(&missing), 3);
    assert!(err(&missing).contains("`argus init`"), "{}", err(&missing));
    let bad = home.run(&["validate", "specs", "-o", "json"]);
    let value: Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!((code(&bad), &value["accepted"]), (3, &Value::Bool(false)));
    let diagnostics = value["files"][0]["diagnostics"].as_array().unwrap();
    let errors = diagnostics.iter().filter(|found| found["severity"] == "error");
    let mut places: Vec<_> = errors
        .map(|error| {
            let place = &error["location"];
            (
                place["line"].as_u64(),
                place["column"].as_u64(),
                error["hint"].is_string(),
            )
        })
        .collect();
    places.sort_unstable();
    assert_eq!(
        places,
        [(Some(4), Some(1), true), (Some(8), Some(13), true)],
        "{value:#}"
    );
}

#[test]
fn validate_warns_about_a_token_and_hides_it() {
    let home = Home::new();
    // In two parts, because scanners of repositories search for tokens.
    let token = format!("glpat-{}", "a1B2c3D4e5F6g7H8i9J0");
    let environment = format!("    environment:\n      POSTGRES_USER: postgres\n      CI_LOGIN: {token}\n");
    home.spec("e2e.yaml", &format!("{GOOD}{environment}"));
    let shown = home.run(&["validate"]);
    assert_eq!(code(&shown), 0, "{}", err(&shown));
    let text = err(&shown) + &out(&shown);
    assert!(text.contains("has the form of a GitLab token"), "{text}");
    assert_eq!(text.matches("has the form of").count(), 1, "{text}");
    assert!(text.contains("e2e.yaml:12:") && !text.contains(&token), "{text}");
}

#[test]
fn unknown_keys_warn_and_strict_rejects_them() {
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
    std::fs::write(home.path("argus.toml"), "allow-test-commands = true\n").unwrap();
    let foreign = home.run(&["validate"]);
    assert_eq!(code(&foreign), 0);
    let warning = "`allow-test-commands`, which a repository cannot set";
    assert!(err(&foreign).contains(warning), "{}", err(&foreign));
    std::fs::write(home.path("argus.toml"), "strikt = true\n").unwrap();
    let typo = home.run(&["validate"]);
    assert_eq!(code(&typo), 2);
    assert!(err(&typo).contains("strikt"), "{}", err(&typo));
}

#[test]
fn files_with_the_same_identity_conflict() {
    let home = Home::new();
    home.spec("a.e2e.yaml", GOOD);
    home.spec("b.e2e.yaml", GOOD);
    let both = home.run(&["validate", "specs"]);
    assert_eq!(code(&both), 3, "{}", err(&both));
    assert!(err(&both).contains("`a.e2e.yaml`"), "{}", err(&both));
    let report = home.run(&["validate", "specs", "-o", "json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let holder = serde_json::json!({ "file": "a.e2e.yaml", "path": "project.name", "line": 2 });
    let files = report["files"].as_array().unwrap().iter();
    let mut found = files.flat_map(|file| file["diagnostics"].as_array().into_iter().flatten());
    assert!(
        found.any(|it| it["correction"]["conflictsWith"] == holder),
        "{report:#}"
    );
}

#[test]
fn schema_and_completions_are_printed() {
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
fn environments_and_services_are_completed() {
    let home = Home::new();
    home.status(&shop(Phase::Ready));
    let complete = |words: &[&str]| {
        let mut command = home.command(&[&["--", "argus"], words].concat());
        let output = command.env("COMPLETE", "fish").output().unwrap();
        out(&output)
    };
    let with_services = "shop\nshop/web\n";
    assert_eq!(complete(&["exec", "sh"]), with_services);
    assert_eq!(complete(&["describe", "shop"]), with_services);
    assert_eq!(complete(&["wait", "shop"]), with_services);
    assert_eq!(complete(&["down", "sh"]), "shop\n");
    assert_eq!(complete(&["down", "x"]), "");
    assert!(complete(&["des"]).starts_with("describe"));
    // A repository can contain status files with any names, which a shell would insert into a command.
    let mut planted = shop(Phase::Ready);
    planted.services[0].name = "$(touch planted)".to_owned();
    home.status(&planted);
    assert_eq!(complete(&["exec", "sh"]), "shop\n");
    planted.environment = "`touch planted`".to_owned();
    let text = serde_json::to_vec(&planted).unwrap();
    std::fs::write(home.path("state/environments/shop.json"), text).unwrap();
    assert_eq!(complete(&["down", "`"]), "");
    home.spec("shop.e2e.yaml", GOOD);
    home.spec("$(touch planted).e2e.yaml", GOOD);
    assert_eq!(complete(&["validate", "specs/"]), "specs/shop.e2e.yaml\n");
}

#[test]
fn explain_knows_every_code_and_suggests_the_nearest() {
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
fn get_and_describe_mark_status_without_controller() {
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
    let template = "jsonpath={range .services[*]}{.name}{\"\\n\"}{end}";
    assert_eq!(out(&home.run(&["get", "shop", "-o", template])), "web\n");
    let wrong = home.run(&["get", "shop", "-o", "jsonpath={.services"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let list: Value = serde_json::from_slice(&home.run(&["get", "-o", "json"]).stdout).unwrap();
    assert_eq!(list["items"][0]["phase"], "Progressing");
    let one: Value = serde_json::from_slice(&home.run(&["get", "shop", "-o", "json"]).stdout).unwrap();
    assert_eq!(one["environment"], "shop");
    assert!(out(&home.run(&["get", "shop", "-o", "yaml"])).contains("environment: shop"));
    assert!(out(&home.run(&["get", "shop", "-o", "wide"])).contains("IMAGE"));
    let text = out(&home.run(&["describe", "shop"]));
    assert!(
        text.contains("Waits for:") && text.contains("Conditions:"),
        "{text}"
    );
    let missing = home.run(&["get", "shpo"]);
    assert_eq!(code(&missing), 1);
    assert!(err(&missing).contains("environments: shop"), "{}", err(&missing));
    assert_eq!(hints(&missing), 1, "{}", err(&missing));
    let odd = home.run(&["get", "../shop"]);
    assert_eq!(code(&odd), 2);
    assert!(
        err(&odd).contains("hint: list the environments with `argus get`"),
        "{}",
        err(&odd)
    );
    assert_eq!(hints(&odd), 1, "{}", err(&odd));
}

/// Number of hints in an error message.
fn hints(output: &Output) -> usize {
    err(output).matches("hint: ").count()
}

#[test]
fn rejected_edit_is_shown_next_to_running_services() {
    let home = Home::new();
    let mut status = shop(Phase::Ready);
    status.conditions.push(Condition {
        kind: "SpecAccepted".to_owned(),
        status: Truth::False,
        ..status.conditions[0].clone()
    });
    status.diagnostics = vec![argus_crds::diagnostic::Diagnostic::error(
        "services",
        "is not a map",
    )];
    home.status(&status);
    let table = out(&home.run(&["get"]));
    assert!(table.contains("file rejected: 1 error\n"), "{table}");
}

#[test]
fn describe_shows_errors_with_hints() {
    let home = Home::new();
    let mut status = shop(Phase::Failed);
    let error = StructuredError::new(Code::ImageNotFound, "image not found: web:1")
        .environment("shop")
        .service("web");
    status.errors.push(error);
    home.status(&status);
    let text = out(&home.run(&["describe", "shop"]));
    assert!(
        text.contains("IMAGE_NOT_FOUND web: image not found: web:1") && text.contains("hint: "),
        "{text}"
    );
}

#[test]
fn wait_exit_code_reflects_the_outcome() {
    let home = Home::with_controller();
    home.status(&shop(Phase::Ready));
    assert_eq!(code(&home.run(&["wait", "shop"])), 0);
    assert_eq!(
        code(&home.run(&["wait", "--all", "--for", "ready", "--timeout", "5s"])),
        0
    );
    assert_eq!(out(&home.run(&["wait", "gone", "--for", "gone"])), "gone\n");
    let gone = home.run(&["wait", "gone", "--for", "gone", "-o", "json"]);
    let gone: Value = serde_json::from_slice(&gone.stdout).unwrap();
    assert_eq!(gone, json!({ "environment": "gone", "phase": "Gone" }));
    let both = home.run(&["wait", "gone", "other", "--for", "gone", "-o", "name"]);
    assert_eq!(out(&both), "gone\nother\n");
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
    failed.conditions.push(Condition {
        kind: "Blocked".to_owned(),
        status: Truth::True,
        reason: Code::ContainerRestartExhausted.reason().to_owned(),
        message: String::new(),
        last_transition_time: String::new(),
    });
    home.status(&failed);
    let gave_up = home.run(&["wait", "shop", "-o", "json"]);
    assert_eq!(code(&gave_up), 6);
    let notes = err(&gave_up);
    let error: Value = serde_json::from_str(&notes[notes.find('{').unwrap()..]).unwrap();
    assert_eq!(error["code"], "CONTAINER_RESTART_EXHAUSTED");
}

#[test]
fn wait_follows_status_changes() {
    let home = Home::with_controller();
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
fn usage_error_is_2_and_help_is_0() {
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
fn closed_pipe_is_not_a_failure() {
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
fn colour_is_only_for_terminals_or_on_request() {
    let home = Home::new();
    home.status(&shop(Phase::Ready));
    assert!(!out(&home.run(&["get"])).contains('\u{1b}'));
    let coloured = out(&home.run(&["get", "--color", "always"]));
    assert!(coloured.contains("\u{1b}[32mReady"), "{coloured}");
}

#[test]
fn unreachable_engine_is_exit_4() {
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
fn demo_service_exits_as_configured() {
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
fn missing_state_directory_is_empty() {
    let home = Home::new();
    let state = home.path("nowhere");
    let get = home
        .command(&["get", "--state", state.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(code(&get), 0);
    assert!(!Path::new(&state).exists());
}

/// A running controller. It is killed on drop.
pub(crate) struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Running {
    pub(crate) fn start(home: &Home) -> (Self, impl Iterator<Item = String>) {
        Self::spawn(&mut home.command(&["run"]))
    }

    pub(crate) fn spawn(command: &mut Command) -> (Self, impl Iterator<Item = String> + use<>) {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(child.stdout.take().unwrap());
        (Self(child), std::io::BufRead::lines(lines).map(Result::unwrap))
    }

    pub(crate) fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

#[test]
fn run_without_engine_reports_it_and_stops_cleanly() {
    let home = Home::new();
    home.spec("e2e.yaml", GOOD);
    let (running, mut lines) = Running::start(&home);
    let mut wait_for_line = |wanted: &str| {
        lines
            .find(|line| line.contains(wanted))
            .unwrap_or_else(|| panic!("no line with {wanted}"))
    };
    wait_for_line("the engine does not answer");
    wait_for_line("shop/web");
    // Lines are printed before the status file is written.
    let mut attempts = (0..500).map(|_| home.run(&["get", "shop", "-o", "json"]));
    let status = attempts.find(|status| status.status.success()).unwrap();
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
    let retry = home.run(&["retry", "absent"]);
    assert_eq!(code(&retry), 1, "{}", err(&retry));
    assert!(err(&retry).contains("no environment `absent`"), "{}", err(&retry));
    assert!(
        err(&retry).contains("hint: list the environments with `argus get`"),
        "{}",
        err(&retry)
    );
    let missing = home.run(&["get", "absent"]);
    assert!(err(&missing).contains("environments: shop"), "{}", err(&missing));
    assert_eq!(code(&home.run(&["plan", "specs/e2e.yaml"])), 2);
    assert_eq!(code(&home.run(&["plan"])), 4);

    assert_eq!(running.stop(), Some(0));
    assert!(home.path("state/private/clean_shutdown").exists());
    assert!(err(&home.run(&["get"])).contains("controller is not running since"));
}

#[test]
fn rejected_file_is_reported_by_run_and_wait() {
    let home = Home::new();
    home.spec("e2e.yaml", &GOOD.replace("8080:80", "x:y"));
    let (running, mut lines) = Running::start(&home);
    assert!(lines.any(|line| line.contains("SPEC_INVALID")));
    let wait = home.run(&["wait", "shop", "--timeout", "10s"]);
    assert_eq!(code(&wait), 3, "{}", err(&wait));
    assert!(err(&wait).contains("e2e.yaml"), "{}", err(&wait));
    assert_eq!(running.stop(), Some(0));
}

#[test]
fn new_default_state_directory_is_ignored_by_git() {
    let home = Home::new();
    std::fs::write(home.path("e2e.yaml"), GOOD).unwrap();
    // Returns the content of the `.gitignore` after a run with this state directory.
    let run = |state: &str| {
        let run = |args: &[&str]| {
            let mut command = home.command(args);
            command.env_remove("ARGUS_STATE").env("ARGUS_SPECS", ".");
            command
        };
        // The default, or another directory.
        let given = ["--state", state];
        let given = if state == ".argus" { &[][..] } else { &given };
        let (running, mut lines) = Running::spawn(&mut run(&[&["run"], given].concat()));
        assert!(lines.any(|line| line.contains("shop/web")));
        assert_eq!(running.stop(), Some(0));
        let listed = out(&run(&[&["get", "-o", "name"], given].concat()).output().unwrap());
        assert_eq!(listed, "shop\n", "nothing else is scanned");
        std::fs::read_to_string(home.path(state).join(".gitignore")).ok()
    };
    assert_eq!(run(".argus").as_deref(), Some("*\n"));
    std::fs::write(home.path(".argus/.gitignore"), "private/\n").unwrap();
    assert_eq!(run(".argus").as_deref(), Some("private/\n"), "it is not replaced");
    std::fs::remove_file(home.path(".argus/.gitignore")).unwrap();
    assert_eq!(run(".argus"), None, "the directory is not new");
    assert_eq!(run("named"), None, "a directory with a name of the user");
}

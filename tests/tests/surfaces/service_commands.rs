//! Commands on one service: `exec`, `shell`, `env`, `open` and `describe`.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::io::Write as _;
use std::process::{Output, Stdio};

use argus_tests::fixture::{LIMIT, engine};
use argus_tests::{Controller, RunOptions, Terminal};
use rustix::process::{Pid, Signal, kill_process};

const SPEC: &str = r#"version: "1"
project: { name: reached }
services:
  web:
    image: busybox:local
    command: ["httpd", "-f", "-p", "8080"]
    container: { name: reached-web, ports: ["18460:8080"] }
"#;

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks that a command gets redirected input with its end, and that `exec` ends with the command.
fn check_input(argus: &Controller<'_>, target: &str) {
    // A command without `--` keeps its own flags.
    let mut piped = argus.command();
    piped.args(["exec", target, "busybox", "wc", "-c"]);
    piped.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn().expect("argus runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&vec![7; 100_000]).expect("argus reads");
    drop(stdin);
    let output = child.wait_with_output().expect("argus ends");
    assert_eq!(stdout(&output).trim(), "100000", "the end of stdin is forwarded");
    let mut open = argus.command();
    let mut child = open
        .args(["exec", target, "true"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("argus runs");
    let _stdin = child.stdin.take().expect("a pipe");
    let ended = argus.wait_until(LIMIT, "the end of the command", || {
        child.try_wait().expect("our child")
    });
    assert_eq!(ended.code(), Some(0), "the end of the command ends `argus exec`");
}

#[test]
fn commands_reach_a_service_by_name() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", SPEC);
    argus.wait_ready("reached", LIMIT);
    let target = "reached/web";

    let output = argus.cli(&["exec", target, "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(
        (stdout(&output).as_str(), &output.stderr[..]),
        ("out\n", &b"err\n"[..])
    );

    check_input(&argus, target);
    let interrupted = argus.command().args(["exec", target, "sleep", "601"]).spawn();
    let mut interrupted = interrupted.expect("argus runs");
    let runs = || {
        let processes = engine.docker_ok(&["top", "reached-web", "-eo", "pid,args"]);
        processes.contains("sleep 601")
    };
    argus.wait_until(LIMIT, "the command runs", || runs().then_some(()));
    kill_process(Pid::from_child(&interrupted), Signal::INT).expect("our own child takes a signal");
    assert_eq!(interrupted.wait().expect("argus ends").code(), Some(130));
    assert!(!runs(), "the interrupted command is killed");

    let output = argus.cli(&["exec", target, "--", "/missing"]);
    assert_ne!(output.status.code(), Some(0));
    let output = argus.cli(&["exec", "reached/other", "--", "true"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("`reached/other` has no container") && errors.contains("argus get reached"));

    let mut shell = argus.command();
    shell.args(["shell", target]);
    let mut terminal = Terminal::start(shell, 91, 33);
    // The shell starts before it has the size of the terminal.
    terminal
        .keys("until [ \"$(busybox stty size)\" = '33 91' ]; do sleep 0.1; done; echo 4$((1))2; exit 3\r");
    let (text, ended) = terminal.end(LIMIT);
    assert!(text.contains("412"), "{text}");
    assert_eq!(ended.code(), Some(3), "{text}");

    let output = argus.cli(&["env", "reached"]);
    let script = stdout(&output) + "printf %s \"$ARGUS_ENVIRONMENT $ARGUS_WEB_URL\"";
    let run = std::process::Command::new("sh").args(["-c", &script]).output();
    assert_eq!(stdout(&run.expect("sh runs")), "reached http://127.0.0.1:18460");
    let output = argus.cli(&["open", target, "--print"]);
    assert_eq!(stdout(&output), "http://127.0.0.1:18460\n", "{output:?}");

    let output = stdout(&argus.cli(&["describe", "reached"]));
    let events = output.split_once("\nEvents:\n").map_or("", |(_, events)| events);
    assert!((1..=10).contains(&events.lines().count()), "{output}");
    assert!(
        events.contains("Progressing -> Ready"),
        "the newest events: {output}"
    );
    let output = stdout(&argus.cli(&["get", target, "-o", "json"]));
    let row: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(row["name"], "web");

    let output = argus.cli(&["wait", target, "--timeout", "60s"]);
    assert_eq!(stdout(&output), "reached/web Ready\n", "{output:?}");
    let output = argus.cli(&["plan", target]);
    assert_eq!(stdout(&output), "reached/web: nothing to do\n", "{output:?}");
    // The only environment is the default.
    let output = argus.cli(&["exec", "web", "--", "echo", "default"]);
    assert_eq!(stdout(&output), "default\n", "{output:?}");
    for args in [
        &["describe"][..],
        &["why"],
        &["logs"],
        &["logs", "web", "--tail", "1"],
    ] {
        assert!(argus.cli(args).status.success(), "{args:?}");
    }
    let errors = String::from_utf8_lossy(&argus.cli(&["plan", "web"]).stderr).into_owned();
    assert!(errors.contains("pass `reached/web`"), "{errors}");

    let started = argus.wait_ready("reached", LIMIT);
    let container = Controller::service(&started, "web")["containerId"].clone();
    let start = || engine.docker_ok(&["inspect", "-f", "{{.State.StartedAt}}", "reached-web"]);
    let before = start();
    let output = argus.cli(&["restart", "web"]);
    assert_eq!(stdout(&output), "web restarted\n", "{output:?}");
    assert_ne!(start(), before, "the command returns after the restart");
    let status = argus.wait_ready("reached", LIMIT);
    let row = Controller::service(&status, "web");
    assert_eq!(row["containerId"], container, "the container stays");
    assert_eq!(row["restarts"], 1, "every restart counts: {row}");
    assert_eq!(row["restartBudget"]["used"], 0, "it is no failure: {row}");
    assert!(status["errors"].as_array().is_none_or(Vec::is_empty), "{status}");
    let output = stdout(&argus.cli(&["events", target]));
    assert!(output.contains("restart requested"), "{output}");
    assert!(argus.cli(&["hold", target]).status.success());
    let output = argus.cli(&["restart", target]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "a held service does not restart: {output:?}"
    );
}

#[test]
fn stopped_service_starts_only_on_request() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec(
        "e2e.yaml",
        &SPEC.replace("reached", "halted").replace("18460", "18461"),
    );
    argus.wait_ready("halted", LIMIT);
    let runs = || {
        let state = engine.docker_ok(&["inspect", "-f", "{{.State.Running}}", "halted-web"]);
        state.trim() == "true"
    };
    let output = argus.cli(&["stop", "web"]);
    assert!(stdout(&output).contains("argus start web"), "{output:?}");
    assert!(!runs(), "the command returns after the stop");
    argus.wait_until(LIMIT, "the status names the stop", || {
        let why = stdout(&argus.cli(&["why", "web"]));
        why.contains("stopped by `argus stop`").then_some(())
    });
    assert!(!runs());
    argus.stop();
    argus.start_again();
    argus.wait_status("halted", LIMIT, "is observed again", |status| {
        !status["holds"].as_array().is_none_or(Vec::is_empty)
    });
    assert!(!runs(), "also after a restart of the controller");
    let output = argus.cli(&["stop", "halted"]);
    assert_eq!(output.status.code(), Some(2), "a whole environment: {output:?}");
    let output = argus.cli(&["start", "web"]);
    assert_eq!(stdout(&output), "web started\n", "{output:?}");
    let status = argus.status("halted");
    assert_eq!(status["phase"], "Ready", "the command returns after the start");
    let row = Controller::service(&status, "web");
    assert_eq!(row["restartBudget"]["used"], 0, "it is no failure: {row}");
    let output = argus.cli(&["stop", "web", "--detach"]);
    assert!(stdout(&output).starts_with("web stops; "), "{output:?}");
}

#[test]
fn wait_and_retry_concern_only_the_named_service() {
    let argus = Controller::start(engine(), RunOptions::default());
    let web = r#"version: "1"
project: { name: partial }
services:
  web:
    image: busybox:local
    command: [sleep, inf]
    container: { name: partial-web }
"#;
    let broken = "  broken:
    image: busybox:local
    command: [/missing]
    container: { name: partial-broken, healthcheck: { type: exec, command: [\"true\"] } }
  user:
    image: busybox:local
    command: [sleep, inf]
    dependsOn: [broken]
    container: { name: partial-user }
";
    argus.write_spec("e2e.yaml", &format!("{web}{broken}"));
    let wait = |of: &str| {
        let output = argus.cli(&["wait", of, "--timeout", "60s"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), errors)
    };
    for (of, message) in [
        ("partial/broken", "service `partial/broken` failed: "),
        (
            "partial/user",
            "service `partial/user` is blocked: partial/broken: ",
        ),
        ("partial", "environment `partial` is blocked: "),
    ] {
        let (code, errors) = wait(of);
        assert_eq!(code, Some(6), "{of}: {errors}");
        assert!(errors.contains(message), "{of}: {errors}");
    }
    let graph = stdout(&argus.cli(&["graph", "partial", "--output", "dot"]));
    assert!(graph.contains("\"broken: Failed"), "{graph}");
    let edge = graph
        .lines()
        .find(|line| line.starts_with("  \"user\" -> \"broken\" "));
    assert!(edge.is_some_and(|edge| edge.contains("color=red")), "{graph}");
    assert_eq!(wait("partial/web").0, Some(0), "{:?}", wait("partial/web"));
    let failures = || {
        let output = stdout(&argus.cli(&["evidence", "partial/broken", "--list", "-o", "json"]));
        output.matches("\"run\":").count()
    };
    let output = argus.cli(&["start", "partial/broken"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let before = failures();
    let output = argus.cli(&["retry", "partial/broken"]);
    assert_eq!(stdout(&output), "partial/broken is retried\n", "{output:?}");
    argus.wait_until(LIMIT, "another failed run", || {
        (failures() > before).then_some(())
    });
    let output = stdout(&argus.cli(&["plan", "partial/user"]));
    assert!(
        output.contains("partial/user") && !output.contains("broken:"),
        "{output}"
    );
    argus.write_spec("e2e.yaml", web);
    let output = argus.cli(&["wait", "partial/broken", "--for", "gone", "--timeout", "60s"]);
    assert_eq!(stdout(&output), "gone\n", "{output:?}");
}

//! `argus up` on a real engine: an environment for the duration of a command, with and without a running controller.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a failed step ends the test"
)]

use std::process::{Child, Output, Stdio};
use std::time::Duration;

use argus_tests::fixture::{IMAGE, LIMIT, engine, running};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, Proxy, RunOptions, wait};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

fn spec(project: &str, port: u16) -> String {
    format!(
        r#"version: "1"
project: {{ name: {project} }}
service:
  name: web
  image: {IMAGE}
  stopGrace: 1s
  container:
    name: {project}-web
    ports: ["{port}:8080"]
    healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, retries: 20, startPeriod: 5s }}
"#
    )
}

/// Directories with one spec file, and no controller.
fn prepared(project: &str, port: u16) -> Controller<'static> {
    let argus = Controller::prepare(engine(), RunOptions::default());
    argus.write_spec("e2e.yaml", &spec(project, port));
    argus
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

fn start(argus: &Controller<'_>, words: &[&str]) -> Child {
    let mut command = argus.command();
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("argus runs")
}

fn is_gone(argus: &Controller<'_>, project: &str) -> bool {
    !running(engine(), &format!("{project}-web")) && argus.status(project).is_null()
}

/// Waits until a process ends, and returns its exit code.
fn exit_code(child: &mut Child) -> Option<i32> {
    let ended = wait::poll(LIMIT, || child.try_wait().expect("our own child"));
    ended.expect("argus ends").code()
}

/// Process of the controller that last used the state directory.
fn controller_pid(argus: &Controller<'_>) -> Pid {
    let pid = argus.controller_status()["pid"]
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok());
    pid.and_then(Pid::from_raw).expect("a pid")
}

#[test]
fn up_runs_a_command_and_removes_the_environment() {
    let argus = prepared("upcommand", 19400);
    let script = "busybox wget -q -O - \"$ARGUS_WEB_URL/\" && exit 7";
    let ran = argus.cli(&["up", "--", "sh", "-c", script]);
    assert_eq!(ran.status.code(), Some(7), "{}", text(&ran));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "hello", "{}", text(&ran));
    let progress = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(progress.contains("upcommand Ready\n"), "{progress}");
    // A removal of more than a second is reported as well.
    let removal = progress.split_once("\nremoving `upcommand`\n");
    let reported = removal.unwrap_or_else(|| panic!("{progress}")).1;
    assert!(
        reported
            .lines()
            .all(|line| line.starts_with("waiting for the removal of `upcommand`")),
        "{progress}"
    );
    assert!(is_gone(&argus, "upcommand"));
    // The same file again, although it was taken down.
    let kept = argus.cli(&["up", "--keep", "--", "true"]);
    assert!(kept.status.success(), "{}", text(&kept));
    assert!(running(engine(), "upcommand-web"));
    // For programs, stdout has one object, and the output of the command goes to stderr.
    let json = argus.cli(&["up", "-o", "json", "--", "sh", "-c", "echo out; exit 3"]);
    assert_eq!(json.status.code(), Some(3), "{}", text(&json));
    let output: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(output["environment"], "upcommand", "{output:#}");
    assert_eq!(
        (&output["exitCode"], &output["ready"]),
        (&3.into(), &true.into()),
        "{output:#}"
    );
    assert_eq!(
        output["variables"]["ARGUS_WEB_8080"], "127.0.0.1:19400",
        "{output:#}"
    );
    assert_eq!(
        output["report"]["suites"][0]["attempts"][0]["exitCode"], 3,
        "{output:#}"
    );
    assert!(
        String::from_utf8_lossy(&json.stderr).contains("out\n"),
        "{}",
        text(&json)
    );
    // Only a failure keeps the environment.
    let ended = |command| argus.cli(&["up", "--keep-on-failure", "--", command]);
    let failed = ended("false");
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed));
    assert!(
        text(&failed).contains("`argus down upcommand` removes it"),
        "{}",
        text(&failed)
    );
    assert!(running(engine(), "upcommand-web"));
    let succeeded = ended("true");
    assert!(succeeded.status.success(), "{}", text(&succeeded));
    assert!(is_gone(&argus, "upcommand"));
    let held = argus
        .command()
        .args(["up", "--keep", "--ttl", "1s", "--", "sleep", "600"])
        .output()
        .unwrap();
    assert_eq!(held.status.code(), Some(5), "{}", text(&held));
    let down = argus.cli(&["down", "upcommand"]);
    assert!(down.status.success(), "{}", text(&down));
    assert!(is_gone(&argus, "upcommand"));
}

#[test]
fn signal_ends_up_and_removes_the_environment() {
    let argus = prepared("upsignal", 19410);
    let mut up = start(&argus, &["up"]);
    argus.wait_ready("upsignal", LIMIT);
    // It stays while the command runs.
    assert!(up.try_wait().unwrap().is_none());
    kill_process(Pid::from_child(&up), Signal::INT).unwrap();
    assert_eq!(exit_code(&mut up), Some(0));
    assert!(is_gone(&argus, "upsignal"));
}

#[test]
fn blocked_environment_ends_up_with_its_error() {
    let argus = prepared("upblocked", 19420);
    let image = format!("image: {IMAGE}");
    let without_program = format!("{image}\n  command: [\"/missing\"]");
    argus.write_spec(
        "e2e.yaml",
        &spec("upblocked", 19420).replace(&image, &without_program),
    );
    let ended = argus.cli(&["up", "--", "true"]);
    assert_eq!(ended.status.code(), Some(6), "{}", text(&ended));
    assert!(
        text(&ended).contains("environment `upblocked` is blocked"),
        "{}",
        text(&ended)
    );
    assert!(is_gone(&argus, "upblocked"));
    let json = argus.cli(&["up", "-o", "json"]);
    let output: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&output["exitCode"], &output["ready"]),
        (&6.into(), &false.into()),
        "{output:#}"
    );
    assert_eq!(output["error"]["code"], "ENTRYPOINT_NOT_FOUND", "{output:#}");
    argus.write_spec("e2e.yaml", "version: \"1\"\nproject: { name: [] }\n");
    let rejected = argus.cli(&["up"]);
    assert_eq!(rejected.status.code(), Some(3), "{}", text(&rejected));
    assert!(text(&rejected).contains("e2e.yaml:2:"), "{}", text(&rejected));
}

#[test]
fn early_failure_of_up_leaves_nothing() {
    let proxy = Proxy::start(&engine().scratch("upearly").join("p.sock"), &engine().socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    };
    let argus = Controller::prepare(engine(), options);
    // The build fails while the call for the network is in flight.
    std::fs::write(
        argus.specs.join("Dockerfile"),
        "FROM busybox:local\nCOPY missing /\n",
    )
    .unwrap();
    let spec = "project: { name: upearly }\nservices: { web: { build: { context: . }, container: { name: upearly-web } } }\n";
    argus.write_spec("e2e.yaml", spec);
    proxy.inject("POST /networks/create", Fault::Delay(Duration::from_secs(8)), 1);
    let ended = argus.cli(&["up", "-o", "json"]);
    assert_eq!(ended.status.code(), Some(6), "{}", text(&ended));
    let output: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(output["error"]["code"], "BUILD_FAILED", "{output:#}");
    assert_eq!(proxy.counts().get("POST /networks/create"), Some(&1));
    let labels = ["--filter", "label=argusai.environment=upearly"];
    for list in [["network", "ls", "-q"], ["ps", "-a", "-q"]] {
        let found = engine().docker_ok(&[&list[..], &labels].concat());
        assert_eq!(found.trim(), "", "{list:?}");
    }
}

fn wait_for_stored_removal(argus: &Controller<'_>, project: &str) {
    let stored = argus.state.join("private/state.json");
    wait::until(LIMIT, "the removal is on disk", || {
        let stored: Value = serde_json::from_slice(&std::fs::read(&stored).ok()?).ok()?;
        stored["down"][project].is_object().then_some(())
    });
}

#[test]
fn setup_that_a_breaker_ends_is_removed_now_or_later() {
    let proxy = Proxy::start(&engine().scratch("upopen").join("p.sock"), &engine().socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    };
    let argus = Controller::prepare(engine(), options);
    let write = |cooldown: u32| {
        let breaker = format!(
            "resilience: {{ circuitBreaker: {{ failureThreshold: 1, resetTimeoutMs: {cooldown} }} }}\n"
        );
        argus.write_spec("e2e.yaml", &(spec("upopen", 19460) + &breaker));
    };
    let list = || engine().docker_ok(&["ps", "-a", "-q", "--filter", "name=upopen-web"]);
    proxy.inject("POST /containers/*/start", Fault::CloseBefore, 100_000);
    // The wait for the environment ends before the cooldown, and the removal after it.
    write(16_000);
    let ended = argus.cli(&["up", "--timeout", "10s", "-o", "json"]);
    assert_eq!(ended.status.code(), Some(4), "{}", text(&ended));
    let output: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(output["error"]["code"], "CIRCUIT_OPEN", "{output:#}");
    assert_eq!(list(), "", "{}", text(&ended));
    // A controller that dies before the end of the cooldown leaves its removal to the next one.
    write(120_000);
    let mut up = start(&argus, &["up", "--timeout", "10s"]);
    // Until then, the stored removal is that of the first command.
    argus.wait_status("upopen", LIMIT, "has an open breaker", |status| {
        status["breaker"]["state"] == "open"
    });
    wait_for_stored_removal(&argus, "upopen");
    up.kill().unwrap();
    up.wait().unwrap();
    let left = list();
    assert_ne!(left, "", "its container exists");
    proxy.heal();
    let next = argus.cli(&["up", "--keep", "--", "true"]);
    assert!(next.status.success(), "{}", text(&next));
    let note = "an earlier removal of `upopen` did not end";
    assert!(text(&next).contains(note), "{}", text(&next));
    assert_ne!(list(), left, "it starts again from nothing");
    let down = argus.cli(&["down", "upopen"]);
    assert!(down.status.success(), "{}", text(&down));
}

#[test]
fn next_up_first_completes_an_earlier_removal() {
    let proxy = Proxy::start(&engine().scratch("upleft").join("p.sock"), &engine().socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    };
    let argus = Controller::prepare(engine(), options);
    argus.write_spec("e2e.yaml", &spec("upleft", 19450));
    let mut up = start(&argus, &["up"]);
    argus.wait_ready("upleft", LIMIT);
    // The controller dies during its removal.
    proxy.inject("POST /containers/*/stop", Fault::HoldBefore, 1);
    kill_process(Pid::from_child(&up), Signal::INT).unwrap();
    let held = wait::poll(LIMIT, || proxy.is_held().then_some(()));
    held.expect("the stop is held");
    // The request counts when it is on disk, which the stop does not wait for.
    wait_for_stored_removal(&argus, "upleft");
    up.kill().unwrap();
    up.wait().unwrap();
    proxy.heal();
    assert!(running(engine(), "upleft-web"));
    let left = engine().docker_ok(&["inspect", "--format", "{{.Id}}", "upleft-web"]);
    let next = argus.cli(&["up", "--keep", "--", "true"]);
    assert!(next.status.success(), "{}", text(&next));
    assert!(
        text(&next).contains("an earlier removal of `upleft` did not end"),
        "{}",
        text(&next)
    );
    let new = engine().docker_ok(&["inspect", "--format", "{{.Id}}", "upleft-web"]);
    assert_ne!(left, new, "it starts again from nothing");
    let down = argus.cli(&["down", "upleft"]);
    assert!(down.status.success(), "{}", text(&down));
}

#[test]
fn running_controller_takes_the_file_of_up() {
    let argus = Controller::start(engine(), RunOptions::default());
    argus.write_spec("other.e2e.yaml", &spec("upother", 19430));
    argus.wait_ready("upother", LIMIT);
    let file = argus.state.parent().unwrap().join("handed.yaml");
    std::fs::write(&file, spec("uphanded", 19431)).unwrap();
    let file = file.to_str().unwrap();
    let seen = "test \"$ARGUS_ENVIRONMENT\" = uphanded && test -h \"$0/uphanded.e2e.yaml\"";
    let specs = argus.specs.to_str().unwrap();
    let ran = argus.cli(&["up", file, "--", "sh", "-c", seen, specs]);
    assert!(ran.status.success(), "{}", text(&ran));
    assert!(is_gone(&argus, "uphanded"));
    assert!(!argus.specs.join("uphanded.e2e.yaml").exists());
    argus.wait_ready("upother", LIMIT);
    // A controller for one file would remove the other environment.
    argus.stop();
    let refused = argus.cli(&["up", file]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(running(engine(), "upother-web"));
}

#[test]
fn detached_up_leaves_a_controller_running() {
    let argus = prepared("updetached", 19440);
    let up = argus.cli(&["up", "-d"]);
    assert!(up.status.success(), "{}", text(&up));
    assert_eq!(String::from_utf8_lossy(&up.stdout), "updetached Ready\n");
    let pid = controller_pid(&argus);
    test_kill_process(pid).expect("the controller runs");
    // A second call uses the same controller.
    let again = argus.cli(&["up", "-d"]);
    assert!(again.status.success(), "{}", text(&again));
    assert_eq!(controller_pid(&argus), pid);
    assert!(argus.cli(&["down", "updetached"]).status.success());
    assert!(is_gone(&argus, "updetached"));
    let stopped = argus.cli(&["stop"]);
    assert!(stopped.status.success(), "{}", text(&stopped));
    assert!(argus.controller_status()["stoppedAt"].is_string());
    let again = argus.cli(&["stop"]);
    assert!(
        again.status.success() && text(&again).contains("controller is not running"),
        "{}",
        text(&again)
    );
}

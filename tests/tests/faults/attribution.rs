//! Origins of failed cases on a real engine, one test per cause. `simulation/origins.rs` has the rules.

#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::process::{Child, Output, Stdio};

use argus_tests::fixture::{IMAGE, LIMIT, condition, engine, images};
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Serves pages, and fails as soon as a file requests it. Its child runs out of memory, because the engine can lose the report of a main
/// process.
const SCRIPT: &str = r"rm -f /tmp/do-*; httpd -p 8080 -h /www
while sleep 0.1; do
  if test -e /tmp/do-crash; then echo 'panicked at orders.rs:7' >&2; exit 3; fi
  if test -e /tmp/do-grow; then (x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done); sleep 1; exit 137; fi
  if test -e /tmp/do-fill; then dd if=/dev/zero of=/small/fill bs=1M count=2; exit 1; fi
done";

/// An environment of one service, which publishes the port, and its suites.
fn spec(project: &str, port: u16, suites: &[&str]) -> String {
    let script = SCRIPT.replace('\n', "\n          ");
    let mut text = format!(
        "version: \"1\"
project: {{ name: {project} }}
resilience:
  container: {{ restartDelay: 1ms, maxRestarts: 10 }}
services:
  web:
    image: {IMAGE}
    memory: 32m
    tmpfs: [\"/small:size=1m\"]
    command:
      - sh
      - -c
      - |
          {script}
    container:
      name: {project}-web
      ports: [\"{port}:8080\"]
      healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, timeout: 2s, retries: 20, startPeriod: 5s }}
tests:
  suites:
"
    );
    text.extend(suites.iter().map(|suite| format!("    - {{ {suite} }}\n")));
    text
}

/// A YAML suite whose only case passes at its second run: the first one lets the service fail. The first failure starts the same
/// container again, which contains the mark of the first run.
fn failing_once(request: &str) -> String {
    let seen = format!("/tmp/seen-{request}");
    let command = format!("test -e {seen} || {{ touch {seen} /tmp/do-{request}; sleep 60; exit 1; }}");
    one_case(&format!("exec: {{ container: web, command: '{command}' }}"))
}

fn one_case(step: &str) -> String {
    format!("name: Suite\ncases:\n  - name: only\n    {step}\n")
}

/// Result of a suite, with the origin and the evidence of each failed attempt.
fn describe(suite: &Value) -> String {
    let attempts = suite["attempts"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let attempts = attempts.iter().map(|attempt| {
        let again = if attempt["confirmation"] == true {
            "again "
        } else {
            ""
        };
        let Some(found) = attempt["attributions"].get(0) else {
            return format!("{again}passed");
        };
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let evidence = found["evidence"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut evidence: Vec<String> = evidence
            .iter()
            .map(|one| format!("{} {}", text(&one["service"]), text(&one["cause"])))
            .collect();
        evidence.dedup();
        let evidence = evidence.join(", ");
        let panic = found["panic"].as_str().map(|line| format!(": {line}"));
        format!(
            "{again}{} ({evidence}{})",
            text(&found["attribution"]),
            panic.unwrap_or_default()
        )
    });
    let attempts: Vec<String> = attempts.collect();
    let mut result = suite["result"].as_str().unwrap_or_default();
    if suite["flaky"] == true {
        result = "flaky";
    }
    if suite["unconfirmed"].is_string() {
        result = "unconfirmed";
    }
    format!("{result}: {}", attempts.join("; "))
}

/// Descriptions of the suites of a run.
fn described(ran: &Output) -> Vec<String> {
    let report: Value = serde_json::from_slice(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&ran.stderr)));
    let suites = report["suites"].as_array().expect("suites");
    suites.iter().map(describe).collect()
}

/// Starts `argus test run`, whose engine is at `host`.
fn test_run(argus: &Controller<'_>, project: &str, host: Option<String>) -> Child {
    let mut command = argus.command();
    command.args(["test", "run", project, "-o", "json"]);
    command.envs(host.map(|host| ("DOCKER_HOST", host)));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("argus runs")
}

/// A controller that starts a stopped container after a second. A stop near the start of the engine is not the engine's.
fn controller(engine: &PrivateEngine) -> Controller<'_> {
    let waits = (
        "ARGUS_WAITS".to_owned(),
        "externalStop=1s,outageMargin=0s".to_owned(),
    );
    Controller::start(
        engine,
        RunOptions {
            env: vec![waits],
            ..RunOptions::default()
        },
    )
}

/// Runs these suites on the shared engine. `file` is the content of `suite.yaml`.
fn check(project: &str, port: u16, file: &str, suites: &[&str], expected: &[&str]) {
    let argus = controller(engine());
    argus.write_spec("suite.yaml", file);
    argus.write_spec("e2e.yaml", &spec(project, port, suites));
    argus.wait_ready(project, LIMIT);
    let ran = test_run(&argus, project, None)
        .wait_with_output()
        .expect("argus ends");
    assert_eq!(described(&ran), expected);
}

/// Asserts the result of a suite that lets the service fail once.
fn check_once(project: &str, port: u16, request: &str, expected: &str) {
    let suite = "name: only, file: suite.yaml";
    check(project, port, &failing_once(request), &[suite], &[expected]);
}

#[test]
fn failed_assertion_is_of_the_test() {
    let request = "request: { method: GET, path: / }";
    let file = one_case(&format!("{request}\n    expect: {{ status: 418 }}"));
    let calm = r#"name: calm, runner: shell, command: 'busybox wget -q -O - "$ARGUS_WEB_URL/"'"#;
    check(
        "assertion",
        18760,
        &file,
        &["name: bad, file: suite.yaml", calm],
        &["failed: test ()", "passed: passed"],
    );
}

#[test]
fn crash_that_does_not_repeat_is_flaky_and_of_the_service() {
    check_once(
        "once",
        18761,
        "crash",
        "flaky: service (web exit: panicked at orders.rs:7); again passed",
    );
}

#[test]
fn crash_that_repeats_is_a_failure_of_the_service() {
    let file = one_case("exec: { container: web, command: 'touch /tmp/do-crash; sleep 60; exit 1' }");
    let crash = "service (web exit: panicked at orders.rs:7)";
    check(
        "always",
        18762,
        &file,
        &["name: only, file: suite.yaml"],
        &[&format!("failed: {crash}; again {crash}")],
    );
}

#[test]
fn full_disk_is_a_resource() {
    check_once(
        "disk",
        18763,
        "fill",
        "flaky: resource (web diskFull); again passed",
    );
}

#[test]
fn exhausted_memory_is_a_resource() {
    check_once(
        "memory",
        18764,
        "grow",
        "flaky: resource (web outOfMemory); again passed",
    );
}

#[test]
fn stop_by_another_client_is_excused() {
    let command = "test -e stopped && exit 0; touch stopped; docker stop -t 1 stopped-web; exit 1";
    check(
        "stopped",
        18765,
        "",
        &[&format!("name: only, runner: shell, command: '{command}'")],
        &["passed: infrastructure (web stop); again passed"],
    );
}

#[test]
fn kill_at_every_attempt_gives_no_verdict() {
    check(
        "killed",
        18766,
        "",
        &["name: only, runner: shell, command: 'docker kill killed-web; exit 1'"],
        &["unconfirmed: infrastructure (web stop); again infrastructure (web stop)"],
    );
}

/// Fails once, after a file exists.
const WAITING: &str = "name: only, runner: shell, command: 'test -e begun && exit 0; touch begun; until test -e go; do sleep 0.1; done; exit 1'";

fn wait_started(argus: &Controller<'_>) {
    argus.wait_until(LIMIT, "the suite runs", || {
        argus.specs.join("begun").exists().then_some(())
    });
}

fn let_it_fail(argus: &Controller<'_>) {
    std::fs::write(argus.specs.join("go"), "").expect("a file");
}

#[test]
fn engine_restart_is_excused() {
    let engine = PrivateEngine::start();
    images(&engine);
    // The engine may report the end of a container late on a busy machine.
    let options = RunOptions {
        env: vec![("ARGUS_WAITS".into(), "outageMargin=60s".into())],
        ..RunOptions::default()
    };
    let argus = Controller::start(&engine, options);
    let mock = "mocks:\n  payments: { port: 18771, containerPort: 8080, routes: [{ method: GET, path: /, response: { body: { name: payments } } }] }\n";
    let with_mock = spec("restarted", 18770, &[WAITING]).replace("tests:\n", &format!("{mock}tests:\n"));
    argus.write_spec("e2e.yaml", &with_mock);
    argus.wait_ready("restarted", LIMIT);
    let running = test_run(&argus, "restarted", None);
    wait_started(&argus);
    engine.restart();
    argus.wait_status("restarted", 2 * LIMIT, "is Ready again", |status| {
        status["phase"] == "Ready"
            && status["stale"] != true
            && condition(status, "EngineReachable")["status"] == "True"
            && status["services"].as_array().is_some_and(|rows| {
                rows.iter()
                    .all(|row| row["state"] == "Ready" && row["restarts"] != 0)
            })
    });
    let_it_fail(&argus);
    let ran = running.wait_with_output().expect("argus ends");
    let found = described(&ran).concat();
    // The engine ends the containers in any order.
    let mut evidence: Vec<&str> = found
        .trim_start_matches("passed: infrastructure (")
        .trim_end_matches("); again passed")
        .split(", ")
        .collect();
    evidence.sort_unstable();
    evidence.dedup();
    assert_eq!(evidence, ["payments engineOutage", "web engineOutage"], "{found}");
}

/// A run of `argus test run` whose only attempt fails, while the engine is frozen and a process has ended. It asks the engine over its own
/// proxy.
fn fail_while_frozen(engine: &PrivateEngine, argus: &Controller<'_>) -> (Child, Proxy) {
    argus.write_spec("e2e.yaml", &spec("late", 18780, &[WAITING]));
    argus.wait_ready("late", LIMIT);
    let process = engine.docker_ok(&["inspect", "-f", "{{.State.Pid}}", "late-web"]);
    let process = process
        .trim()
        .parse()
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process");
    let proxy = Proxy::start(&engine.scratch("late").join("p.sock"), &engine.socket());
    let mut running = test_run(argus, "late", Some(proxy.host()));
    wait_started(argus);
    let before = proxy.connections();
    engine.freeze();
    kill_process(process, Signal::KILL).expect("it runs");
    let_it_fail(argus);
    // The second question follows an attempt that has waited for longer than an engine takes that responds promptly.
    argus.wait_until(LIMIT, "the attempt asks the engine again", || {
        let is_reported = argus.status("late")["stale"] == true;
        (is_reported || proxy.connections() >= before + 2).then_some(())
    });
    assert!(running.try_wait().expect("its state").is_none(), "it waits");
    (running, proxy)
}

#[test]
fn late_report_of_the_engine_is_awaited() {
    let engine = PrivateEngine::start();
    images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    let (running, _proxy) = fail_while_frozen(&engine, &argus);
    engine.thaw();
    let ran = running.wait_with_output().expect("argus ends");
    let found = described(&ran).concat();
    // If Argus sent a request to the frozen engine, the process ended during an outage.
    let expected = [
        "flaky: service (web exit); again passed",
        "passed: infrastructure (web engineOutage); again passed",
    ];
    assert!(expected.contains(&found.as_str()), "{found}");
}

#[test]
fn signal_ends_the_wait_for_a_late_report() {
    let engine = PrivateEngine::start();
    images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    let (mut running, proxy) = fail_while_frozen(&engine, &argus);
    let requested = proxy.connections();
    kill_process(Pid::from_child(&running), Signal::INT).expect("our own child takes a signal");
    wait::until(LIMIT, "argus ends", || running.try_wait().expect("its state"));
    // One question may have begun with the signal.
    assert!(
        proxy.connections() <= requested + 1,
        "{} questions",
        proxy.connections()
    );
    engine.thaw();
}

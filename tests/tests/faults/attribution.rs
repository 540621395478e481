//! Origins of failed cases: one environment with 20 suites, of which each failing one has another cause.

#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::process::{Child, Output, Stdio};
use std::time::Duration;

use argus_tests::fixture::{IMAGE, LIMIT, condition, images};
use argus_tests::{Controller, Options, PrivateEngine, RunOptions, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Serves pages, and fails as soon as a file requests it. Its disk has no 2 GiB: a write of that size would take longer than the case
/// that requests it. Its child runs out of memory, because the engine can lose the report of a main process.
const SCRIPT: &str = r#"rm -f /tmp/do-*; httpd -p 8080 -h /www
while sleep 0.1; do
  if test -e /tmp/do-crash; then echo 'panicked at orders.rs:7' >&2; exit 3; fi
  if test -e /tmp/do-grow; then (x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done); sleep 1; exit 137; fi
  if test -e /tmp/do-fill; then error=$(fallocate -l 2G /fill 2>&1); echo "$error" >&2; exit 1; fi
done"#;

fn service(name: &str, port: u16) -> String {
    let script = SCRIPT.replace('\n', "\n          ");
    let limit = if name == "db" { "\n    memory: 32m" } else { "" };
    format!(
        "  {name}:
    image: {IMAGE}{limit}
    command:
      - sh
      - -c
      - |
          {script}
    container:
      name: origins-{name}
      ports: [\"{port}:8080\"]
      healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, timeout: 2s, retries: 20, startPeriod: 5s }}
"
    )
}

fn mock(name: &str, port: u16) -> String {
    format!(
        "  {name}: {{ port: {port}, containerPort: 8080, routes: [{{ method: GET, path: /, response: {{ body: {{ name: {name} }} }} }}] }}\n"
    )
}

/// A YAML suite whose only case passes at its second run: the first one lets a service fail. The first failure of a service starts the
/// same container again, which contains the mark of the first run.
fn failing_once(service: &str, request: &str) -> String {
    let seen = format!("/tmp/seen-{request}");
    let command = format!("test -e {seen} || {{ touch {seen} /tmp/do-{request}; sleep 60; exit 1; }}");
    one_case(&format!("exec: {{ container: {service}, command: '{command}' }}"))
}

fn one_case(step: &str) -> String {
    format!("name: Suite\ncases:\n  - name: only\n    {step}\n")
}

/// Ids of the suites that fail on purpose, each with its file or its command.
fn failing() -> Vec<(&'static str, String)> {
    let command = |text: &str| format!("runner: shell, command: '{text}'");
    let file = |name: &str| format!("file: {name}.yaml");
    vec![
        ("assertion", file("assertion")),
        ("crash-once", file("crash-once")),
        ("disk", file("disk")),
        ("crash-always", file("crash-always")),
        ("memory", file("memory")),
        (
            "stopped",
            command("test -e stopped && exit 0; touch stopped; docker stop -t 1 origins-db; exit 1"),
        ),
        ("killed", command("docker kill origins-web; exit 1")),
        (
            "engine",
            command("test -e begun && exit 0; touch begun; until test -e go; do sleep 0.1; done; exit 1"),
        ),
    ]
}

/// Writes the spec file with its suites. Those that pass ask all services and mocks.
fn write_files(argus: &Controller<'_>) {
    let always = "exec: { container: web, command: 'touch /tmp/do-crash; sleep 60; exit 1' }";
    for (name, text) in [
        (
            "assertion",
            one_case("request: { method: GET, path: / }\n    expect: { status: 418 }"),
        ),
        ("crash-once", failing_once("api", "crash")),
        ("crash-always", one_case(always)),
        ("memory", failing_once("db", "grow")),
        ("disk", failing_once("web", "fill")),
    ] {
        argus.write_spec(&format!("{name}.yaml"), &text);
    }
    let mut suites: Vec<String> = failing()
        .into_iter()
        .map(|(id, work)| format!("{{ name: {id}, {work} }}"))
        .collect();
    for (index, name) in ["web", "api", "db", "payments", "mails"]
        .iter()
        .cycle()
        .take(12)
        .enumerate()
    {
        let id = format!("calm{index}");
        if index % 2 == 0 {
            let url = format!("{{{{env.ARGUS_{}_URL}}}}/", name.to_uppercase());
            let request = format!("request: {{ method: GET, url: '{url}' }}");
            argus.write_spec(
                &format!("{id}.yaml"),
                &one_case(&format!("{request}\n    expect: {{ status: 200 }}")),
            );
            suites.push(format!("{{ name: {id}, file: {id}.yaml }}"));
        } else {
            let url = format!("$ARGUS_{}_URL", name.to_uppercase());
            let command = format!("busybox wget -q -O - \"{url}/\"");
            suites.push(format!("{{ name: {id}, runner: shell, command: '{command}' }}"));
        }
    }
    assert_eq!(suites.len(), 20);
    let mut text = "version: \"1\"\nproject: { name: origins }\nresilience:\n  preflight: { diskSpaceThreshold: 20MB }\n  \
                    container: { restartDelay: 1ms, maxRestarts: 10 }\nservices:\n"
        .to_owned();
    for (index, name) in (0..).zip(["web", "api", "db"]) {
        text.push_str(&service(name, 18760 + index));
    }
    text.push_str("mocks:\n");
    for (index, name) in (0..).zip(["payments", "mails"]) {
        text.push_str(&mock(name, 18770 + index));
    }
    text.push_str("tests:\n  suites:\n");
    text.extend(suites.iter().map(|suite| format!("    - {suite}\n")));
    argus.write_spec("e2e.yaml", &text);
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

fn output(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

#[test]
fn every_failed_case_gets_its_origin() {
    // The engine has its own small disk, of which a service requests more than it has.
    let engine = PrivateEngine::start_with(Options {
        data_size: Some("1g".to_owned()),
        ..Options::default()
    });
    images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    write_files(&argus);
    argus.wait_ready("origins", LIMIT);
    let running = argus
        .command()
        .args(["test", "run", "origins", "-o", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("argus runs");
    wait::until(3 * LIMIT, "the suite `engine` runs", || {
        argus.specs.join("begun").exists().then_some(())
    });
    engine.restart();
    argus.wait_status("origins", 2 * LIMIT, "is Ready again", |status| {
        status["phase"] == "Ready"
            && status["stale"] != true
            && condition(status, "EngineReachable")["status"] == "True"
            && status["services"].as_array().is_some_and(|rows| {
                let is_ready = |row: &Value| row["state"] == "Ready" && row["restarts"] != 0;
                rows.iter().all(is_ready)
            })
    });
    std::fs::write(argus.specs.join("go"), "").expect("a file");
    let ended = running.wait_with_output().expect("argus ends");
    assert_eq!(ended.status.code(), Some(1), "{}", output(&ended));
    let report: Value = serde_json::from_slice(&ended.stdout).expect("a report");
    let suites = report["suites"].as_array().expect("suites");
    let found = |id: &str| {
        let suite = suites.iter().find(|suite| suite["name"] == id);
        format!("{id} {}", describe(suite.unwrap_or(&Value::Null)))
    };
    let all: Vec<String> = failing().iter().map(|(id, _)| found(id)).collect();
    let all_engine =
        "api engineOutage, db engineOutage, mails engineOutage, payments engineOutage, web engineOutage";
    let (engine_line, others) = all.split_last().expect("suites");
    assert_eq!(
        others,
        [
            "assertion failed: test ()",
            "crash-once flaky: service (api exit: panicked at orders.rs:7); again passed",
            "disk flaky: resource (web diskFull); again passed",
            "crash-always failed: service (web exit: panicked at orders.rs:7); again service (web exit: panicked at orders.rs:7)",
            "memory flaky: resource (db outOfMemory); again passed",
            "stopped passed: infrastructure (db stop); again passed",
            "killed unconfirmed: infrastructure (web stop); again infrastructure (web stop)",
        ]
    );
    // The engine ends the containers in any order.
    let mut services: Vec<&str> = engine_line
        .trim_start_matches("engine passed: infrastructure (")
        .trim_end_matches("); again passed")
        .split(", ")
        .collect();
    services.sort_unstable();
    services.dedup();
    assert_eq!(services.join(", "), all_engine);
    for index in 0..12 {
        assert_eq!(
            found(&format!("calm{index}")),
            format!("calm{index} passed: passed")
        );
    }
}

/// A run of `argus test run` whose only attempt fails, while the engine is frozen and a process has ended.
fn fail_while_frozen(engine: &PrivateEngine, argus: &Controller<'_>) -> Child {
    let suite = "name: late, runner: shell, command: 'test -e begun && exit 0; touch begun; until test -e go; do sleep 0.1; done; exit 1'";
    argus.write_spec(
        "e2e.yaml",
        &format!(
            "version: \"1\"\nproject: {{ name: late }}\nservices:\n{}tests:\n  suites: [{{ {suite} }}]\n",
            service("web", 18780)
        ),
    );
    argus.wait_ready("late", LIMIT);
    let process = engine.docker_ok(&["inspect", "-f", "{{.State.Pid}}", "origins-web"]);
    let process = process
        .trim()
        .parse()
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process");
    let running = argus
        .command()
        .args(["test", "run", "late", "-o", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("argus runs");
    wait::until(LIMIT, "the suite runs", || {
        argus.specs.join("begun").exists().then_some(())
    });
    engine.freeze();
    kill_process(process, Signal::KILL).expect("it runs");
    std::fs::write(argus.specs.join("go"), "").expect("a file");
    running
}

/// Longer than a failed attempt waits for the report of an engine that responds promptly.
const LATE: Duration = Duration::from_secs(4);

#[test]
fn late_report_of_the_engine_is_awaited() {
    let engine = PrivateEngine::start();
    images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    let mut running = fail_while_frozen(&engine, &argus);
    wait::all_the_while(LATE, "the attempt waits", || {
        running.try_wait().expect("its state").is_none()
    });
    engine.thaw();
    let ended = running.wait_with_output().expect("argus ends");
    let report: Value = serde_json::from_slice(&ended.stdout).expect("a report");
    let found = describe(&report["suites"][0]);
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
    let mut running = fail_while_frozen(&engine, &argus);
    wait::all_the_while(LATE, "the attempt waits", || {
        running.try_wait().expect("its state").is_none()
    });
    kill_process(Pid::from_child(&running), Signal::INT).expect("our own child takes a signal");
    wait::until(Duration::from_secs(5), "argus ends", || {
        running.try_wait().expect("its state")
    });
    engine.thaw();
}

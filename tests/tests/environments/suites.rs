//! Suites of a file on a real engine: they run when the environment is Ready, under a lease, and produce a report.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a failed step ends the test"
)]

use std::process::{Output, Stdio};

use argus_tests::fixture::{IMAGE, LIMIT, engine};
use argus_tests::{Controller, RunOptions, wait};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

/// A published service, and its suites.
fn spec(project: &str, port: u16, suites: &str) -> String {
    format!(
        r#"version: "1"
project: {{ name: {project} }}
service:
  name: web
  image: {IMAGE}
  container:
    name: {project}-web
    ports: ["{port}:8080"]
    environment: {{ API_TOKEN: hunter22 }}
    healthcheck: {{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, retries: 20, startPeriod: 5s }}
tests:
  suites:
{suites}
"#
    )
}

fn started(project: &str, port: u16, suites: &str) -> Controller<'static> {
    // The tests begin shortly after the start of the engine, to which the default margin attributes every stop.
    let waits = (
        "ARGUS_WAITS".to_owned(),
        "externalStop=1s,outageMargin=0s".to_owned(),
    );
    let options = RunOptions {
        env: vec![waits],
        ..RunOptions::default()
    };
    let argus = Controller::start(engine(), options);
    argus.write_spec("e2e.yaml", &spec(project, port, suites));
    argus.wait_until(LIMIT, "the controller accepts commands", || {
        argus.state.join("private/argus.sock").exists().then_some(())
    });
    argus
}

fn output(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

fn json(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    let from = text.find('{').expect("an object");
    serde_json::from_str(&text[from..]).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// True if no test of this name runs, so that one can begin.
fn is_free(argus: &Controller<'_>, env: &str, case: &str) -> bool {
    let ended = argus.cli(&["test", "end", env, "--case", case]);
    !ended.status.success()
}

#[test]
fn suites_run_in_their_directory_and_fail_as_one_error() {
    let suites = r#"    - { name: Smoke, id: smoke, runner: shell, command: 'busybox wget -q -O - "$ARGUS_WEB_URL/" && test -f e2e.yaml' }
    - { name: shaky, runner: shell, command: 'test -e seen || { touch seen; exit 1; }', retry: { maxAttempts: 3, delay: 100ms } }
    - { name: broken, runner: exec, command: 'echo "the token is hunter22 on $ARGUS_ENVIRONMENT" >&2; exit 3', retry: { maxAttempts: 2, delay: 100ms } }
    - { name: old, runner: exec }
"#;
    let argus = started("suites", 18900, suites);
    // Stdout contains only the report.
    let ran = argus.cli(&["test", "run", "suites", "-o", "json"]);
    assert_eq!(ran.status.code(), Some(1), "{}", output(&ran));
    let report: Value =
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", output(&ran)));
    let result = |index: usize| {
        let suite = &report["suites"][index];
        format!(
            "{} {} flaky:{} {}",
            suite["name"],
            suite["result"],
            suite["flaky"],
            suite["attempts"].as_array().map_or(0, Vec::len)
        )
    };
    // Skipped suites come first; the others follow in the order of their runs.
    assert_eq!(result(0), r#""old" "skipped" flaky:false 0"#, "{report:#}");
    assert_eq!(result(1), r#""smoke" "passed" flaky:false 1"#, "{report:#}");
    assert_eq!(result(2), r#""shaky" "passed" flaky:true 2"#, "{report:#}");
    assert_eq!(result(3), r#""broken" "failed" flaky:false 2"#, "{report:#}");
    assert_eq!(report["revision"], argus.status("suites")["revision"]);
    assert_eq!(report["portMappings"][0]["actualPort"], 18900);
    let written = String::from_utf8_lossy(&ran.stderr).into_owned();
    // The output of failed and flaky suites is on stderr, without secrets.
    assert!(
        written.contains("the token is [redacted] on suites") && !written.contains("hello"),
        "{written}"
    );
    let error = json(&ran.stderr[written.find("\n{").expect("an error after the suite's output")..]);
    assert_eq!(error["code"], "TESTS_FAILED", "{error:#}");
    assert_eq!(error["exitCode"], 3);
    assert_eq!(error["environment"], "suites");
    assert_eq!(error["revision"], report["revision"]);
    assert_eq!(error["details"]["suites"], report["suites"]);
    assert_eq!(
        error["stderrTail"], "the token is [redacted] on suites\n",
        "{error:#}"
    );
    // Without a terminal, the output of a suite is shown only if it fails. That of a command is always shown.
    let smoke = argus.cli(&["test", "run", "suites", "--suite", "smoke"]);
    assert!(smoke.status.success(), "{}", output(&smoke));
    let shown = String::from_utf8_lossy(&smoke.stdout).into_owned();
    assert!(shown.starts_with("passed smoke in "), "{shown}");
    let own = argus.cli(&["test", "run", "suites", "--case", "own", "--", "echo", "hello"]);
    assert!(
        output(&own).starts_with("hello\npassed own in "),
        "{}",
        output(&own)
    );
    let unknown = argus.cli(&["test", "run", "suites", "--suite", "moon"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", output(&unknown));
    assert!(output(&unknown).contains("suites: smoke"), "{}", output(&unknown));
    let old = argus.cli(&["test", "run", "suites", "--suite", "old", "-o", "json"]);
    assert_eq!(json(&old.stderr)["code"], "PREREQ_MISSING", "{}", output(&old));
    assert!(
        ["smoke", "shaky", "broken"]
            .iter()
            .all(|case| is_free(&argus, "suites", case))
    );
}

#[test]
fn interrupted_or_missing_commands_leave_nothing() {
    let argus = started("ended", 18910, "    []");
    let missing = argus.cli(&["test", "run", "ended", "-o", "json", "--", "no-such-runner"]);
    let error = json(&missing.stderr);
    assert_eq!(error["code"], "PREREQ_MISSING", "{error:#}");
    assert!(is_free(&argus, "ended", "no-such-runner"));

    let pids = argus.state.join("pid");
    let slow = format!("sleep 600 & echo $! > {}; wait", pids.display());
    let command = ["test", "run", "ended", "--case", "slow"];
    let late = argus.cli(
        &[
            &command[..],
            &["--ttl", "2s", "-o", "json", "--", "sh", "-c", &slow],
        ]
        .concat(),
    );
    let error = json(&late.stderr);
    assert_eq!(error["code"], "TESTS_FAILED", "{error:#}");
    assert_eq!(
        error["details"]["suites"][0]["attempts"][0]["timedOut"], true,
        "{error:#}"
    );
    let is_gone = || {
        let pid = std::fs::read_to_string(&pids).ok()?.trim().parse().ok()?;
        test_kill_process(Pid::from_raw(pid)?).is_err().then_some(())
    };
    wait::until(LIMIT, "its processes have ended", is_gone);
    assert!(is_free(&argus, "ended", "slow"));

    std::fs::remove_file(&pids).unwrap();
    let mut waiting = argus
        .command()
        .args([&command[..], &["--", "sh", "-c", &slow]].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait::until(LIMIT, "the suite runs", || {
        std::fs::read_to_string(&pids)
            .is_ok_and(|pid| !pid.is_empty())
            .then_some(())
    });
    kill_process(Pid::from_child(&waiting), Signal::INT).unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(130));
    wait::until(LIMIT, "its processes have ended", is_gone);
    assert!(is_free(&argus, "ended", "slow"));
}

#[test]
fn service_failure_during_a_suite_is_in_its_report() {
    let argus = started("shaken", 18920, "    []");
    argus.wait_ready("shaken", LIMIT);
    let go = argus.state.join("go");
    let started = argus.state.join("began");
    let command = format!(
        "touch {}; until test -e {}; do sleep 0.1; done; exit 1",
        started.display(),
        go.display()
    );
    let waiting = argus
        .command()
        .args([
            "test", "run", "shaken", "-o", "json", "--case", "during", "--", "sh", "-c", &command,
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait::until(LIMIT, "the test has begun", || started.exists().then_some(()));
    engine().kill_all_in("shaken-web");
    argus.wait_status("shaken", LIMIT, "healed", |status| {
        status["phase"] == "Ready" && Controller::service(status, "web")["restarts"] == 1
    });
    std::fs::write(&go, "").unwrap();
    let ended = waiting.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", output(&ended));
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let during = &report["suites"][0]["attempts"][0]["during"];
    assert_eq!(during["restartsDuringRun"], 1, "{report:#}");
    assert_eq!(during["restarts"][0]["reason"], "exit", "{report:#}");
    assert_eq!(during["disruptions"][0]["service"], "web", "{report:#}");
    assert_eq!(during["disruptions"][0]["attribution"], "service", "{report:#}");
    let attempts = report["suites"][0]["attempts"].as_array().unwrap();
    let found = &attempts[0]["attributions"][0];
    assert_eq!(found["attribution"], "service", "{report:#}");
    assert_eq!(found["evidence"][0]["code"], "CONTAINER_CRASH", "{report:#}");
    // The confirmation failed without a disruption, so the failure is a verdict.
    assert_eq!(attempts.len(), 2, "{report:#}");
    assert_eq!(attempts[1]["confirmation"], true, "{report:#}");
    assert_eq!(
        attempts[1]["attributions"][0]["attribution"], "test",
        "{report:#}"
    );
    let error = json(&ended.stderr);
    assert_eq!(error["service"], "web", "{error:#}");
    assert_eq!(error["details"]["restartsDuringRun"], 1, "{error:#}");
}

#[test]
fn attempt_is_repeated_after_a_kill_by_another_client() {
    let argus = started("excused", 18930, "    []");
    argus.wait_ready("excused", LIMIT);
    let file = |name: &str| argus.state.join(name);
    let (mark, go, again) = (file("mark"), file("go"), file("again"));
    let command = format!(
        "test -e {again} && exit 0; touch {again} {mark}; until test -e {go}; do sleep 0.1; done; exit 1",
        again = again.display(),
        mark = mark.display(),
        go = go.display()
    );
    let arguments = ["test", "run", "excused", "-o", "json", "--", "sh", "-c", &command];
    let running = argus
        .command()
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait::until(LIMIT, "the test has begun", || mark.exists().then_some(()));
    engine().docker_ok(&["kill", "excused-web"]);
    argus.wait_status("excused", LIMIT, "it runs again", |status| {
        status["phase"] == "Ready" && status["restartsDuringRun"] == 1
    });
    std::fs::write(&go, "").unwrap();
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", output(&ended));
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let suite = &report["suites"][0];
    assert_eq!(
        (&suite["result"], &suite["flaky"]),
        (&"passed".into(), &false.into()),
        "{report:#}"
    );
    let during = &suite["attempts"][0]["during"];
    assert_eq!(during["restarts"][0]["reason"], "stop", "{report:#}");
    let found = &during["disruptions"][0];
    assert_eq!(
        (&found["attribution"], &found["by"]),
        (&"infrastructure".into(), &"otherClient".into()),
        "{report:#}"
    );
    assert!(found["at"].is_string(), "{report:#}");
}

#[test]
fn kill_without_a_confirmation_gives_no_verdict() {
    let argus = started("unsure", 18950, "    []");
    argus.wait_ready("unsure", LIMIT);
    let (mark, go, out) = (
        argus.state.join("mark"),
        argus.state.join("go"),
        argus.state.join("report"),
    );
    let command = format!(
        "touch {}; until test -e {}; do sleep 0.1; done; exit 1",
        mark.display(),
        go.display()
    );
    let folder = out.display().to_string();
    let arguments = [
        "test",
        "run",
        "unsure",
        "--confirm",
        "off",
        "--out",
        &folder,
        "--case",
        "kill",
    ];
    let running = argus
        .command()
        .args([&arguments[..], &["--", "sh", "-c", &command]].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait::until(LIMIT, "the test has begun", || mark.exists().then_some(()));
    engine().docker_ok(&["kill", "unsure-web"]);
    argus.wait_status("unsure", LIMIT, "it runs again", |status| {
        status["phase"] == "Ready" && status["restartsDuringRun"] == 1
    });
    std::fs::write(&go, "").unwrap();
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(8), "{}", output(&ended));
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let report: Value = serde_json::from_str(&read("report.json")).unwrap();
    let suite = &report["suites"][0];
    assert!(suite["unconfirmed"].is_string(), "{report:#}");
    let found = &suite["attempts"][0]["attributions"][0];
    assert_eq!(found["attribution"], "infrastructure", "{report:#}");
    let junit = read("junit.xml");
    assert!(junit.contains(r#"type="infrastructure""#), "{junit}");
    let summary = read("summary.md");
    assert!(summary.contains("| kill | no verdict |"), "{summary}");
}

#[test]
fn results_of_runs_are_kept_and_flips_are_reported() {
    let suites = r"    - { name: good, runner: shell, command: 'true' }
    - { name: moody, runner: shell, command: 'test ! -e broken' }
";
    let argus = started("remembered", 18960, suites);
    let broken = argus.specs.join("broken");
    std::fs::write(&broken, "").unwrap();
    let failed = argus.cli(&["test", "run", "remembered"]);
    assert_eq!(failed.status.code(), Some(1), "{}", output(&failed));
    argus.wait_status("remembered", LIMIT, "the results", |status| {
        status["testResults"][1]["result"] == "failed"
    });
    let listed = argus.cli(&["get"]);
    assert!(
        output(&listed).contains("TESTS") && output(&listed).contains("1 failed, 1 passed"),
        "{}",
        output(&listed)
    );
    // The results survive a restart, and only the failed suite runs again.
    argus.kill9();
    argus.start_again();
    argus.wait_until(LIMIT, "the controller accepts commands", || {
        argus.cli(&["retry", "remembered"]).status.success().then_some(())
    });
    std::fs::remove_file(&broken).unwrap();
    argus.wait_ready("remembered", LIMIT);
    let again = argus.cli(&["test", "run", "remembered", "--rerun-failed", "-o", "name"]);
    assert_eq!(
        String::from_utf8_lossy(&again.stdout),
        "moody\n",
        "{}",
        output(&again)
    );
    let status = argus.wait_status("remembered", LIMIT, "the flip", |status| {
        let errors = status["errors"].as_array();
        errors.is_some_and(|errors| errors.iter().any(|error| error["code"] == "FLAKY_SUSPECTED"))
    });
    let mut errors = status["errors"].as_array().unwrap().iter();
    let flip = errors.find(|error| error["code"] == "FLAKY_SUSPECTED").unwrap();
    let suggestions = flip["details"]["suggestions"].to_string();
    let remedy = flip["remedies"][0]["summary"].to_string();
    for change in ["isolate", "seed", "concurrency"] {
        assert!(suggestions.contains(change), "{change}: {flip:#}");
        assert!(remedy.contains(change), "{change}: {flip:#}");
    }
    let moody = &status["testResults"][1];
    assert_eq!(moody["result"], "passed", "{moody:#}");
    assert_eq!(moody["earlier"][0]["result"], "failed", "{moody:#}");
    let none = argus.cli(&["test", "run", "remembered", "--rerun-failed"]);
    assert_eq!(none.status.code(), Some(2), "{}", output(&none));
    let results = argus.cli(&["test", "results", "remembered"]);
    assert!(output(&results).contains("moody"), "{}", output(&results));
    let described = argus.cli(&["describe", "remembered"]);
    assert!(
        output(&described).contains("passed moody at "),
        "{}",
        output(&described)
    );
}

#[test]
fn parallel_suites_run_together_after_the_others() {
    // Each parallel suite ends only while the other one runs.
    let suites = r"    - { name: left, runner: shell, parallel: true, command: 'touch left; until test -e right; do sleep 0.1; done; echo LEFT; exit 1' }
    - { name: right, runner: shell, parallel: true, command: 'touch right; until test -e left; do sleep 0.1; done; test -e alone' }
    - { name: alone, runner: shell, command: 'test ! -e left && touch alone' }
";
    let argus = started("together", 18970, suites);
    let ran = argus.cli(&["test", "run", "together", "-o", "json"]);
    assert_eq!(ran.status.code(), Some(1), "{}", output(&ran));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let suites = report["suites"].as_array().unwrap();
    let results: Vec<_> = suites
        .iter()
        .map(|suite| format!("{} {}", suite["name"], suite["result"]))
        .collect();
    assert_eq!(
        results,
        [r#""alone" "passed""#, r#""left" "failed""#, r#""right" "passed""#],
        "{report:#}"
    );
    // The output of a suite is in front of its result.
    let written = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(written.contains("LEFT\nfailed left: exit code 1"), "{written}");
}

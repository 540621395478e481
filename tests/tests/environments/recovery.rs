//! Recovery commands of users and agents on a running controller.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use argus_tests::fixture::{LIMIT, container_runs, engine, page, proxied, running, singles, text};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, RunOptions};
use serde_json::Value;

use super::journal::actions;

/// Runs a command that must succeed. Returns its JSON output.
fn output(argus: &Controller<'_>, words: &[&str]) -> Value {
    let output = argus.cli(&[words, &["-o", "json"]].concat());
    assert!(
        output.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn spec(name: &str, command: &str, more: &str) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {name} }}\nservices:\n  app:\n    image: busybox:local\n    command: [\"sh\", \"-c\", \"{command}\"]\n    \
         stopGrace: 1s\n    container: {{ name: {name}-app }}\n{more}"
    )
}

/// Waits until its revision is marked as good.
pub(crate) fn proven(argus: &Controller<'_>, name: &str) {
    let memory = argus.state.join("private").join("state.json");
    argus.wait_until(LIMIT, "the revision is good", || {
        let bytes = std::fs::read(&memory).ok()?;
        let kept: Value = serde_json::from_slice(&bytes).ok()?;
        kept["knownGood"][name]
            .as_array()
            .filter(|all| !all.is_empty())
            .map(|_| ())
    });
}

#[test]
fn held_environment_stays_until_resumed() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "held");
    let sibling = "  db:\n    image: busybox:local\n    command: [\"sleep\", \"3600\"]\n    stopGrace: 1s\n    container: { name: held-db }\n";
    argus.write_spec("e2e.yaml", &spec("held", "exec sleep 3600", sibling));
    argus.wait_ready("held", LIMIT);
    let before = container_runs(engine, "held");
    output(&argus, &["hold", "held", "--reason", "inspection"]);
    let done = actions(&argus);
    engine.docker_ok(&["rm", "-f", "held-app"]);
    let status = argus.wait_status("held", LIMIT, "reports the hold", |now| {
        now["phase"] == "Held" && Controller::service(now, "app")["waitingOn"]["reason"] == "Held"
    });
    assert!(status.to_string().contains("inspection"), "{status:#}");
    argus.sync();
    assert_eq!(actions(&argus), done, "nothing is created");
    assert_eq!(engine.inspect("held-app"), None);
    output(&argus, &["resume", "held"]);
    argus.wait_ready("held", LIMIT);
    let after = container_runs(engine, "held");
    assert_ne!(after["held-app"].0, before["held-app"].0);
    assert_eq!(after["held-db"], before["held-db"], "`db` keeps running");

    // A hold lets the running action end, and no other follows.
    proxy.reset_counts();
    proxy.inject("POST /containers/create", Fault::Hang, 1);
    engine.docker_ok(&["rm", "-f", "held-app"]);
    argus.wait_until(LIMIT, "its create runs", || {
        proxy.counts().get("POST /containers/create").map(drop)
    });
    output(&argus, &["hold", "held"]);
    proxy.heal();
    argus.wait_status("held", LIMIT, "holds the created container", |now| {
        let app = Controller::service(now, "app");
        app["containerId"].is_string() && app["waitingOn"]["reason"] == "Held"
    });
    let state = engine.inspect("held-app").expect("it is created")["State"]["Status"].clone();
    assert_eq!(state, "created");
    let starts = proxy.counts().get("POST /containers/*/start").copied();
    assert_eq!(starts, None, "no start follows");
    output(&argus, &["resume", "held"]);
    argus.wait_ready("held", LIMIT);
    let again = argus.cli(&["resume", "held"]);
    assert!(!again.status.success(), "a second resume fails");
}

#[test]
fn running_test_keeps_services_and_reports_failures() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &spec("leased", "exec sleep 3600", ""));
    argus.wait_ready("leased", LIMIT);
    let before = text(&engine.inspect("leased-app").expect("the container runs")["Id"]);
    output(
        &argus,
        &["test", "begin", "leased", "--case", "buy", "--ttl", "5m"],
    );
    argus.write_spec("e2e.yaml", &spec("leased", "exec sleep 3601", ""));
    argus.wait_status("leased", LIMIT, "waits for the test", |now| {
        Controller::service(now, "app")["waitingOn"]["reason"] == "TestLease"
    });
    assert!(running(engine, "leased-app"));
    let now = text(&engine.inspect("leased-app").expect("the container runs")["Id"]);
    assert_eq!(now, before, "it keeps running");
    let report = output(&argus, &["test", "end", "leased", "--case", "buy"]);
    assert_eq!(report["value"]["restartsDuringRun"], 0, "{report:#}");
    argus.wait_until(LIMIT, "it is replaced after the test", || {
        let found = engine.inspect("leased-app")?;
        (text(&found["Id"]) != before && found["State"]["Running"] == true).then_some(())
    });
    argus.wait_ready("leased", LIMIT);

    output(&argus, &["test", "begin", "leased", "--case", "sell"]);
    engine.kill_all_in("leased-app");
    argus.wait_status("leased", LIMIT, "is started again", |now| {
        now["restartsDuringRun"] == 1 && now["phase"] == "Ready"
    });
    let report = output(&argus, &["test", "end", "leased", "--case", "sell"]);
    let found = &report["value"]["disruptions"][0];
    assert_eq!(
        (&found["service"], &found["attribution"]),
        (&"app".into(), &"service".into())
    );
}

#[test]
fn rollback_restores_the_last_good_revision() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &spec("rolled", "exec sleep 3600", ""));
    let good = argus.wait_ready("rolled", LIMIT)["revision"].clone();
    let none = argus.cli(&["rollback", "rolled"]);
    assert!(!none.status.success(), "no revision to roll back to");
    proven(&argus, "rolled");
    argus.write_spec("e2e.yaml", &spec("rolled", "exit 127", ""));
    argus.wait_status("rolled", LIMIT, "the new revision fails", |now| {
        Controller::service(now, "app")["state"] == "Failed"
    });
    let answer = output(&argus, &["rollback", "rolled"]);
    assert_eq!(answer["value"], good, "{answer:#}");
    let status = argus.wait_ready("rolled", LIMIT);
    assert_eq!(status["revision"], good);
    // The rollback survives a restart of the controller, and ends with the next revision.
    argus.kill9();
    argus.start_again();
    argus.wait_status("rolled", LIMIT, "still on the good revision", |now| {
        now["phase"] == "Ready" && now["revision"] == good
    });
    argus.write_spec("e2e.yaml", &spec("rolled", "exec sleep 3602", ""));
    argus.wait_status("rolled", LIMIT, "the next revision", |now| {
        now["phase"] == "Ready" && now["revision"] != good
    });
}

#[test]
fn rollback_keeps_what_it_does_not_change_and_is_shown() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let sibling = "  db:\n    image: busybox:local\n    command: [\"sleep\", \"3600\"]\n    stopGrace: 1s\n    container: { name: kept-db }\n";
    argus.write_spec("e2e.yaml", &spec("kept", "exec sleep 3600", sibling));
    let good = text(&argus.wait_ready("kept", LIMIT)["revision"]);
    proven(&argus, "kept");
    let id = || text(&engine.inspect("kept-db").expect("the container runs")["Id"]);
    let before = id();
    argus.write_spec("e2e.yaml", &spec("kept", "exit 127", sibling));
    let failed = argus.wait_status("kept", LIMIT, "the new revision fails", |now| {
        Controller::service(now, "app")["state"] == "Failed"
    });
    let bad = text(&failed["revision"]);
    output(&argus, &["rollback", "kept"]);
    argus.wait_ready("kept", LIMIT);
    assert_eq!(id(), before, "the rollback does not change `db`");

    let printed = |words: &[&str]| {
        let output = argus.cli(words);
        assert!(output.status.success(), "{words:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let all = printed(&["get"]);
    assert!(all.contains("Ready (rolled back)"), "{all}");
    let note = format!("rolled back from revision {bad}");
    for words in [["get", "kept"], ["diff", "kept"], ["describe", "kept"]] {
        let text = printed(&words);
        assert!(text.contains(&note), "{words:?}: {text}");
    }
    let diff = output(&argus, &["diff", "kept"]);
    assert_eq!(
        (&diff["revision"], &diff["rolledBackFrom"]),
        (&good.into(), &bad.into()),
        "{diff:#}"
    );
    assert_eq!(diff["keys"][0]["key"], "services.app.command[2]", "{diff:#}");

    argus.write_spec("e2e.yaml", &spec("kept", "exec sleep 3602", sibling));
    argus.wait_ready("kept", LIMIT);
    assert_eq!(id(), before, "the next revision does not change `db` either");
    let all = printed(&["get"]);
    assert!(!all.contains("rolled back"), "{all}");
}

#[test]
fn late_revision_is_rolled_back_automatically() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let auto = "argus: { rollback: { auto: true, deadline: 3s } }\n";
    argus.write_spec("e2e.yaml", &spec("auto", "exec sleep 3600", auto));
    let good = argus.wait_ready("auto", LIMIT)["revision"].clone();
    proven(&argus, "auto");
    argus.write_spec("e2e.yaml", &spec("auto", "exit 126", auto));
    let status = argus.wait_status("auto", LIMIT, "is rolled back", |now| {
        now["phase"] == "Ready" && now["notes"].to_string().contains("rolled back")
    });
    assert_eq!(status["revision"], good);
    assert!(running(engine, "auto-app"));
}

#[test]
fn fork_runs_with_its_own_ports() {
    let engine = engine();
    // A failure near the start of a new engine is the engine's, and no failure of the service.
    let options = RunOptions {
        env: vec![("ARGUS_WAITS".into(), "outageMargin=0s".into())],
        ..RunOptions::default()
    };
    let argus = Controller::start(engine, options);
    argus.write_spec("e2e.yaml", &singles("origin", &[18295], ""));
    argus.wait_ready("origin", LIMIT);
    engine.kill_all_in("origin-s0");
    argus.wait_status("origin", LIMIT, "is restarted", |now| {
        now["phase"] == "Ready" && now["services"][0]["restarts"] == 1
    });
    output(&argus, &["fork", "origin", "copy"]);
    let copy = argus.wait_ready("copy", LIMIT);
    let notes = copy["notes"].to_string();
    assert!(notes.contains("`s0` of `origin` failed once"), "{copy:#}");
    let port = copy["portMappings"][0]["actualPort"].as_u64().expect("a port");
    assert_ne!(port, 18295);
    for port in [18295, port] {
        assert_eq!(page(engine, port).as_deref(), Some("hello"), "{port}");
    }
    assert!(engine.inspect("copy-s0").is_some());
    assert!(!argus.cli(&["fork", "origin", "copy"]).status.success());
    output(&argus, &["down", "copy"]);
    assert!(engine.inspect("copy-s0").is_none());
    assert_eq!(page(engine, 18295).as_deref(), Some("hello"));
}

#[test]
fn remedy_commands_work_as_printed() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &spec("cured", "exec sleep 3600", ""));
    let good = argus.wait_ready("cured", LIMIT)["revision"].clone();
    proven(&argus, "cured");
    argus.write_spec(
        "e2e.yaml",
        &spec(
            "cured",
            "echo no such table >&2; exit 1",
            "resilience: { container: { maxRestarts: 0 } }\n",
        ),
    );
    let status = argus.wait_status("cured", LIMIT, "exhausts its restarts", |now| {
        Controller::service(now, "app")["lastError"]["code"] == "CONTAINER_RESTART_EXHAUSTED"
    });
    let error = Controller::service(&status, "app")["lastError"].clone();
    let remedies = error["remedies"].as_array().expect("remedies").clone();
    let commands = remedies.iter().filter_map(|remedy| {
        remedy["command"]
            .as_str()?
            .strip_prefix("argus ")
            .map(str::to_owned)
    });
    let kept = argus.state.join("private/evidence/cured/app/1/evidence.json");
    argus.wait_until(LIMIT, "the evidence is stored", || kept.is_file().then_some(()));
    let mut ran = 0;
    for command in commands {
        let output = argus.cli(&command.split(' ').collect::<Vec<_>>());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "argus {command}: {text}");
        ran += 1;
    }
    assert_eq!(ran, 4, "logs, evidence, retry, rollback: {error:#}");
    let evidence = argus.cli(&["evidence", "cured", "app"]);
    assert!(String::from_utf8_lossy(&evidence.stdout).contains("no such table"));
    let why = argus.cli(&["why", "cured"]);
    assert!(why.status.success());
    let back = argus.wait_ready("cured", LIMIT);
    assert_eq!(back["revision"], good, "the last remedy was the rollback");
}

#[test]
fn dependency_with_a_failing_check_is_the_cause() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    // The check of `db` succeeds at first, and fails later for less time than its `retries` allow.
    let spec = r#"version: "1"
project: { name: unready }
services:
  db:
    image: busybox:local
    command: ["sh", "-c", "touch /s/up; [ -f /s/once ] || { touch /s/once; sleep 4; rm /s/up; sleep 25; touch /s/up; }; exec sleep 100000"]
    container:
      name: unready-db
      volumes: ["state:/s"]
      healthcheck: { type: exec, command: ["test", "-f", "/s/up"], interval: 500ms, timeout: 5s, retries: 200, startPeriod: 5s }
  app:
    image: busybox:local
    dependsOn: [db]
    command: ["sh", "-c", "sleep 6; test -f /s/up || { echo 'cannot reach db' >&2; exit 1; }; exec sleep 100000"]
    container:
      name: unready-app
      volumes: ["state:/s:ro"]
      healthcheck: { type: exec, command: ["touch", "/tmp/probed"], interval: 10m, timeout: 5s, retries: 20, startPeriod: 5s }
argus: { restart: { delay: 1s, maxRestarts: 1 } }
"#;
    argus.write_spec("e2e.yaml", spec);
    let failed = argus.wait_status("unready", LIMIT, "the end of app", |now| {
        now["errors"].to_string().contains("CONTAINER_CRASH")
    });
    let error = &failed["errors"][0];
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("its dependency `db`"), "{error}");
    let [first, second] = [0, 1].map(|at| &error["remedies"][at]);
    assert_eq!(first["key"], "services.db.container.healthcheck", "{error}");
    assert!(first.to_string().contains("argus why unready/db"), "{error}");
    assert_eq!(second["command"], "argus logs unready db", "{error}");
    let waiting = argus.wait_status("unready", LIMIT, "the wait of app", |now| {
        let app = Controller::service(now, "app");
        app["waitingOn"]["message"] == "the health check of `db` to succeed again"
    });
    assert_eq!(Controller::service(&waiting, "db")["health"], "Healthy");
    let why = argus.cli(&["why", "unready/db"]);
    let why = String::from_utf8_lossy(&why.stdout);
    let warning = "warning: e2e.yaml: the health check of `db` fails: exec test: exit code 1";
    assert!(why.contains(warning), "{why}");
    let row = Controller::service(&failed, "app");
    assert_eq!(row["restartBudget"]["used"], 0, "{row}");
    argus.wait_ready("unready", LIMIT);

    // The interval of its probe is longer than this test: the restart of its dependency causes the next probe.
    let before = container_runs(engine, "unready")["unready-app"].clone();
    engine.docker_ok(&["exec", "unready-app", "rm", "/tmp/probed"]);
    engine.docker_ok(&["kill", "unready-db"]);
    argus.wait_until(LIMIT, "app is probed again", || {
        let found = engine.docker(&["exec", "unready-app", "test", "-f", "/tmp/probed"]);
        found.status.success().then_some(())
    });
    assert_eq!(container_runs(engine, "unready")["unready-app"], before);
}

//! A daemon that is frozen, killed, or restarted under many environments: everything becomes Ready again, without
//! further actions.

use argus_tests::fixture::{LIMIT, condition, container_runs, images, shop, singles, text};
use argus_tests::{Controller, Options, PrivateEngine, Proxy, RunOptions, wait};
use serde_json::Value;

use super::{engine_breaker_states, error};

fn prepared() -> PrivateEngine {
    let engine = PrivateEngine::start();
    images(&engine);
    engine
}

fn is_fresh_and_ready(status: &Value) -> bool {
    status["phase"] == "Ready"
        && status["stale"] != true
        && condition(status, "EngineReachable")["status"] == "True"
}

/// Options for an engine that takes long to stop its containers on a busy machine: its stops look like those of a person.
///
/// `end_after_an_outage_is_charged_from_its_margin_on` and `graceful_restart_of_the_engine_charges_no_restart` have the default waits, in
/// virtual time.
fn patient() -> RunOptions {
    RunOptions {
        env: vec![("ARGUS_WAITS".into(), "externalStop=60s".into())],
        ..RunOptions::default()
    }
}

/// The same for an engine that reports the ends of many containers, or dates them at its next start: a busy one does that late.
fn more_patient() -> RunOptions {
    RunOptions {
        env: vec![("ARGUS_WAITS".into(), "externalStop=60s,outageMargin=60s".into())],
        ..RunOptions::default()
    }
}

/// Failed attempts to reach the engine, as the status reports them.
fn failed_attempts(argus: &Controller<'_>) -> Option<u64> {
    error(&argus.controller_status(), "DOCKER_UNAVAILABLE")?["details"]["tries"].as_u64()
}

// In virtual time, `frozen_engine_is_reported_after_a_list_and_two_pings` has the time of the report, and
// `outage_of_90_s_is_reported_and_restarts_nothing` the long outage.
#[test]
fn frozen_engine_is_reported_and_found() {
    let engine = prepared();
    let options = RunOptions {
        env: vec![("ARGUS_TIMEOUT_SHORT".into(), "2".into())],
        ..RunOptions::default()
    };
    let argus = Controller::start(&engine, options);
    argus.write_spec("a.e2e.yaml", &shop("asleep", 18700, "one"));
    argus.wait_ready("asleep", LIMIT);
    let before = container_runs(&engine, "asleep");
    engine.freeze();
    let first = argus.wait_until(LIMIT, "the status names the frozen engine", || {
        failed_attempts(&argus)
    });
    argus.wait_until(LIMIT, "the engine's breaker is open", || {
        (argus.controller_status()["breaker"]["state"] == "open").then_some(())
    });
    // A new environment during the outage.
    argus.write_spec("b.e2e.yaml", &singles("dreamt", &[18710], ""));
    argus.wait_status("dreamt", LIMIT, "reports the reason of its wait", |now| {
        condition(now, "EngineReachable")["status"] == "False" && now["phase"] != "Ready"
    });
    let logs = argus.cli(&["logs", "asleep", "db"]);
    assert_eq!(logs.status.code(), Some(4), "{logs:?}");
    let wait = [
        "wait",
        "dreamt",
        "--timeout",
        "10m",
        "--engine-patience",
        "1s",
        "-o",
        "json",
    ];
    let waited = argus.cli(&wait);
    let shown = String::from_utf8_lossy(&waited.stderr);
    assert_eq!(waited.status.code(), Some(4), "{shown}");
    let is_outage = |code: &str| shown.contains(&format!("\"code\": \"{code}\""));
    assert!(
        is_outage("DOCKER_UNAVAILABLE") || is_outage("CIRCUIT_OPEN"),
        "{shown}"
    );
    assert!(shown.contains("\"retryAfter\""), "{shown}");
    let status = argus.status("asleep");
    assert_eq!(status["stale"], true, "{status:#}");
    assert_eq!(argus.controller_status()["mode"], "Minimal");
    argus.wait_until(LIMIT, "two more attempts fail", || {
        (failed_attempts(&argus) >= Some(first + 2)).then_some(())
    });
    let breaker = engine_breaker_states(&argus);
    assert_eq!(breaker.first().map(String::as_str), Some("open"), "{breaker:?}");
    assert!(
        !breaker.contains(&"closed".to_owned()),
        "it stayed open: {breaker:?}"
    );
    engine.thaw();
    argus.wait_status("asleep", 3 * LIMIT, "is Ready again", is_fresh_and_ready);
    argus.wait_status("dreamt", LIMIT, "is created after the outage", is_fresh_and_ready);
    assert_eq!(container_runs(&engine, "asleep"), before, "nothing was restarted");
    assert_eq!(container_runs(&engine, "dreamt").len(), 1);
    let whole = argus.controller_status();
    assert_eq!(whole["breaker"]["state"], "closed", "{whole:#}");
    assert!(error(&whole, "DOCKER_UNAVAILABLE").is_none(), "{whole:#}");
}

/// Kills the daemon with SIGKILL and starts it again. Returns the runs before and after.
fn killed(engine: &PrivateEngine, name: &str, options: RunOptions) -> (Runs, Runs) {
    let argus = Controller::start(engine, options);
    argus.write_spec("e2e.yaml", &shop(name, 18720, "one"));
    argus.wait_ready(name, LIMIT);
    let before = container_runs(engine, name);
    engine.kill9();
    argus.wait_status(name, LIMIT, "reports that the engine is unreachable", |now| {
        condition(now, "EngineReachable")["status"] == "False"
    });
    engine.start_again();
    let status = argus.wait_status(name, 3 * LIMIT, "is Ready again", is_fresh_and_ready);
    for service in ["db", "api", "web"] {
        let row = Controller::service(&status, service);
        assert_eq!(row["restartBudget"]["used"], 0, "no restart was charged: {row:#}");
    }
    // Nothing from before the kill is still in progress.
    argus.assert_settled(name);
    (before, container_runs(engine, name))
}

#[test]
fn engine_restart_without_a_controller_is_no_failure() {
    let engine = prepared();
    let argus = Controller::start(&engine, more_patient());
    argus.write_spec("e2e.yaml", &singles("absent", &[18730], ""));
    argus.wait_ready("absent", LIMIT);
    argus.kill9();
    engine.kill9();
    engine.start_again();
    let before = container_runs(&engine, "absent");
    argus.start_again();
    argus.wait_until(LIMIT, "the container runs again", || {
        (container_runs(&engine, "absent") != before).then_some(())
    });
    let status = argus.wait_status("absent", LIMIT, "is Ready again", is_fresh_and_ready);
    for row in status["services"].as_array().unwrap() {
        assert_eq!(
            (&row["restarts"], &row["restartBudget"]["used"]),
            (&1.into(), &0.into()),
            "{row:#}"
        );
    }
    let journal = argus.cli(&["events", "absent", "-o", "json"]);
    let journal = String::from_utf8_lossy(&journal.stdout).into_owned();
    assert!(!journal.contains("CONTAINER_CRASH"), "{journal}");
}

type Runs = std::collections::BTreeMap<String, (String, String)>;

#[test]
fn daemon_killed_with_live_restore_keeps_every_run() {
    let engine = PrivateEngine::start_with(Options {
        live_restore: true,
        ..Options::default()
    });
    images(&engine);
    let (before, after) = killed(&engine, "kept", RunOptions::default());
    assert_eq!(before, after);
}

#[test]
fn daemon_killed_restarts_each_container_once() {
    let engine = prepared();
    let (before, after) = killed(&engine, "lost", more_patient());
    let ids = |runs: &Runs| {
        runs.iter()
            .map(|(name, (id, _))| (name.clone(), id.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&before), ids(&after), "no container was recreated");
    let starts = || {
        let listed = engine.docker_ok(&[
            "events",
            "--since",
            "10m",
            "--until",
            "0s",
            "--filter",
            "event=start",
            "--format",
            "{{.Actor.ID}}",
        ]);
        listed.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // The engine lists events until the last full second.
    let starts = wait::until(LIMIT, "the engine lists the starts", || {
        let starts = starts();
        after
            .values()
            .all(|(id, _)| starts.contains(id))
            .then_some(starts)
    });
    for (name, (id, _)) in &after {
        assert_eq!(starts.iter().filter(|start| *start == id).count(), 1, "{name}");
    }
}

#[test]
fn ten_environments_recover_from_an_engine_restart() {
    const ENVIRONMENTS: u16 = 10;
    let engine = prepared();
    let proxy = Proxy::start(&engine.scratch("ten").join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..more_patient()
    };
    let argus = Controller::start(&engine, options);
    let names: Vec<_> = (0..ENVIRONMENTS).map(|number| format!("ten{number}")).collect();
    for (number, name) in (0..).zip(&names) {
        let port = 18730 + 2 * number;
        argus.write_spec(&format!("{name}.e2e.yaml"), &singles(name, &[port, port + 1], ""));
    }
    for name in &names {
        argus.wait_ready(name, 2 * LIMIT);
    }
    let ids = |name: &String| container_runs(&engine, name).into_values().map(|(id, _)| id);
    let before: Vec<_> = names.iter().flat_map(ids).collect();
    assert_eq!(before.len(), 2 * usize::from(ENVIRONMENTS));
    proxy.reset_counts();
    engine.restart();
    for name in &names {
        argus.wait_status(name, 3 * LIMIT, "is Ready again", |now| {
            is_fresh_and_ready(now)
                && engine
                    .containers_with(&format!("argusai.project={name}"))
                    .iter()
                    .all(|one| text(&one["State"]) == "running")
        });
    }
    for name in &names {
        let services = argus.status(name)["services"].as_array().cloned();
        for row in services.expect("services") {
            assert_eq!(row["restartBudget"]["used"], 0, "no restart was charged: {row:#}");
        }
    }
    let after: Vec<_> = names.iter().flat_map(ids).collect();
    assert_eq!(before, after, "no container was recreated");
    let counts = proxy.counts();
    let counted = |class: &str| counts.get(class).copied().unwrap_or(0);
    assert_eq!(
        counted("POST /containers/*/start"),
        before.len(),
        "each was started once: {counts:?}"
    );
    assert_eq!(counted("POST /containers/*/stop"), 0, "{counts:?}");
    assert_eq!(counted("POST /containers/*/restart"), 0, "{counts:?}");
}

#[test]
fn services_start_in_order_after_an_engine_restart() {
    let engine = prepared();
    let argus = Controller::start(&engine, patient());
    argus.write_spec("e2e.yaml", &shop("ordered", 18730, "one"));
    argus.wait_ready("ordered", LIMIT);
    let before = container_runs(&engine, "ordered");
    let events = |after: &str| -> Value {
        let output = argus.cli(&[
            "events", "ordered", "--type", "intent", "--after", after, "--tail", "1000", "-o", "json",
        ]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let last = events("0")["last"].to_string();
    engine.restart();
    argus.wait_status("ordered", LIMIT * 2, "is ready with new runs", |status| {
        let now = container_runs(&engine, "ordered");
        is_fresh_and_ready(status)
            && now.len() == 3
            && now.iter().all(|(name, run)| before.get(name) != Some(run))
    });
    let items = events(&last)["items"].as_array().cloned().unwrap_or_default();
    let starts: Vec<String> = items
        .iter()
        .filter(|intent| {
            intent["action"]["verb"] == "start-container" || intent["action"]["verb"] == "startContainer"
        })
        .map(|intent| text(&intent["subject"]["service"]))
        .collect();
    // A dependency becomes healthy before its dependents start.
    let first = |name: &str| starts.iter().position(|started| started == name);
    let order = ["db", "api", "web"].map(first);
    assert!(
        order.iter().all(Option::is_some) && order.is_sorted(),
        "{starts:?}"
    );
}

//! Test leases: an unhealthy service keeps running during a test; a removed one is replaced. The report has the causes.

use argus_core::action::ActionKind;
use argus_core::time::Timestamp;
use argus_tests::fixture::{IMAGE, LIMIT, images};
use argus_tests::{Controller, PrivateEngine, RunOptions};
use rustix::process::Signal;
use serde_json::Value;

use super::case::{Case, shell, started, time, until};
use super::health::web;
use super::memory::GROW;

/// Begins a test, or extends its lease. Returns the end of the lease.
fn begin(case: &Case, test: &str, ttl: &str) -> Timestamp {
    let reply = reply(case, &["test", "begin", case.name, "--case", test, "--ttl", ttl]);
    time(&reply["value"]["until"])
}

fn end(case: &Case, test: &str) -> Value {
    reply(case, &["test", "end", case.name, "--case", test])
}

fn reply(case: &Case, command: &[&str]) -> Value {
    let output = case.argus.cli(&[command, &["-o", "json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Makes the service unhealthy, and waits until its repair is deferred to the end of the test. Returns the service.
fn make_unhealthy(case: &Case, test: &str) -> Value {
    case.engine
        .docker_ok(&["exec", &case.container(), "rm", "/www/healthz"]);
    let output = case.wait("its repair is deferred", |bad| {
        bad["waitingOn"]["reason"] == "TestLease"
    });
    let message = output["waitingOn"]["message"].to_string();
    assert!(message.contains(test), "{message}");
    assert_eq!(output["health"], "Unhealthy", "{output:#}");
    assert_eq!(output["lastError"]["code"], "HEALTH_CHECK_TIMEOUT", "{output:#}");
    output
}

/// Waits until it is healthy again, in a new container.
fn recovered(case: &Case, before: Timestamp) -> Timestamp {
    let again = case.started_after(before);
    case.argus.wait_ready(case.name, LIMIT);
    again
}

fn since(case: &Case) -> Timestamp {
    case.inspect()
        .as_ref()
        .and_then(started)
        .expect("the container runs")
}

/// A case with a healthy service, and the start of its run. What another client stops starts again after a second.
fn healthy(name: &'static str, port: u16) -> (Case, Timestamp) {
    let restart = "maxRestarts: 10, restartDelay: 500ms, restartBackoff: linear";
    let service = web(name, port, "/healthz", "stopGrace: 1s");
    let options = RunOptions {
        env: vec![("ARGUS_WAITS".to_owned(), "externalStop=1s".to_owned())],
        ..RunOptions::default()
    };
    let case = Case::start_with(options, name, restart, &service);
    case.argus.wait_ready(name, LIMIT);
    let since = since(&case);
    (case, since)
}

#[test]
fn unhealthy_service_runs_until_the_test_ends() {
    let (case, before) = healthy("deferred", 18341);
    let ends = begin(&case, "buy", "5m");
    let output = make_unhealthy(&case, "buy");
    assert_eq!(until(&output), ends, "{output:#}");
    assert_eq!(
        output["lastError"]["details"]["test"]["case"], "buy",
        "{output:#}"
    );
    assert_eq!(case.count("bad", ActionKind::StopContainer), 0);
    assert_eq!(since(&case), before, "it keeps running");
    let report = end(&case, "buy");
    let report = &report["value"];
    assert_eq!(
        report["restartsDuringRun"], 0,
        "its restart is deferred: {report:#}"
    );
    let found = &report["disruptions"][0];
    assert_eq!(
        (&found["service"], &found["cause"]),
        (&"bad".into(), &"healthCheck".into()),
        "{report:#}"
    );
    recovered(&case, before);
}

#[test]
fn expired_test_lease_ends() {
    let (case, before) = healthy("forgotten", 18342);
    begin(&case, "sell", "30m");
    make_unhealthy(&case, "sell");
    let stops = || {
        let mut actions = case.actions("bad");
        actions.retain(|action| action.kind == ActionKind::StopContainer);
        actions
    };
    assert!(stops().is_empty(), "its repair is deferred: {:#?}", stops());
    let expires = begin(&case, "sell", "1s");
    recovered(&case, before);
    let first = stops().into_iter().next().expect("it was stopped");
    assert!(first.at >= expires, "before the expiry at {expires}: {first:?}");
    let status = case.argus.status(case.name);
    assert!(!status.to_string().contains("TestLease"), "{status:#}");
}

#[test]
fn dead_and_silent_services_are_restarted_during_a_test() {
    let (case, before) = healthy("useless", 18343);
    begin(&case, "ask", "5m");
    make_unhealthy(&case, "ask");
    case.signal(Signal::KILL);
    let again = case.started_after(before);
    case.engine
        .docker_ok(&["exec", &case.container(), "touch", "/www/healthz"]);
    case.argus.wait_ready(case.name, LIMIT);
    // The probe gets no response, although the process exists.
    let stop = "kill -STOP $(busybox pidof httpd)";
    case.engine
        .docker_ok(&["exec", &case.container(), "sh", "-c", stop]);
    recovered(&case, again);
    let report = end(&case, "ask");
    let services = report["value"]["disruptions"].as_array().expect("the failures");
    assert!(services.len() >= 2, "{report:#}");
    assert_eq!(report["value"]["restartsDuringRun"], 2, "{report:#}");
    let restarts = report["value"]["restarts"].as_array().expect("the restarts");
    let reasons: Vec<_> = restarts.iter().map(|found| &found["reason"]).collect();
    assert_eq!(reasons, ["exit", "healthCheck"], "{report:#}");
}

/// The values of a field in all entries of a list of the report.
fn all<'a>(report: &'a Value, list: &str, field: &str) -> Vec<&'a Value> {
    let entries = report["value"][list].as_array().expect("a list");
    entries.iter().map(|entry| &entry[field]).collect()
}

#[test]
fn interruptions_by_others_are_infrastructure() {
    let (case, before) = healthy("meddled", 18344);
    begin(&case, "buy", "10m");
    let (container, network) = (case.container(), "argusai-meddled-network");
    case.engine
        .docker_ok(&["network", "disconnect", network, &container]);
    case.argus.wait_until(LIMIT, "it is attached again", || {
        case.inspect()?["NetworkSettings"]["Networks"][network]
            .is_object()
            .then_some(())
    });
    case.argus.wait_ready(case.name, LIMIT);
    assert_eq!(since(&case), before, "it keeps running");

    case.engine.docker_ok(&["rm", "-f", &container]);
    let again = recovered(&case, before);
    case.engine.docker_ok(&["stop", "-t", "0", &container]);
    recovered(&case, again);
    case.engine.docker_ok(&["pause", &container]);
    case.argus.wait_until(LIMIT, "it runs again", || {
        (case.inspect()?["State"]["Paused"] == false).then_some(())
    });
    case.argus.wait_ready(case.name, LIMIT);

    let report = end(&case, "buy");
    let causes = ["detachment", "removal", "stop", "pause"];
    assert_eq!(all(&report, "disruptions", "cause"), causes, "{report:#}");
    assert_eq!(
        all(&report, "disruptions", "attribution"),
        ["infrastructure"; 4],
        "{report:#}"
    );
    assert_eq!(
        all(&report, "disruptions", "by"),
        ["otherClient"; 4],
        "{report:#}"
    );
    assert_eq!(
        all(&report, "restarts", "reason"),
        ["removal", "stop"],
        "{report:#}"
    );
    assert_eq!(report["value"]["restartsDuringRun"], 2, "{report:#}");
}

#[test]
fn exits_are_attributed_to_service_or_resource() {
    // Each file triggers one exit.
    let script = format!(
        "while sleep 0.2; do \
         if test -e /exit; then rm /exit; exit 3; fi; \
         if test -e /disk; then rm /disk; echo 'write: No space left on device' >&2; exit 1; fi; \
         if test -e /memory; then rm /memory; {GROW}; fi; done"
    );
    let restart = "maxRestarts: 3, restartDelay: 100ms, restartBackoff: linear";
    let service = shell("blamed", &script, "memory: 32m\n    criticality: critical");
    let case = Case::start("blamed", restart, &service);
    case.argus.wait_ready(case.name, LIMIT);
    begin(&case, "buy", "10m");
    for (restarts, file) in [(1, "/exit"), (2, "/disk"), (3, "/memory")] {
        let since = since(&case);
        case.engine.docker_ok(&["exec", &case.container(), "touch", file]);
        case.started_after(since);
        case.wait_restarted(restarts);
    }
    // The budget is spent: the next failure ends the test.
    case.engine
        .docker_ok(&["exec", &case.container(), "touch", "/exit"]);
    case.wait("is given up", |bad| bad["waitingOn"]["reason"] == "GaveUp");
    let ended = case
        .argus
        .wait_until(LIMIT, "the end of the lease is recorded", || {
            let output = case
                .argus
                .cli(&["events", "blamed", "--type", "lease_ended", "-o", "json"]);
            let events: Value = serde_json::from_slice(&output.stdout).ok()?;
            Some(events["items"].clone()).filter(|items| items[0].is_object())
        });
    assert_eq!(ended.as_array().map(Vec::len), Some(1), "{ended:#}");
    assert_eq!(
        (&ended[0]["service"], &ended[0]["case"]),
        (&"bad".into(), &"buy".into()),
        "{ended:#}"
    );
    // The output of a container is known only after its end was reported.
    let report = end(&case, "buy");
    assert!(report["value"]["expired"].is_string(), "{report:#}");
    let causes = ["exit", "diskFull", "outOfMemory", "exit"];
    assert_eq!(all(&report, "disruptions", "cause"), causes, "{report:#}");
    let attributions = ["service", "resource", "resource", "service"];
    assert_eq!(
        all(&report, "disruptions", "attribution"),
        attributions,
        "{report:#}"
    );
    assert_eq!(all(&report, "restarts", "reason"), causes[..3], "{report:#}");
}

#[test]
fn engine_outage_during_a_test_is_infrastructure() {
    let engine = PrivateEngine::start();
    images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    argus.write_spec(
        "e2e.yaml",
        &format!(
            "version: \"1\"\nproject: {{ name: struck }}\nservices:\n  web: {{ image: {IMAGE}, container: {{ name: struck-web }} }}\n"
        ),
    );
    argus.wait_ready("struck", LIMIT);
    let first = argus.cli(&["test", "begin", "struck", "--case", "buy"]);
    assert!(
        first.status.success(),
        "{}",
        String::from_utf8_lossy(&first.stderr)
    );
    engine.restart();
    argus.wait_status("struck", LIMIT, "it runs again", |status| {
        status["phase"] == "Ready" && status["restartsDuringRun"] == 1
    });
    let ended = argus.cli(&["test", "end", "struck", "--case", "buy", "-o", "json"]);
    let report: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(
        all(&report, "disruptions", "cause"),
        ["engineOutage"],
        "{report:#}"
    );
    assert_eq!(all(&report, "disruptions", "by"), ["engine"], "{report:#}");
    assert_eq!(all(&report, "restarts", "reason"), ["engineOutage"], "{report:#}");
}

//! Content of the evidence of a failed run, and where a user sees it.

use std::fs;

use argus_tests::fixture::{LIMIT, text};
use serde_json::{Value, json};

use super::case::{Case, once, shell};
use super::health::web;

/// Content of `evidence.json` of the run in an error.
pub(crate) fn facts(case: &Case, error: &Value) -> Value {
    let facts = fs::read(case.evidence(error).join("evidence.json")).expect("evidence");
    serde_json::from_slice(&facts).expect("whole JSON")
}

/// Standard output of a successful command.
pub(crate) fn shown(case: &Case, args: &[&str]) -> String {
    let output = case.argus.cli(args);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn evidence_describes_the_run_and_survives_a_retry() {
    // The memory is sampled every 2 s.
    let script = once("sleep 7; for n in 1 2 3 4 5 6 7; do echo line $n >&2; done; exit 3");
    let service = shell("described", &script, "memory: 32m");
    let case = Case::start("described", "maxRestarts: 0", &service);
    let output = case.wait("gives up with evidence", |bad| {
        bad["waitingOn"]["reason"] == "GaveUp"
            && bad["lastError"]["details"]["attempts"][0]["lastLines"][4].is_string()
    });
    let error = &output["lastError"];
    let run = &error["details"]["attempts"][0];
    let last_five: Vec<String> = (3..=7).map(|number| format!("line {number}")).collect();
    assert_eq!(run["lastLines"], json!(last_five), "{error:#}");

    let stored = facts(&case, &json!({ "details": run }));
    let container = case.inspect().expect("the container exists");
    let labels = &container["Config"]["Labels"];
    for (name, expected) in [
        ("kind", &json!("exit")),
        ("exitCode", &json!(3)),
        ("signal", &Value::Null),
        ("stoppedBy", &Value::Null),
        ("memoryLimit", &json!(32 << 20)),
        ("revision", &labels["argusai.revision"]),
        ("specHash", &labels["argusai.spec-hash"]),
        ("image", &json!("busybox:local")),
        ("imageId", &container["Image"]),
        ("containerId", &container["Id"]),
        ("startedAt", &run["startedAt"]),
        ("endedAt", &run["endedAt"]),
        ("durationMs", &run["durationMs"]),
    ] {
        assert_eq!(&stored[name], expected, "{name} in {stored:#}");
        assert_eq!(&run[name], expected, "{name} in {run:#}");
    }
    assert!(
        stored["durationMs"].as_u64() >= Some(7_000) && stored["startedAt"].is_string(),
        "{stored:#}"
    );
    assert!(stored["memoryPeak"].as_u64() > Some(0), "{stored:#}");
    let described = shown(&case, &["describe", "described"]);
    let why = shown(&case, &["why", "described/bad"]);
    for line in &last_five {
        assert!(described.contains(&format!("| {line}\n")), "{described}");
        assert!(why.contains(&format!("| {line}\n")), "{why}");
    }
    let before = shown(&case, &["evidence", "described", "bad", "1"]);
    for (name, value) in [
        ("Revision", &stored["revision"]),
        ("Image", &stored["image"]),
        ("Image", &stored["imageId"]),
    ] {
        let line = before.lines().find(|line| line.starts_with(name));
        assert!(line.is_some_and(|line| line.contains(&text(value))), "{before}");
    }

    shown(&case, &["retry", "described"]);
    case.wait("forgets the failure", |bad| bad["lastError"].is_null());
    let after = shown(&case, &["evidence", "described", "bad", "1"]);
    assert_eq!(after, before, "the verdict is kept");
}

#[test]
fn unhealthy_run_names_argus_as_its_stopper() {
    let case = Case::start(
        "stopped",
        "restartDelay: 1s",
        &web("stopped", 18336, "/nowhere", ""),
    );
    let output = case.wait("names its stopper", |bad| {
        bad["lastError"]["details"]["stoppedBy"] == "argus"
    });
    let error = &output["lastError"];
    assert!(error["details"]["stoppedAt"].is_string(), "{error:#}");
    case.argus
        .wait_until(LIMIT, "its evidence names the stopper", || {
            Some(facts(&case, error)).filter(|stored| stored["stoppedBy"] == "argus")
        });
    let number = error["details"]["run"].to_string();
    let shown = shown(&case, &["evidence", "stopped", "bad", &number]);
    assert!(shown.contains("Stopped by: Argus at "), "{shown}");
}

#[test]
fn stop_by_another_client_is_named() {
    let case = Case::start(
        "takenover",
        "restartDelay: 60s",
        &web("takenover", 18337, "/nowhere", ""),
    );
    case.wait("waits for its delay with evidence", |bad| {
        bad["waitingOn"]["reason"] == "Unhealthy" && bad["lastError"]["details"]["probeAnswers"].is_object()
    });
    case.engine.docker_ok(&["stop", "-t", "1", "takenover-bad"]);
    let output = case.wait("names its stopper", |bad| {
        bad["lastError"]["details"]["stoppedBy"].is_string()
    });
    assert_eq!(
        output["lastError"]["details"]["stoppedBy"], "otherClient",
        "{output:#}"
    );
}

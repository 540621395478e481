//! Context of errors: controller, cause, place in the file, stage and attempt, in status, HTTP, MCP and `-o json`.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, RunOptions, http};
use serde_json::{Value, json};

const SPEC: &str = r#"version: "1"
project: { name: blamed }
resilience: { container: { maxRestarts: 2, restartDelay: 500ms } }
services:
  web:
    image: busybox:local
    command: ["sh", "-c", "echo broken >&2; exit 3"]
    container: { name: blamed-web }
"#;

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}

/// Correlation ids of the events of one type.
fn recorded(argus: &Controller<'_>, kind: &str) -> Vec<String> {
    let output = argus.cli(&["events", "--type", kind, "--tail", "1000", "-o", "json"]);
    let events = json_of(&output.stdout);
    let items = events["items"].as_array().expect("a list").iter();
    items
        .filter_map(|event| event["correlationId"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn errors_name_controller_cause_and_place_on_every_interface() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", SPEC);
    let status = argus.wait_status("blamed", LIMIT, "is given up", |status| {
        status["services"][0]["state"] == "Failed"
    });
    let controller = argus.controller_status()["controller"].clone();
    let error = &status["services"][0]["lastError"];
    assert_eq!(error["code"], "CONTAINER_RESTART_EXHAUSTED", "{error:#}");
    assert_eq!(
        (
            &error["controller"],
            &error["stage"],
            &error["attempt"],
            &error["specLine"]
        ),
        (&controller, &json!("run-container"), &json!(2), &json!(5)),
        "{error:#}"
    );
    assert!(text(&error["specPath"]).ends_with("e2e.yaml"), "{error:#}");
    assert_eq!(text(&error["errorId"]).len(), 26, "{error:#}");
    // The action that started the failed run is in the journal.
    let started = text(&error["correlationId"]);
    assert!(recorded(&argus, "intent").contains(&started), "{error:#}");

    // Every interface returns the same error.
    let got = json_of(&argus.cli(&["get", "blamed", "-o", "json"]).stdout);
    assert_eq!(got["services"][0]["lastError"], *error);
    let socket = argus.state.join("private/argus.sock");
    let path = "/api/v1/environments/blamed";
    let answer = http::request(&socket, "GET", path, "application/json", b"", LIMIT).expect("an answer");
    assert_eq!(answer.json()["services"][0]["lastError"], *error);
    let full = json!({ "environment": "blamed", "detail": "full" });
    let answer = http::call(&socket, "argus_status", &full, LIMIT);
    assert_eq!(
        answer["full"][0]["services"][0]["lastError"], *error,
        "{answer:#}"
    );

    // A refused command has the id of its request, which the journal records.
    let output = argus.cli(&["rollback", "blamed", "-o", "json"]);
    let refusal = json_of(&output.stderr);
    let command = text(&refusal["correlationId"]);
    assert_eq!(refusal["controller"], controller, "{refusal:#}");
    assert!(recorded(&argus, "command").contains(&command), "{refusal:#}");
    let env = json!({ "environment": "blamed" });
    let refusal = http::call(&socket, "argus_rollback", &env, LIMIT);
    assert_eq!(refusal["controller"], controller, "{refusal:#}");
    let over_mcp = text(&refusal["correlationId"]);
    assert!(recorded(&argus, "command").contains(&over_mcp), "{refusal:#}");
    assert_ne!(over_mcp, command, "each request has its own id");
    let body = env.to_string();
    let path = "/api/v1/commands/rollback";
    let answer = http::request(&socket, "POST", path, "application/json", body.as_bytes(), LIMIT);
    let refusal = answer.expect("an answer").json();
    let over_http = text(&refusal["correlationId"]);
    assert_eq!(refusal["controller"], controller, "{refusal:#}");
    assert!(recorded(&argus, "command").contains(&over_http), "{refusal:#}");
}

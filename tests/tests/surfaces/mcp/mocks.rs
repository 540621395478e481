//! Requests of a mock: a command, HTTP and agents get the same list.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use argus_tests::fixture::LIMIT;
use argus_tests::http::{self, Events};
use serde_json::{Value, json};

use super::agent::{McpFixture, Over, data, error};

const SPEC: &str = r#"version: "1"
project: { name: mock-requests }
services:
  web:
    image: busybox:local
    command: ["sh", "-c", "exec sleep 3600"]
    container: { name: mock-requests-web }
mocks:
  payments:
    port: 18650
    containerPort: 8080
    routes:
      - { method: POST, path: "/charges", response: { status: 201, body: { id: 7 } } }
"#;

/// Sends a request to the mock from inside the engine's namespace.
fn post(fixture: &McpFixture, path: &str, body: &str) {
    let mut client = fixture.engine.command_in_netns("busybox");
    let url = format!("http://127.0.0.1:18650{path}");
    client
        .args(["wget", "-q", "-O", "-", "--post-data", body, &url])
        .stderr(Stdio::null());
    drop(client.output().expect("a client"));
}

#[test]
fn mock_requests_are_reported_on_every_interface() {
    let fixture = McpFixture::start();
    fixture.argus.write_spec("e2e.yaml", SPEC);
    let of_mock = json!({ "environment": "mock-requests", "mock": "payments" });
    fixture.argus.wait_ready("mock-requests", LIMIT);
    for number in 0..5 {
        post(&fixture, "/charges", &format!("number={number}&password=pw-7777"));
    }
    post(&fixture, "/nowhere", "x");

    let output = fixture
        .argus
        .cli(&["mock", "requests", "mock-requests", "payments", "-o", "json"]);
    let by_command: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = by_command["requests"].as_array().expect("a list");
    assert_eq!(all.len(), 6, "{by_command:#}");
    assert_eq!(
        (&all[0]["path"], &all[0]["status"], &all[0]["matched"]),
        (&json!("/charges"), &json!(201), &json!("routes[0] POST /charges"))
    );
    assert_eq!(all[5]["matched"], Value::Null);
    assert!(!by_command.to_string().contains("pw-7777"), "{by_command:#}");

    let socket = fixture.argus.state.join("private/argus.sock");
    let get = |path: &str| {
        let path = format!("/api/v1/environments/mock-requests/mocks/{path}");
        http::request(&socket, "GET", &path, "application/json", b"", LIMIT).expect("a response")
    };
    assert_eq!(get("payments/requests").json(), by_command);
    let last = get("payments/requests?tail=2").json();
    assert_eq!(last["requests"].as_array().map(Vec::len), Some(2), "{last:#}");
    assert_eq!(last["requests"][1], all[5]);
    for (path, status) in [
        ("missing/requests", 404),
        ("web/requests", 409),
        ("payments/requests?tail=x", 400),
        ("payments/requests?follow=perhaps", 400),
    ] {
        let answer = get(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.json()["errorId"].is_string(), "{answer:?}");
    }

    let result = fixture.call(Over::Http, "argus_mock_requests", &of_mock);
    let request = data(&result);
    let rows = request["requests"].as_array().expect("a list");
    assert_eq!((&request["total"], rows.len()), (&json!(6), 6), "{request:#}");
    assert_eq!(rows[0]["matched"], all[0]["matched"], "{request:#}");
    assert!(
        rows[0]["body"].is_string() && rows[0].get("headers").is_none(),
        "{request:#}"
    );
    assert_eq!(request["nextSteps"][0]["tool"], "argus_explain", "{request:#}");
    let words = result["content"][0]["text"].to_string();
    assert!(
        words.contains("POST /nowhere") && words.contains("nothing matched"),
        "{words}"
    );
    followed(&fixture, &socket);
    // A mock that is gone returns no requests, and every surface reports that.
    assert!(fixture.argus.cli(&["hold", "mock-requests"]).status.success());
    fixture
        .engine
        .docker_ok(&["stop", "-t", "0", "mock-requests-mock-payments"]);
    let gone = fixture.call(Over::Http, "argus_mock_requests", &of_mock);
    let code = error(&gone)["code"].as_str();
    // Its port is gone together with its container.
    let text = ["CONNECTION_LOST", "PREREQ_MISSING"].map(Some);
    assert!(text.contains(&code), "{gone:#}");
}

/// Each request is sent as it arrives, and from the last position after a reconnect.
fn followed(fixture: &McpFixture, socket: &Path) {
    let follow = |last: Option<&str>| {
        let stream = UnixStream::connect(socket).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let path = "/api/v1/environments/mock-requests/mocks/payments/requests?tail=1&follow=true";
        Events::of(stream, "argus", path, last).expect("a stream")
    };
    let next = |events: &mut Events<UnixStream>| {
        let event = events.next_event().expect("a stream").expect("an event");
        assert_eq!(event.name, "request", "{event:?}");
        (event.id.clone(), event.json()["path"].clone())
    };
    let mut events = follow(None);
    assert_eq!(next(&mut events), ("6".to_owned(), json!("/nowhere")));
    post(fixture, "/seventh", "x");
    assert_eq!(next(&mut events), ("7".to_owned(), json!("/seventh")));
    let mut again = follow(Some("5"));
    assert_eq!(next(&mut again).0, "6");
    assert_eq!(next(&mut again).0, "7");
    fixture
        .engine
        .docker_ok(&["restart", "-t", "0", "mock-requests-mock-payments"]);
    fixture.argus.wait_until(LIMIT, "the mock responds again", || {
        post(fixture, "/again", "x");
        let path = "/api/v1/environments/mock-requests/mocks/payments/requests";
        let answer = http::request(socket, "GET", path, "application/json", b"", LIMIT).ok()?;
        let output = answer.json();
        (output["total"].as_u64() > Some(0)).then_some(())
    });
    assert_eq!(
        next(&mut events),
        ("1".to_owned(), json!("/again")),
        "numbers restart at 1"
    );
}

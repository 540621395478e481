//! Call traces: every surface returns the calls behind an error on request, and only then.

use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, RunOptions, http};
use serde_json::{Value, json};

use super::agent::{McpFixture, Over, data, error};

const SECRET: &str = "hunter2-of-calls";

/// One service that crashes, and one whose registry does not exist.
fn spec(name: &str) -> String {
    format!(
        r#"version: "1"
project: {{ name: {name} }}
resilience:
  container: {{ maxRestarts: 0 }}
services:
  api:
    image: busybox:local
    command: ["sh", "-c", "echo $TOKEN_OF_IT >&2; exit 3"]
    environment: {{ TOKEN_OF_IT: {SECRET} }}
    container: {{ name: {name}-api }}
  web:
    image: 127.0.0.1:1/nowhere/web:1
    environment: {{ TOKEN_OF_IT: {SECRET} }}
    container: {{ name: {name}-web }}
"#
    )
}

/// The error of a service in a status. While a retry is in flight, the status does not show the error of its service.
fn find_error<'s>(status: &'s Value, service: &str) -> Option<&'s Value> {
    let all = status["errors"].as_array().expect("errors");
    all.iter().find(|error| error["service"] == service)
}

/// The error of `api`, which is not retried.
fn error_of_api(status: &Value) -> &Value {
    find_error(status, "api").unwrap_or_else(|| panic!("no error of api: {status:#}"))
}

/// Waits until both services have failed. Returns the status.
fn failed(argus: &Controller<'_>, env: &str) -> Value {
    argus.wait_status(env, LIMIT, "both have failed", |status| {
        status["errors"].is_array()
            && ["api", "web"]
                .iter()
                .all(|name| find_error(status, name).is_some())
    })
}

/// Asserts that each call trace is complete. Returns the traces.
fn checked(error: &Value) -> &Vec<Value> {
    let calls = error["debug"].as_array();
    let calls = calls.unwrap_or_else(|| panic!("no call traces in {error:#}"));
    assert!(!calls.is_empty(), "{error:#}");
    for call in calls {
        assert!(
            call["operation"].is_string() && call["arguments"].is_object(),
            "{call:#}"
        );
        assert!(call["attempt"].as_u64() >= Some(1), "{call:#}");
    }
    assert!(!error.to_string().contains(SECRET), "{error:#}");
    calls
}

#[test]
fn error_call_traces_are_on_every_interface() {
    let fixture = McpFixture::start();
    fixture.argus.write_spec("e2e.yaml", &spec("calls"));
    let status = failed(&fixture.argus, "calls");
    assert!(!status.to_string().contains("\"debug\""), "{status:#}");

    let socket = fixture.argus.state.join("private/argus.sock");
    let get = |path: &str| {
        let path = format!("/api/v1/environments/{path}");
        http::request(&socket, "GET", &path, "application/json", b"", LIMIT).expect("a response")
    };
    let plain = get("calls").json();
    assert!(!plain.to_string().contains("\"debug\""), "{plain:#}");
    let request = fixture.argus.wait_until(LIMIT, "both errors are shown", || {
        let request = get("calls?debug=true").json();
        find_error(&request, "web").is_some().then_some(request)
    });
    let api = error_of_api(&request);
    let web = find_error(&request, "web").expect("it is shown");
    let run = &checked(api)[0];
    assert_eq!(run["operation"], "run-container", "{run:#}");
    assert_eq!(run["arguments"]["image"], "busybox:local", "{run:#}");
    let pull = &checked(web)[0];
    let verb = web["stage"].as_str().expect("a stage");
    assert_eq!(pull["operation"], verb, "{pull:#}");
    assert_eq!(
        pull["arguments"]["image"], "127.0.0.1:1/nowhere/web:1",
        "{pull:#}"
    );
    let cause = pull["causes"][0].as_str().expect("a cause");
    assert!(cause.contains("127.0.0.1:1"), "{cause}");

    // The same content from a command, and for an agent.
    let reported_by_command = fixture.argus.cli(&["describe", "calls", "-o", "json", "--debug"]);
    let by_command: Value = serde_json::from_slice(&reported_by_command.stdout).expect("JSON");
    assert_eq!(error_of_api(&by_command)["debug"], api["debug"]);
    fixture.argus.wait_until(LIMIT, "both calls are described", || {
        let words = fixture.argus.cli(&["describe", "calls", "--debug"]);
        let words = String::from_utf8_lossy(&words.stdout).into_owned();
        let has = |call: &str| words.contains(&format!("called: {call}"));
        (has("run-container") && has("pull-image")).then_some(())
    });
    let one = json!({ "environment": "calls", "detail": "full", "debug": true });
    for over in [Over::Stdio, Over::Http] {
        let result = fixture.call(over, "argus_status", &one);
        let full = &data(&result)["full"][0];
        assert_eq!(error_of_api(full)["debug"], api["debug"], "{over:?}");
        checked(&data(&result)["environments"][0]["error"]);
        let texts = result["content"].to_string();
        assert!(texts.contains("called: run-container"), "{texts}");
    }
    let quiet = fixture.call(
        Over::Http,
        "argus_status",
        &json!({ "environment": "calls", "detail": "full" }),
    );
    assert!(!quiet.to_string().contains("\"debug\""), "{quiet:#}");

    refusals(&fixture, &get);
    // Call traces that cannot be written delay nothing else, and neither does an obstacle at their path.
    let traces = fixture.argus.state.join("environments/calls.debug");
    std::fs::remove_file(&traces).expect("a file");
    std::fs::create_dir(&traces).expect("a directory");
    fixture
        .argus
        .write_spec("e2e.yaml", &spec("calls").replace("exit 3", "exit 4"));
    fixture
        .argus
        .wait_status("calls", LIMIT, "errors are still reported", |status| {
            let all = status["errors"].as_array().into_iter().flatten();
            all.into_iter().any(|error| error["exitCode"] == 4)
        });
    let blind = fixture.argus.cli(&["describe", "calls", "-o", "json", "--debug"]);
    assert!(blind.status.success(), "{blind:?}");
    std::fs::remove_dir(&traces).expect("a directory");

    // Traces of repaired errors are removed.
    fixture.argus.remove_spec("e2e.yaml");
    fixture.argus.wait_until(LIMIT, "its files are removed", || {
        let left = ["json", "env", "debug"]
            .map(|ending| fixture.argus.state.join(format!("environments/calls.{ending}")));
        (!left.iter().any(|path| path.exists())).then_some(())
    });
}

/// A refusal contains the refused call.
fn refusals(fixture: &McpFixture, get: &dyn Fn(&str) -> http::Answer) {
    let refused = get("missing/services/web/evidence?tail=3&debug=true");
    assert_eq!(refused.status, 404, "{refused:?}");
    let call = &checked(&refused.json())[0].clone();
    assert_eq!(
        call["operation"], "GET /api/v1/environments/missing/services/web/evidence",
        "{call:#}"
    );
    assert_eq!(call["arguments"], json!({ "tail": "3" }), "{call:#}");
    let result = fixture.call(
        Over::Stdio,
        "argus_retry",
        &json!({ "environment": "missing", "debug": true }),
    );
    let call = &checked(error(&result))[0];
    assert_eq!(
        (&call["operation"], &call["arguments"]),
        (&json!("argus_retry"), &json!({ "environment": "missing" }))
    );
    let output = fixture.argus.cli(&["retry", "missing", "-o", "json", "--debug"]);
    let text: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    let call = &checked(&text)[0];
    assert_eq!(
        (&call["operation"], &call["arguments"]["targets"]),
        (&json!("argus retry"), &json!("missing"))
    );
    // A command that ends with the error of an environment includes its call traces, too.
    let waited = fixture
        .argus
        .cli(&["wait", "calls", "--timeout", "30s", "-o", "json", "--debug"]);
    let text: Value =
        serde_json::from_slice(&waited.stderr).unwrap_or_else(|error| panic!("{error}: {waited:?}"));
    let operations: Vec<&Value> = checked(&text).iter().map(|call| &call["operation"]).collect();
    assert_eq!(operations, ["argus wait", "run-container"], "{text:#}");
    // A call with a deadline names it.
    for over in [Over::Stdio, Over::Http] {
        let wait = json!({ "environment": "calls", "timeoutSeconds": 7, "debug": true });
        let result = fixture.call(over, "argus_wait", &wait);
        let call = &checked(error(&result))[0];
        assert_eq!(
            (&call["operation"], &call["deadlineMs"]),
            (&json!("argus_wait"), &json!(7_000)),
            "{over:?}"
        );
    }
    for wrong in ["calls?debug=perhaps", "calls?debug=2"] {
        assert_eq!(get(wrong).status, 400, "{wrong}");
    }
    let wrong = fixture.call(Over::Stdio, "argus_status", &json!({ "debug": "perhaps" }));
    assert_eq!(error(&wrong)["code"], "PREREQ_MISSING", "{wrong:#}");
}

#[test]
fn argus_debug_adds_call_traces_to_files() {
    let options = RunOptions {
        env: vec![("ARGUS_DEBUG".to_owned(), "1".to_owned())],
        ..RunOptions::default()
    };
    let argus = Controller::start(argus_tests::fixture::engine(), options);
    argus.write_spec("e2e.yaml", &spec("calls-on"));
    let status = failed(&argus, "calls-on");
    for error in ["api", "web"].iter().filter_map(|name| find_error(&status, name)) {
        checked(error);
    }
    let schema = argus.cli(&["schema", "status"]);
    let schema: Value = serde_json::from_slice(&schema.stdout).expect("a schema");
    jsonschema::validate(&schema, &status).expect("the file matches its schema");
    let socket = argus.state.join("private/argus.sock");
    let path = "/api/v1/environments/missing";
    let refused = http::request(&socket, "GET", path, "application/json", b"", LIMIT).expect("a response");
    checked(&refused.json());
    // Commands read the same variable.
    let retry = |command: &mut std::process::Command| -> Value {
        let output = command.args(["retry", "missing", "-o", "json"]).output();
        let output = output.expect("argus runs");
        serde_json::from_slice(&output.stderr).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    let with_calls = retry(argus.command().env("ARGUS_DEBUG", "1"));
    assert_eq!(checked(&with_calls)[0]["operation"], "argus retry");
    let without = retry(argus.command().env_remove("ARGUS_DEBUG"));
    assert_eq!(without["debug"], Value::Null, "{without:#}");
}

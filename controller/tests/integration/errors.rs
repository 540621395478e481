//! Errors of every code in a prepared state directory, as the binary reports them in commands and over MCP.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{Condition, EnvironmentStatus, Phase, ServiceState, ServiceStatus, Truth};
use serde_json::{Value, json};

use crate::controller_socket::answer_commands;

/// Name of the environment that failed with this code.
fn named(code: Code) -> String {
    code.as_str().to_lowercase().replace('_', "-")
}

fn error(code: Code) -> StructuredError {
    let error = StructuredError::new(code, format!("{code} in words"));
    let error = if error.retryable {
        error.retry_after(7)
    } else {
        error
    };
    error
        .environment(named(code))
        .service("api")
        .details(json!({ "evidence": "x" }))
        .error_id("01M7ZT8NQ3JK5CY13HJAQAYAWR")
        .timestamp("2026-11-21T19:00:00.000Z")
        .stage("start")
        .attempt(2)
        .container_id("c".repeat(64))
        .exit_code(3)
        .tails("out", "err")
        .revision("a".repeat(64))
}

fn status(code: Code) -> EnvironmentStatus {
    EnvironmentStatus {
        revision: Some("a".repeat(64)),
        observed_revision: Some("a".repeat(64)),
        environment: named(code),
        project: named(code),
        phase: Phase::Failed,
        services: vec![ServiceStatus {
            name: "api".to_owned(),
            state: ServiceState::Failed,
            last_error: Some(error(code)),
            ..ServiceStatus::default()
        }],
        errors: vec![error(code)],
        conditions: vec![Condition {
            kind: "Blocked".to_owned(),
            status: Truth::True,
            reason: code.reason().to_owned(),
            message: String::new(),
            last_transition_time: String::new(),
        }],
        as_of: "2026-11-21T19:00:00Z".to_owned(),
        ..EnvironmentStatus::default()
    }
}

/// A state directory with one environment per code, and no controller.
fn home() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("state/environments");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir_all(dir.path().join("specs")).unwrap();
    for code in Code::ALL {
        let path = folder.join(named(*code) + ".json");
        std::fs::write(path, serde_json::to_vec(&status(*code)).unwrap()).unwrap();
    }
    dir
}

fn argus(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argus"));
    command
        .env("ARGUS_STATE", home.join("state"))
        .env("ARGUS_SPECS", home.join("specs"))
        .env("DOCKER_HOST", "unix:///nowhere.sock")
        .env("NO_COLOR", "1")
        .current_dir(home)
        .stdin(Stdio::null());
    command
}

fn run(home: &Path, words: &[&str]) -> Output {
    argus(home).args(words).output().unwrap()
}

/// Validates a document against a published schema in `crds/`.
fn validate(schema: &str, document: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds").join(schema);
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validate(&schema, document).unwrap_or_else(|error| panic!("{error}: {document:#}"));
}

/// Parses the JSON document that begins at the first line `{`.
fn document(bytes: &[u8]) -> Value {
    let text = String::from_utf8_lossy(bytes);
    let at = text.lines().position(|line| line == "{");
    let lines: Vec<&str> = text.lines().skip(at.unwrap_or(0)).collect();
    serde_json::from_str(&lines.join("\n")).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn commands_report_errors_of_every_code_completely() {
    let home = home();
    answer_commands(&home.path().join("state"));
    for code in Code::ALL {
        let (env, error) = (named(*code), json!(error(*code)));
        for verb in ["get", "describe"] {
            let output = run(home.path(), &[verb, &env, "-o", "json"]);
            let status = document(&output.stdout);
            validate("status.schema.json", &status);
            assert_eq!(status["errors"][0], error, "{verb} {env}");
            assert_eq!(status["services"][0]["lastError"], error, "{verb} {env}");
        }
        let output = run(home.path(), &["why", &env, "-o", "json"]);
        let chains = document(&output.stdout)["chains"].to_string();
        assert!(chains.contains(code.as_str()), "{chains}");
        // The error of a failed command.
        let output = run(home.path(), &["wait", &env, "--timeout", "1s", "-o", "json"]);
        let reported = document(&output.stderr);
        validate("error.schema.json", &reported);
        // A wait for the lease of another controller has an exit code of its own.
        let exit = if *code == Code::LeaseHeld { 7 } else { 6 };
        assert_eq!(output.status.code(), Some(exit), "{reported:#}");
        let words = reported["message"].as_str().unwrap();
        assert!(words.ends_with(error["message"].as_str().unwrap()), "{words}");
        let mut same = reported.clone();
        same["message"] = error["message"].clone();
        assert_eq!(same, error);
        // `explain` knows the code.
        let output = run(home.path(), &["explain", code.as_str(), "-o", "json"]);
        assert_eq!(document(&output.stdout)["code"], code.as_str());
    }
}

#[test]
fn error_of_a_command_has_id_and_timestamp() {
    let home = home();
    let output = run(home.path(), &["get", "absent", "-o", "json"]);
    let reported = document(&output.stderr);
    validate("error.schema.json", &reported);
    assert_eq!(
        reported["errorId"].as_str().map(str::len),
        Some(26),
        "{reported:#}"
    );
    assert!(reported["timestamp"].is_string(), "{reported:#}");
    assert_eq!(
        (
            reported["correlationId"].as_str().map(str::len),
            &reported["stage"],
            &reported["attempt"]
        ),
        (Some(26), &serde_json::json!("run-command"), &serde_json::json!(1)),
        "{reported:#}"
    );
    assert!(
        reported["details"]["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("argus get")),
        "{reported:#}"
    );
}

#[test]
fn mcp_reports_errors_of_every_code_completely() {
    let home = home();
    let mut child = argus(home.path())
        .arg("mcp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut call = |id: usize, method: &str, params: &Value| -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(stdin, "{request}").unwrap();
        loop {
            let line = lines.next().expect("a response").unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer;
            }
        }
    };
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    assert!(call(0, "initialize", &hello)["result"]["serverInfo"].is_object());
    for (index, code) in Code::ALL.iter().enumerate() {
        let (env, error) = (named(*code), json!(error(*code)));
        let arguments = json!({ "environment": env, "detail": "full" });
        let status = json!({ "name": "argus_status", "arguments": arguments });
        let answer = call(3 * index + 1, "tools/call", &status);
        let content = &answer["result"]["structuredContent"];
        assert_eq!(content["full"][0]["errors"][0], error, "{answer:#}");
        let reported = &content["environments"][0]["error"];
        for key in ["code", "message", "retryable", "retryAfter", "exitCode"] {
            assert_eq!(reported[key], error[key], "{key}: {reported:#}");
        }
        let uri = json!({ "uri": format!("argus://environments/{env}") });
        let read = call(3 * index + 2, "resources/read", &uri);
        let document = read["result"]["contents"][0]["text"].as_str().unwrap();
        let document: Value = serde_json::from_str(document).unwrap();
        validate("status.schema.json", &document);
        assert_eq!(document["errors"][0], error);
        // A call that needs a controller fails with a structured error.
        let retry = json!({ "name": "argus_retry", "arguments": { "environment": env } });
        let answer = call(3 * index + 3, "tools/call", &retry);
        assert_eq!(answer["result"]["isError"], true, "{answer:#}");
        let content = &answer["result"]["structuredContent"];
        validate("error.schema.json", content);
        assert!(
            content["errorId"].is_string() && content["timestamp"].is_string(),
            "{content:#}"
        );
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

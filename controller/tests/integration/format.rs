//! Files in the format of the Node tool, through `argus validate`: every documented key is accepted.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::fs;
use std::process::Command;

use serde_json::Value;

/// Result of a validation: the exit code, and each diagnostic as `severity path`.
struct Verdict {
    code: i32,
    environment: Value,
    services: Value,
    found: Vec<String>,
    diagnostics: Value,
}

/// Validates a file next to a Dockerfile, an API document, suites and a `.env` file.
fn validate(text: &str) -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    fs::create_dir(dir.path().join("app")).unwrap();
    write("app/Dockerfile", "FROM scratch");
    write("Dockerfile", "FROM scratch");
    write("api.yaml", API);
    write(".env", "WHO=ann\nTAG=v1\nPORT=18080\n");
    fs::create_dir(dir.path().join("tests")).unwrap();
    for suite in ["tests/basic.yaml", "tests/a.yaml", "t.yaml"] {
        write(suite, "name: a\ncases: [{ name: b, request: { path: / } }]\n");
    }
    write("e2e.yaml", text);
    let mut command = Command::new(env!("CARGO_BIN_EXE_argus"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ARGUS_")) {
        command.env_remove(name);
    }
    command
        .args(["validate", "e2e.yaml", "-o", "json"])
        .current_dir(dir.path());
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = report["files"][0].clone();
    let diagnostics = file["diagnostics"].clone();
    let line = |it: &Value| {
        let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("severity"), text("path"))
    };
    Verdict {
        code: output.status.code().unwrap(),
        environment: file["environment"].clone(),
        services: file["services"].clone(),
        found: diagnostics.as_array().unwrap().iter().map(line).collect(),
        diagnostics,
    }
}

/// Asserts that a file is accepted with exactly these warnings.
fn accepted(text: &str, warnings: &[&str]) -> Verdict {
    let verdict = validate(text);
    assert_eq!(verdict.code, 0, "{:#}\n{text}", verdict.diagnostics);
    let warnings: Vec<_> = warnings.iter().map(|path| format!("warning {path}")).collect();
    assert_eq!(verdict.found, warnings, "{:#}", verdict.diagnostics);
    verdict
}

const API: &str = "openapi: 3.0.0\ninfo: { title: t, version: '1' }\npaths: { /x: { get: { responses: { '200': { description: ok } } } } }\n";

const EXAMPLE: &str = r#"
version: "1"
project:
  name: demo-project
service:
  build:
    image: demo-service:latest
    dockerfile: ./Dockerfile
    context: .
  container:
    name: demo-e2e
    ports: ["8080:8080"]
    environment:
      NODE_ENV: test
tests:
  suites:
    - { name: basics, id: basic, file: tests/basic.yaml }
"#;

/// Every key of the format up to version 0.12, with a key that only real files have (`delay` next to `response`).
const EVERY_KEY: &str = r#"
version: "1"
project: { name: All Keys, description: text, version: "1.2" }
services:
  - name: db
    build: { dockerfile: ./app/Dockerfile, context: ./app, image: "all-db:latest", args: { A: 1 } }
    container:
      name: all-db
      ports: ["5432:5432", "8080"]
      environment: { PORT: 3000, DEBUG: true, URL: "{{config.URL}}", LATE: "{{env.UNSET}}", AT: "{{timestamp}}", ID: "{{uuid}}", DAY: "{{date}}" }
      volumes: ["data:/data", "./app:/app:ro"]
      healthcheck: { path: /health, port: 5432, interval: 10s, timeout: 500ms, retries: 10, startPeriod: 2m }
    vars: { URL: "http://x", N: 3, B: false }
  - name: web
    build: { context: . }
    container: { name: all-web, ports: ["80:80"] }
    dependsOn: [db]
mocks:
  inline:
    port: 9081
    containerPort: 80
    routes:
      - method: GET
        path: /users/:id
        delay: 100ms
        when: { body: { a: 1 }, headers: { x: y }, query: { q: "1" } }
        response: { status: 201, headers: { A: b }, delay: 1s, body: { id: "{{request.params.id}}", q: "{{request.query.q}}", t: "{{timestamp}}" } }
  imaged: { port: 9082, image: "wiremock/wiremock:3", args: "--verbose --port 9082", volumes: ["./app:/maps:ro"] }
  api: { port: 9083, openapi: ./api.yaml, mode: auto, validate: true, maxDepth: 4, overrides: [{ method: GET, path: /x, response: { status: 500 } }] }
  smart: { port: 9084, openapi: ./api.yaml, mode: smart }
  recorder: { port: 9085, openapi: ./api.yaml, mode: record, target: "http://host.docker.internal:8081", recordingsDir: .argusai/recordings }
  replayer: { port: 9086, openapi: ./api.yaml, mode: replay }
tests:
  suites:
    - { name: a, id: a, file: tests/a.yaml, runner: yaml, retry: { maxAttempts: 2, delay: 1s, backoff: linear }, parallel: true, concurrency: 2 }
    - { name: b, id: b, runner: vitest, command: "npx vitest" }
    - { name: c, id: c, runner: pytest, command: "pytest" }
    - { name: d, id: d, runner: shell, command: "true" }
    - { name: e, id: e, runner: exec, command: "true" }
    - { name: f, id: f, runner: playwright, config: playwright.config.ts }
  retry: { maxAttempts: 3, delay: 2s, backoff: exponential, backoffMultiplier: 2 }
  parallel: { enabled: true, concurrency: 4 }
network: { name: all-net }
isolation: { namespace: allkeys, portRange: [9000, 9999] }
resilience:
  preflight: { enabled: true, diskSpaceThreshold: 2GB, cleanOrphans: true }
  container: { restartOnFailure: true, maxRestarts: 3, restartDelay: 2s, restartBackoff: exponential }
  network: { portConflictStrategy: auto, verifyConnectivity: true }
  circuitBreaker: { enabled: true, failureThreshold: 5, resetTimeoutMs: 30000 }
history: { enabled: true, storage: local, path: ./history, retention: { maxAge: 90d, maxRuns: 1000 }, flakyWindow: 10 }
dashboard: { port: 9095 }
repos: [{ name: a, url: "git@x" }]
plugins: [x]
server: { port: 1 }
"#;

#[test]
fn every_documented_key_is_accepted() {
    accepted(EXAMPLE, &[]);
    let warnings = [
        "mocks.inline.routes[0].delay",
        "history.path",
        "history.retention.maxRuns",
        "services[0].container.environment.LATE",
        "mocks.recorder.recordingsDir",
        "mocks.replayer.recordingsDir",
    ];
    accepted(EVERY_KEY, &warnings);
    let mut other = EVERY_KEY.to_owned();
    for (one, another) in [
        ("{ maxAge: 90d, maxRuns: 1000 }", "90d"),
        ("restartBackoff: exponential", "restartBackoff: linear"),
        ("portConflictStrategy: auto", "portConflictStrategy: fail"),
        ("storage: local", "storage: memory"),
    ] {
        assert!(other.contains(one), "{one}");
        other = other.replace(one, another);
    }
    let warnings = warnings.map(|path| match path {
        "history.path" => "history.storage",
        "history.retention.maxRuns" => "history.path",
        other => other,
    });
    accepted(&other, &warnings);
}

#[test]
fn files_without_a_service_and_maps_are_accepted() {
    let tests = "project: {name: t}\ntests: {suites: [{name: a, id: a, file: t.yaml}]}\n";
    accepted(tests, &[]);
    let mocks = "project: {name: m}\nmocks: {m: {port: 9090, routes: [{method: GET, path: /, response: {body: hi}}]}}\n";
    accepted(mocks, &[]);
    let map = "project: {name: m}\nservices: {a: {build: {context: .}, container: {name: a}}}\n";
    let both = format!("{map}service: {{build: {{}}, container: {{name: b}}}}\n");
    accepted(map, &[]);
    accepted(&both, &["service"]);
}

#[test]
fn keys_of_newer_versions_are_accepted() {
    let file = |more: &str, container: &str| {
        format!("project: {{name: n}}\nservice: {{build: {{}}, container: {{name: n{container}}}}}\n{more}\n")
    };
    accepted(&file("", ", ports: ['0:8080']"), &[]);
    accepted(&file("scenarios: {a: {x: 1}}", ""), &[]);
    accepted(
        &file("tests: {suites: [{name: a, file: t.yaml, service: n}]}", ""),
        &[],
    );
    let url = ", environment: {U: 'http://host.docker.internal:9'}";
    accepted(&file("", url), &[]);
    for runtime in ["docker", "kubernetes"] {
        let verdict = accepted(&file(&format!("runtime: {{type: {runtime}}}"), ""), &[]);
        assert_eq!(verdict.services, serde_json::json!(["n"]));
    }
    let host = "project: {name: n}\nruntime: {type: host}\nservice: {container: {name: n}}\n";
    assert_eq!(accepted(host, &[]).services, serde_json::json!([]));
    let misplaced = accepted(
        &file("", ", command: node server.js"),
        &["service.container.command"],
    );
    let hint = misplaced.diagnostics[0]["hint"].as_str().unwrap();
    assert!(hint.contains("next to `container`"), "{hint}");
}

#[test]
fn templates_in_names_are_resolved_or_named() {
    let named = "project: {name: 'p-{{env.WHO}}'}\nisolation: {namespace: 'ns-{{env.WHO}}'}\nnetwork: {name: 'net-{{env.WHO}}'}\n\
        service: {build: {image: 'x:{{env.TAG}}'}, container: {name: 'web-{{env.WHO}}', ports: ['{{env.PORT}}:80']}}\n";
    let verdict = accepted(named, &[]);
    assert_eq!(verdict.environment, "ns-ann");
    assert_eq!(verdict.services, serde_json::json!(["web-ann"]));

    let unset = named
        .replace("env.WHO", "env.UNKNOWN")
        .replace("env.PORT", "env.NO_PORT");
    let verdict = validate(&unset);
    assert_eq!(verdict.code, 3);
    let hints: Vec<_> = verdict.diagnostics.as_array().unwrap().iter().collect();
    for (path, name) in [
        ("isolation.namespace", "UNKNOWN"),
        ("service.container.name", "UNKNOWN"),
        ("service.container.ports[0]", "NO_PORT"),
    ] {
        let hint = hints.iter().find(|it| it["path"] == path).unwrap()["hint"]
            .as_str()
            .unwrap();
        assert!(
            hint.contains(&format!("add `{name}` to the `.env` file")),
            "{hint}"
        );
    }
}

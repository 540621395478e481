//! Mocks as containers on a real engine: access by name and by port, changes while they run, recovery.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test"
)]

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use argus_tests::fixture::{IMAGE, LIMIT, container_runs, engine, text};
use argus_tests::{Controller, PortHolder, RunOptions, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::journal::actions;

/// A service with the address of its mock, and two mocks: one from routes, one from a document.
fn shop(project: &str, port: u16, answer: &str) -> String {
    let other = port + 1;
    format!(
        r#"version: "1"
project: {{ name: {project} }}
services:
  web:
    image: {IMAGE}
    dependsOn: [payments, catalogue]
    container:
      name: {project}-web
      environment: {{ PAYMENTS: "http://localhost:{port}/charges" }}
mocks:
  payments:
    port: {port}
    containerPort: 8080
    routes:
      - {{ method: GET, path: "/charges/:id", response: {{ body: {{ id: "{{{{request.params.id}}}}", said: {answer} }} }} }}
  catalogue:
    port: {other}
    openapi: api/catalogue.yaml
"#
    )
}

const DOCUMENT: &str = r#"openapi: 3.1.0
info: { title: catalogue, version: "1" }
paths:
  /books/{isbn}:
    get:
      parameters: [{ name: isbn, in: path, required: true, schema: { type: string } }]
      responses:
        "200":
          description: a book
          content:
            application/json:
              schema: { type: object, required: [title], properties: { title: { type: string } } }
              example: { title: Middlemarch }
"#;

/// Response of a path, requested from inside the engine's namespace; `None` without a response.
fn get_body(port: u64, path: &str) -> Option<String> {
    let mut client = engine().command_in_netns("busybox");
    let output = client
        .args(["wget", "-q", "-O", "-", &format!("http://127.0.0.1:{port}{path}")])
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn port_of(status: &Value, mock: &str) -> u64 {
    let mapped = status["portMappings"].as_array().expect("ports").iter();
    let mut of = mapped.filter(|port| port["service"] == mock);
    of.next().expect("its port")["actualPort"]
        .as_u64()
        .expect("a number")
}

fn started(name: &str) -> (String, String) {
    let found = engine().inspect(name).expect("the container exists");
    (text(&found["Id"]), text(&found["State"]["StartedAt"]))
}

fn prepared(project: &str, port: u16) -> Controller<'static> {
    let argus = Controller::prepare(engine(), RunOptions::default());
    argus.write_spec("api/catalogue.yaml", DOCUMENT);
    argus.write_spec("e2e.yaml", &shop(project, port, "first"));
    argus.start_again();
    argus
}

#[test]
fn mock_is_reachable_and_new_routes_restart_nothing() {
    let argus = prepared("standin", 18800);
    let status = argus.wait_ready("standin", LIMIT);
    assert_eq!(
        Controller::service(&status, "payments")["role"],
        "mock",
        "{status:#}"
    );
    assert_eq!(
        Controller::service(&status, "payments")["health"],
        "Healthy",
        "{status:#}"
    );
    assert!(
        get_body(18800, "/charges/7")
            .is_some_and(|text| text.contains(r#""id":"7""#) && text.contains("first"))
    );
    assert!(get_body(18801, "/books/1").is_some_and(|text| text.contains("Middlemarch")));
    let inside =
        |url: &str| engine().docker_ok(&["exec", "standin-web", "busybox", "wget", "-q", "-O", "-", url]);
    assert!(inside("http://payments:8080/charges/8").contains(r#""id":"8""#));
    assert!(inside("http://catalogue:18801/books/2").contains("Middlemarch"));
    let request = argus.cli(&["mock", "requests", "standin", "payments"]);
    let request = String::from_utf8_lossy(&request.stdout).into_owned();
    assert!(
        request.contains("/charges/7") && request.contains("routes[0]"),
        "{request}"
    );
    // A changed response is a changed file in the same container.
    let before = container_runs(engine(), "standin");
    argus.write_spec("e2e.yaml", &shop("standin", 18800, "second"));
    // As in a test: after Ready the mock serves the response of the file.
    let waited = argus.cli(&["wait", "standin"]);
    assert!(waited.status.success(), "{waited:?}");
    let text = get_body(18800, "/charges/7").expect("the mock responds");
    assert!(text.contains("second"), "{text}");
    assert_eq!(container_runs(engine(), "standin"), before);
    argus.write_spec("api/catalogue.yaml", &DOCUMENT.replace("Middlemarch", "Emma"));
    wait::until(LIMIT, "the new document is served", || {
        get_body(18801, "/books/1").filter(|text| text.contains("Emma"))
    });
    assert_eq!(container_runs(engine(), "standin"), before);
    // An invalid document is reported with its location, and changes nothing.
    argus.write_spec(
        "api/catalogue.yaml",
        &DOCUMENT.replace("type: string }", "type: strnig }"),
    );
    let refused = argus.wait_status("standin", LIMIT, "rejects the document", |status| {
        !status["diagnostics"].as_array().is_none_or(Vec::is_empty)
    });
    let output = refused["diagnostics"].to_string();
    assert!(
        output.contains("mocks.catalogue") && output.contains("strnig"),
        "{output}"
    );
    assert!(get_body(18801, "/books/1").is_some_and(|text| text.contains("Emma")));
}

#[test]
fn mock_heals_and_outlives_its_controller() {
    let argus = prepared("healer", 18810);
    argus.wait_ready("healer", LIMIT);
    let first = started("healer-mock-payments");
    // Its process ends, as after a kill for lack of memory.
    let pid = engine().inspect("healer-mock-payments").unwrap()["State"]["Pid"]
        .as_i64()
        .unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let status = argus.wait_status("healer", LIMIT, "was restarted", |status| {
        status["phase"] == "Ready" && Controller::service(status, "payments")["restarts"] == 1
    });
    assert_ne!(started("healer-mock-payments"), first);
    assert_eq!(port_of(&status, "payments"), 18810);
    assert!(get_body(18810, "/charges/1").is_some());
    // It is removed, and recreated with its responses.
    engine().docker_ok(&["rm", "-f", "healer-mock-payments"]);
    wait::until(LIMIT, "it responds again", || get_body(18810, "/charges/2"));
    argus.wait_ready("healer", LIMIT);
    // Without a controller it still responds, and the next controller adopts it unchanged.
    let before = (actions(&argus), container_runs(engine(), "healer"));
    let first_start = argus.controller_status()["startedAt"].clone();
    argus.kill9();
    assert!(get_body(18810, "/charges/3").is_some());
    argus.start_again();
    argus.wait_until(LIMIT, "the next controller writes its status", || {
        assert!(get_body(18810, "/charges/4").is_some(), "no request is lost");
        (argus.controller_status()["startedAt"] != first_start).then_some(())
    });
    argus.wait_ready("healer", LIMIT);
    argus.assert_settled("healer");
    assert_eq!((actions(&argus), container_runs(engine(), "healer")), before);
    assert!(get_body(18810, "/charges/5").is_some());
}

#[test]
fn mock_with_a_taken_port_moves_and_is_reported() {
    let holder = PortHolder::new(engine(), 18820);
    let argus = prepared("mover", 18820);
    let status = argus.wait_ready("mover", LIMIT);
    let moved = port_of(&status, "payments");
    assert_ne!(moved, 18820);
    assert!(get_body(moved, "/charges/1").is_some());
    let output = engine().inspect("mover-web").unwrap()["Config"]["Env"].to_string();
    assert!(
        output.contains(&format!("http://localhost:{moved}/charges")),
        "{output}"
    );
    drop(holder);
}

#[test]
fn mock_replays_recordings_of_a_removed_service() {
    let file = |mode: &str, services: &str| {
        format!(
            r#"version: "1"
project: {{ name: recorder }}
services:{services}
mocks:
  legacy:
    port: 18830
    mode: {mode}
    target: http://books:8080
    recordingsDir: ./recordings
"#
        )
    };
    let books = format!("\n  books: {{ image: {IMAGE}, container: {{ name: recorder-books }} }}");
    let argus = Controller::prepare(engine(), RunOptions::default());
    let recordings = argus.specs.join("recordings");
    argus.write_spec("e2e.yaml", &file("record", &books));
    argus.start_again();
    let output = argus.wait_status("recorder", LIMIT, "reports the missing object", |status| {
        status.to_string().contains("recordings")
    });
    assert_ne!(output["phase"], "Ready", "{output:#}");
    std::fs::create_dir(&recordings).unwrap();
    let again = argus.cli(&["retry", "recorder"]);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    argus.wait_ready("recorder", LIMIT);
    assert_eq!(get_body(18830, "/healthz?shelf=1").as_deref(), Some("ok"));
    assert_eq!(
        std::fs::read_dir(&recordings).unwrap().count(),
        1,
        "one file per pair"
    );
    argus.write_spec("e2e.yaml", &file("replay", " {}"));
    wait::until(LIMIT, "the recorded service is removed", || {
        engine().inspect("recorder-books").is_none().then_some(())
    });
    argus.wait_ready("recorder", LIMIT);
    assert_eq!(get_body(18830, "/healthz?shelf=1").as_deref(), Some("ok"));
    assert_eq!(
        get_body(18830, "/healthz?shelf=2"),
        None,
        "a request without a recording has no response"
    );
}

#[test]
fn mock_out_of_memory_returns_with_its_routes() {
    let argus = prepared("hungry", 18840);
    argus.wait_ready("hungry", LIMIT);
    let name = "hungry-mock-payments";
    let first = started(name);
    limit_memory(name, 48 * 1024 * 1024);
    // Incomplete bodies stay in memory until they end.
    let head = "POST /charges HTTP/1.1\r\nhost: mock\r\ncontent-length: 10000000\r\n\r\n";
    let request = [head.as_bytes(), &vec![b'x'; 9_000_000]].concat();
    let clients: Vec<_> = (0..8).map(|_| Unfinished::send(18840, &request)).collect();
    let status = argus.wait_status("hungry", LIMIT, "was restarted", |status| {
        status["phase"] == "Ready" && Controller::service(status, "payments")["restarts"] == 1
    });
    drop(clients);
    assert_ne!(started(name), first);
    let why = &Controller::service(&status, "payments")["lastError"];
    assert_eq!(why["code"], "CONTAINER_OOM", "{status:#}");
    assert!(get_body(18840, "/charges/1").is_some_and(|text| text.contains("first")));
}

/// Sets the limit without the engine: a limit that the engine knows would be drift.
fn limit_memory(name: &str, bytes: u64) {
    let pid = engine().inspect(name).unwrap()["State"]["Pid"].to_string();
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("its groups");
    let file = groups
        .lines()
        .find_map(|line| match line.splitn(3, ':').collect::<Vec<_>>()[..] {
            [_, "memory", path] => Some(format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")),
            ["0", "", path] => {
                Some(format!("/sys/fs/cgroup{path}/memory.max")).filter(|file| Path::new(file).exists())
            }
            _ => None,
        });
    std::fs::write(file.expect("a group of memory"), bytes.to_string()).expect("a limit");
}

/// A client that starts a request and does not end it until the drop.
struct Unfinished(std::process::Child);

impl Unfinished {
    fn send(port: u16, request: &[u8]) -> Self {
        let mut client = engine().command_in_netns("busybox");
        let client = client.args(["nc", "127.0.0.1", &port.to_string()]);
        let child = client.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut child = child.expect("busybox runs");
        let written = child.stdin.as_mut().expect("a pipe").write_all(request);
        // The mock may die before all of it is sent.
        drop(written);
        Self(child)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

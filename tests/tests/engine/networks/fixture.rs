//! Services without a shell that connect to each other, and queries for assertions.

use std::sync::Once;

use argus_tests::fixture::{self, LIMIT, condition};
use argus_tests::{Controller, PrivateEngine, RunOptions, wait};
use serde_json::Value;

/// An image with this program only: no shell, no `nslookup`, no `nc`.
pub(crate) const BARE: &str = "bare:local";

/// The shared engine of all tests here that keep it running.
pub(crate) fn engine() -> &'static PrivateEngine {
    static IMAGES: Once = Once::new();
    let engine = fixture::engine();
    IMAGES.call_once(|| engine.load_argus_image(BARE));
    engine
}

/// A controller that checks connections.
pub(crate) fn controller(engine: &PrivateEngine) -> Controller<'_> {
    let options = RunOptions {
        helpers: true,
        ..RunOptions::default()
    };
    Controller::start(engine, options)
}

/// Links of [`shop`] with the database on port 8080: each service to the mock, and the declared ones.
pub(crate) const SHOP_LINKS: [&str; 5] = [
    "api -> db:8080",
    "api -> payments:8080",
    "db -> payments:8080",
    "web -> api:8080",
    "web -> payments:8080",
];

/// `web` connects to `api` and a mock by name; `api` connects to `db` on port `db`.
pub(crate) fn shop(project: &str, port: u16, db: u16) -> String {
    let health = "{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, retries: 20, startPeriod: 5s }";
    format!(
        r#"version: "1"
project: {{ name: {project} }}
services:
  db:
    image: {BARE}
    command: [demo-service]
    container: {{ name: {project}-db, healthcheck: {health} }}
  api:
    image: {BARE}
    command: [demo-service]
    container:
      name: {project}-api
      environment: {{ DATABASE: "postgres://app:secret@db:{db}/app" }}
      healthcheck: {health}
  web:
    image: {BARE}
    command: [demo-service]
    dependsOn: [api]
    container:
      name: {project}-web
      environment: {{ PAYMENTS: "http://payments:8080/charges" }}
      healthcheck: {health}
mocks:
  payments:
    port: {port}
    containerPort: 8080
    routes: [{{ method: GET, path: /charges, response: {{ body: ok }} }}]
"#
    )
}

/// Output of `argus network ENV` with further arguments, and its exit code.
pub(crate) fn network(argus: &Controller<'_>, env: &str, more: &[&str]) -> (Option<i32>, Value) {
    let words: Vec<&str> = ["network", env, "-o", "json"]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    let output = argus.cli(&words);
    let document = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), document)
}

/// Each link as `from -> to:port`, with its error, or the reason why it is not verified.
pub(crate) fn links(output: &Value) -> Vec<String> {
    let links = output["connectivity"]["links"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    links
        .iter()
        .map(|link| {
            let error = match (&link["error"], &link["unverified"]) {
                (Value::String(error), _) => format!(" {error}"),
                (_, Value::String(reason)) => format!(" unverified: {reason}"),
                _ => String::new(),
            };
            format!(
                "{} -> {}:{}{error}",
                word(&link["from"]),
                word(&link["host"]),
                link["port"]
            )
        })
        .collect()
}

/// Number of helpers in the networks of an environment's containers, or on its network.
pub(crate) fn helpers(engine: &PrivateEngine, project: &str) -> usize {
    let containers = engine.containers_with(&format!("argusai.project={project}"));
    let id = |source: &Value| source["Id"].as_str().unwrap_or_default().to_owned();
    let network = engine.docker(&["network", "inspect", &format!("argusai-{project}-network")]);
    let network: Value = serde_json::from_slice(&network.stdout).unwrap_or_default();
    let sources: Vec<String> = containers
        .iter()
        .map(|source| format!("container:{}", id(source)))
        .chain([network[0]["Id"].as_str().unwrap_or("none").to_owned()])
        .collect();
    let all = engine.containers_with("argusai.helper");
    let checks = |helper: &&Value| {
        let mode = helper["HostConfig"]["NetworkMode"].as_str().unwrap_or_default();
        sources.iter().any(|source| source == mode)
    };
    all.iter().filter(checks).count()
}

/// Waits until no helper remains; the controller may run a check just now.
pub(crate) fn no_helper_stays(engine: &PrivateEngine, project: &str) {
    wait::until(LIMIT, "no helper container remains", || {
        (helpers(engine, project) == 0).then_some(())
    });
}

/// Waits until all links work, by a newer check than that of `before`. Returns the status.
pub(crate) fn verified(argus: &Controller<'_>, env: &str, before: &Value) -> Value {
    argus.wait_status(env, LIMIT, "is verified again", |now| {
        let seen = &now["connectivity"];
        condition(now, "Verified")["status"] == "True"
            && seen["verified"] == true
            && seen["asOf"] != before["connectivity"]["asOf"]
            && now["phase"] == "Ready"
    })
}

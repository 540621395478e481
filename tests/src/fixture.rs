//! Fixtures of the journeys: an engine with images, typical spec files, and queries for assertions.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::{Controller, PrivateEngine, Proxy, RunOptions, binary};

/// Longer than any step here takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(180);
/// Serves `hello` on port 8080.
pub const IMAGE: &str = "journey-web:local";

/// The shared engine of all tests of this program that keep it running, with the images they use.
pub fn engine() -> &'static PrivateEngine {
    let engine = PrivateEngine::shared();
    engine.prepare_once(|| images(engine));
    engine
}

/// Makes the images: [`IMAGE`] and `busybox:local`, which sleeps.
pub fn images(engine: &PrivateEngine) {
    engine.make_web_image(IMAGE, "hello");
    engine.make_busybox_image("busybox:local", &[]);
}

/// A controller that reaches the engine through a proxy that injects faults.
#[must_use]
pub fn proxied<'e>(engine: &'e PrivateEngine, name: &str) -> (Proxy, Controller<'e>) {
    proxied_with(engine, name, RunOptions::default())
}

/// The same with further options.
#[must_use]
pub fn proxied_with<'e>(
    engine: &'e PrivateEngine,
    name: &str,
    options: RunOptions,
) -> (Proxy, Controller<'e>) {
    let proxy = Proxy::start(&engine.scratch(name).join("p.sock"), &engine.socket());
    let host = Some(proxy.host());
    let argus = Controller::start(engine, RunOptions { host, ..options });
    (proxy, argus)
}

/// Three services, web -> api -> db; `web` is published on the host port `port`.
#[must_use]
pub fn shop(project: &str, port: u16, greeting: &str) -> String {
    let health = "{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, retries: 20, startPeriod: 5s }";
    format!(
        r#"version: "1"
project: {{ name: {project} }}
services:
  db:
    image: {IMAGE}
    container: {{ name: {project}-db, healthcheck: {health} }}
  api:
    image: {IMAGE}
    dependsOn: [db]
    container: {{ name: {project}-api, healthcheck: {health} }}
  web:
    image: {IMAGE}
    dependsOn: [api]
    container:
      name: {project}-web
      ports: ["{port}:8080"]
      environment: {{ GREETING: "{greeting}" }}
      healthcheck: {health}
"#
    )
}

/// The command `argus selftest` on an engine, with a separate directory for its temporary files.
#[must_use]
pub fn selftest(engine: &PrivateEngine, temporary: &Path) -> Command {
    let mut command = engine.command_in_netns(binary::argus());
    command
        .arg("selftest")
        .env("DOCKER_HOST", engine.host())
        .env("NO_COLOR", "1")
        .env("TMPDIR", temporary)
        .current_dir(temporary)
        .stdin(Stdio::null());
    command
}

/// Id and start time of each container of an environment, by name: they change with every replacement and restart.
#[must_use]
pub fn container_runs(engine: &PrivateEngine, project: &str) -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    for container in engine.containers_with(&format!("argusai.project={project}")) {
        let id = text(&container["Id"]);
        let Some(inspected) = engine.inspect(&id) else {
            continue;
        };
        let name = text(&inspected["Name"]).trim_start_matches('/').to_owned();
        found.insert(name, (id, text(&inspected["State"]["StartedAt"])));
    }
    found
}

/// A text of a document; empty if there is none.
#[must_use]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// True if a container runs and is not paused.
#[must_use]
pub fn running(engine: &PrivateEngine, name: &str) -> bool {
    let state = |found: Value| found["State"]["Running"] == true && found["State"]["Paused"] == false;
    engine.inspect(name).is_some_and(state)
}

/// Response of a published port, requested from inside the engine's namespace.
#[must_use]
pub fn page(engine: &PrivateEngine, port: u64) -> Option<String> {
    let mut client: Command = engine.command_in_netns("busybox");
    let output = client
        .args(["wget", "-q", "-O", "-", &format!("http://127.0.0.1:{port}/")])
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A condition of a status document, by its type.
#[must_use]
pub fn condition(status: &Value, kind: &str) -> Value {
    let conditions = status["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    conditions
        .iter()
        .find(|found| found["type"] == kind)
        .cloned()
        .unwrap_or(Value::Null)
}

/// Services without dependencies, each published on its host port.
#[must_use]
pub fn singles(project: &str, ports: &[u16], more: &str) -> String {
    use std::fmt::Write;
    let mut text = format!("version: \"1\"\nproject: {{ name: {project} }}\n{more}services:\n");
    for (index, port) in ports.iter().enumerate() {
        write!(
            text,
            "  s{index}:\n    image: {IMAGE}\n    container:\n      name: {project}-s{index}\n      ports: [\"{port}:8080\"]\n      \
             healthcheck: {{ path: /healthz, interval: 500ms, timeout: 2s, retries: 40, startPeriod: 5s }}\n"
        )
        .expect("writing to a string succeeds");
    }
    text
}

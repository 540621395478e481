//! Ten environments of three services on a private engine, with the controller and the proxy between them.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use argus_tests::fixture::{self, IMAGE, LIMIT, text};
use argus_tests::{Controller, PrivateEngine, Proxy, RunOptions, http, wait};
use serde_json::Value;

use crate::board::Board;
use crate::now;

pub(crate) const ENVIRONMENTS: usize = 10;
pub(crate) const SERVICES: [&str; 3] = ["db", "api", "web"];
/// Time limit of one query. A frozen engine answers none.
const ANSWER: Duration = Duration::from_secs(2);

/// All parts of a run.
pub(crate) struct World<'e> {
    pub(crate) engine: &'e PrivateEngine,
    pub(crate) argus: Controller<'e>,
    pub(crate) proxy: Proxy,
    pub(crate) board: Board,
    /// Directory for everything that a person reads after the run.
    pub(crate) out: PathBuf,
    /// A fault is being injected now.
    pub(crate) injecting: AtomicBool,
    started: Instant,
    edits: [AtomicU32; ENVIRONMENTS],
    later: Mutex<Vec<Later<'e>>>,
}

/// A fault that ends later.
pub(crate) struct Later<'e> {
    pub(crate) due: Instant,
    pub(crate) end: Box<dyn FnOnce(&World<'e>) + Send + 'e>,
}

pub(crate) fn environment(number: usize) -> String {
    format!("chaos{number}")
}

pub(crate) fn container(environment: usize, service: &str) -> String {
    format!("chaos{environment}-{service}")
}

/// Three services, web -> api -> db. `api` fills its memory when `/tmp/boom` exists. Each injected failure is a new
/// one, so a short healthy time resets the restart budget.
fn spec(number: usize, greeting: u32) -> String {
    let name = environment(number);
    let port = 18900 + number;
    let health = "{ path: /healthz, port: 8080, interval: 500ms, timeout: 1s, retries: 10, startPeriod: 5s }";
    format!(
        r#"version: "1"
project: {{ name: {name} }}
resilience: {{ container: {{ maxRestarts: 10, restartDelay: 1s }} }}
argus: {{ restart: {{ resetAfter: 5s }} }}
services:
  db:
    image: {IMAGE}
    stopGrace: 1s
    container: {{ name: {name}-db, healthcheck: {health} }}
  api:
    image: {IMAGE}
    dependsOn: [db]
    stopGrace: 1s
    memory: 48m
    command:
      - sh
      - -c
      - "rm -f /tmp/boom; httpd -p 8080 -h /www; while [ ! -f /tmp/boom ]; do sleep 0.3; done; exec tail /dev/zero"
    container: {{ name: {name}-api, healthcheck: {health} }}
  web:
    image: {IMAGE}
    dependsOn: [api]
    stopGrace: 1s
    container:
      name: {name}-web
      ports: ["{port}:8080"]
      environment: {{ GREETING: "{greeting}" }}
      healthcheck: {health}
"#
    )
}

impl<'e> World<'e> {
    /// Starts the controller and waits until all environments are Ready.
    pub(crate) fn start(engine: &'e PrivateEngine, out: PathBuf) -> Self {
        fixture::images(engine);
        let (proxy, argus) = fixture::proxied(engine, "chaos");
        let world = Self {
            engine,
            argus,
            proxy,
            board: Board::default(),
            out,
            injecting: AtomicBool::new(false),
            started: now(),
            edits: Default::default(),
            later: Mutex::default(),
        };
        for number in 0..ENVIRONMENTS {
            world.write(number, &spec(number, 0));
        }
        for number in 0..ENVIRONMENTS {
            world.argus.wait_ready(&environment(number), 3 * LIMIT);
        }
        world
    }

    /// Options of a second controller on the same specs.
    pub(crate) fn second(&self) -> RunOptions {
        RunOptions {
            specs: Some(self.argus.specs.clone()),
            host: Some(self.proxy.host()),
            ..RunOptions::default()
        }
    }

    /// Seconds since the start, for every printed line.
    pub(crate) fn clock(&self) -> String {
        format!("{:6.1}", self.started.elapsed().as_secs_f64())
    }

    /// Gives `web` another environment variable, so that Argus must replace it.
    pub(crate) fn edit(&self, number: usize) {
        let greeting = self.edits[number].fetch_add(1, Ordering::Relaxed) + 1;
        self.write(number, &spec(number, greeting));
    }

    pub(crate) fn write(&self, number: usize, text: &str) {
        self.argus
            .write_spec(&format!("{}/e2e.yaml", environment(number)), text);
    }

    /// Runs the docker CLI. Returns true if it succeeded: the target of a fault may be broken already.
    pub(crate) fn docker(&self, args: &[&str]) -> bool {
        self.engine.docker(args).status.success()
    }

    /// Runs a script in the engine's network namespace.
    pub(crate) fn shell(&self, script: &str) -> bool {
        let mut command = self.engine.command_in_netns("sh");
        command
            .args(["-c", script])
            .env("DOCKER_HOST", self.engine.host());
        command.output().expect("sh runs").status.success()
    }

    /// Queries the engine without the proxy. `None` if it does not answer or has no such object.
    pub(crate) fn query(&self, path: &str) -> Option<Value> {
        let answer = http::request(&self.engine.socket(), "GET", path, "text/plain", b"", ANSWER).ok()?;
        answer.ok().then(|| answer.json())
    }

    /// Identity of the current run of a container; empty if it does not exist.
    pub(crate) fn run(&self, container: &str) -> Option<String> {
        let path = format!("/containers/{container}/json");
        let answer = http::request(&self.engine.socket(), "GET", &path, "text/plain", b"", ANSWER).ok()?;
        let found = answer.json();
        Some(format!(
            "{} {}",
            text(&found["Id"]),
            text(&found["State"]["StartedAt"])
        ))
    }

    /// Id of the network of an environment.
    pub(crate) fn network(&self, number: usize) -> Option<String> {
        let name = environment(number);
        let all = self.query("/networks")?;
        let ours = |one: &&Value| one["Labels"]["argusai.environment"] == name.as_str();
        let found = all.as_array()?.iter().find(ours)?;
        Some(text(&found["Id"]))
    }

    /// Host port of `web`, as the status shows it.
    pub(crate) fn port(&self, number: usize) -> Option<u16> {
        port_of(&self.argus.status(&environment(number)))
    }

    /// Process id of the controller, as `controller.json` shows it.
    pub(crate) fn pid(&self) -> Option<u64> {
        self.argus.controller_status()["pid"].as_u64()
    }

    /// Starts the killed controller again and waits until it has listed the engine: until then, the status files
    /// describe the state before the kill.
    pub(crate) fn restart_controller(&self) {
        let before = self.pid();
        self.argus.start_again();
        let up = wait::poll(LIMIT, || {
            let now = self.argus.controller_status();
            let listed = fixture::condition(&now, "EngineReachable")["status"] == "True";
            (listed && now["pid"].as_u64() != before).then_some(())
        });
        if up.is_none() {
            self.note("the restarted controller does not list the engine");
        }
    }

    pub(crate) fn note(&self, text: &str) {
        eprintln!("{} {text}", self.clock());
    }

    /// Remembers the end of a fault that lasts.
    pub(crate) fn later(&self, after: Duration, end: impl FnOnce(&World<'e>) + Send + 'e) {
        let later = Later {
            due: now() + after,
            end: Box::new(end),
        };
        self.later
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(later);
    }

    /// Ends all faults that are due. `all` also ends the others.
    pub(crate) fn end_due(&self, all: bool) {
        let due: Vec<_> = {
            let mut later = self.later.lock().unwrap_or_else(PoisonError::into_inner);
            let time = now();
            later.extract_if(.., |one| all || one.due <= time).collect()
        };
        for one in due {
            (one.end)(self);
        }
    }

    /// Stores a document for the person who reads the run.
    pub(crate) fn store(&self, name: &str, text: &str) {
        let path = self.out.join(name);
        if let Err(error) = fs::write(&path, text) {
            eprintln!("{}: {error}", path.display());
        }
    }
}

/// Host port of `web` in a status document.
pub(crate) fn port_of(status: &Value) -> Option<u16> {
    let mappings = status["portMappings"].as_array()?;
    u16::try_from(mappings.first()?["actualPort"].as_u64()?).ok()
}

//! One environment with a failing service, under a separate controller, with queries for assertions.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use argus_core::time::Timestamp;
use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, PrivateEngine, RunOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Time that a restart may take in addition to its delay.
pub(crate) const SLACK: Duration = Duration::from_secs(20);

/// The failing service is `bad`, its container `NAME-bad`.
pub(crate) struct Case {
    pub(crate) engine: &'static PrivateEngine,
    pub(crate) argus: Controller<'static>,
    pub(crate) name: &'static str,
}

/// A run that ended, by the engine's facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) id: String,
    pub(crate) started: Timestamp,
    pub(crate) finished: Timestamp,
    pub(crate) exit_code: i64,
}

impl Case {
    /// `restart` goes into `resilience.container`, `service` are further lines of the service.
    pub(crate) fn start(name: &'static str, restart: &str, service: &str) -> Self {
        let engine = engine();
        let argus = Controller::start(engine, RunOptions::default());
        let case = Self { engine, argus, name };
        case.write(restart, service);
        case
    }

    /// Writes the spec again.
    pub(crate) fn write(&self, restart: &str, service: &str) {
        let name = self.name;
        self.argus.write_spec(
            "e2e.yaml",
            &format!(
                "version: \"1\"\nproject: {{ name: {name} }}\nresilience: {{ container: {{ {restart} }} }}\nservices:\n  \
                 bad:\n    {service}\n"
            ),
        );
    }

    /// A case whose container runs `script` in a shell.
    pub(crate) fn shell(name: &'static str, restart: &str, script: &str) -> Self {
        Self::start(name, restart, &shell(name, script, ""))
    }

    pub(crate) fn container(&self) -> String {
        format!("{}-bad", self.name)
    }

    pub(crate) fn inspect(&self) -> Option<Value> {
        self.engine.inspect(&self.container())
    }

    pub(crate) fn service(&self) -> Value {
        Controller::service(&self.argus.status(self.name), "bad")
    }

    /// Waits until the failing service satisfies `holds`. Returns the service.
    pub(crate) fn wait(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let status = self.argus.wait_status(self.name, LIMIT, what, |status| {
            holds(&Controller::service(status, "bad"))
        });
        Controller::service(&status, "bad")
    }

    /// Waits until the failing service reports this error. Returns the error.
    pub(crate) fn wait_error(&self, code: &str) -> Value {
        let output = self.wait(&format!("reports {code}"), |bad| bad["lastError"]["code"] == code);
        output["lastError"].clone()
    }

    /// Waits until the next restart waits for its delay. Returns the service.
    pub(crate) fn wait_backoff(&self, attempt: u64) -> Value {
        self.wait(&format!("waits for restart {attempt}"), |bad| {
            bad["waitingOn"]["reason"] == "RestartBackoff" && bad["restarts"] == attempt - 1
        })
    }

    /// Waits until the service runs after `restarts` restarts. Returns the service.
    pub(crate) fn wait_restarted(&self, restarts: u64) -> Value {
        self.wait(&format!("runs after {restarts} restarts"), |bad| {
            bad["restarts"] == restarts && bad["state"] == "Ready"
        })
    }

    /// Like [`Self::wait`], with all runs that ended in between, oldest first.
    pub(crate) fn runs_until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> (Value, Vec<Run>) {
        let seen = RefCell::new(BTreeMap::new());
        let output = self.wait(what, |bad| {
            let found = holds(bad);
            if let Some(run) = self.inspect().as_ref().and_then(ended) {
                seen.borrow_mut().insert(run.started, run);
            }
            found
        });
        (output, seen.into_inner().into_values().collect())
    }

    /// Start time of its first run after `after`.
    pub(crate) fn started_after(&self, after: Timestamp) -> Timestamp {
        self.argus.wait_until(LIMIT, "it is started again", || {
            let now = self.inspect()?;
            started(&now).filter(|at| *at > after)
        })
    }

    /// The directory that an error names as its evidence.
    pub(crate) fn evidence(&self, error: &Value) -> PathBuf {
        let path = text(&error["details"]["evidence"]);
        assert!(!path.is_empty(), "the error names no evidence: {error:#}");
        self.argus.state.join(path)
    }

    /// Sends a signal to the main process from outside, without the engine.
    pub(crate) fn signal(&self, signal: Signal) {
        send(self.engine, &self.container(), signal);
    }
}

/// Sends a signal to the main process of a container, without the engine.
pub(crate) fn send(engine: &PrivateEngine, container: &str, signal: Signal) {
    let found = engine.inspect(container).expect("the container exists");
    let pid = found["State"]["Pid"]
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok())
        .filter(|pid| *pid > 1);
    let pid = pid.and_then(Pid::from_raw).expect("the container runs");
    kill_process(pid, signal).expect("its process accepts a signal");
}

/// The lines of a service that runs `script` in a shell; `more` are further keys.
pub(crate) fn shell(name: &str, script: &str, more: &str) -> String {
    let script = Value::from(script);
    format!(
        "image: busybox:local\n    command: [\"sh\", \"-c\", {script}]\n    container: {{ name: {name}-bad }}\n    {more}"
    )
}

/// A script that executes `first` in the first run of a container, and sleeps in the next.
pub(crate) fn once(first: &str) -> String {
    format!("[ -e /tmp/ran ] && exec sleep 3600; touch /tmp/ran; {first}")
}

/// Start time of a run.
pub(crate) fn started(inspected: &Value) -> Option<Timestamp> {
    Timestamp::parse(inspected["State"]["StartedAt"].as_str()?).filter(|at| at.0 > 0)
}

/// Asserts that each start follows the previous end after its delay and at most `slack` more.
pub(crate) fn assert_delays(runs: &[Run], delays: &[Duration], slack: Duration) {
    assert_eq!(runs.len(), delays.len() + 1, "{runs:#?}");
    for (pair, delay) in runs.windows(2).zip(delays) {
        assert_delay(pair[0].finished, pair[1].started, *delay, slack);
    }
}

/// Asserts that the run waited for `delay` after `finished`, and at most `slack` more.
pub(crate) fn assert_delay(finished: Timestamp, started: Timestamp, delay: Duration, slack: Duration) {
    let took = started.since(finished);
    assert!(
        took >= delay && took <= delay + slack,
        "started {took:?} after its end, the delay is {delay:?}"
    );
}

/// The last run of a container that does not run now.
pub(crate) fn ended(inspected: &Value) -> Option<Run> {
    let state = &inspected["State"];
    let started = started(inspected).filter(|_| state["Status"] == "exited")?;
    Some(Run {
        id: text(&inspected["Id"]),
        started,
        finished: Timestamp::parse(state["FinishedAt"].as_str()?)?,
        exit_code: state["ExitCode"].as_i64()?,
    })
}

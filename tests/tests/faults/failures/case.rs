//! One environment with a failing service, under a separate controller, with queries for assertions.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use argus_core::action::ActionKind;
use argus_core::failed_run::FailedRun;
use argus_core::journal::{Entry, Record};
use argus_core::state::ServiceHistory;
use argus_core::time::Timestamp;
use argus_tests::fixture::{LIMIT, engine, text};
use argus_tests::{Controller, PrivateEngine, RunOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A restart delay that outlasts every test, for `resilience.container`. [`LONG_MAXIMUM`] permits it.
pub(crate) const LONG: &str = "restartDelay: 10m";
pub(crate) const LONG_DELAY: Duration = Duration::from_secs(600);
/// Further key of the file, after the lines of the service.
pub(crate) const LONG_MAXIMUM: &str = "\nargus: { restart: { maxDelay: 1h } }";

/// The failing service is `bad`, its container `NAME-bad`.
pub(crate) struct Case {
    pub(crate) engine: &'static PrivateEngine,
    pub(crate) argus: Controller<'static>,
    pub(crate) name: &'static str,
}

/// An action in the journal.
#[derive(Debug)]
pub(crate) struct PlannedAction {
    /// Time of the pass that planned it.
    pub(crate) at: Timestamp,
    pub(crate) kind: ActionKind,
    pub(crate) cause: String,
}

impl PlannedAction {
    fn of(item: &Value) -> Self {
        let record: Record = serde_json::from_value(item.clone()).expect("a record");
        let Entry::Intent(intent) = record.entry else {
            panic!("no action: {item:#}")
        };
        let id = intent.correlation_id.expect("the action has an identifier");
        Self {
            at: time_of(&id).unwrap_or_else(|| panic!("no time: {id}")),
            kind: intent.action.verb,
            cause: intent.cause,
        }
    }
}

/// Time of an identifier in the form of a ULID.
fn time_of(id: &str) -> Option<Timestamp> {
    const CROCKFORD: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digits = id.get(..10)?.chars();
    let value = |digit: char| i64::try_from(CROCKFORD.find(digit)?).ok();
    let time = digits
        .map(value)
        .try_fold(0, |time, digit| Some(time * 32 + digit?));
    time.map(Timestamp)
}

impl Case {
    /// `restart` goes into `resilience.container`, `service` are further lines of the service.
    pub(crate) fn start(name: &'static str, restart: &str, service: &str) -> Self {
        Self::start_with(RunOptions::default(), name, restart, service)
    }

    /// Like [`Self::start`], with a controller of these options.
    pub(crate) fn start_with(options: RunOptions, name: &'static str, restart: &str, service: &str) -> Self {
        let engine = engine();
        let argus = Controller::start(engine, options);
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

    /// The history of the failing service on disk, once it satisfies `holds`.
    pub(crate) fn stored(&self, what: &str, holds: impl Fn(&ServiceHistory) -> bool) -> ServiceHistory {
        self.argus
            .wait_until(LIMIT, &format!("the stored state {what}"), || {
                self.history().filter(&holds)
            })
    }

    fn history(&self) -> Option<ServiceHistory> {
        let file = format!("private/histories/{}.json", self.name);
        let bytes = fs::read(self.argus.state.join(file)).ok()?;
        let environment: Value = serde_json::from_slice(&bytes).expect("whole JSON");
        let history = environment["services"].get("bad")?;
        Some(serde_json::from_value(history.clone()).expect("the history of a service"))
    }

    /// The failed run with this number, from 1.
    pub(crate) fn failure(&self, number: u64) -> FailedRun {
        let is_it = |run: &FailedRun| run.number == number;
        let history = self.stored(&format!("has failure {number}"), |history| {
            history.failures.iter().any(is_it)
        });
        let mut failures = history.failures.into_iter();
        failures.find(is_it).expect("it was found before")
    }

    /// Asserts that the service waits until `delay` after the observation of this failure.
    pub(crate) fn assert_waits(service: &Value, failure: &FailedRun, delay: Duration) {
        assert_eq!(until(service), failure.seen() + delay, "{service:#}");
    }

    /// Asserts that the restarts of the first budget follow the failures 1, 2 and so on, each after its delay.
    pub(crate) fn assert_restarts(&self, delays: &[Duration]) {
        let mut restarts = self.actions("bad");
        restarts.retain(|action| action.cause.starts_with("restart "));
        // From the second restart on, the removal of the container comes first.
        restarts.dedup_by_key(|action| action.cause.clone());
        assert_eq!(restarts.len(), delays.len(), "{restarts:#?}");
        for (number, (restart, delay)) in (1..).zip(restarts.iter().zip(delays)) {
            assert_eq!(restart.cause, format!("restart {number}"));
            let due = self.failure(number).seen() + *delay;
            assert!(restart.at >= due, "due at {due}: {restart:?}");
        }
    }

    /// Actions on the containers of a service, from the journal, oldest first.
    pub(crate) fn actions(&self, service: &str) -> Vec<PlannedAction> {
        let target = format!("{}/{service}", self.name);
        let output = self
            .argus
            .cli(&["events", &target, "--type", "intent", "-o", "json"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let items = page["items"].as_array().expect("a list").iter();
        items.map(PlannedAction::of).collect()
    }

    /// Asserts that the journal has an action with this cause, and its successful result.
    pub(crate) fn assert_recorded(&self, cause: &str) {
        let output = self
            .argus
            .cli(&["events", self.name, "--type", "intent,result", "-o", "json"]);
        let page: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let records = page["items"].as_array().expect("a list");
        let mut intents = records.iter().filter(|record| record["cause"] == cause);
        let intent = intents.next().unwrap_or_else(|| panic!("{page:#}"));
        assert!(intent["action"]["verb"].is_string(), "{intent:#}");
        let is_result = |record: &&Value| record["of"] == intent["seq"];
        let result = records.iter().find(is_result);
        let result = result.unwrap_or_else(|| panic!("no result of {intent:#} in {page:#}"));
        assert_eq!(result["outcome"], "done", "{result:#}");
    }

    /// Number of these actions of one kind.
    pub(crate) fn count(&self, service: &str, kind: ActionKind) -> usize {
        let mut actions = self.actions(service);
        actions.retain(|action| action.kind == kind);
        actions.len()
    }

    /// Asserts that the environment has nothing to do, and that no wait of the failing service ends by time.
    pub(crate) fn assert_settled(&self) {
        // The plan of another process includes only what is on disk.
        self.stored("has the evidence of the last failure", |history| {
            history.failures.last().is_none_or(|run| run.evidence.is_some())
        });
        self.argus.assert_settled(self.name);
        let bad = self.service();
        assert!(bad["waitingOn"]["until"].is_null(), "{bad:#}");
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

/// A time in a document.
pub(crate) fn time(value: &Value) -> Timestamp {
    let time = value.as_str().and_then(Timestamp::parse);
    time.unwrap_or_else(|| panic!("no time: {value}"))
}

/// End of the wait of a service.
pub(crate) fn until(service: &Value) -> Timestamp {
    time(&service["waitingOn"]["until"])
}

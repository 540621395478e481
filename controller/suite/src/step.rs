//! Steps: their kind, and the work of one attempt.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::check::Failure;
use crate::container::ContainerCheck;
use crate::problem::{Problem, map_field};
use crate::request::Request;
use crate::retry::Retry;
use crate::scope::{Moment, Scope};
use crate::value::{is_truthy, to_text};

/// Step of a suite: a case, or an item of `setup` or `teardown`.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name for people.
    pub name: String,
    /// Line in the file, from 1.
    pub line: usize,
    /// True if a failure has no effect.
    pub ignore_error: bool,
    /// Retries of the case. `None` means those of the suite.
    pub retry: Option<Retry>,
    /// Kind of the step. `None` fails the step.
    pub kind: Option<StepKind>,
    /// Pause before each attempt.
    pub(crate) delay: Result<Option<Duration>, Problem>,
    pub(crate) save: Vec<(String, String)>,
    /// The step as written, with its templates.
    pub(crate) written: Map<String, Value>,
}

/// Kind of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepKind {
    /// Assertions on a file in a container.
    File,
    /// Assertions on the processes of a container.
    Process,
    /// Assertion on a port of a container.
    Port,
    /// Command in a container.
    Exec,
    /// HTTP request.
    Request,
    /// Kind that Argus does not run, with its key. Such a case is skipped and counted.
    Unsupported(String),
}

/// Work of one attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Send a request, follow its redirects, and assess the last response.
    Request(Box<Request>),
    /// Run commands in a container, and assess their outputs.
    Container(ContainerCheck),
}

/// Keys of the supported and known kinds. The first one of a step decides.
pub(crate) const KINDS: [&str; 7] = ["file", "process", "port", "sse", "exec", "browser", "request"];

/// Keys that every step can have.
pub(crate) const STEP_KEYS: [&str; 7] = [
    "name",
    "description",
    "delay",
    "expect",
    "save",
    "ignoreError",
    "retry",
];

impl Step {
    /// Returns the reason to skip the step.
    pub fn unsupported(&self) -> Option<String> {
        match &self.kind {
            Some(StepKind::Unsupported(key)) => Some(format!("not supported: steps with `{key}`")),
            _ => None,
        }
    }

    /// Returns the pause before each attempt.
    ///
    /// # Errors
    /// The time is invalid, which fails the case.
    pub fn delay(&self) -> Result<Option<Duration>, Failure> {
        self.delay.clone().map_err(Failure::from)
    }

    /// Resolves the templates of the step and returns the work of one attempt.
    ///
    /// # Errors
    /// The step cannot run, which fails the attempt.
    pub fn resolve(&self, scope: &Scope, moment: &mut Moment<'_>, base_url: &str) -> Result<Action, Failure> {
        self.read(scope, moment, base_url).map_err(Failure::from)
    }

    pub(crate) fn read(
        &self,
        scope: &Scope,
        moment: &mut Moment<'_>,
        base_url: &str,
    ) -> Result<Action, Problem> {
        let resolved = |(key, value): (&String, &Value)| {
            let is_text = ["name", "delay", "retry", "ignoreError", "save"].contains(&key.as_str());
            (!is_text).then(|| (key.clone(), value.clone()))
        };
        let step = Value::Object(self.written.iter().filter_map(resolved).collect());
        if let Some(excess) = scope.find_excess(&step) {
            return Err(Problem::new("", excess));
        }
        let Value::Object(step) = scope.resolve(&step, moment) else {
            return Err(Problem::new("", "the step is not a map"));
        };
        match &self.kind {
            Some(StepKind::Request) => {
                let request = map_field(&step, "request")?;
                let request = Request::read(&step, request, self.save.clone(), base_url)?;
                Ok(Action::Request(Box::new(request)))
            }
            Some(StepKind::Exec) => ContainerCheck::exec(&step).map(Action::Container),
            Some(StepKind::File) => ContainerCheck::file(&step).map(Action::Container),
            Some(StepKind::Process) => ContainerCheck::process(&step).map(Action::Container),
            Some(StepKind::Port) => ContainerCheck::port(&step).map(Action::Container),
            Some(StepKind::Unsupported(key)) => Err(Problem::new(
                key.clone(),
                format!("steps with `{key}` are not supported"),
            )),
            None => Err(Problem::new(
                "",
                "the step has no `request`, `exec`, `file`, `process` or `port`",
            )),
        }
    }
}

/// Finds the kind of a step.
pub(crate) fn kind_of(step: &Map<String, Value>) -> Option<StepKind> {
    let is_set = |key: &&str| step.get(*key).is_some_and(is_truthy);
    if let Some(key) = KINDS.iter().find(|key| is_set(key)) {
        return Some(match *key {
            "file" => StepKind::File,
            "process" => StepKind::Process,
            "port" => StepKind::Port,
            "exec" => StepKind::Exec,
            "request" => StepKind::Request,
            other => StepKind::Unsupported(other.to_owned()),
        });
    }
    // A plugin adds its own key, whose value is a map.
    let is_plugin = |(key, value): &(&String, &Value)| {
        let is_known = STEP_KEYS.contains(&key.as_str()) || KINDS.contains(&key.as_str());
        let is_typo = argus_crds::suggestion::nearest(key, KINDS.into_iter().chain(STEP_KEYS)).is_some();
        value.is_object() && !is_known && !is_typo && !SETUP_KEYS.contains(&key.as_str())
    };
    let plugin = step.iter().find(is_plugin)?;
    Some(StepKind::Unsupported(plugin.0.clone()))
}

/// Keys of waits, which occur in `setup` only.
pub(crate) const SETUP_KEYS: [&str; 2] = ["waitHealthy", "waitForPort"];

/// Values to save, by name. Paths that are not text save nothing.
pub(crate) fn read_save(step: &Map<String, Value>) -> Vec<(String, String)> {
    let Some(Value::Object(save)) = step.get("save") else {
        return Vec::new();
    };
    let entry = |(name, path): (&String, &Value)| match path {
        Value::String(_) | Value::Number(_) => Some((name.clone(), to_text(path))),
        _ => None,
    };
    save.iter().filter_map(entry).collect()
}

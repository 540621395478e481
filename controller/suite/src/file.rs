//! Suite files: their structure, and diagnostics about their mistakes.

use std::time::Duration;

use argus_core::time::Timestamp;
use argus_crds::diagnostic::Diagnostic;
use argus_crds::number::{self, Keep};
use argus_crds::yaml;
use serde_json::{Map, Value};

use crate::container::{Connect, read_port};
use crate::duration::{TIME_HINT, read_time};
use crate::lint::{self, Notes, Place};
use crate::problem::time_field;
use crate::retry::{Growth, Retry};
use crate::scope::{Moment, Scope};
use crate::step::{SETUP_KEYS, Step, kind_of, read_save};
use crate::value::{double, is_truthy, shown, to_text};

/// Maximum number of diagnostics per file.
const MAX_DIAGNOSTICS: usize = 100;
/// Time of a wait in `setup` without its own.
const WAIT: Duration = Duration::from_secs(60);

/// A suite.
#[derive(Debug, Clone, PartialEq)]
pub struct SuiteFile {
    /// Name for people.
    pub name: String,
    /// True if the first failed case skips all later ones.
    pub sequential: bool,
    /// Variables in their order.
    pub variables: Vec<(String, String)>,
    /// Steps and waits before the cases. None of them fails the suite.
    pub setup: Vec<SetupItem>,
    /// Cases in their order.
    pub cases: Vec<Step>,
    /// Steps after the cases. None of them fails the suite.
    pub teardown: Vec<Step>,
}

/// Item of `setup`.
#[derive(Debug, Clone, PartialEq)]
pub enum SetupItem {
    /// Wait until the service is healthy.
    WaitHealthy(Duration),
    /// Wait until a port accepts connections.
    WaitForPort(Connect),
    /// Pause.
    Delay(Duration),
    /// Step.
    Step(Box<Step>),
}

/// Result of [`parse`].
#[derive(Debug, Clone)]
pub struct ParsedSuite {
    /// The suite. `None` exactly if a diagnostic is an error.
    pub suite: Option<SuiteFile>,
    /// Errors reject the file. A warning describes a mistake that fails a case, or that has no effect.
    pub diagnostics: Vec<Diagnostic>,
}

impl SuiteFile {
    /// Returns the suite with the selected cases, and with the earlier cases that they build on: all of a sequential suite,
    /// otherwise those that save values. `None` if no case is selected.
    #[must_use]
    pub fn select(&self, is_selected: impl Fn(&Step) -> bool) -> Option<Self> {
        let last = self.cases.iter().rposition(&is_selected)?;
        let is_needed = |case: &&Step| self.sequential || !case.save.is_empty() || is_selected(case);
        Some(Self {
            cases: self.cases[..=last].iter().filter(is_needed).cloned().collect(),
            ..self.clone()
        })
    }
}

/// Reads a suite from the bytes of a file.
///
/// ```
/// let text = b"name: Orders\ncases:\n  - name: list\n    request: { path: /orders, mehtod: GET }\n";
/// let parsed = argus_suite::parse("orders.yaml", text);
/// assert_eq!(parsed.suite.unwrap().cases[0].name, "list");
/// let warning = &parsed.diagnostics[0];
/// assert_eq!(warning.hint.as_deref(), Some("did you mean `method`?"));
/// assert_eq!(warning.location.unwrap().line, 4);
/// ```
pub fn parse(file_name: &str, bytes: &[u8]) -> ParsedSuite {
    let document = match yaml::exact_document(file_name, bytes, Keep::Value) {
        Ok(document) => document,
        Err(diagnostic) => {
            return ParsedSuite {
                suite: None,
                diagnostics: vec![*diagnostic],
            };
        }
    };
    let mut reader = Reader {
        notes: Notes {
            source: document.source,
            diagnostics: document.diagnostics,
        },
    };
    let suite = reader.suite(&document.value);
    let Notes {
        source,
        mut diagnostics,
    } = reader.notes;
    // Errors come first, so that the maximum never hides the reason of a rejection.
    diagnostics.sort_by_key(|diagnostic| !diagnostic.is_error());
    diagnostics.truncate(MAX_DIAGNOSTICS);
    let mut diagnostics: Vec<Diagnostic> = diagnostics
        .into_iter()
        .map(|diagnostic| source.with_location(diagnostic))
        .collect();
    diagnostics.sort_by_key(|diagnostic| diagnostic.location);
    let is_rejected = diagnostics.iter().any(Diagnostic::is_error);
    ParsedSuite {
        suite: suite.filter(|_| !is_rejected),
        diagnostics,
    }
}

/// Reader of a file, which collects its diagnostics.
struct Reader {
    notes: Notes,
}

impl Reader {
    fn error(&mut self, path: &str, message: impl Into<String>, hint: &str) {
        self.notes
            .diagnostics
            .push(Diagnostic::error(path, message).hint(hint));
    }

    fn suite(&mut self, document: &Value) -> Option<SuiteFile> {
        let Value::Object(file) = document else {
            self.error("", "a suite is a map", "begin with `name:`");
            return None;
        };
        if let Some(key) = lint::spec_key(file) {
            let message = format!("a spec file, which has `{key}`, is not a suite");
            self.error(key, message, "name a file with `cases:` in `tests.suites[].file`");
            return None;
        }
        lint::file(file, &mut self.notes);
        let name = match file.get("name") {
            Some(value @ Value::String(name)) if !name.is_empty() => Some(to_text(value)),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(to_text(value)),
            _ => {
                self.error("name", "`name` is missing", "add `name: …`");
                None
            }
        };
        let cases = if let Some(Value::Array(cases)) = file.get("cases") {
            Some(self.steps(cases, "cases", Place::Case))
        } else {
            let hint = "add `cases:` with a list of cases";
            self.error("cases", "`cases` is missing or not a list", hint);
            None
        };
        let variables = self.variables(file.get("variables"));
        let setup = self.list(file.get("setup"), "setup");
        let setup = setup
            .iter()
            .enumerate()
            .filter_map(|(index, item)| self.setup_item(item, index))
            .collect();
        let teardown = self.list(file.get("teardown"), "teardown");
        let teardown = self.steps(&teardown, "teardown", Place::Teardown);
        Some(SuiteFile {
            name: name?,
            sequential: file.get("sequential") == Some(&Value::Bool(true)),
            variables,
            setup,
            cases: cases?,
            teardown,
        })
    }

    fn list(&mut self, value: Option<&Value>, key: &str) -> Vec<Value> {
        match value {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items.clone(),
            Some(other) => {
                let message = format!("`{key}` is a list, not {}", shown(Some(other)));
                self.error(key, message, "begin each step with `-`");
                Vec::new()
            }
        }
    }

    fn variables(&mut self, value: Option<&Value>) -> Vec<(String, String)> {
        let map = match value {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Object(map)) => map,
            Some(other) => {
                let message = format!("`variables` is a map, not {}", shown(Some(other)));
                self.error("variables", message, "write `name: value`");
                return Vec::new();
            }
        };
        let mut variables = Vec::new();
        for (name, value) in map {
            let path = format!("variables.{name}");
            match value {
                Value::String(text) if !number::is_number(value) => {
                    variables.push((name.clone(), text.clone()));
                }
                Value::Number(_) | Value::Bool(_) | Value::String(_) => {
                    // The text of the file keeps the spelling, such as `1.10`.
                    let text = self
                        .notes
                        .source
                        .scalar(&path)
                        .map_or_else(|| to_text(value), str::to_owned);
                    variables.push((name.clone(), text));
                }
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    let message = format!("the variable `{name}` is not a text");
                    self.error(&path, message, "put the value in quotes");
                }
            }
        }
        variables
    }

    fn steps(&mut self, items: &[Value], key: &str, place: Place) -> Vec<Step> {
        let items = items.iter().enumerate();
        items
            .filter_map(|(index, item)| self.step(item, &format!("{key}[{index}]"), index, place))
            .collect()
    }

    fn step(&mut self, item: &Value, path: &str, index: usize, place: Place) -> Option<Step> {
        let Value::Object(written) = item else {
            let message = format!("a step is a map, not {}", shown(Some(item)));
            self.error(path, message, "write a step such as `- name: …`");
            return None;
        };
        let delay = match place {
            Place::Case => time_field(written, "", "delay"),
            Place::Setup | Place::Teardown => Ok(None),
        };
        let retry = match place {
            Place::Case => self.retry(written.get("retry"), path),
            Place::Setup | Place::Teardown => None,
        };
        let word = match place {
            Place::Case => "case",
            Place::Setup => "setup step",
            Place::Teardown => "teardown step",
        };
        let step = Step {
            name: match written.get("name") {
                None | Some(Value::Null) => format!("{word} {}", index + 1),
                Some(name) => to_text(name),
            },
            line: self.notes.source.locate(path).map_or(1, |location| location.line),
            ignore_error: written.get("ignoreError").is_some_and(is_truthy),
            retry,
            kind: kind_of(written),
            delay,
            save: read_save(written),
            written: written.clone(),
        };
        lint::step(written, step.kind.as_ref(), path, place, &mut self.notes);
        self.try_step(&step, path);
        Some(step)
    }

    /// Adds a warning for a step that fails in every attempt. Values with templates are not known yet.
    fn try_step(&mut self, step: &Step, path: &str) {
        let mut moment = Moment {
            now: Timestamp(0),
            random: &mut || 0,
        };
        let tried = step.read(&Scope::default(), &mut moment, "http://localhost");
        let problems = [step.delay.clone().err(), tried.err()];
        for problem in problems.into_iter().flatten() {
            if step.unsupported().is_some() || problem.message.contains("{{") {
                continue;
            }
            let at = if problem.path.is_empty() {
                path.to_owned()
            } else {
                format!("{path}.{}", problem.path)
            };
            let diagnostic = Diagnostic::warning(at, problem.message);
            self.notes.diagnostics.push(match problem.hint {
                Some(hint) => diagnostic.hint(hint),
                None => diagnostic,
            });
        }
    }

    fn time(&mut self, value: Option<&Value>, path: &str) -> Option<Duration> {
        match read_time(value.unwrap_or(&Value::Null)) {
            Ok(time) => time,
            Err(message) => {
                self.error(path, message, TIME_HINT);
                None
            }
        }
    }

    fn retry(&mut self, value: Option<&Value>, path: &str) -> Option<Retry> {
        let policy = match value? {
            Value::Object(policy) => policy,
            Value::Null => return None,
            other => {
                let message = format!("`retry` is a map, not {}", shown(Some(other)));
                self.error(
                    &format!("{path}.retry"),
                    message,
                    "write `{ maxAttempts: 3, delay: 1s }`",
                );
                return None;
            }
        };
        let path = format!("{path}.retry");
        let number = |key: &str| match policy.get(key) {
            Some(Value::Number(number)) => Some(double(number)),
            _ => None,
        };
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number outside the range becomes its nearest end"
        )]
        let max_attempts = number("maxAttempts").unwrap_or(1.0).clamp(1.0, 1000.0) as u32;
        if max_attempts > 1 && policy.get("delay").is_none_or(Value::is_null) {
            self.error(&path, "`retry` has no `delay`", "add `delay: 1s`");
        }
        Some(Retry {
            max_attempts,
            delay: self
                .time(policy.get("delay"), &format!("{path}.delay"))
                .unwrap_or_default(),
            growth: match policy.get("backoff").and_then(Value::as_str) {
                Some("linear") => Growth::Linear,
                Some("exponential") => Growth::Exponential,
                _ => Growth::Constant,
            },
            multiplier: number("backoffMultiplier").unwrap_or(2.0),
        })
    }

    fn setup_item(&mut self, item: &Value, index: usize) -> Option<SetupItem> {
        let path = format!("setup[{index}]");
        let empty = Map::new();
        let map = item.as_object().unwrap_or(&empty);
        let [healthy, port] = SETUP_KEYS;
        if let Some(wait) = map.get(healthy) {
            lint::wait(map, wait, healthy, &path, &mut self.notes);
            let limit = wait.get("timeout");
            return Some(SetupItem::WaitHealthy(
                self.time(limit, &format!("{path}.{healthy}.timeout"))
                    .unwrap_or(WAIT),
            ));
        }
        if let Some(wait) = map.get(port) {
            lint::wait(map, wait, port, &path, &mut self.notes);
            let number = match read_port(wait.get("port")) {
                Ok(number) => number,
                Err(message) => {
                    self.error(
                        &format!("{path}.{port}"),
                        message,
                        "write `waitForPort: { port: 8080 }`",
                    );
                    return None;
                }
            };
            let host = wait.get("host").filter(|host| is_truthy(host));
            return Some(SetupItem::WaitForPort(Connect {
                host: host.map_or_else(|| "localhost".to_owned(), to_text),
                port: number,
                limit: self
                    .time(wait.get("timeout"), &format!("{path}.{port}.timeout"))
                    .unwrap_or(WAIT),
            }));
        }
        let is_set = |key: &str| map.get(key).is_some_and(is_truthy);
        if is_set("delay") && !is_set("request") && !is_set("exec") {
            lint::lone_delay(map, &path, &mut self.notes);
            let delay = self.time(map.get("delay"), &format!("{path}.delay"));
            return delay.map(SetupItem::Delay);
        }
        self.step(item, &path, index, Place::Setup)
            .map(|step| SetupItem::Step(Box::new(step)))
    }
}

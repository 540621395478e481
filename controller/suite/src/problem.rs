//! Problems of a step, and its typed fields.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::check::{Failure, join};
use crate::duration::{TIME_HINT, read_time};
use crate::value::{shown, to_text};

/// Reason why a step cannot run. Before the run it is a diagnostic, and during the run the failure of the case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Path below the step.
    pub(crate) path: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::new(problem.path, problem.message)
    }
}

/// Returns the map under a key.
pub(crate) fn map_field<'a>(
    step: &'a Map<String, Value>,
    key: &str,
) -> Result<&'a Map<String, Value>, Problem> {
    match step.get(key) {
        Some(Value::Object(map)) => Ok(map),
        other => {
            let message = format!("`{key}` is a map, not {}", shown(other));
            Err(Problem::new(key, message))
        }
    }
}

/// Returns the text under a key. Numbers and booleans become text.
pub(crate) fn text_field(
    map: &Map<String, Value>,
    parent: &str,
    key: &str,
) -> Result<Option<String>, Problem> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) => Ok(Some(to_text(value))),
        Some(other) => {
            let message = format!("`{key}` is a text, not {}", shown(Some(other)));
            Err(Problem::new(format!("{parent}.{key}"), message))
        }
    }
}

/// Returns the text under a required key.
pub(crate) fn required_text(map: &Map<String, Value>, parent: &str, key: &str) -> Result<String, Problem> {
    text_field(map, parent, key)?
        .filter(|text| !text.is_empty())
        .ok_or_else(|| Problem::new(parent, format!("`{parent}` has no `{key}`")))
}

/// Returns the time under a key.
pub(crate) fn time_field(
    map: &Map<String, Value>,
    parent: &str,
    key: &str,
) -> Result<Option<Duration>, Problem> {
    let Some(value) = map.get(key) else {
        return Ok(None);
    };
    read_time(value).map_err(|message| Problem::new(join(parent, key), message).hint(TIME_HINT))
}

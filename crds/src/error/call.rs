//! A call on the way to an error: what was asked of whom, for how long, and what came of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One call; of several the outermost stands first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// What was called: an act on the engine, a probe, a tool of MCP, a request, a command.
    pub operation: String,
    /// What it was called with: names and numbers, never the values of variables.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// How long it was given, in milliseconds; without one it is watched for progress, or is not waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// What came of it, each because of the next, redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

impl Call {
    /// A first attempt.
    pub fn new(operation: impl Into<String>, arguments: Map<String, Value>) -> Self {
        Self {
            operation: operation.into(),
            arguments,
            attempt: 1,
            ..Self::default()
        }
    }

    /// The fields of an object as arguments; what is not known is not told.
    pub fn arguments(told: Value) -> Map<String, Value> {
        let Value::Object(mut told) = told else {
            return Map::from_iter([("value".to_owned(), told)]);
        };
        told.retain(|_, value| !value.is_null());
        told
    }

    /// The same with its deadline.
    #[must_use]
    pub fn within(self, deadline: Option<std::time::Duration>) -> Self {
        let ms = |deadline: std::time::Duration| u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        Self {
            deadline_ms: deadline.map(ms),
            ..self
        }
    }

    /// The same as a later attempt.
    #[must_use]
    pub fn attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }

    /// The same with what came of it; what says nothing is left out.
    #[must_use]
    pub fn outcome(self, causes: impl IntoIterator<Item = String>) -> Self {
        let causes = causes.into_iter().filter(|cause| !cause.trim().is_empty());
        Self {
            causes: causes.collect(),
            ..self
        }
    }
}

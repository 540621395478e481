//! Call traces: the calls behind an error, with their arguments, deadlines and causes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One call behind an error. In a list of calls the outermost call is first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Name of the call: an engine action, a probe, an MCP tool, a request or a command.
    pub operation: String,
    /// Names and numbers that the call received. Values of variables are never included.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Deadline in milliseconds. Absent if the call has a progress limit instead, or if nothing waits for its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Error of the call, followed by its chain of causes, redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

impl Call {
    /// Creates a first attempt without deadline and causes.
    pub fn new(operation: impl Into<String>, arguments: impl Into<Value>) -> Self {
        Self {
            operation: operation.into(),
            arguments: Self::arguments(arguments.into()),
            attempt: 1,
            ..Self::default()
        }
    }

    /// Converts the fields of an object to arguments, without its `null` values.
    ///
    /// Any other value becomes the argument `value`.
    pub fn arguments(fields: Value) -> Map<String, Value> {
        let Value::Object(mut fields) = fields else {
            return Map::from_iter([("value".to_owned(), fields)]);
        };
        fields.retain(|_, value| !value.is_null());
        fields
    }

    /// Sets the deadline.
    #[must_use]
    pub fn within(self, deadline: Option<std::time::Duration>) -> Self {
        let ms = |deadline: std::time::Duration| u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        Self {
            deadline_ms: deadline.map(ms),
            ..self
        }
    }

    /// Sets the number of the attempt.
    #[must_use]
    pub fn attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }

    /// Sets the causes, without blank ones.
    #[must_use]
    pub fn outcome(self, causes: impl IntoIterator<Item = String>) -> Self {
        let causes = causes.into_iter().filter(|cause| !cause.trim().is_empty());
        Self {
            causes: causes.collect(),
            ..self
        }
    }
}

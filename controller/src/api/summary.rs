//! Summary of an output for a model: structured data, short text, and the next calls.

use argus_crds::error::Remedy;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Tool as _;
use super::wait::Wait;

/// Maximum number of next steps in a result.
const MAX_STEPS: usize = 5;

/// Summary of an output.
#[derive(Debug)]
pub(crate) struct Summary<T> {
    /// Structured data.
    pub(crate) data: T,
    /// Text for the model.
    pub(crate) text: String,
    /// Next calls.
    pub(crate) next: Vec<NextStep>,
}

impl<T> Summary<T> {
    /// Creates a summary without next calls.
    pub(crate) fn new(data: T, text: impl Into<String>) -> Self {
        Self {
            data,
            text: text.into(),
            next: Vec::new(),
        }
    }

    /// Adds different next calls, as long as there are few.
    pub(crate) fn with_steps(mut self, steps: impl IntoIterator<Item = NextStep>) -> Self {
        for step in steps {
            NextStep::add(&mut self.next, step, MAX_STEPS);
        }
        self
    }

    /// Adds a next call.
    pub(crate) fn with_next(mut self, step: NextStep) -> Self {
        NextStep::add(&mut self.next, step, usize::MAX);
        self
    }
}

/// Data of a summary with its next calls, as tools return it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolOutput<T> {
    /// Data of the summary.
    #[serde(flatten)]
    pub(crate) data: T,
    /// Next steps as complete calls.
    pub(crate) next_steps: Vec<NextStep>,
    /// Length of the complete answer, and how to request it, if this one is shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<String>,
}

/// A next step as a complete call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NextStep {
    /// Work outside of Argus before the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first: Option<String>,
    /// Purpose of the call.
    pub(crate) why: String,
    /// Name of the tool.
    pub(crate) tool: String,
    /// Arguments of the call.
    pub(crate) arguments: Map<String, Value>,
}

impl NextStep {
    /// Creates a step from its purpose and its call.
    pub(crate) fn new(why: impl Into<String>, tool: &str, arguments: Value) -> Self {
        Self {
            first: None,
            why: why.into(),
            tool: tool.to_owned(),
            arguments: match arguments {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            },
        }
    }

    /// Adds a step to at most `most` steps. The same call with another purpose remains one step, with the first purpose.
    pub(crate) fn add(steps: &mut Vec<Self>, step: Self, most: usize) {
        let is_same = |known: &Self| known.tool == step.tool && known.arguments == step.arguments;
        match steps.iter().position(is_same) {
            Some(at) => {
                let known = &mut steps[at];
                match (&mut known.first, step.first) {
                    (Some(first), Some(other)) => join_alternative(first, &other),
                    (first @ None, other) => *first = other,
                    (Some(_), None) => {}
                }
            }
            None if steps.len() < most => steps.push(step),
            None => {}
        }
    }

    /// Creates the step of a remedy; `None` if it is not a call.
    pub(crate) fn from_remedy(remedy: &Remedy) -> Option<Self> {
        let call = remedy.mcp.as_ref()?;
        let (first, why) = match (&call.verify, &remedy.command) {
            (Some(verify), Some(command)) if remedy.verify.is_none() => {
                (Some(format!("{}: `{command}`", remedy.summary)), verify.clone())
            }
            (Some(verify), _) => (Some(remedy.summary.clone()), verify.clone()),
            (None, _) => (None, remedy.summary.clone()),
        };
        Some(Self {
            first,
            why,
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
        })
    }

    /// Creates the wait after the work of earlier steps.
    pub(crate) fn wait_after_work(environment: &str) -> Self {
        let environment = json!({ "environment": environment });
        Self::new("after that, wait until it is Ready", Wait::NAME, environment)
    }

    /// Returns true if a call with these arguments contains the call of this step.
    pub(crate) fn repeats(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        let is_same = |(name, value)| arguments.get(name) == Some(value);
        self.tool == tool && self.arguments.iter().all(is_same)
    }
}

/// Adds an alternative to a text that does not contain it yet.
fn join_alternative(text: &mut String, other: &str) {
    if !text.contains(other) {
        *text = format!("{text}; or {other}");
    }
}

/// Returns the beginning of a text, with `…` if it is longer.
pub(crate) fn clip(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most).chain("…".chars()).collect()
}

//! What a tool answers: data for programs, a few words for the model, and what to do next.

use std::fmt::Write as _;

use argus_crds::error::{Call as Made, Reason, StructuredError, ToolCall};
use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::summary;
use crate::call_trace;
use crate::cli::output;
use crate::client::ControllerClient;
use crate::exit::Failure;

/// Something to do next, callable as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NextStep {
    /// Why.
    pub(super) why: String,
    /// Name of the tool.
    pub(super) tool: String,
    /// What it is called with.
    pub(super) arguments: Map<String, Value>,
}

impl NextStep {
    /// A step in words, with its call.
    pub(super) fn new(why: impl Into<String>, tool: &str, arguments: Value) -> Self {
        Self {
            why: why.into(),
            tool: tool.to_owned(),
            arguments: match arguments {
                Value::Object(arguments) => arguments,
                _ => Map::new(),
            },
        }
    }

    /// The step that a remedy names.
    pub(super) fn of(why: &str, call: &ToolCall) -> Self {
        Self {
            why: why.to_owned(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
        }
    }

    fn line(&self) -> String {
        let arguments = Value::Object(self.arguments.clone());
        format!("next: {} {arguments} ({})\n", self.tool, self.why)
    }
}

/// A good answer.
#[derive(Debug)]
pub(super) struct Output<T> {
    /// For programs.
    pub(super) data: T,
    /// For the model.
    pub(super) text: String,
    /// What to do next.
    pub(super) next: Vec<NextStep>,
}

impl<T> Output<T> {
    /// Data, and the words for it.
    pub(super) fn new(told: T, text: impl Into<String>) -> Self {
        Self {
            data: told,
            text: text.into(),
            next: Vec::new(),
        }
    }

    /// The same with something to do next.
    pub(super) fn then(mut self, step: NextStep) -> Self {
        self.next.push(step);
        self
    }
}

/// What stands in the structured content.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reply<T> {
    #[serde(flatten)]
    output: T,
    /// What to do next, callable as it stands.
    next_steps: Vec<NextStep>,
}

/// A good answer as it is sent.
pub(super) fn good<T: Serialize>(said: Output<T>) -> CallToolResult {
    let Output {
        data: told,
        text,
        next,
    } = said;
    let mut text = text.trim_end().to_owned() + "\n";
    text.extend(next.iter().map(NextStep::line));
    let answer = Reply {
        output: told,
        next_steps: next,
    };
    // Our own types have text keys and no foreign serializers: they can always be written.
    let value = serde_json::to_value(answer).unwrap_or_default();
    let mut result = CallToolResult::structured(value);
    result.content = vec![ContentBlock::text(text)];
    result
}

/// A failure as it is sent: the one type of error, and the same in words.
pub(super) fn bad(failure: Failure) -> CallToolResult {
    let error = failure.into_error();
    let mut text = format!("{error}\n");
    if let Some(hint) = error.details.get("hint").and_then(Value::as_str) {
        // A string takes whatever is written.
        let _ = writeln!(text, "hint: {hint}");
    }
    let written = summary::tail(&error);
    for line in written.iter().flat_map(|written| written.lines()) {
        let _ = writeln!(text, "  | {line}");
    }
    if let Some(after) = error.retry_after {
        let _ = writeln!(text, "try again in {after} s");
    }
    for remedy in &error.remedies {
        match &remedy.mcp {
            Some(call) => text.push_str(&NextStep::of(&remedy.summary, call).line()),
            None => {
                let _ = writeln!(text, "do: {}", remedy.summary);
            }
        }
    }
    let mut result = CallToolResult::structured_error(json!(error));
    result.content = vec![ContentBlock::text(text)];
    result
}

/// An answer in which every error tells what was called; of a refusal `made` as well, which led to it.
pub(super) async fn with_calls(
    mut result: CallToolResult,
    client: &ControllerClient,
    made: Made,
) -> CallToolResult {
    let Some(content) = result.structured_content.take() else {
        return result;
    };
    let (mut content, mut calls) = client.with_calls(content).await;
    if result.is_error == Some(true) {
        let led_to = content["debug"].as_array().cloned().unwrap_or_default();
        calls.insert(0, made.clone());
        content["debug"] = [json!(made)].into_iter().chain(led_to).collect();
    }
    let lines = calls
        .iter()
        .map(|call| format!("called: {}", call_trace::line(call)));
    let lines = output::lines(lines);
    if !lines.is_empty() {
        result.content.push(ContentBlock::text(lines));
    }
    result.structured_content = Some(content);
    result
}

/// Arguments that a tool does not take: what is wrong with them, and what it takes.
pub(super) fn invalid_arguments(tool: &str, why: &str, takes: &Value) -> CallToolResult {
    let names: Vec<&str> = takes["properties"]
        .as_object()
        .map(|all| all.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let required = takes["required"].as_array().cloned().unwrap_or_default();
    let takes = names
        .iter()
        .map(|name| {
            let needed = required.iter().any(|required| required == name);
            if needed {
                format!("`{name}`")
            } else {
                format!("[`{name}`]")
            }
        })
        .collect::<Vec<_>>()
        .join(", ");
    let takes = if takes.is_empty() {
        "nothing".to_owned()
    } else {
        takes
    };
    let message = format!("these are no arguments of `{tool}`: {why}; it takes {takes}");
    let error = StructuredError::missing(Reason::BadRequest, message);
    bad(Failure::new(
        error.details(json!({ "tool": tool, "takes": names })),
    ))
}

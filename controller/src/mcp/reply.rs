//! Output of a tool: structured data, short text for the model, and next steps.

use std::fmt::Write as _;

use argus_crds::error::{Call, Reason, StructuredError};
use rmcp::model::{CallToolResult, ContentBlock};
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};

use crate::api::{NextStep, Summary, ToolOutput, output_tail};
use crate::local_state::call_trace;
use crate::process::exit::Failure;
use crate::render::foreign_text;
use crate::render::output;

use super::{bound, cut};

/// Beginnings of lines that only Argus writes.
const OWN_LINES: [&str; 3] = ["do:", "next:", "called:"];

/// Maximum number of remedies in the text of an error.
const MAX_REMEDIES: usize = 4;

/// Formats a next step: the work before the call, if any, and the call.
fn format_step(step: &NextStep) -> String {
    let first = step.first.as_deref().map_or_else(String::new, |work| {
        format!("do: {}\n", foreign_text::mark_further_lines(work))
    });
    let arguments = Value::Object(step.arguments.clone());
    let why = foreign_text::mark_further_lines(&step.why);
    format!("{first}next: {} {arguments} ({why})\n", step.tool)
}

/// Joins the body of a text, at most as long as the rest of `limit`, and the lines of Argus after it.
fn join_text(body: &str, own_lines: &str, limit: usize) -> String {
    let own_lines = foreign_text::escape_controls(own_lines);
    let body = foreign_text::escape_controls(&mark_pretenders(body));
    cut::cut_middle(&body, limit.saturating_sub(own_lines.len())) + &own_lines
}

/// Marks the lines of a body that look like the lines of Argus after it. Every tool marks the lines that it quotes, so this finds
/// only line feeds inside of other values.
fn mark_pretenders(body: &str) -> String {
    let mark = |line: &str| {
        if is_pretender(line) {
            foreign_text::MARK.to_owned() + line
        } else {
            line.to_owned()
        }
    };
    output::join_lines(body.trim_end().lines().map(mark))
}

/// Returns true for a line that looks like a line of Argus.
pub(super) fn is_pretender(line: &str) -> bool {
    OWN_LINES.iter().any(|own| line.trim_start().starts_with(own))
}

/// Marks the foreign text of the structured content, and limits it to `limit` bytes and its `required` members; `most` is the maximum that a
/// client can request.
pub(super) fn finish(
    mut result: CallToolResult,
    limit: usize,
    most: usize,
    required: &[&str],
) -> CallToolResult {
    let content = result.structured_content.take();
    let bounded = |content| bound::bounded(bound::marked(content), limit, most, required);
    result.structured_content = content.map(bounded);
    result
}

/// Converts an output into a result with at most `limit` bytes of text.
pub(super) fn success_result<T: Serialize>(summary: Summary<T>, limit: usize) -> CallToolResult {
    let Summary { data, text, next } = summary;
    let own_lines: String = next.iter().map(format_step).collect();
    let text = join_text(&text, &own_lines, limit);
    let reply = ToolOutput {
        data,
        next_steps: next,
        left_out: None,
    };
    // Our own types have text keys and no foreign serializers, so they always serialize.
    let value = serde_json::to_value(reply).unwrap_or_default();
    let mut result = CallToolResult::structured(value);
    result.content = vec![ContentBlock::text(text)];
    result
}

/// Converts a failure into a result, with the structured error and the same as text of at most `limit` bytes.
pub(super) fn error_result(error: &StructuredError, limit: usize) -> CallToolResult {
    let mut body = foreign_text::mark_further_lines(&error.to_string()) + "\n";
    let hint = error.details.get("hint").and_then(Value::as_str);
    // The client has tools instead of commands, except for the start of a controller.
    let is_for_clients = |hint: &&str| !hint.contains("`argus ") || hint.contains("argus run");
    if let Some(hint) = hint.filter(is_for_clients) {
        // Writing to a string cannot fail.
        let _ = writeln!(body, "hint: {}", foreign_text::mark_further_lines(hint));
    }
    for warning in output::list_warnings(error) {
        let _ = writeln!(body, "warning: {}", foreign_text::mark_further_lines(warning));
    }
    body.push_str(&foreign_text::mark_lines(&output_tail(error).unwrap_or_default()));
    let mut text = String::new();
    if let Some(after) = error.retry_after {
        let _ = writeln!(text, "try again in {after} s");
    }
    let mut steps: Vec<NextStep> = Vec::new();
    for step in error.remedies.iter().filter_map(NextStep::from_remedy) {
        NextStep::add(&mut steps, step, MAX_REMEDIES);
    }
    let has_work = steps.iter().any(|step| step.first.is_some());
    if let Some(environment) = error.environment.as_deref().filter(|_| has_work) {
        let wait = NextStep::wait_after_work(environment);
        NextStep::add(&mut steps, wait, MAX_REMEDIES + 1);
    }
    text.extend(steps.iter().map(format_step));
    let text = join_text(&body, &text, limit);
    let mut result = CallToolResult::structured_error(json!(error));
    result.content = vec![ContentBlock::text(text)];
    result
}

/// Adds the calls behind the errors of a result to its text.
pub(super) fn add_calls(result: &mut CallToolResult) {
    let mut calls = Vec::new();
    list_calls(result.structured_content.as_ref(), &mut calls);
    let lines = calls
        .iter()
        .map(|call| format!("called: {}", call_trace::format_call(call)));
    let lines = foreign_text::escape_controls(&output::join_lines(lines));
    if !lines.is_empty() {
        result.content.push(ContentBlock::text(lines));
    }
}

/// Collects the calls behind the errors in a value, each once.
fn list_calls<'a>(values: impl IntoIterator<Item = &'a Value>, calls: &mut Vec<Call>) {
    for value in values {
        if let Value::Object(fields) = value {
            let of_error = fields
                .get("debug")
                .and_then(|debug| Vec::<Call>::deserialize(debug).ok());
            for call in of_error.into_iter().flatten() {
                if !calls.contains(&call) {
                    calls.push(call);
                }
            }
            list_calls(fields.values(), calls);
        } else {
            list_calls(value.as_array().into_iter().flatten(), calls);
        }
    }
}

/// Creates the result for invalid arguments, with the valid ones.
pub(super) fn invalid_arguments(tool: &str, cause: &str, schema: &Value, limit: usize) -> CallToolResult {
    let names: Vec<&str> = schema["properties"]
        .as_object()
        .map(|all| all.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let expected = names
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
    let expected = if expected.is_empty() {
        "no arguments".to_owned()
    } else {
        expected
    };
    let message = format!("invalid arguments for `{tool}`: {cause}; expected {expected}");
    let error = StructuredError::missing(Reason::BadRequest, message);
    let error = error.details(json!({ "tool": tool, "validArguments": names }));
    error_result(&Failure::new(error).into_error(), limit)
}

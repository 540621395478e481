//! List of the tools, and the code that runs a tool call and builds its result.

use std::sync::Arc;
use std::time::Duration;

use argus_crds::error::{Call as TracedCall, Code, StructuredError};
use argus_reconciler::Deadlines;
use rmcp::model::{
    CallToolResult, JsonObject, ProgressNotificationParam, ProgressToken, Tool as ToolDescription,
    ToolAnnotations,
};
use rmcp::service::{Peer, RoleServer};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::reply;
use crate::api::target::find_only_environment;
use crate::api::{Context, Effect, NextStep, Summary};
use crate::client::ControllerClient;
use crate::local_state::call_trace;
use crate::operations::{self, CallError, OperationEntry, ToolEntry};
use crate::process::correlation;
use crate::process::exit::Failure;
use crate::render::foreign_text;
use crate::settings::Settings;

/// Argument with the name of the environment.
const ENVIRONMENT: &str = "environment";
/// Arguments that every tool accepts.
const DEBUG: &str = "debug";
const MAX_TEXT: &str = "maxTextBytes";
/// Argument of the tools that end themselves in time.
const TIMEOUT: &str = "timeoutSeconds";
/// Default and maximum length of the text of a result, in bytes. The structured content has the same limits, but is never shorter than the
/// default, because it has required members.
const DEFAULT_TEXT: usize = 8 * 1024;
const MOST_TEXT: usize = 1024 * 1024;
/// Default length of the text of an error, in bytes.
const DEFAULT_ERROR_TEXT: usize = 1_200;

/// A tool of the server.
pub(super) struct ServerTool {
    /// Description for clients.
    pub(super) description: ToolDescription,
    entry: &'static OperationEntry,
    tool: &'static ToolEntry,
}

/// Returns all tools, the most important first.
pub(super) fn list_tools() -> Vec<ServerTool> {
    let tools = operations::all().iter();
    tools
        .filter_map(|entry| Some(create_tool(entry, entry.tool.as_ref()?)))
        .collect()
}

fn create_tool(entry: &'static OperationEntry, tool: &'static ToolEntry) -> ServerTool {
    let mut schema = with_common(entry.arguments.clone());
    if takes_only_environment(entry, tool) {
        make_optional(&mut schema);
    }
    let description = ToolDescription::new(tool.name, tool.about, Arc::new(schema))
        .with_title(tool.title)
        .with_raw_output_schema(or_error((tool.schema)()))
        .with_annotations(annotations(entry));
    ServerTool {
        description,
        entry,
        tool,
    }
}

/// Returns whether the only environment is the default. Other tools could change the wrong environment.
fn takes_only_environment(entry: &OperationEntry, tool: &ToolEntry) -> bool {
    let required = entry.arguments.get("required").and_then(Value::as_array);
    let is_required = required.is_some_and(|names| names.iter().any(|name| name == ENVIRONMENT));
    is_required && (entry.effect == Effect::ReadOnly || tool.name == "argus_fix")
}

/// Changes the schema so that the environment has a default.
fn make_optional(schema: &mut JsonObject) {
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != ENVIRONMENT);
    }
    let is_empty = |required: &Value| required.as_array().is_some_and(Vec::is_empty);
    if schema.get("required").is_some_and(is_empty) {
        schema.remove("required");
    }
    let property = schema
        .get_mut("properties")
        .and_then(|properties| properties.get_mut(ENVIRONMENT));
    if let Some(description) = property.and_then(|property| property.get_mut("description")) {
        let text = description.as_str().unwrap_or_default();
        let text = text.replace("Environment name", "Environment");
        *description = Value::from(format!("{text} [default: the only one]"));
    }
}

/// Adds the arguments that every tool accepts.
fn with_common(mut schema: JsonObject) -> JsonObject {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        let debug = json!({ "type": "boolean", "description": "Adds call traces to errors" });
        properties.insert(DEBUG.to_owned(), debug);
        let max_text = json!({
            "type": "integer",
            "minimum": 0,
            "maximum": MOST_TEXT,
            "description": "Maximum bytes of text and data [default: 8192]",
        });
        properties.insert(MAX_TEXT.to_owned(), max_text);
    }
    schema
}

/// Receiver of progress notifications, if the client requested them.
pub(super) type ProgressTarget = Option<(ProgressToken, Peer<RoleServer>)>;

impl ServerTool {
    /// True if a controller with these settings offers the tool.
    pub(super) fn is_offered(&self, settings: &Settings) -> bool {
        settings.allow_test_commands || !self.tool.runs_commands
    }

    /// Runs the tool and builds its result.
    pub(super) async fn call(
        &self,
        mut arguments: JsonObject,
        client: ControllerClient,
        progress_target: ProgressTarget,
    ) -> CallToolResult {
        let is_default = arguments.get(MAX_TEXT).is_none_or(Value::is_null);
        let limit = match arguments.remove(MAX_TEXT) {
            None | Some(Value::Null) => DEFAULT_TEXT,
            Some(value) => {
                let Some(bytes) = value.as_u64().and_then(|bytes| usize::try_from(bytes).ok()) else {
                    let cause = format!("`{MAX_TEXT}` must be a number of bytes, not {value}");
                    return self.reject(&cause, DEFAULT_TEXT);
                };
                bytes.min(MOST_TEXT)
            }
        };
        let error_limit = if is_default { DEFAULT_ERROR_TEXT } else { limit };
        let debug = match arguments.remove(DEBUG) {
            None | Some(Value::Null) => client.settings().debug,
            Some(Value::Bool(debug)) => debug,
            Some(other) => return self.reject(&format!("`debug` must be true or false, not {other}"), limit),
        };
        let mut request = correlation::current();
        request.call = debug.then(|| trace_call(self.tool.name, &arguments));
        let (sender, progress) = mpsc::unbounded_channel();
        let mut made = arguments.clone();
        let mut context = Context::new(client.clone());
        if progress_target.is_some() {
            context = context.with_progress(sender);
        }
        let deadline = self.deadline(client.settings());
        let work = async {
            let ran = match self.add_environment(&mut arguments, &client).await {
                Ok(()) => {
                    made.clone_from(&arguments);
                    self.run(arguments, context, deadline).await
                }
                Err(failure) => Err(CallError::Failed(failure)),
            };
            match ran {
                Ok(mut summary) => {
                    summary.next.retain(|step| !step.repeats(self.tool.name, &made));
                    reply::success_result(summary, limit)
                }
                Err(CallError::Arguments(cause)) => self.reject(&cause, limit),
                Err(CallError::Failed(failure)) => {
                    reply::error_result(&self.without_repetition(failure.into_error(), &made), error_limit)
                }
            }
        };
        let mut result = tokio::select! {
            result = request.scope(work) => result,
            never = forward_progress(progress_target, progress) => match never {},
        };
        if debug {
            reply::add_calls(&mut result);
        }
        let required = self.required_members(result.is_error == Some(true));
        reply::finish(result, limit.max(DEFAULT_TEXT), MOST_TEXT, &required)
    }

    /// Deadline of a call: short for a read, long for all else. `None` for a tool with `timeoutSeconds`.
    fn deadline(&self, settings: &Settings) -> Option<Duration> {
        let properties = self.entry.arguments.get("properties");
        if properties.is_some_and(|properties| properties.get(TIMEOUT).is_some()) {
            return None;
        }
        let (set, least) = (settings.times.deadlines, Deadlines::default());
        Some(match self.entry.effect {
            Effect::ReadOnly => set.short.max(least.short) * 6,
            Effect::Additive | Effect::NonIdempotent | Effect::Destructive | Effect::DestructiveEachTime => {
                set.long.max(least.long)
            }
        })
    }

    /// Adds the only environment to a call that names none.
    async fn add_environment(
        &self,
        arguments: &mut JsonObject,
        client: &ControllerClient,
    ) -> Result<(), Failure> {
        let has_none = arguments.get(ENVIRONMENT).is_none_or(Value::is_null);
        if has_none && takes_only_environment(self.entry, self.tool) {
            let find = |client: &ControllerClient| find_only_environment(client.state());
            let only = client.run_blocking(find).await?;
            arguments.insert(ENVIRONMENT.to_owned(), Value::from(only));
        }
        Ok(())
    }

    /// Runs the operation, at most until the deadline.
    async fn run(
        &self,
        arguments: JsonObject,
        context: Context,
        deadline: Option<Duration>,
    ) -> Result<Summary<Value>, CallError> {
        let work = (self.tool.run)(arguments, context);
        let Some(deadline) = deadline else {
            return work.await;
        };
        let late = |_| {
            let message = format!("`{}` did not end within {} s", self.tool.name, deadline.as_secs());
            Err(Failure::with_code(Code::Timeout, message).into())
        };
        tokio::time::timeout(deadline, work).await.unwrap_or_else(late)
    }

    /// Members that the schema requires of an output, or of an error.
    fn required_members(&self, is_error: bool) -> Vec<&str> {
        let schema = self.description.output_schema.as_ref();
        let schema = schema.and_then(|schema| schema.get("anyOf")?.get(usize::from(is_error)));
        let variants = schema.and_then(|schema| schema.get("oneOf")?.as_array());
        let all = schema.into_iter().chain(variants.into_iter().flatten());
        all.filter_map(|schema| schema.get("required")?.as_array())
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// Removes the remedies that repeat the call, unless the error can disappear without a change.
    fn without_repetition(&self, mut error: StructuredError, made: &JsonObject) -> StructuredError {
        if !error.retryable {
            error.remedies.retain(|remedy| {
                let step = NextStep::from_remedy(remedy);
                step.is_none_or(|step| !step.repeats(self.tool.name, made))
            });
        }
        error
    }

    /// Creates the result for invalid arguments.
    fn reject(&self, cause: &str, limit: usize) -> CallToolResult {
        let schema = Value::Object((*self.description.input_schema).clone());
        reply::invalid_arguments(self.tool.name, cause, &schema, limit)
    }
}

/// Sends progress messages to the client; never returns.
async fn forward_progress(
    progress_target: ProgressTarget,
    mut messages: mpsc::UnboundedReceiver<String>,
) -> std::convert::Infallible {
    let mut sent = 0;
    if let Some((token, peer)) = progress_target {
        while let Some(message) = messages.recv().await {
            sent += 1;
            let message = foreign_text::escape_controls(&foreign_text::mark_further_lines(&message));
            let notification =
                ProgressNotificationParam::new(token.clone(), f64::from(sent)).with_message(message);
            // A disconnected client receives nothing.
            drop(peer.notify_progress(notification).await);
        }
    }
    std::future::pending().await
}

/// Adds the error to the schema of an output, because clients validate errors against it as well.
fn or_error(mut schema: JsonObject) -> Arc<JsonObject> {
    let required = schema.remove("required").unwrap_or_default();
    let mut output = json!({ "required": required });
    if let Some(variants) = schema.remove("oneOf") {
        output["oneOf"] = variants;
    }
    // An output and an error can have a field of this name, with different types.
    if let Some(Value::Object(properties)) = schema.get_mut("properties")
        && let Some(controller) = properties.shift_remove("controller")
    {
        output["properties"] = json!({ "controller": controller });
    }
    let text = json!({ "type": "string" });
    let error = json!({
        "title": "error",
        "description": "with `isError`: the structured error, as described by `argus schema error`",
        "properties": {
            "controller": text,
            "code": text,
            "message": text,
            "retryable": { "type": "boolean" },
            "suggestedActions": { "type": "array" },
            "remedies": { "type": "array" },
        },
        "required": ["code", "category", "severity", "class", "message", "suggestedActions", "remedies", "retryable"],
    });
    schema.insert("anyOf".to_owned(), json!([output, error]));
    Arc::new(schema)
}

fn annotations(entry: &OperationEntry) -> ToolAnnotations {
    let hints = ToolAnnotations::new().open_world(entry.is_open_world);
    match entry.effect {
        Effect::ReadOnly => hints.read_only(true).destructive(false).idempotent(true),
        Effect::Additive => hints.read_only(false).destructive(false).idempotent(true),
        Effect::NonIdempotent => hints.read_only(false).destructive(false).idempotent(false),
        Effect::Destructive => hints.read_only(false).destructive(true).idempotent(true),
        Effect::DestructiveEachTime => hints.read_only(false).destructive(true).idempotent(false),
    }
}

/// Describes the tool call for a call trace.
fn trace_call(tool: &str, arguments: &JsonObject) -> TracedCall {
    let seconds = arguments.get(TIMEOUT).and_then(Value::as_u64);
    TracedCall::new(tool, call_trace::sanitize(arguments.clone())).within(seconds.map(Duration::from_secs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Options, SpecOptions};

    /// Client with this settings file.
    fn client(dir: &tempfile::TempDir, file: &str) -> ControllerClient {
        let config = dir.path().join("argus.toml");
        std::fs::write(&config, file).unwrap();
        let options = Options {
            state: Some(dir.path().join("state")),
            config: Some(config),
            ..Options::default()
        };
        ControllerClient::remote(Settings::resolve(&options, &SpecOptions::default()).unwrap())
    }

    /// Asserts the deadlines of all tools under this settings file, in seconds.
    fn assert_deadlines(file: &str, read: u64, change: u64) {
        let dir = tempfile::tempdir().unwrap();
        let client = client(&dir, file);
        for tool in list_tools() {
            let expected = match tool.tool.name {
                "argus_wait" | "argus_orphans" | "argus_test_run" | "argus_exec" => None,
                _ if tool.entry.effect == Effect::ReadOnly => Some(Duration::from_secs(read)),
                _ => Some(Duration::from_secs(change)),
            };
            assert_eq!(tool.deadline(client.settings()), expected, "{}", tool.tool.name);
        }
    }

    #[test]
    fn every_tool_has_a_deadline_of_its_class() {
        assert_deadlines("", 60, 120);
    }

    #[test]
    fn deadlines_of_tools_follow_from_the_settings() {
        assert_deadlines("timeout-short = \"20s\"\ntimeout-long = \"300s\"\n", 120, 300);
        // Shorter deadlines of engine calls shorten no tool.
        assert_deadlines("timeout-short = \"1s\"\ntimeout-long = \"5s\"\n", 60, 120);
    }

    #[tokio::test(start_paused = true)]
    async fn tool_ends_at_its_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let mut tools = list_tools();
        let status = tools.iter_mut().find(|tool| tool.tool.name == "argus_status");
        let status = status.unwrap();
        status.tool = Box::leak(Box::new(ToolEntry {
            run: |_, _| Box::pin(std::future::pending()),
            ..*status.tool
        }));
        let result = status.call(JsonObject::new(), client(&dir, ""), None).await;
        let error = result.structured_content.unwrap();
        assert_eq!(error["code"], "TIMEOUT");
        assert_eq!(error["message"], "`argus_status` did not end within 60 s");
    }
}

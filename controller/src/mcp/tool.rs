//! List of the tools, and the code that runs a tool call and builds its result.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use argus_crds::error::Call as TracedCall;
use rmcp::model::{CallToolResult, JsonObject, Tool as ToolDescription, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::context::Call;
use super::reply::{self, Output};
use super::{commands, engine, events, incidents, mock, output, spec, status, wait, why};
pub(super) use crate::api::Effect;
use crate::api::arguments::{output_schema_of, schema_of};
use crate::api::{self, CallError, Context, ToolOutput, registry};
use crate::call_trace;
use crate::exit::Failure;

/// Argument that every tool accepts.
const DEBUG: &str = "debug";

/// A tool: the type of its arguments, with its implementation.
pub(super) trait Tool: DeserializeOwned + JsonSchema + Send + 'static {
    /// Name of the tool.
    const NAME: &'static str;
    /// Title for people.
    const TITLE: &'static str;
    /// Description for the model: purpose and occasion of a call.
    const ABOUT: &'static str;
    /// Effect of a call.
    const EFFECT: Effect;
    /// Structured data of the output.
    type Output: Serialize + JsonSchema + 'static;

    /// Runs the tool.
    fn call(self, call: Call) -> impl Future<Output = Result<Output<Self::Output>, Failure>> + Send;
}

type Work = Pin<Box<dyn Future<Output = CallToolResult> + Send>>;

/// A tool of the server.
pub(super) struct Entry {
    /// Description for clients.
    pub(super) described: ToolDescription,
    /// Parses the arguments, runs the tool and returns its result.
    pub(super) call: Box<dyn Fn(JsonObject, Call) -> Work + Send + Sync>,
}

/// Returns all tools, the most important first.
pub(super) fn list_tools() -> Vec<Entry> {
    vec![
        create_entry::<status::Status>(),
        create_entry::<wait::Wait>(),
        create_entry::<spec::Apply>(),
        create_entry::<spec::Validate>(),
        create_entry::<why::Why>(),
        create_entry::<output::Evidence>(),
        create_entry::<output::Logs>(),
        create_entry::<events::Events>(),
        operation("argus_plan"),
        operation("argus_network"),
        create_entry::<mock::MockRequests>(),
        create_entry::<incidents::Incidents>(),
        operation("argus_explain"),
        create_entry::<engine::Preflight>(),
        create_entry::<commands::Retry>(),
        create_entry::<engine::ResetBreaker>(),
        create_entry::<engine::Orphans>(),
        create_entry::<commands::Test>(),
        create_entry::<commands::Hold>(),
        create_entry::<commands::Resume>(),
        create_entry::<commands::Cancel>(),
        create_entry::<commands::Rollback>(),
        create_entry::<commands::Fork>(),
        create_entry::<commands::Down>(),
    ]
}

fn create_entry<T: Tool>() -> Entry {
    let schema_of_arguments = input_schema::<T>();
    let described = ToolDescription::new(T::NAME, T::ABOUT, schema_of_arguments)
        .with_title(T::TITLE)
        .with_raw_output_schema(output_schema::<T>())
        .with_annotations(annotations(T::EFFECT));
    Entry {
        described,
        call: Box::new(|arguments, call| Box::pin(run_with_debug::<T>(arguments, call))),
    }
}

/// Creates the tool of an operation.
fn operation(name: &str) -> Entry {
    let found = registry::all().iter().find_map(|entry| {
        let tool = entry.tool.as_ref().filter(|tool| tool.name == name)?;
        Some((entry, tool))
    });
    #[allow(clippy::expect_used, reason = "the names are constants")]
    let (entry, tool) = found.expect("a known tool");
    let schema = with_debug(entry.arguments.clone());
    let described = ToolDescription::new(tool.name, tool.about, Arc::new(schema))
        .with_title(tool.title)
        .with_raw_output_schema(or_error((tool.schema)()))
        .with_annotations(annotations(entry.effect));
    Entry {
        described,
        call: Box::new(move |arguments, call| Box::pin(run_operation(entry, tool, arguments, call))),
    }
}

/// Adds the argument that every tool accepts.
fn with_debug(mut schema: JsonObject) -> JsonObject {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        let debug = json!({ "type": "boolean", "description": "Adds call traces to errors" });
        properties.insert(DEBUG.to_owned(), debug);
    }
    schema
}

async fn run_operation(
    entry: &'static api::Entry,
    tool: &'static api::ToolEntry,
    mut arguments: JsonObject,
    call: Call,
) -> CallToolResult {
    let invalid = |cause: &str| {
        let schema = Value::Object(with_debug(entry.arguments.clone()));
        reply::invalid_arguments(tool.name, cause, &schema)
    };
    let debug = match arguments.remove(DEBUG) {
        None | Some(Value::Null) => call.client.settings().debug,
        Some(Value::Bool(debug)) => debug,
        Some(other) => return invalid(&format!("`debug` must be true or false, not {other}")),
    };
    let client = call.client.clone();
    let trace = debug.then(|| trace_call(tool.name, &arguments));
    let result = match (tool.run)(arguments, Context::new(call.client)).await {
        Ok(summary) => reply::success_result(summary),
        Err(CallError::Arguments(cause)) => invalid(&cause),
        Err(CallError::Failed(failure)) => reply::error_result(failure),
    };
    match trace {
        Some(trace) => reply::add_calls(result, &client, trace).await,
        None => result,
    }
}

/// Creates the schema of the arguments.
fn input_schema<T: Tool>() -> Arc<JsonObject> {
    Arc::new(with_debug(schema_of::<T>()))
}

/// Creates the schema of the result: the output or the error, because clients validate errors against it as well.
fn output_schema<T: Tool>() -> Arc<JsonObject> {
    or_error(output_schema_of::<ToolOutput<T::Output>>())
}

/// Adds the error to the schema of an output, because clients validate errors against it as well.
fn or_error(mut schema: JsonObject) -> Arc<JsonObject> {
    let required = schema.remove("required").unwrap_or_default();
    let text = json!({ "type": "string" });
    let error = json!({
        "title": "error",
        "description": "with `isError`: the structured error, as described by `argus schema error`",
        "properties": {
            "code": text,
            "message": text,
            "retryable": { "type": "boolean" },
            "suggestedActions": { "type": "array" },
            "remedies": { "type": "array" },
        },
        "required": ["code", "category", "severity", "class", "message", "suggestedActions", "remedies", "retryable"],
    });
    schema.insert("anyOf".to_owned(), json!([{ "required": required }, error]));
    Arc::new(schema)
}

fn annotations(effect: Effect) -> ToolAnnotations {
    // The tools affect only the engine and the folders of this controller.
    let hints = ToolAnnotations::new().open_world(false);
    match effect {
        Effect::ReadOnly => hints.read_only(true).destructive(false).idempotent(true),
        Effect::Additive => hints.read_only(false).destructive(false).idempotent(true),
        Effect::NonIdempotent => hints.read_only(false).destructive(false).idempotent(false),
        Effect::Destructive => hints.read_only(false).destructive(true).idempotent(true),
    }
}

async fn run_with_debug<T: Tool>(mut arguments: JsonObject, call: Call) -> CallToolResult {
    let debug = match arguments.remove(DEBUG) {
        None | Some(Value::Null) => call.client.settings().debug,
        Some(Value::Bool(debug)) => debug,
        Some(other) => {
            let schema_of_arguments = Value::Object(Arc::unwrap_or_clone(input_schema::<T>()));
            return reply::invalid_arguments(
                T::NAME,
                &format!("`debug` must be true or false, not {other}"),
                &schema_of_arguments,
            );
        }
    };
    if !debug {
        return run::<T>(arguments, call).await;
    }
    let (client, trace) = (call.client.clone(), trace_call(T::NAME, &arguments));
    reply::add_calls(run::<T>(arguments, call).await, &client, trace).await
}

/// Describes the tool call for a call trace.
fn trace_call(tool: &str, arguments: &JsonObject) -> TracedCall {
    let seconds = arguments.get("timeoutSeconds").and_then(Value::as_u64);
    TracedCall::new(tool, call_trace::sanitize(arguments.clone())).within(seconds.map(Duration::from_secs))
}

async fn run<T: Tool>(arguments: JsonObject, call: Call) -> CallToolResult {
    let read: T = match serde_json::from_value(Value::Object(arguments)) {
        Ok(read) => read,
        Err(error) => {
            let schema_of_arguments = Value::Object(Arc::unwrap_or_clone(input_schema::<T>()));
            return reply::invalid_arguments(T::NAME, &error.to_string(), &schema_of_arguments);
        }
    };
    match Box::pin(read.call(call)).await {
        Ok(output) => reply::success_result(output),
        Err(failure) => reply::error_result(failure),
    }
}

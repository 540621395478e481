//! List of the tools, and the code that runs a tool call and builds its result.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use argus_crds::error::Call as Made;
use rmcp::handler::server::tool::schema_for_output;
use rmcp::model::{CallToolResult, JsonObject, Tool as Described, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::context::Call;
use super::reply::{self, Output, Reply};
use super::{
    commands, engine, events, explain, incidents, mock, network, output, plan, spec, status, wait, why,
};
use crate::call_trace;
use crate::exit::Failure;

/// Argument that every tool accepts.
const DEBUG: &str = "debug";

/// Effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Changes nothing.
    ReadOnly,
    /// Adds or resumes something; repeated calls change nothing more.
    Additive,
    /// Adds something else each time.
    NonIdempotent,
    /// Ends or replaces something; repeated calls change nothing more.
    Destructive,
}

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
    pub(super) described: Described,
    /// Parses the arguments, runs the tool and returns its result.
    pub(super) call: fn(JsonObject, Call) -> Work,
}

/// Returns all tools, the most important first.
pub(super) fn all() -> Vec<Entry> {
    vec![
        entry::<status::Status>(),
        entry::<wait::Wait>(),
        entry::<spec::Apply>(),
        entry::<spec::Validate>(),
        entry::<why::Why>(),
        entry::<output::Evidence>(),
        entry::<output::Logs>(),
        entry::<events::Events>(),
        entry::<plan::Plan>(),
        entry::<network::Network>(),
        entry::<mock::MockRequests>(),
        entry::<incidents::Incidents>(),
        entry::<explain::Explain>(),
        entry::<engine::Preflight>(),
        entry::<commands::Retry>(),
        entry::<engine::ResetCircuit>(),
        entry::<engine::Orphans>(),
        entry::<commands::Test>(),
        entry::<commands::Hold>(),
        entry::<commands::Resume>(),
        entry::<commands::Cancel>(),
        entry::<commands::Rollback>(),
        entry::<commands::Fork>(),
        entry::<commands::Down>(),
    ]
}

fn entry<T: Tool>() -> Entry {
    let schema_of_arguments = input_schema::<T>();
    let described = Described::new(T::NAME, T::ABOUT, schema_of_arguments)
        .with_title(T::TITLE)
        .with_raw_output_schema(output_schema::<T>())
        .with_annotations(annotations(T::EFFECT));
    Entry {
        described,
        call: |arguments, call| Box::pin(run_with_debug::<T>(arguments, call)),
    }
}

/// Creates the schema of the arguments, without references and without `null` as a type, because some models support less.
fn input_schema<T: Tool>() -> Arc<JsonObject> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    for removed in ["$schema", "title", "description"] {
        schema.remove(removed);
    }
    // An empty object also needs the field.
    schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (_, property) in properties.iter_mut() {
            let types = property["type"].as_array().cloned().unwrap_or_default();
            if let Some(one) = types.into_iter().find(|kind| kind != "null") {
                property["type"] = one;
            }
        }
        let debug = json!({ "type": "boolean", "description": "Adds call traces to errors" });
        properties.insert(DEBUG.to_owned(), debug);
    }
    Arc::new(without_formats(schema))
}

/// Creates the schema of the result: the output or the error, because clients validate errors against it as well.
fn output_schema<T: Tool>() -> Arc<JsonObject> {
    let mut schema = Arc::unwrap_or_clone(schema_for_output::<Reply<T::Output>>());
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
    schema.remove("$schema");
    Arc::new(without_formats(schema))
}

/// Removes `uint32` and the like, which are not formats of JSON Schema.
fn without_formats(schema: JsonObject) -> JsonObject {
    let inside = |value| match value {
        Value::Object(inside) => Value::Object(without_formats(inside)),
        other => other,
    };
    let each = |(name, value): (String, Value)| {
        let value = match value {
            Value::Array(all) => Value::Array(all.into_iter().map(inside).collect()),
            other => inside(other),
        };
        (name, value)
    };
    let no_format = |(name, value): &(String, Value)| name != "format" || !value.is_string();
    schema.into_iter().filter(no_format).map(each).collect()
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
    reply::with_calls(run::<T>(arguments, call).await, &client, trace).await
}

/// Describes the tool call for a call trace.
fn trace_call(tool: &str, arguments: &JsonObject) -> Made {
    let seconds = arguments.get("timeoutSeconds").and_then(Value::as_u64);
    Made::new(tool, call_trace::sanitize(arguments.clone())).within(seconds.map(Duration::from_secs))
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

//! The table of tools: each is the type of its arguments.

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

/// What every tool takes beside its own arguments.
const DEBUG: &str = "debug";

/// What a call does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    Looks,
    /// It adds or lets go on; again it does nothing more.
    Adds,
    /// It adds something else each time.
    AddsAgain,
    /// It ends or replaces what is there; again it does nothing more.
    Replaces,
}

/// A tool: the type of its arguments, and what is done with them.
pub(super) trait Tool: DeserializeOwned + JsonSchema + Send + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its name for people.
    const TITLE: &'static str;
    /// What it does and when to call it, for the model.
    const ABOUT: &'static str;
    /// What a call does to the world.
    const EFFECT: Effect;
    /// What it answers.
    type Output: Serialize + JsonSchema + 'static;

    /// Does it.
    fn call(self, call: Call) -> impl Future<Output = Result<Output<Self::Output>, Failure>> + Send;
}

type Work = Pin<Box<dyn Future<Output = CallToolResult> + Send>>;

/// A tool as the server has it.
pub(super) struct Entry {
    /// As clients see it.
    pub(super) described: Described,
    /// Reads the arguments, does it, and tells.
    pub(super) call: fn(JsonObject, Call) -> Work,
}

/// All tools, the ones to begin with first.
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
    let takes = input_schema::<T>();
    let described = Described::new(T::NAME, T::ABOUT, takes)
        .with_title(T::TITLE)
        .with_raw_output_schema(output_schema::<T>())
        .with_annotations(annotations(T::EFFECT));
    Entry {
        described,
        call: |arguments, call| Box::pin(carried_out::<T>(arguments, call)),
    }
}

/// Without references and without `null` beside a type: some models are shown less than all of JSON Schema.
fn input_schema<T: Tool>() -> Arc<JsonObject> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    for told in ["$schema", "title", "description"] {
        schema.remove(told);
    }
    // An object without properties is one, too.
    schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (_, property) in properties.iter_mut() {
            let types = property["type"].as_array().cloned().unwrap_or_default();
            if let Some(one) = types.into_iter().find(|kind| kind != "null") {
                property["type"] = one;
            }
        }
        let debug = json!({ "type": "boolean", "description": "Errors tell what was called" });
        properties.insert(DEBUG.to_owned(), debug);
    }
    Arc::new(without_formats(schema))
}

/// What is answered: what the tool tells, or the error. Clients hold the content of errors against this schema as well.
fn output_schema<T: Tool>() -> Arc<JsonObject> {
    let mut schema = Arc::unwrap_or_clone(schema_for_output::<Reply<T::Output>>());
    let told = schema.remove("required").unwrap_or_default();
    let text = json!({ "type": "string" });
    let error = json!({
        "title": "error",
        "description": "with `isError`: what went wrong and what to do about it, as `argus schema error` describes it",
        "properties": {
            "code": text,
            "message": text,
            "retryable": { "type": "boolean" },
            "suggestedActions": { "type": "array" },
            "remedies": { "type": "array" },
        },
        "required": ["code", "category", "severity", "class", "message", "suggestedActions", "remedies", "retryable"],
    });
    schema.insert("anyOf".to_owned(), json!([{ "required": told }, error]));
    schema.remove("$schema");
    Arc::new(without_formats(schema))
}

/// Without `uint32` and the like, which are no formats of JSON Schema.
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
    // All that it touches is the engine and the folders of this controller.
    let hints = ToolAnnotations::new().open_world(false);
    match effect {
        Effect::Looks => hints.read_only(true).destructive(false).idempotent(true),
        Effect::Adds => hints.read_only(false).destructive(false).idempotent(true),
        Effect::AddsAgain => hints.read_only(false).destructive(false).idempotent(false),
        Effect::Replaces => hints.read_only(false).destructive(true).idempotent(true),
    }
}

async fn carried_out<T: Tool>(mut arguments: JsonObject, call: Call) -> CallToolResult {
    let asked = match arguments.remove(DEBUG) {
        None | Some(Value::Null) => call.client.settings().debug,
        Some(Value::Bool(asked)) => asked,
        Some(other) => {
            let takes = Value::Object(Arc::unwrap_or_clone(input_schema::<T>()));
            return reply::invalid_arguments(
                T::NAME,
                &format!("`debug` is true or false, and not {other}"),
                &takes,
            );
        }
    };
    if !asked {
        return answered::<T>(arguments, call).await;
    }
    let (client, made) = (call.client.clone(), called(T::NAME, &arguments));
    reply::with_calls(answered::<T>(arguments, call).await, &client, made).await
}

/// What the client asked for, as it is told to it.
fn called(tool: &str, arguments: &JsonObject) -> Made {
    let seconds = arguments.get("timeoutSeconds").and_then(Value::as_u64);
    Made::new(tool, call_trace::tame(arguments.clone())).within(seconds.map(Duration::from_secs))
}

async fn answered<T: Tool>(arguments: JsonObject, call: Call) -> CallToolResult {
    let read: T = match serde_json::from_value(Value::Object(arguments)) {
        Ok(read) => read,
        Err(error) => {
            let takes = Value::Object(Arc::unwrap_or_clone(input_schema::<T>()));
            return reply::invalid_arguments(T::NAME, &error.to_string(), &takes);
        }
    };
    match Box::pin(read.call(call)).await {
        Ok(said) => reply::good(said),
        Err(failure) => reply::bad(failure),
    }
}

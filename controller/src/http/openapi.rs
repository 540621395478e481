//! `OpenAPI` document `/api/v1/openapi.json`: the operations of [`crate::api`], and the other paths from one table.

use argus_crds::error::StructuredError;
use argus_crds::incident::Incident;
use argus_crds::status::{ControllerStatus, EnvironmentStatus, PreflightReport, ServiceStatus};
use axum::Json;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::guard::needs_token;
use crate::api::{Method, Route, arguments};
use crate::operations::{self, OperationEntry};

/// A path that is not an operation of [`crate::api`].
pub(super) struct OtherPath {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    summary: &'static str,
    /// Names of the query parameters.
    pub(super) query: &'static [&'static str],
    /// Media type of the response.
    media_type: &'static str,
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

macro_rules! other_paths {
    ($($method:ident $path:literal $query:tt $kind:ident : $summary:literal;)+) => {
        /// Paths that are not operations of [`crate::api`].
        pub(super) const OTHER_PATHS: &[OtherPath] = &[$(OtherPath {
            method: stringify!($method),
            path: $path,
            summary: $summary,
            query: &$query,
            media_type: $kind,
        }),+];
    };
}

other_paths! {
    get "/healthz" [] JSON: "liveness and mode of the controller";
    get "/readyz" [] TEXT: "readiness: one line per check, 503 if a check fails";
    get "/metrics" [] TEXT: "metrics for Prometheus";
    get "/events" ["environment", "type", "lastEventId"] TEXT: "server-sent events: a snapshot, then events as they happen";
    get "/api/v1/environments/{environment}/mocks/{mock}/requests" ["tail", "follow"] JSON: "latest requests to a mock with their routes; `follow=true` streams new ones as server-sent events; needs the token";
    get "/api/v1/openapi.json" [] JSON: "this document";
    post "/api/v1/commands" [] JSON: "runs a command as the clients of this program send it; its form can change with each version";
    post "/mcp" [] JSON: "MCP for agents (streamable HTTP): a JSON-RPC message with a JSON response; requires `Accept: application/json, text/event-stream`";
}

pub(super) async fn document() -> Json<Value> {
    Json(to_json())
}

fn to_json() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    generator.subschema_for::<ControllerStatus>();
    generator.subschema_for::<EnvironmentStatus>();
    generator.subschema_for::<ServiceStatus>();
    generator.subschema_for::<PreflightReport>();
    generator.subschema_for::<Incident>();
    generator.subschema_for::<StructuredError>();
    let mut paths = Map::new();
    let mut add = |path: &str, method: &str, operation: Value| {
        let path = paths.entry(path).or_insert_with(|| Value::Object(Map::new()));
        path[method] = operation;
    };
    for (entry, route) in routes() {
        let operation = describe(entry, route, &(entry.output)(&mut generator).to_value());
        add(route.path, method(route), operation);
    }
    for operation in OTHER_PATHS {
        add(operation.path, operation.method, operation.to_json());
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Argus",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Reading needs no token on loopback. Changes, output of containers and plans need the bearer token in `private/token` of the state directory, or the unix socket `private/argus.sock`.",
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// Returns all routes of operations.
pub(super) fn routes() -> impl Iterator<Item = (&'static OperationEntry, &'static Route)> {
    let entries = operations::all().iter();
    entries.flat_map(|entry| entry.routes.iter().map(move |route| (entry, route)))
}

/// Returns the name of the method in the document.
pub(super) fn method(route: &Route) -> &'static str {
    match route.method {
        Method::Get => "get",
        Method::Post => "post",
    }
}

fn describe(entry: &OperationEntry, route: &Route, output: &Value) -> Value {
    let variable =
        |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    let mut parameters: Vec<Value> = route.variables().map(variable).collect();
    let rest = arguments::parameters(&entry.arguments, route);
    let mut value = json!({
        "summary": route.summary,
        "responses": {
            "2XX": { "description": "success", "content": { JSON: { "schema": output } } },
            "default": error_response(),
        },
    });
    match route.method {
        Method::Get => parameters.extend(rest.map(query_parameter)),
        Method::Post => {
            let properties: Map<String, Value> = rest
                .map(|(name, schema)| (name.clone(), schema.clone()))
                .collect();
            let required: Vec<&String> = properties
                .keys()
                .filter(|name| is_required(entry, route, name))
                .collect();
            let schema = json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            });
            let is_required = !required.is_empty();
            value["requestBody"] =
                json!({ "required": is_required, "content": { JSON: { "schema": schema } } });
        }
    }
    parameters.push(debug_parameter());
    value["parameters"] = json!(parameters);
    if route.method == Method::Post || entry.is_private {
        value["security"] = json!([{ "token": [] }]);
    }
    value
}

/// True if the route does not work without this argument.
fn is_required(entry: &OperationEntry, route: &Route, name: &str) -> bool {
    let in_schema = entry.arguments.get("required").and_then(Value::as_array);
    let in_schema = in_schema.is_some_and(|names| names.iter().any(|required| required == name));
    in_schema || route.required.contains(&name)
}

fn query_parameter((name, schema): (&String, &Value)) -> Value {
    let mut parameter = json!({ "name": name, "in": "query", "schema": schema });
    if schema["type"] == "array" {
        // Items are separated by commas.
        parameter["style"] = json!("form");
        parameter["explode"] = json!(false);
    }
    parameter
}

fn debug_parameter() -> Value {
    json!({
        "name": "debug", "in": "query", "schema": { "type": "boolean" },
        "description": "add call traces to errors",
    })
}

fn error_response() -> Value {
    json!({
        "description": "structured error",
        "content": { "application/problem+json": {
            "schema": { "$ref": "#/components/schemas/StructuredError" },
        } },
    })
}

impl OtherPath {
    fn to_json(&self) -> Value {
        let in_path = self
            .path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
        let in_query = self
            .query
            .iter()
            .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }));
        let has_errors = self.media_type == JSON && self.path != super::MCP;
        let debug = has_errors.then(debug_parameter);
        let mut value = json!({
            "summary": self.summary,
            "parameters": in_path.chain(in_query).chain(debug).collect::<Vec<_>>(),
            "responses": {
                "2XX": { "description": "success", "content": { self.media_type: {} } },
                "default": error_response(),
            },
        });
        if self.method == "post" {
            value["requestBody"] = json!({ "content": { JSON: { "schema": { "type": "object" } } } });
        }
        if self.method == "post" || needs_token(self.path) {
            value["security"] = json!([{ "token": [] }]);
        }
        value
    }
}

//! `/api/v1/openapi.json`: what can be asked, for programs that make clients; one table, which the tests walk.

use argus_crds::error::StructuredError;
use argus_crds::incident::Incident;
use argus_crds::status::{ControllerStatus, EnvironmentStatus, PreflightReport, ServiceStatus};
use axum::Json;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::guard::is_private;

/// One thing that can be asked.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    summary: &'static str,
    /// Parameters in the query.
    pub(super) query: &'static [&'static str],
    /// The media type of the answer, and its schema where it has one.
    answer: (&'static str, Option<&'static str>),
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

macro_rules! operations {
    ($($method:ident $path:literal $query:tt $kind:ident $($schema:ident)? : $summary:literal;)+) => {
        /// Everything that can be asked.
        pub(super) const OPERATIONS: &[Operation] = &[$(Operation {
            method: stringify!($method),
            path: $path,
            summary: $summary,
            query: &$query,
            answer: ($kind, operations!(@ $($schema)?)),
        }),+];
    };
    (@) => { None };
    (@ $schema:ident) => { Some(stringify!($schema)) };
}

operations! {
    get "/healthz" [] JSON: "whether the controller lives, and in which mode";
    get "/readyz" [] TEXT: "whether it can do its work: a line a check, 503 where one fails";
    get "/metrics" [] TEXT: "what a Prometheus reads of this controller";
    get "/events" ["environment", "type", "lastEventId"] TEXT: "server-sent events: a snapshot, then what happens";
    get "/api/v1/controller" [] JSON ControllerStatus: "how the controller is";
    get "/api/v1/environments" ["detail", "phase"] JSON: "all environments, in a few words or whole";
    get "/api/v1/environments/{env}" [] JSON EnvironmentStatus: "how an environment is";
    get "/api/v1/environments/{env}/why" [] JSON: "the chain of causes of what is not ready; needs the token";
    get "/api/v1/environments/{env}/network" [] JSON: "who reaches whom inside it, as it was seen last";
    post "/api/v1/environments/{env}/network" [] JSON: "the same, looked at now with a helper in the network of each service";
    get "/api/v1/environments/{env}/wait" ["for", "timeoutSeconds"] JSON EnvironmentStatus: "answers when it is `ready` at the revision that is wanted, or with `for=gone` when it is gone; with the error as soon as it is given up";
    get "/api/v1/environments/{env}/logs" ["tail"] JSON: "the last lines of each of its containers; needs the token";
    get "/api/v1/environments/{env}/evidence" ["service"] JSON: "the failed runs of which something is kept; needs the token";
    get "/api/v1/environments/{env}/services/{service}" [] JSON ServiceStatus: "how a service is";
    get "/api/v1/environments/{env}/services/{service}/why" [] JSON: "the chain of causes of how it is; needs the token";
    get "/api/v1/environments/{env}/services/{service}/logs" ["tail"] JSON: "the last lines of its container; needs the token";
    get "/api/v1/environments/{env}/services/{service}/evidence" ["run", "tail"] JSON: "what a failed run of it left; needs the token";
    get "/api/v1/environments/{env}/mocks/{mock}/requests" ["tail", "follow"] JSON: "what a mock was asked last, and what answered, with `follow=true` each as it comes (server-sent events); needs the token";
    get "/api/v1/breaker" [] JSON: "how the circuit breakers stand";
    get "/api/v1/orphans" [] JSON: "what dead controllers left";
    get "/api/v1/preflight" ["skip"] JSON PreflightReport: "looks whether engine, disk and the rest are fit";
    post "/api/v1/preflight" [] JSON PreflightReport: "the same; with `fix` it removes what was left behind and looks again";
    get "/api/v1/plan" ["environment"] JSON: "what would be done now, and why, and what waits; needs the token";
    get "/api/v1/validate" [] JSON: "what is wrong with the files of the specs folder";
    post "/api/v1/validate" [] JSON: "what is wrong with the text of a file, given as `content`";
    get "/api/v1/doctor" [] JSON: "everything that is wrong, the worst first";
    get "/api/v1/prune" ["imagesOnly"] JSON: "what of the engine's disk can be given back";
    post "/api/v1/prune" [] JSON: "gives it back; with `imagesOnly` not the builder's cache, which is everybody's on that engine";
    get "/api/v1/events" ["environment", "type", "after", "tail"] JSON: "what happened: the newest of the journal, or with `after` what came since";
    get "/api/v1/incidents" [] JSON: "what was found after runs of the controller that did not end well";
    get "/api/v1/incidents/{id}" [] JSON Incident: "one of them, by its id or the beginning of it";
    get "/api/v1/errors" [] JSON: "what all codes mean";
    get "/api/v1/errors/{code}" [] JSON: "what a code means";
    get "/api/v1/openapi.json" [] JSON: "this document";
    post "/api/v1/actions" [] JSON: "a command: `verb` and what it takes";
    post "/api/v1/actions/{verb}" [] JSON: "a command by its verb";
    post "/mcp" [] JSON: "MCP for agents (streamable HTTP): a JSON-RPC message, answered as JSON; it wants `Accept: application/json, text/event-stream`";
}

pub(super) async fn document() -> Json<Value> {
    Json(described())
}

fn described() -> Value {
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
    for operation in OPERATIONS {
        let at = paths
            .entry(operation.path)
            .or_insert_with(|| Value::Object(Map::new()));
        at[operation.method] = operation.described();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Argus",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Reading is open on loopback. Changes, and what tells what containers wrote or what is to be done to them, need the bearer token in `private/token` of the state directory, or the unix socket `private/argus.sock`.",
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

impl Operation {
    fn described(&self) -> Value {
        let in_path = self
            .path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
        let in_query = self
            .query
            .iter()
            .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }));
        let (kind, schema) = self.answer;
        let tells = kind == JSON && self.path != super::MCP;
        let debug = tells.then(|| {
            json!({
                "name": "debug", "in": "query", "schema": { "type": "boolean" },
                "description": "errors tell what was called",
            })
        });
        let schema = schema.map_or_else(
            || json!({}),
            |name| json!({ "schema": { "$ref": format!("#/components/schemas/{name}") } }),
        );
        let mut described = json!({
            "summary": self.summary,
            "parameters": in_path.chain(in_query).chain(debug).collect::<Vec<_>>(),
            "responses": {
                "2XX": { "description": "so it is", "content": { kind: schema } },
                "default": {
                    "description": "the error, as everywhere",
                    "content": { "application/problem+json": {
                        "schema": { "$ref": "#/components/schemas/StructuredError" },
                    } },
                },
            },
        });
        if self.method == "post" {
            described["requestBody"] = json!({ "content": { JSON: { "schema": { "type": "object" } } } });
        }
        if self.method == "post" || is_private(self.path) {
            described["security"] = json!([{ "token": [] }]);
        }
        described
    }
}

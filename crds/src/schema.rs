//! The JSON Schemas and the CRD, generated from the types.

mod suite;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::environment::E2eSpec;
use crate::error::StructuredError;
use crate::incident::Incident;
use crate::status::{ControllerStatus, EnvironmentStatus, PreflightReport};
use crate::yaml::{YamlError, to_yaml};

pub use suite::suite_schema;

/// Formats that only [`crate::quantity`] supports. Published schemas omit them, because other programs warn about them.
const OWN_FORMATS: [&str; 4] = [
    "argus-duration",
    "argus-size",
    "argus-cpus",
    "argus-halt-after-same",
];

/// Returns the schema of `e2e.yaml` for editors. Draft-07 has the best support in editors.
pub fn e2e_schema() -> Value {
    draft07::<E2eSpec>("e2e.schema.json")
}

/// Returns the schema of the status files of environments and of the controller.
pub fn status_schema() -> Value {
    let mut generator = SchemaSettings::draft07().for_serialize().into_generator();
    let environment = generator.subschema_for::<EnvironmentStatus>();
    let controller = generator.subschema_for::<ControllerStatus>();
    let mut definitions = Value::Object(generator.take_definitions(true));
    strip_own_formats(&mut definitions);
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://argus.dev/schemas/status.schema.json",
        "title": "Status files of Argus",
        "description": "`<state>/environments/ENV.json` or `<state>/controller.json`.",
        "anyOf": [environment, controller],
        "definitions": definitions
    })
}

/// Returns the schema of [`StructuredError`].
pub fn error_schema() -> Value {
    draft07::<StructuredError>("error.schema.json")
}

/// Returns the schema of the incident files.
pub fn incident_schema() -> Value {
    draft07::<Incident>("incident.schema.json")
}

/// Returns the schema of a preflight report.
pub fn preflight_schema() -> Value {
    draft07::<PreflightReport>("preflight.schema.json")
}

/// Returns the Kubernetes CRD: `Environment` in `argus.dev/v1alpha1`, with a structural schema and a status subresource.
pub fn crd() -> Value {
    let spec = structural::<E2eSpec>();
    let status = structural::<EnvironmentStatus>();
    let column = |name: &str, path: &str, description: &str| json!({ "name": name, "type": "string", "jsonPath": path, "description": description });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "environments.argus.dev" },
        "spec": {
            "group": "argus.dev",
            "names": {
                "kind": "Environment",
                "listKind": "EnvironmentList",
                "plural": "environments",
                "singular": "environment",
                "shortNames": ["argusenv"],
                "categories": ["argus"]
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": [
                    column("Phase", ".status.phase", "State of the environment in one word."),
                    column("Revision", ".status.observedRevision", "Revision that the status describes."),
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }
                ],
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "description": "Test environment.",
                    "required": ["spec"],
                    "properties": { "spec": spec, "status": status }
                } }
            }]
        }
    })
}

/// Generated file in `crds/`.
pub struct GeneratedFile {
    /// Name of the file.
    pub name: &'static str,
    /// Content of the file.
    pub content: String,
}

/// Returns all generated files. `cargo run -p argus-crds --example generate` writes them.
pub fn generated_files() -> Result<Vec<GeneratedFile>, YamlError> {
    let pretty = |value: &Value| format!("{value:#}\n");
    let comment =
        "# Generated from the types in crds/src; written by `cargo run -p argus-crds --example generate`.\n";
    Ok(vec![
        GeneratedFile {
            name: "e2e.schema.json",
            content: pretty(&e2e_schema()),
        },
        GeneratedFile {
            name: "status.schema.json",
            content: pretty(&status_schema()),
        },
        GeneratedFile {
            name: "error.schema.json",
            content: pretty(&error_schema()),
        },
        GeneratedFile {
            name: "incident.schema.json",
            content: pretty(&incident_schema()),
        },
        GeneratedFile {
            name: "preflight.schema.json",
            content: pretty(&preflight_schema()),
        },
        GeneratedFile {
            name: "suite.schema.json",
            content: pretty(&suite_schema()),
        },
        GeneratedFile {
            name: "environment.yaml",
            content: format!("{comment}{}", to_yaml(&crd())?),
        },
    ])
}

fn draft07<T: JsonSchema>(file: &str) -> Value {
    let mut schema = SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<T>();
    schema.insert(
        "$id".to_owned(),
        json!(format!("https://argus.dev/schemas/{file}")),
    );
    let mut schema = schema.to_value();
    strip_own_formats(&mut schema);
    schema
}

fn strip_own_formats(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map
                .get("format")
                .and_then(Value::as_str)
                .is_some_and(|format| OWN_FORMATS.contains(&format))
            {
                map.remove("format");
            }
            map.values_mut().for_each(strip_own_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_own_formats),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns a structural schema for Kubernetes: without references, and with at most one type per node.
fn structural<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    Structural.transform(&mut schema);
    schema.to_value()
}

/// Transformation of one schema node to a structural one.
#[derive(Clone)]
struct Structural;

impl Transform for Structural {
    fn transform(&mut self, schema: &mut Schema) {
        // The API server does not support formats such as `uint16`.
        let known = [
            "int32",
            "int64",
            "float",
            "double",
            "byte",
            "date",
            "date-time",
            "password",
        ];
        if schema
            .get("format")
            .and_then(Value::as_str)
            .is_some_and(|format| !known.contains(&format))
        {
            schema.remove("format");
        }
        let Some(object) = schema.as_object_mut() else {
            return;
        };
        if object.get("additionalProperties") == Some(&Value::Bool(false)) {
            object.remove("additionalProperties");
        }
        if object.get("additionalProperties") == Some(&Value::Bool(true)) {
            object.remove("additionalProperties");
            object.insert(
                "x-kubernetes-preserve-unknown-fields".to_owned(),
                Value::Bool(true),
            );
        }
        object.remove("$schema");
        object.remove("maxProperties");
        let alternatives = object.remove("anyOf").or_else(|| object.remove("oneOf"));
        if let Some(Value::Array(alternatives)) = alternatives {
            merge(object, alternatives);
        }
        if let Some(Value::Array(kinds)) = object.get("type").cloned() {
            let named: Vec<&Value> = kinds.iter().filter(|kind| **kind != json!("null")).collect();
            match named.as_slice() {
                [one] => {
                    object.insert("type".to_owned(), (*one).clone());
                }
                _ => open(object),
            }
        }
        let shaped = [
            "type",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-int-or-string",
        ];
        if !shaped.iter().any(|key| object.contains_key(*key)) {
            open(object);
        }
        transform_subschemas(&mut |inner: &mut Schema| self.clone().transform(inner), schema);
    }
}

/// Merges alternatives without `null`: a single one is inlined, several leave the value open.
fn merge(object: &mut serde_json::Map<String, Value>, alternatives: Vec<Value>) {
    let mut real: Vec<Value> = alternatives
        .into_iter()
        .filter(|schema| {
            schema.get("enum") != Some(&json!([null])) && schema.get("type") != Some(&json!("null"))
        })
        .collect();
    match (real.len(), real.pop()) {
        (1, Some(Value::Object(only))) => {
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
        _ => open(object),
    }
}

/// Leaves a value open. The controller checks it when it reads the spec.
fn open(object: &mut serde_json::Map<String, Value>) {
    object.retain(|key, _| ["description", "default", "nullable"].contains(&key.as_str()));
    object.insert(
        "x-kubernetes-preserve-unknown-fields".to_owned(),
        Value::Bool(true),
    );
}

//! Generated schemas and CRD: current, valid, and consistent with the types.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs;
use std::path::Path;

use argus_crds::{Code, StructuredError, read, schema, status};
use serde_json::{Value, json};

fn valid(schema: &Value, instance: &Value) -> Result<(), String> {
    let validator = jsonschema::validator_for(schema).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(instance)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

#[test]
fn committed_files_are_current() {
    for file in schema::generated_files().unwrap() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file.name);
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == file.content,
            "{} is stale: run `cargo run -p argus-crds --example generate`",
            file.name
        );
    }
}

#[test]
fn schemas_are_valid_draft_07() {
    for schema in [
        schema::e2e_schema(),
        schema::status_schema(),
        schema::error_schema(),
        schema::preflight_schema(),
    ] {
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
        assert!(jsonschema::meta::is_valid(&schema));
    }
}

#[test]
fn valid_files_match_the_editor_schema() {
    let schema = schema::e2e_schema();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/good")).unwrap() {
        let path = entry.unwrap().path();
        let spec = read("good.yaml", &fs::read(&path).unwrap()).spec.unwrap();
        valid(&schema, &serde_json::to_value(&spec).unwrap())
            .unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
}

#[test]
fn editor_schema_and_reader_reject_the_same_files() {
    let schema = schema::e2e_schema();
    for bad in [
        json!({}),
        json!({"project": {}}),
        json!({"project": {"name": "a"}, "resilience": {"container": {"maxRestarts": 11}}}),
        json!({"project": {"name": "a"}, "service": {"criticality": "high"}}),
        json!({"project": {"name": "a"}, "isolation": {"portRange": [1, 2, 3]}}),
    ] {
        assert!(valid(&schema, &bad).is_err(), "{bad}");
        assert!(
            read("bad.yaml", bad.to_string().as_bytes()).spec.is_none(),
            "{bad}"
        );
    }
}

/// Paths of all values below a value, as JSON pointers.
fn pointers(value: &Value, path: &str, all: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, it)| (name.replace('~', "~0").replace('/', "~1"), it))
            .collect(),
        Value::Array(items) => (0..).map(|at: usize| at.to_string()).zip(items).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for (name, it) in members {
        let path = format!("{path}/{name}");
        pointers(it, &path, all);
        all.push(path);
    }
}

#[test]
fn schema_and_reader_reject_the_same_wrong_kinds() {
    let schema = jsonschema::validator_for(&schema::e2e_schema()).unwrap();
    let (mut differing, mut rejected) = (Vec::new(), 0);
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/good")).unwrap() {
        let spec = read("good.yaml", &fs::read(entry.unwrap().path()).unwrap());
        let good = serde_json::to_value(spec.spec.unwrap()).unwrap();
        let mut all = Vec::new();
        pointers(&good, "", &mut all);
        for pointer in all {
            // The reader takes another scalar as text, and rules beyond the schema need the members of an object.
            let is_object = good.pointer(&pointer).unwrap().is_object();
            let object = Some(json!({ "wrong": [true] })).filter(|_| !is_object);
            for wrong in [Some(json!([[true]])), object].into_iter().flatten() {
                let mut changed = good.clone();
                *changed.pointer_mut(&pointer).unwrap() = wrong;
                let by_schema = schema.is_valid(&changed);
                let read = read("changed.yaml", changed.to_string().as_bytes());
                if by_schema != read.spec.is_some() {
                    differing.push(format!("{pointer}: {:?}", read.diagnostics));
                }
                rejected += usize::from(!by_schema);
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert!(rejected > 1_000, "{rejected}");
}

#[test]
fn every_field_has_a_description() {
    /// Returns whether a property has a description, or else the definition to which it refers.
    fn is_described(schema: &Value, property: &Value) -> bool {
        let reference = property.get("$ref").and_then(Value::as_str);
        let definition = reference.and_then(|reference| schema.pointer(reference.strip_prefix('#')?));
        let described = |it: &Value| it.get("description").is_some();
        described(property) || definition.is_some_and(described)
    }
    fn visit(schema: &Value, value: &Value, path: &str, without: &mut Vec<String>) {
        if let Some(properties) = value.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                if !is_described(schema, property) {
                    without.push(format!("{path}.{name}"));
                }
            }
        }
        match value {
            Value::Object(map) => map
                .iter()
                .for_each(|(key, value)| visit(schema, value, &format!("{path}.{key}"), without)),
            Value::Array(items) => items.iter().for_each(|item| visit(schema, item, path, without)),
            _ => {}
        }
    }
    let mut without = Vec::new();
    for schema in [
        schema::e2e_schema(),
        schema::status_schema(),
        schema::error_schema(),
        schema::preflight_schema(),
        schema::incident_schema(),
        schema::suite_schema(),
    ] {
        visit(&schema, &schema, "", &mut without);
    }
    assert_eq!(without, Vec::<String>::new());
}

/// Checks the rules of a structural schema, as the API server does when it accepts a CRD.
#[test]
fn crd_is_structural() {
    fn visit(schema: &Value, path: &str) {
        let map = schema
            .as_object()
            .unwrap_or_else(|| panic!("{path} is not an object"));
        for key in [
            "$ref",
            "anyOf",
            "oneOf",
            "allOf",
            "const",
            "definitions",
            "$schema",
            "patternProperties",
        ] {
            assert!(!map.contains_key(key), "{path} has `{key}`");
        }
        let open = map.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
        assert!(
            open || map.get("type").is_some_and(Value::is_string),
            "{path} has no type"
        );
        assert!(
            !(map.contains_key("properties") && map.contains_key("additionalProperties")),
            "{path} has properties and additionalProperties"
        );
        for (name, property) in map
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            visit(property, &format!("{path}.{name}"));
        }
        for key in ["items", "additionalProperties"] {
            if let Some(inner) = map.get(key) {
                visit(inner, &format!("{path}.{key}"));
            }
        }
    }
    let crd = schema::crd();
    let version = &crd["spec"]["versions"][0];
    assert_eq!(crd["metadata"]["name"], "environments.argus.dev");
    assert_eq!(
        (&version["name"], &version["subresources"]["status"]),
        (&json!("v1alpha1"), &json!({}))
    );
    let schema = &version["schema"]["openAPIV3Schema"];
    visit(schema, "");
    let described =
        &schema["properties"]["spec"]["properties"]["service"]["properties"]["memory"]["description"];
    assert!(described.as_str().unwrap().contains("emory"));
}

#[test]
fn status_and_error_match_their_schemas() {
    let error = StructuredError::new(Code::PortConflict, "8080 is taken")
        .environment("shop")
        .service("api")
        .details(json!({"port": 8080}))
        .stage("start")
        .attempt(2);
    valid(&schema::error_schema(), &serde_json::to_value(&error).unwrap()).unwrap();
    let status = status::EnvironmentStatus {
        schema_version: status::STATUS_VERSION,
        environment: "shop".to_owned(),
        phase: status::Phase::Degraded,
        conditions: vec![status::Condition {
            kind: "Ready".to_owned(),
            status: status::Truth::False,
            reason: "PortConflict".to_owned(),
            message: "8080 is taken".to_owned(),
            last_transition_time: "2026-01-01T00:00:00Z".to_owned(),
        }],
        services: vec![status::ServiceStatus {
            name: "api".to_owned(),
            state: status::ServiceState::Waiting,
            last_error: Some(error.clone()),
            waiting_on: Some(status::WaitingOn {
                reason: "PortTaken".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        }],
        errors: vec![error],
        ..Default::default()
    };
    let json = serde_json::to_value(&status).unwrap();
    valid(&schema::status_schema(), &json).unwrap();
    assert_eq!(json["phase"], "Degraded");
    assert_eq!(json["conditions"][0]["type"], "Ready");
    assert_eq!(json["conditions"][0]["status"], "False");
    assert_eq!(json["services"][0]["health"], "Unknown");
    assert_eq!(
        serde_json::from_value::<status::EnvironmentStatus>(json).unwrap(),
        status
    );
    let controller = status::ControllerStatus {
        schema_version: 1,
        ..Default::default()
    };
    valid(
        &schema::status_schema(),
        &serde_json::to_value(&controller).unwrap(),
    )
    .unwrap();
}

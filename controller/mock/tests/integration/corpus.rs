//! Corpus of `OpenAPI` documents: every response is valid.
//!
//! The second opinion uses the same library with the original schema, without the conversions of the mock.
//! `scripts/openapi` uses an independent validator.
#![allow(
    clippy::expect_used,
    reason = "a failed setup step ends the test with a message"
)]

use std::fs;
use std::path::Path;

use argus_core::time::Timestamp;
use argus_crds::{Mock, yaml};
use argus_mock::{CompiledMock, Decision, MockConfig, Moment, Request};
use bytes::Bytes;
use serde_json::{Value, json};

const NOW: Moment = Moment {
    now: Timestamp(0),
    random: 0,
};

/// Returns the documents with their file names.
fn corpus() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = fs::read_dir(folder)
        .expect("a corpus")
        .map(|entry| entry.expect("an entry").path());
    let mut found: Vec<(String, String)> = files
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("a text"))
        })
        .collect();
    found.sort();
    assert!(found.len() >= 20, "{} documents", found.len());
    found
}

fn compile(text: &str, more: &Value) -> CompiledMock {
    let mut mock = json!({ "port": 1, "openapi": "api.yaml" });
    for (key, value) in more.as_object().expect("a map") {
        mock[key] = value.clone();
    }
    let mock: Mock = serde_json::from_value(mock).expect("a mock");
    let (compiled, diagnostics) =
        CompiledMock::new(&MockConfig::new("m", mock, Some(text.to_owned())), Vec::new());
    compiled.unwrap_or_else(|| panic!("{diagnostics:#?}"))
}

fn send(mock: &CompiledMock, method: &str, path: &str) -> (u16, Value) {
    match mock.decide(&Request::new(method, path, Vec::new(), Bytes::new()), NOW) {
        Decision::Reply(answer) => (
            answer.status,
            serde_json::from_slice(&answer.body).unwrap_or(Value::Null),
        ),
        Decision::Forward(target) => panic!("{target:?}"),
    }
}

/// Returns method, path and original schema of the first successful response of each operation.
fn wanted(document: &Value) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        let item = item
            .get("$ref")
            .and_then(Value::as_str)
            .map_or(item, |reference| {
                document
                    .pointer(&reference[1..])
                    .expect("a path that is referred to")
            });
        for (method, operation) in item
            .as_object()
            .expect("a path")
            .iter()
            .filter(|(key, _)| *key != "parameters")
        {
            let responses = operation["responses"].as_object().expect("responses");
            let (_, response) = responses
                .iter()
                .find(|(status, _)| status.starts_with('2'))
                .or_else(|| responses.iter().next())
                .expect("a response");
            let response = response
                .get("$ref")
                .and_then(Value::as_str)
                .map_or(response, |reference| {
                    document
                        .pointer(&reference[1..])
                        .expect("a response that is referred to")
                });
            let (_, media) = response["content"]
                .as_object()
                .expect("content")
                .iter()
                .next()
                .expect("a type");
            found.push((method.to_uppercase(), path.clone(), media["schema"].clone()));
        }
    }
    found
}

/// Validates a value against the original schema. For `OpenAPI` 3.0, it replaces keywords that JSON Schema does not have.
fn second_opinion(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let mut whole = document.clone();
    whole["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    let is_30 = document["openapi"]
        .as_str()
        .is_some_and(|version| version.starts_with("3.0"));
    let mut root = json!({ "components": whole["components"], "allOf": [schema] });
    if is_30 {
        convert_3_0(&mut root);
    }
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&root)
        .map_err(|error| error.to_string())?;
    validator
        .validate(value)
        .map_err(|error| format!("`{}`: {error}", error.instance_path()))
}

fn convert_3_0(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for key in ["exclusiveMinimum", "exclusiveMaximum"] {
                if map.get(key).is_some_and(Value::is_boolean) {
                    map.remove(key);
                }
            }
            if let Some(Value::Object(properties)) = map.get("properties") {
                let hidden: Vec<String> = properties
                    .iter()
                    .filter(|(_, schema)| schema["writeOnly"] == true)
                    .map(|(name, _)| name.clone())
                    .collect();
                if let Some(Value::Array(required)) = map.get_mut("required") {
                    required.retain(|name| !hidden.iter().any(|hidden| name == hidden));
                }
            }
            if map.remove("nullable").is_some() {
                let inner = Value::Object(std::mem::take(map));
                map.insert("anyOf".to_owned(), json!([inner, { "enum": [null] }]));
            }
            map.values_mut().for_each(convert_3_0);
        }
        Value::Array(items) => items.iter_mut().for_each(convert_3_0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn responses_match_their_schema_at_every_depth() {
    let mut answers = Vec::new();
    for (name, text) in corpus() {
        let document = yaml::document(&name, text.as_bytes()).expect("a document").value;
        for depth in [1, 3, 6] {
            for mode in ["auto", "smart"] {
                let mock = compile(&text, &json!({ "maxDepth": depth, "mode": mode }));
                for (method, path, schema) in wanted(&document) {
                    for number in 0..12 {
                        let target = path.replace("{id}", &number.to_string()) + &format!("?n={number}");
                        let (status, value) = send(&mock, &method, &target);
                        assert_ne!(status, 500, "{name} {method} {target}: {value}");
                        if let Err(why) = second_opinion(&document, &schema, &value) {
                            panic!("{name} {method} {target} at depth {depth}: {why}\n{value:#}");
                        }
                        answers.push(json!({ "document": name, "schema": schema, "answer": value }));
                    }
                }
            }
        }
    }
    assert!(answers.len() > 2_000, "{} answers", answers.len());
    if let Some(path) = std::env::var_os("ANSWERS") {
        fs::write(path, serde_json::to_string(&answers).expect("JSON")).expect("a file");
    }
}

#[test]
fn equal_requests_get_equal_responses() {
    let text = &corpus()
        .into_iter()
        .find(|(name, _)| name.starts_with("22-"))
        .expect("pages")
        .1;
    let (one, other) = (compile(text, &json!({})), compile(text, &json!({})));
    assert_eq!(send(&one, "GET", "/items/1"), send(&other, "GET", "/items/1"));
    assert_ne!(send(&one, "GET", "/items/1"), send(&one, "GET", "/items/2"));
    // The path prefix of the server works too.
    assert_eq!(send(&one, "GET", "/v1/search").0, 200);
}

#[test]
fn max_depth_bounds_optional_parts() {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        }
    }
    let text = &corpus()
        .into_iter()
        .find(|(name, _)| name.starts_with("05-"))
        .expect("a tree")
        .1;
    for most in [1, 2, 5] {
        let (_, tree) = send(&compile(text, &json!({ "maxDepth": most })), "GET", "/tree");
        assert!((most..=most + 1).contains(&depth(&tree)), "{most}: {tree}");
    }
}

#[test]
fn documents_have_no_errors_except_invalid_examples() {
    for (name, text) in corpus() {
        for diagnostic in argus_mock::check_openapi(&text) {
            assert!(!diagnostic.is_error(), "{name}: {diagnostic:?}");
            assert!(diagnostic.location.is_some(), "{name}: {diagnostic:?}");
            assert!(name.starts_with("17-"), "{name}: {diagnostic:?}");
        }
    }
}

#[test]
fn valid_examples_win_over_generated_values() {
    let text = &corpus()
        .into_iter()
        .find(|(name, _)| name.starts_with("17-"))
        .expect("examples")
        .1;
    let mock = compile(text, &json!({}));
    assert_eq!(
        send(&mock, "GET", "/example").1,
        json!({ "name": "Oslo", "people": 700_000 })
    );
    assert_eq!(
        send(&mock, "GET", "/examples").1,
        json!({ "name": "Bergen", "people": 290_000 })
    );
    let nested = send(&mock, "GET", "/nested").1;
    assert_eq!(nested[0]["name"], "Trondheim");
    assert!(nested[0]["people"].is_i64(), "{nested}");
}

#[test]
fn discriminator_names_the_schema_of_the_value() {
    let of = |number: &str| {
        corpus()
            .into_iter()
            .find(|(name, _)| name.starts_with(number))
            .expect("a document")
            .1
    };
    let inherited = compile(&of("10-"), &json!({}));
    assert_eq!(send(&inherited, "GET", "/cat").1["petType"], "kitty");
    assert_eq!(send(&inherited, "GET", "/dog").1["petType"], "Dog");
    assert_eq!(send(&inherited, "GET", "/any").1["petType"], "kitty");
    let (_, event) = send(&compile(&of("09-"), &json!({})), "GET", "/event");
    assert_eq!((&event["kind"], event["at"].is_string()), (&json!("made"), true));
}

//! Schemas of a document, and the schemas inside of them.

use serde_json::Value;

use super::json_pointer::escape;

/// Keys whose value is a map of schemas.
const MAPS: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];
/// Keys whose value is a list of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keys whose value is a schema.
const SINGLES: [&str; 11] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
/// Keys of the document that never contain a schema at any depth.
const DATA: [&str; 5] = ["example", "examples", "default", "enum", "const"];

/// Returns the schemas directly inside of a schema, with their JSON pointers from it.
fn inner(schema: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (key, value) in schema.as_object().into_iter().flatten() {
        match value {
            Value::Object(named) if MAPS.contains(&key.as_str()) => {
                let named = named.iter();
                found.extend(named.map(|(name, schema)| (format!("/{key}/{}", escape(name)), schema)));
            }
            Value::Array(items) if LISTS.contains(&key.as_str()) => {
                let items = items.iter().enumerate();
                found.extend(items.map(|(index, schema)| (format!("/{key}/{index}"), schema)));
            }
            schema if SINGLES.contains(&key.as_str()) => found.push((format!("/{key}"), schema)),
            _ => {}
        }
    }
    found
}

/// Returns the schema at a JSON pointer and all schemas inside of it, each one before its inner ones.
pub(super) fn all<'a>(root: &'a Value, pointer: &str) -> Vec<(String, &'a Value)> {
    let outer = root.pointer(pointer).map(|schema| (pointer.to_owned(), schema));
    let mut found = Vec::from_iter(outer);
    let mut next = 0;
    while let Some((outer, schema)) = found.get(next) {
        let inner: Vec<_> = inner(schema)
            .into_iter()
            .map(|(inner, schema)| (format!("{outer}{inner}"), schema))
            .collect();
        found.extend(inner);
        next += 1;
    }
    found
}

/// Returns the pointers of all outermost schemas of a document.
pub(super) fn outermost(root: &Value) -> Vec<String> {
    let mut found = Vec::new();
    gather(root, "", &mut found);
    found
}

fn gather(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let here = format!("{pointer}/{}", escape(key));
                if key == "schema" {
                    found.push(here);
                } else if key == "schemas" && pointer == "/components" {
                    let names = inner.as_object().into_iter().flatten();
                    found.extend(names.map(|(name, _)| format!("{here}/{}", escape(name))));
                } else if !DATA.contains(&key.as_str()) && !key.starts_with("x-") {
                    gather(inner, &here, found);
                }
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                gather(inner, &format!("{pointer}/{index}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

//! References of a document, and the parts in which a member `$ref` is data.

use argus_crds::Diagnostic;
use serde_json::Value;

use super::check::Problems;
use super::json_pointer::{escape, target};

/// Checks that all references resolve within the document.
pub(super) fn check(value: &Value, pointer: &str, root: &Value, problems: &mut Vec<Problems>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref")
                && !pointer.ends_with("/properties")
            {
                let here = format!("{pointer}/$ref");
                match target(reference) {
                    Some(target) if root.pointer(&target).is_some() => {}
                    Some(_) => {
                        let message = format!("`{reference}` does not exist in this document");
                        problems.push((
                            here,
                            Diagnostic::error("", message).hint("refer to an existing part of the document"),
                        ));
                    }
                    None => {
                        let message =
                            format!("`{reference}` refers to another document, only `#/…` is supported");
                        problems.push((
                            here,
                            Diagnostic::error("", message).hint("bundle the documents into one file"),
                        ));
                    }
                }
            }
            for key in ["$dynamicRef", "$recursiveRef"] {
                if map.get(key).is_some_and(Value::is_string) {
                    let diagnostic = Diagnostic::error("", format!("`{key}` is not supported"));
                    let here = format!("{pointer}/{key}");
                    problems.push((here, diagnostic.hint("use `$ref` with `#/…`")));
                }
            }
            for (key, inner) in map {
                if !is_data(pointer, key, inner) {
                    check(inner, &format!("{pointer}/{}", escape(key)), root, problems);
                }
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                check(inner, &format!("{pointer}/{index}"), root, problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Maps whose keys are names that the author of a document chooses.
const NAMED: [&str; 18] = [
    "additionalOperations",
    "callbacks",
    "content",
    "definitions",
    "$defs",
    "dependentSchemas",
    "encoding",
    "examples",
    "headers",
    "links",
    "mediaTypes",
    "parameters",
    "pathItems",
    "patternProperties",
    "properties",
    "requestBodies",
    "schemas",
    "securitySchemes",
];

/// Returns true for a part of a document that is data, so that a member `$ref` in it is no reference: examples, other values, extensions.
pub(super) fn is_data(pointer: &str, key: &str, inner: &Value) -> bool {
    let mut above = pointer.rsplit('/');
    let (parent, of_parent) = (above.next().unwrap_or_default(), above.next().unwrap_or_default());
    if NAMED.contains(&parent) || pointer == "/components/responses" {
        return false;
    }
    match key {
        "example" | "default" | "enum" | "const" => true,
        // `examples` of a media type is a map with references; `examples` of a schema is a list of data.
        "examples" => !inner.is_object(),
        "value" | "dataValue" => of_parent == "examples",
        key => key.starts_with("x-"),
    }
}

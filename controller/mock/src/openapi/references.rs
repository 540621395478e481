//! References of a document, and the parts in which a member `$ref` is data.

use argus_crds::Diagnostic;
use serde_json::{Map, Value};

use super::check::Problems;
use super::json_pointer::{escape, target};

/// Checks that all references resolve within the document.
pub(super) fn check(root: &Value, problems: &mut Vec<Problems>) {
    maps(root, "", &mut |pointer, map| {
        if let Some(Value::String(reference)) = map.get("$ref")
            && !pointer.ends_with("/properties")
        {
            let target = target(reference);
            let found = target.as_deref().map(|target| root.pointer(target).is_some());
            let problem = match found {
                Some(true) => None,
                Some(false) => Some((
                    "does not exist in this document",
                    "refer to an existing part of the document",
                )),
                None => Some((
                    "refers to another document, only `#/…` is supported",
                    "bundle the documents into one file",
                )),
            };
            problems.extend(problem.map(|(cause, hint)| {
                let diagnostic = Diagnostic::error("", format!("`{reference}` {cause}"));
                (format!("{pointer}/$ref"), diagnostic.hint(hint))
            }));
        }
        for key in ["$dynamicRef", "$recursiveRef"] {
            if map.get(key).is_some_and(Value::is_string) {
                let diagnostic = Diagnostic::error("", format!("`{key}` is not supported"));
                let here = format!("{pointer}/{key}");
                problems.push((here, diagnostic.hint("use `$ref` with `#/…`")));
            }
        }
    });
}

/// Calls `visit` with each map of a document that is not data, after its JSON pointer.
pub(super) fn maps(value: &Value, pointer: &str, visit: &mut dyn FnMut(&str, &Map<String, Value>)) {
    match value {
        Value::Object(map) => {
            visit(pointer, map);
            for (key, inner) in map.iter().filter(|(key, inner)| !is_data(pointer, key, inner)) {
                maps(inner, &format!("{pointer}/{}", escape(key)), visit);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                maps(inner, &format!("{pointer}/{index}"), visit);
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
fn is_data(pointer: &str, key: &str, inner: &Value) -> bool {
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

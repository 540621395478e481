//! Warnings about valid parts of a document that have no effect, or another one than their author expects.

use argus_crds::Diagnostic;
use serde_json::{Map, Value};

use super::check::{Problems, version};
use super::references::maps;

/// Returns the warnings about all parts of a document.
pub(super) fn parts(root: &Value) -> Vec<Problems> {
    let mut found = Vec::new();
    let is_30 = version(root).is_some_and(|version| version.starts_with("3.0"));
    maps(root, "", &mut |pointer, map| {
        found.extend(of_map(map, pointer, is_30));
    });
    found
}

fn of_map(map: &Map<String, Value>, pointer: &str, is_30: bool) -> Option<Problems> {
    let warning = |key: &str, message: &str, hint: String| {
        let diagnostic = Diagnostic::warning("", message).hint(hint);
        Some((format!("{pointer}/{key}"), diagnostic))
    };
    if let Some(reference) = map.get("$ref").and_then(Value::as_str)
        && is_30
        && map.get("nullable") == Some(&Value::Bool(true))
        && !pointer.ends_with("/properties")
    {
        let message = "`nullable` next to `$ref` has no effect in OpenAPI 3.0; the mock applies it";
        let hint = format!("write `nullable: true` and `allOf: [{{ $ref: \"{reference}\" }}]`");
        return warning("nullable", message, hint);
    }
    if is_30 {
        return None;
    }
    let is_media = pointer.rsplit('/').nth(1) == Some("content");
    if is_media && map.contains_key("itemSchema") && !map.contains_key("schema") {
        let message = "`itemSchema` is not supported, so only examples are sent";
        let has_example = ["example", "examples"].iter().any(|key| map.contains_key(*key));
        let hint = if has_example {
            "write all items of the response in the example"
        } else {
            "add an example with `serializedValue`"
        };
        return warning("itemSchema", message, hint.to_owned());
    }
    if map.get("in").and_then(Value::as_str) == Some("querystring") && map.contains_key("name") {
        let message = "parameters in `querystring` are not supported, so requests are not checked for them";
        return warning("in", message, "declare parameters in `query`".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hint_for_a_stream_knows_its_example() {
        let hint = |media: Value| {
            let content = json!({ "text/event-stream": media });
            let root =
                json!({ "openapi": "3.2.0", "components": { "responses": { "a": { "content": content } } } });
            let found = parts(&root).remove(0);
            found.1.hint.unwrap()
        };
        assert!(hint(json!({ "itemSchema": {} })).starts_with("add an example"));
        for key in ["example", "examples"] {
            let hint = hint(json!({ "itemSchema": {}, key: {} }));
            assert_eq!(hint, "write all items of the response in the example");
        }
    }
}

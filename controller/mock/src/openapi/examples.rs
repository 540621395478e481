//! Examples of media types: which there are, and which of them break their schema.

use argus_crds::Diagnostic;
use serde_json::Value;

use super::check::Problems;
use super::json_pointer::{Cursor, escape};
use super::schemas::Schemas;

/// How many media types with examples are looked at: each needs a validator of its own.
const LOOKED_AT: usize = 100;

/// Says which examples are not used: that is better said than found out.
pub(super) fn look(root: &Value, requests: &Schemas, responses: &Schemas, to: &mut Vec<Problems>) {
    let mut media = Vec::new();
    gather(root, "", root, &mut media);
    for (pointer, is_request) in media.into_iter().take(LOOKED_AT) {
        let way = if is_request { requests } else { responses };
        let Some(media) = Cursor::at(root, &pointer) else {
            continue;
        };
        let Ok(validator) = way.validator(&format!("{}/schema", media.pointer)) else {
            continue;
        };
        for (at, example) in of_media(&media) {
            if let Err(error) = validator.validate(example) {
                let place = error.instance_path();
                let message = format!("this example breaks its schema and is not used: `{place}`: {error}");
                to.push((
                    at,
                    Diagnostic::warning("", message).hint("correct the example, or the schema"),
                ));
            }
        }
    }
}

/// The media types that have a schema and examples, and whether they are of a request.
fn gather(value: &Value, pointer: &str, root: &Value, to: &mut Vec<(String, bool)>) {
    let Value::Object(map) = value else { return };
    if let Some(content) = map.get("content").and_then(Value::as_object) {
        let is_request = pointer.contains("/requestBody") || pointer.contains("/requestBodies");
        for kind in content.keys() {
            let media = format!("{pointer}/content/{}", escape(kind));
            let found = Cursor::at(root, &media);
            if found.is_some_and(|media| media.value.get("schema").is_some() && !of_media(&media).is_empty())
            {
                to.push((media, is_request));
            }
        }
    }
    for (key, inner) in map {
        if !["example", "examples", "schema", "schemas"].contains(&key.as_str()) {
            gather(inner, &format!("{pointer}/{}", escape(key)), root, to);
        }
    }
}

/// The examples of a media type with their pointers, in their order.
pub(super) fn of_media<'a>(media: &Cursor<'a>) -> Vec<(String, &'a Value)> {
    let one = media
        .raw("example")
        .map(|example| (example.pointer, example.value));
    let named = media
        .get("examples")
        .map(|examples| examples.entries().collect::<Vec<_>>());
    let many = named.into_iter().flatten().filter_map(|(_, example)| {
        let value = example.raw("value")?;
        Some((value.pointer, value.value))
    });
    one.into_iter().chain(many).collect()
}

//! Examples of media types, and their check against the schema.

use argus_core::budget::Budget;
use argus_crds::Diagnostic;
use serde_json::Value;

use super::check::Problems;
use super::json_pointer::{Cursor, escape};
use super::schemas::Schemas;
use super::steps;

/// Maximum number of values in the documents of all validators that the check builds. Each media type needs its own validator, which can
/// hold the whole document.
const MAX_BUILT_VALUES: u64 = 1_000_000;

/// Adds a warning for each example that violates its schema, because responses ignore it.
pub(super) fn check(
    root: &Value,
    requests: &Schemas,
    responses: &Schemas,
    budget: &mut Budget,
    problems: &mut Vec<Problems>,
) {
    let mut media = Vec::new();
    gather(root, "", root, &mut media);
    let mut whole = Budget::new(u64::MAX, u64::MAX);
    let size = steps::copy(root, 0, &mut whole).map_or(u64::MAX, |_| whole.used().0);
    let mut builds = Budget::new(MAX_BUILT_VALUES, 0);
    for (pointer, is_request) in media.into_iter().take_while(|_| builds.steps(size).is_ok()) {
        let schemas = if is_request { requests } else { responses };
        let Some(media) = Cursor::at(root, &pointer) else {
            continue;
        };
        let schema = format!("{}/schema", media.pointer);
        let Ok(validator) = schemas.validator(&schema) else {
            continue;
        };
        for (at, example) in of_media(&media) {
            let errors = match validator.errors(budget, example, 1) {
                Ok(errors) => errors,
                Err(exceeded) => {
                    let message = format!("this example is not checked: its validation needs {exceeded}");
                    let warning = Diagnostic::warning("", message).hint("make it smaller");
                    return problems.push((at, warning));
                }
            };
            if let Some((pointer, error)) = errors.first() {
                let message =
                    format!("this example violates its schema and is ignored: `{pointer}`: {error}");
                let diagnostic = Diagnostic::warning("", message).hint("fix the example or the schema");
                problems.push((at, diagnostic));
            }
        }
    }
}

/// Collects the media types with a schema and examples. The flag is true for those of requests.
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

/// Returns the examples of a media type in their order, with their pointers.
pub(super) fn of_media<'a>(media: &Cursor<'a>) -> Vec<(String, &'a Value)> {
    let one = media
        .raw("example")
        .map(|example| (example.pointer, example.value));
    let named = media
        .get("examples")
        .map(|examples| examples.entries().collect::<Vec<_>>());
    let many = named.into_iter().flatten().filter_map(|(_, example)| {
        let keys = ["value", "dataValue", "serializedValue"];
        let value = keys.iter().find_map(|key| example.raw(key))?;
        Some((value.pointer, value.value))
    });
    one.into_iter().chain(many).collect()
}

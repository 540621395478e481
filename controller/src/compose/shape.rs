//! Kinds of values. Compose rejects a file with a value of another kind; a translation without it would leave it out.

use serde_json::Value;

/// Keys of a service that are translated, with the kinds of their values, and whether the items of a list are single values.
static KEYS: [(&str, &str, bool); 20] = [
    ("build", "a text or a map", true),
    ("command", "a text or a list", true),
    ("configs", "a list", false),
    ("depends_on", "a list or a map", true),
    ("deploy", "a map", true),
    ("entrypoint", "a text or a list", true),
    ("env_file", "a text or a list", false),
    ("environment", "a list or a map", true),
    ("extends", "a text or a map", true),
    ("extra_hosts", "a list or a map", true),
    ("healthcheck", "a map", true),
    ("labels", "a list or a map", true),
    ("links", "a list", true),
    ("networks", "a list or a map", true),
    ("ports", "a list", false),
    ("profiles", "a list", true),
    ("secrets", "a list", false),
    ("tmpfs", "a text or a list", true),
    ("volumes", "a list", false),
    ("image", "a text", true),
];

/// Returns the keys of a service whose values are of a wrong kind, with the problem.
pub(super) fn problems(service: &Value) -> Vec<(String, String)> {
    KEYS.iter()
        .filter_map(|(key, shape, is_plain)| {
            let value = service.get(key)?;
            let is_valid = match value {
                Value::Null => true,
                Value::String(_) => shape.contains("text"),
                Value::Array(_) => shape.contains("list"),
                Value::Object(_) => shape.contains("map"),
                Value::Bool(_) | Value::Number(_) => false,
            };
            if !is_valid {
                return Some(((*key).to_owned(), (*shape).to_owned()));
            }
            let is_nested = |item: &Value| item.is_object() || item.is_array() || item.is_null();
            let items = value.as_array().filter(|_| *is_plain)?;
            let at = items.iter().position(is_nested)?;
            Some((format!("{key}[{at}]"), "a text".to_owned()))
        })
        .collect()
}

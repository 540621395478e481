//! Settings of a container's process that have the same meaning in a spec file.

use serde_json::{Map, Value, json};

use super::parts;

/// Translates the setting of a key; `None` for another key, or without a value.
pub(super) fn translate(key: &str, value: &Value) -> Option<(&'static str, Value)> {
    Some(match key {
        "stop_signal" => ("stopSignal", json!(parts::scalar_to_text(value)?)),
        "hostname" => ("hostname", json!(parts::scalar_to_text(value)?)),
        "read_only" => ("readOnly", to_bool(value)?),
        "stdin_open" => ("stdinOpen", to_bool(value)?),
        "cap_drop" => ("capDrop", value.as_array()?.clone().into()),
        "ulimits" => ("ulimits", value.as_object()?.iter().map(to_ulimit).collect()),
        "sysctls" => ("sysctls", to_map(value)?.into()),
        _ => return None,
    })
}

/// The value can come from a variable.
fn to_bool(value: &Value) -> Option<Value> {
    let is_true = value.as_bool().or_else(|| value.as_str()?.parse().ok())?;
    Some(is_true.into())
}

fn to_ulimit((name, value): (&String, &Value)) -> (String, Value) {
    let text = |value: &Value| parts::scalar_to_text(value).unwrap_or_default();
    let limit = match value {
        Value::Object(_) => format!("{}:{}", text(&value["soft"]), text(&value["hard"])),
        single => text(single),
    };
    (name.clone(), limit.into())
}

fn to_map(value: &Value) -> Option<Map<String, Value>> {
    let pair = |item: &Value| {
        let (name, value) = item.as_str()?.split_once('=')?;
        Some((name.to_owned(), json!(value)))
    };
    match value {
        Value::Array(items) => Some(items.iter().filter_map(pair).collect()),
        Value::Object(_) => parts::translate_labels(value).as_object().cloned(),
        _ => None,
    }
}

//! Warnings about expected values: operators that do not exist, and invalid patterns.

use argus_core::desired::template::has_placeholders;
use serde_json::{Map, Value};

use super::{Notes, unknown_keys, warn, warn_key};
use crate::evaluate::is_operator;
use crate::pattern;
use crate::value::shown;

/// Checks the keys that files and outputs have in common.
pub(super) fn content(map: &Map<String, Value>, path: &str, notes: &mut Notes) {
    pattern_of(map.get("matches"), &format!("{path}.matches"), notes);
    fields(map.get("json"), &format!("{path}.json"), notes);
}

fn pattern_of(value: Option<&Value>, path: &str, notes: &mut Notes) {
    if let Some(Value::String(text)) = value
        && !has_placeholders(text)
        && let Err(message) = pattern::compile(text)
    {
        warn(notes, path, message, None);
    }
}

/// Checks the outermost level, where all keys are fields.
pub(super) fn fields(value: Option<&Value>, path: &str, notes: &mut Notes) {
    if let Some(Value::Object(map)) = value {
        for (key, value) in map {
            condition(value, &format!("{path}.{key}"), notes);
        }
    }
}

/// Operators of other tools, and the form to use instead.
const FOREIGN: [(&str, &str); 7] = [
    ("eq", "write the value itself"),
    ("equal", "write the value itself"),
    ("equals", "write the value itself"),
    ("ne", "write `not: …`"),
    ("oneOf", "write `in: […]`"),
    ("anyOf", "write `in: […]`"),
    ("regex", "write `matches: …`"),
];

fn condition(value: &Value, path: &str, notes: &mut Notes) {
    match value {
        Value::String(text) if text.starts_with("$exists") || text.starts_with("$regex") => {
            let hint = "write `{ exists: true }` or `{ matches: … }`";
            warn(notes, path, format!("`{text}` is compared as text"), Some(hint));
        }
        Value::Object(map) => {
            for (key, value) in map {
                let at = format!("{path}.{key}");
                if let Some((_, hint)) = FOREIGN.iter().find(|(name, _)| name == key)
                    && map.len() == 1
                {
                    let message = format!("`{key}` is not an operator, but the name of a field");
                    warn_key(notes, &at, message, Some(hint));
                } else if is_operator(key) {
                    operator(key, value, &at, notes);
                } else {
                    condition(value, &at, notes);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
    }
}

fn operator(key: &str, value: &Value, path: &str, notes: &mut Notes) {
    let types = [
        "string",
        "number",
        "boolean",
        "object",
        "array",
        "null",
        "undefined",
    ];
    match key {
        "exists" if !value.is_boolean() => {
            warn(
                notes,
                path,
                "`exists` is `true` or `false`, and fails otherwise",
                None,
            );
        }
        "in" if !value.is_array() => warn(notes, path, "`in` needs a list", Some("write `in: […]`")),
        "type"
            if !value
                .as_str()
                .is_some_and(|name| types.contains(&name) || has_placeholders(name)) =>
        {
            let hint = format!("types: `{}`", types.join("`, `"));
            warn(
                notes,
                path,
                format!("{} is not a type", shown(Some(value))),
                Some(&hint),
            );
        }
        "matches" => pattern_of(Some(value), path, notes),
        "length" if value.is_string() => {
            warn(
                notes,
                path,
                "a text as `length` fails always",
                Some("write a number without quotes"),
            );
        }
        "length" => {
            if let Value::Object(map) = value {
                unknown_keys(map, &["gt", "gte", "lt", "lte"], path, notes);
            }
        }
        "every" | "some" => fields(Some(value), path, notes),
        "not" => condition(value, path, notes),
        _ => {}
    }
}

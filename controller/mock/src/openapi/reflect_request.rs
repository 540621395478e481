//! What a smart answer takes over from the request: posted fields, parameters of the path and of the query.

use jsonschema::Validator;
use serde_json::Value;

use crate::path::Params;
use crate::request::Request;

/// The value with what the request says about its fields, as far as the schema still holds.
///
/// Only fields that the value has are changed. The path goes before the body, and that before the query. Where the value has
/// no field of a path parameter's name, and that name ends in `id`, the field `id` takes it.
pub(super) fn into(
    mut value: Value,
    request: &Request,
    params: &Params,
    validator: Option<&Validator>,
) -> Value {
    let texts = |pairs: &[(String, String)]| {
        let both = pairs.iter().map(|(name, text)| (name.clone(), readings(text)));
        both.collect::<Vec<_>>()
    };
    let mut said = texts(&request.query);
    if let Some(Value::Object(body)) = request.value() {
        said.extend(body.into_iter().map(|(name, value)| match value {
            Value::String(text) => (name, readings(&text)),
            other => (name, vec![other]),
        }));
    }
    said.extend(texts(params));
    for (name, readings) in said {
        let is_id = name.to_lowercase().ends_with("id") && params.iter().any(|(param, _)| *param == name);
        let Value::Object(map) = &value else { return value };
        let key = match (map.contains_key(&name), is_id && map.contains_key("id")) {
            (true, _) => name,
            (false, true) => "id".to_owned(),
            (false, false) => continue,
        };
        for reading in readings {
            let mut changed = value.clone();
            changed[&key] = reading;
            if validator.is_none_or(|validator| validator.is_valid(&changed)) {
                value = changed;
                break;
            }
        }
    }
    value
}

/// What a text may stand for: itself, else the number or truth value that it spells.
fn readings(text: &str) -> Vec<Value> {
    let mut found = vec![Value::from(text)];
    if let Ok(value @ (Value::Number(_) | Value::Bool(_))) = serde_json::from_str(text) {
        found.push(value);
    }
    found
}

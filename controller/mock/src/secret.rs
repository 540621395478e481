//! Redaction of requests and responses: values of headers, parameters and fields with secret names.

use argus_core::secrets::{REDACTED, is_secret};
use argus_crds::number::{self, Keep};
use serde_json::Value;

use crate::request::{Content, Request};

/// Redacts the values of pairs with secret names.
pub(crate) fn redact_pairs(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let redact = |(name, value): &(String, String)| {
        let value = if is_secret(name) { REDACTED } else { value };
        (name.clone(), value.to_owned())
    };
    pairs.iter().map(redact).collect()
}

/// Redacts strings and numbers in fields with secret names, at any depth.
fn redact_value(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let redact = |(key, value): (&String, &Value)| {
                let redacted = match value {
                    Value::Null | Value::Bool(_) => value.clone(),
                    Value::String(_) | Value::Number(_) if is_secret(key) => Value::from(REDACTED),
                    _ => redact_value(value),
                };
                (key.clone(), redacted)
            };
            Value::Object(map.iter().map(redact).collect())
        }
        Value::Array(items) => items.iter().map(redact_value).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Redacts secret fields in a text that is valid JSON despite another media type.
fn redact_text(text: &str) -> String {
    match number::parse(text, Keep::Spelling) {
        Ok(value) if contains_secrets(&value) => number::to_json(&redact_value(&value)),
        Ok(_) | Err(_) => text.to_owned(),
    }
}

/// Returns the body of a request as text without secrets; `None` if it is empty or not text.
pub(crate) fn redact_body(request: &Request) -> Option<String> {
    match request.content() {
        Content::Empty | Content::Bytes => None,
        Content::Json(value) if contains_secrets(value) => Some(number::to_json(&redact_value(value))),
        Content::Form(fields) => {
            let fields = redact_pairs(fields).into_iter();
            let fields: Vec<String> = fields.map(|(name, value)| format!("{name}={value}")).collect();
            Some(fields.join("&"))
        }
        Content::Text(text) => Some(redact_text(text)),
        Content::Json(_) => Some(String::from_utf8_lossy(&request.body).into_owned()),
    }
}

/// Returns true if a value contains a secret field.
fn contains_secrets(value: &Value) -> bool {
    redact_value(value) != *value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_secrets_are_redacted_and_the_rest_stays() {
        let value = json!({ "user": "ann", "login": [{ "password": "p", "token": 7, "hasToken": true }] });
        let wanted = json!({ "user": "ann", "login": [{ "password": REDACTED, "token": REDACTED, "hasToken": true }] });
        assert_eq!(redact_value(&value), wanted);
        assert!(contains_secrets(&value) && !contains_secrets(&json!({ "a": 1 })));
    }
}

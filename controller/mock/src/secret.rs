//! What of a request or an answer is not kept: the values of headers, parameters and fields whose names say that they are secret.

use argus_core::secrets::{REDACTED, is_secret};
use serde_json::Value;

/// Headers that identify somebody, whatever they are called.
const HEADERS: [&str; 5] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "www-authenticate",
];

/// Whether a name, in whatever spelling, is one of a secret.
pub(crate) fn names_a_secret(name: &str) -> bool {
    let plain = name.replace('-', "_");
    is_secret(&plain) || HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header))
}

/// Pairs of names and values with the secret values blacked out.
pub(crate) fn blacked(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let black = |(name, value): &(String, String)| {
        let value = if names_a_secret(name) { REDACTED } else { value };
        (name.clone(), value.to_owned())
    };
    pairs.iter().map(black).collect()
}

/// A value with the secret fields in it blacked out.
pub(crate) fn blacked_value(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let black = |(key, value): (&String, &Value)| {
                let kept = match value {
                    Value::Null | Value::Bool(_) => value.clone(),
                    Value::String(_) | Value::Number(_) if names_a_secret(key) => Value::from(REDACTED),
                    _ => blacked_value(value),
                };
                (key.clone(), kept)
            };
            Value::Object(map.iter().map(black).collect())
        }
        Value::Array(items) => items.iter().map(blacked_value).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A text in which secret fields are blacked out, where it reads as JSON; for texts that are called something else.
pub(crate) fn blacked_text(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value) if holds_secrets(&value) => blacked_value(&value).to_string(),
        Ok(_) | Err(_) => text.to_owned(),
    }
}

/// Whether a value holds a secret field.
pub(crate) fn holds_secrets(value: &Value) -> bool {
    blacked_value(value) != *value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_tell_what_is_secret() {
        for secret in [
            "Authorization",
            "COOKIE",
            "X-Api-Key",
            "apiKey",
            "access_token",
            "clientSecret",
            "password",
        ] {
            assert!(names_a_secret(secret), "{secret}");
        }
        for plain in ["content-type", "x-request-id", "user", "keyboard"] {
            assert!(!names_a_secret(plain), "{plain}");
        }
    }

    #[test]
    fn secrets_in_the_depth_are_blacked_out_and_the_rest_stays() {
        let value = json!({ "user": "ann", "login": [{ "password": "p", "token": 7, "hasToken": true }] });
        let wanted = json!({ "user": "ann", "login": [{ "password": REDACTED, "token": REDACTED, "hasToken": true }] });
        assert_eq!(blacked_value(&value), wanted);
        assert!(holds_secrets(&value) && !holds_secrets(&json!({ "a": 1 })));
    }
}

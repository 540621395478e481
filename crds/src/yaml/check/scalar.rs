//! Check of a scalar against its schema.

use serde_json::Value;

use super::{Check, name, unknown};
use crate::diagnostic::{Diagnostic, Location};
use crate::halt_after_same::HaltAfterSame;
use crate::quantity::{ByteSize, CpuCount, HumanDuration};
use crate::yaml::tree::is_null;

impl Check<'_> {
    /// Adds a diagnostic if a scalar does not match its schema. `value` is its text, and true if it has no quotes.
    pub(super) fn scalar(
        &mut self,
        schema: &Value,
        types: &[&str],
        value: (&str, bool),
        path: &str,
        location: Location,
    ) {
        let (text, plain) = value;
        let rejection = |message: String, hint: Option<String>| Diagnostic {
            hint,
            ..Diagnostic::error(path, message).at(location)
        };
        // A value can be a secret in the wrong place, so messages contain only keys.
        let name = name(path);
        if plain && is_null(text) {
            let diagnostic = if types.contains(&"null") {
                Diagnostic::warning(path, format!("`{name}` has no value and becomes an empty string"))
                    .hint("write `\"\"` for an empty string")
            } else {
                Diagnostic::error(path, format!("`{name}` has no value")).hint("give it a value or remove it")
            };
            return self.collector.add(diagnostic.at(location));
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            if !words.contains(&text) {
                let message = format!("`{name}` has an unknown value");
                self.collector
                    .add(rejection(message, Some(unknown::choice(text, &words))));
            }
            return;
        }
        if let Some((why, hint)) = schema
            .get("format")
            .and_then(Value::as_str)
            .and_then(|kind| quantity(kind, text))
        {
            return self
                .collector
                .add(rejection(format!("`{name}` {why}"), Some(hint.to_owned())));
        }
        if types.contains(&"string") {
            if schema
                .get("minLength")
                .and_then(Value::as_u64)
                .is_some_and(|least| least > 0)
                && text.is_empty()
            {
                self.collector.add(rejection(
                    format!("`{name}` is empty"),
                    Some("give it a value".to_owned()),
                ));
            }
            let most = schema
                .get("maxLength")
                .and_then(Value::as_u64)
                .unwrap_or(u64::MAX);
            if text.chars().count() as u64 > most {
                self.collector.add(rejection(
                    format!("`{name}` is longer than {most} characters"),
                    None,
                ));
            }
            return;
        }
        let unquote = (!plain).then(|| "remove the quotes".to_owned());
        if types.contains(&"boolean") {
            if !plain || !["true", "false"].contains(&text) {
                let hint = unquote
                    .filter(|_| ["true", "false"].contains(&text))
                    .or_else(|| unknown::truth(text));
                self.collector
                    .add(rejection(format!("`{name}` must be `true` or `false`"), hint));
            }
        } else if let Some(message) = number(schema, types, text, plain) {
            let hint = unquote.filter(|_| number(schema, types, text, true).is_none());
            self.collector
                .add(rejection(format!("`{name}` must be {message}"), hint));
        }
    }
}

/// Returns the parse error of a value with its own format and a hint; `None` for a valid quantity.
fn quantity(format: &str, text: &str) -> Option<(String, &'static str)> {
    let (result, hint) = match format {
        "argus-duration" => (
            text.parse::<HumanDuration>().err(),
            "use a duration such as `100ms`, `5s`, `2m`, `1h` or `90d`",
        ),
        "argus-size" => (
            text.parse::<ByteSize>().err(),
            "use a size such as `500MB`, `2GB`, `512Mi` or `1TB`",
        ),
        "argus-cpus" => (
            text.parse::<CpuCount>().err(),
            "use a number such as `0.5` or `2`",
        ),
        "argus-halt-after-same" => {
            let error = text.parse::<HaltAfterSame>().err()?;
            return Some((error, "use a number such as `3`, or `off`"));
        }
        _ => return None,
    };
    result.map(|error| (error.to_string(), hint))
}

/// Returns a description of the expected number; `None` for a valid number.
fn number(schema: &Value, types: &[&str], text: &str, plain: bool) -> Option<String> {
    let whole = types.contains(&"integer");
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let low = bound("minimum");
    let high = bound("maximum").or_else(|| {
        (schema.get("format").and_then(Value::as_str) == Some("uint32")).then_some(f64::from(u32::MAX))
    });
    let value = match text.parse::<i64>() {
        #[allow(clippy::cast_precision_loss, reason = "the bounds are far below 2^53")]
        Ok(value) => Some(value as f64),
        Err(_) if whole => None,
        Err(_) => text.parse::<f64>().ok().filter(|value| value.is_finite()),
    };
    let within = |value: f64| low.is_none_or(|low| value >= low) && high.is_none_or(|high| value <= high);
    if plain && value.is_some_and(within) && !text.starts_with('+') {
        return None;
    }
    let kind = if whole { "an integer" } else { "a number" };
    Some(match (low, high) {
        (Some(low), Some(high)) => format!("{kind} from {low} to {high}"),
        (Some(low), None) => format!("{kind} of at least {low}"),
        (None, Some(high)) => format!("{kind} of at most {high}"),
        (None, None) => kind.to_owned(),
    })
}

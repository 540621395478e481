//! Calls behind an error, as arguments and as text.

use argus_core::secrets::{REDACTED, is_secret};
use argus_crds::error::Call;
use serde_json::{Map, Value};

/// Maximum length of a text argument, in bytes; longer texts are documents.
const MAX_TEXT: usize = 200;
/// Arguments with free text.
const FREE_TEXT: [&str; 3] = ["content", "reason", "case"];
/// Maximum number of recorded arguments.
const MAX_ARGUMENTS: usize = 50;

/// Returns arguments without confidential content: secrets are redacted, and free text is replaced by its size.
pub(crate) fn sanitize(arguments: impl IntoIterator<Item = (String, Value)>) -> Map<String, Value> {
    let sanitized = |(name, value): (String, Value)| {
        let value = if is_secret(&name) {
            Value::from(REDACTED)
        } else {
            sanitize_value(value, FREE_TEXT.contains(&name.as_str()))
        };
        (name, value)
    };
    arguments.into_iter().take(MAX_ARGUMENTS).map(sanitized).collect()
}

fn sanitize_value(value: Value, is_prose: bool) -> Value {
    match value {
        Value::String(text) if is_prose || !is_name(&text) => Value::from(format!("({} bytes)", text.len())),
        Value::Array(items) => items
            .into_iter()
            .map(|item| sanitize_value(item, is_prose))
            .collect(),
        Value::Object(fields) => Value::Object(sanitize(fields)),
        plain @ (Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
    }
}

/// True if a text has only the characters of names, numbers, paths and addresses.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/:,+".contains(c);
    text.len() <= MAX_TEXT && text.chars().all(fits)
}

/// Formats a call as one line.
pub(crate) fn format_call(call: &Call) -> String {
    let arguments = if call.arguments.is_empty() {
        String::new()
    } else {
        format!(" {}", Value::Object(call.arguments.clone()))
    };
    let deadline = call.deadline_ms.map_or_else(String::new, |ms| {
        let deadline = std::time::Duration::from_millis(ms);
        format!(", deadline {}", humantime::format_duration(deadline))
    });
    let causes = if call.causes.is_empty() {
        String::new()
    } else {
        format!(": {}", call.causes.join(": "))
    };
    let Call {
        operation, attempt, ..
    } = call;
    let line = format!("{operation}{arguments}, attempt {attempt}{deadline}{causes}");
    // Text from a container must not move the cursor or imitate a line of ours.
    let without_controls = |c: char| if c.is_control() { ' ' } else { c };
    line.chars().map(without_controls).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(operation: &str) -> Call {
        Call::new(operation, Map::new())
            .within(Some(std::time::Duration::from_secs(30)))
            .attempt(3)
            .outcome(["no response within 30 s".to_owned()])
    }

    #[test]
    fn call_is_one_line_without_documents() {
        let text = format_call(&call("start-container"));
        assert_eq!(
            text,
            "start-container, attempt 3, deadline 30s: no response within 30 s"
        );
        let given = json!({
            "environment": "shop", "content": "version", "tail": 3, "all": ["a/b:1", "b\nc"], "apiToken": "x",
            "host": "tcp://ann:pw@here", "debug": true,
        });
        let wanted = json!({
            "environment": "shop", "content": "(7 bytes)", "tail": 3, "all": ["a/b:1", "(3 bytes)"], "apiToken": "[redacted]",
            "host": "(17 bytes)", "debug": true,
        });
        assert_eq!(
            Value::Object(sanitize(given.as_object().cloned().unwrap())),
            wanted
        );
        let hostile = call("probe").outcome(["\u{1b}[2J\nhint: rm -rf /".to_owned()]);
        assert!(
            !format_call(&hostile).contains(char::is_control),
            "{}",
            format_call(&hostile)
        );
    }
}

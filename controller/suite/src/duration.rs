//! Times of a suite: `500`, `500ms`, `1.5s`, `2m` or `1h`.

use std::time::Duration;

use serde_json::Value;

use crate::value::{double, shortened};

/// Maximum time, ten years. Longer ones are mistakes.
const MAX_MILLISECONDS: f64 = 3650.0 * 86_400_000.0;

/// Reads a time. `None` for null, an empty text and zero, which mean the default.
///
/// # Errors
/// The value is no time.
pub(crate) fn read_time(value: &Value) -> Result<Option<Duration>, String> {
    let milliseconds = match value {
        Value::Null | Value::Bool(false) => return Ok(None),
        Value::Number(number) => Some(double(number)),
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        Value::String(text) => parse(text.trim()),
        Value::Bool(true) | Value::Array(_) | Value::Object(_) => None,
    };
    let shown = match value {
        Value::String(text) => shortened(text),
        value => shortened(&value.to_string()),
    };
    match milliseconds.map(f64::round) {
        Some(milliseconds) if (0.0..=MAX_MILLISECONDS).contains(&milliseconds) => {
            let time = Duration::from_secs_f64(milliseconds / 1000.0);
            Ok((!time.is_zero()).then_some(time))
        }
        _ => Err(format!("`{shown}` is not a valid time")),
    }
}

/// Hint for an invalid time.
pub(crate) const TIME_HINT: &str = "write a number with one unit, such as `500ms`, `5s`, `2m` or `1h`";

fn parse(text: &str) -> Option<f64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let factor = match unit {
        "" if number.contains('.') => return None,
        "" | "ms" => 1.0,
        "s" => 1_000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        _ => return None,
    };
    let is_decimal = number.starts_with(|c: char| c.is_ascii_digit()) && !number.ends_with('.');
    Some(number.parse::<f64>().ok().filter(|_| is_decimal)? * factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn time_has_one_unit_in_lower_case() {
        let good = [
            (json!("250"), 250),
            (json!(" 1.5s "), 1500),
            (json!("5 ms"), 5),
            (json!("2m"), 120_000),
            (json!("1h"), 3_600_000),
            (json!(300), 300),
        ];
        for (value, milliseconds) in good {
            let wanted = Some(Duration::from_millis(milliseconds));
            assert_eq!(read_time(&value), Ok(wanted), "{value}");
        }
        for absent in [json!(null), json!(""), json!("0"), json!(0), json!("0s")] {
            assert_eq!(read_time(&absent), Ok(None), "{absent}");
        }
        for bad in ["1m30s", "5S", "1d", "-1s", "x", "1.s", ".5s", "1.5", "1e400s"] {
            assert!(read_time(&json!(bad)).is_err(), "{bad}");
        }
        assert!(read_time(&json!(["5s"])).is_err() && read_time(&json!(-1)).is_err());
    }
}

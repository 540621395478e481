//! Comparisons written as text, such as `>=3`, of a number with a limit.

use serde_json::Value;

use crate::check::Check;
use crate::evaluate::{compares, words_of};
use crate::value::{is_number, shown};

/// Checks a number against a text such as `>0`. Texts in another form are ignored.
#[allow(clippy::cast_precision_loss, reason = "counts and sizes stay far below 2^53")]
pub(crate) fn check_count(count: u64, expected: &Value, at: &str) -> Check {
    let found = format!("`{count}`");
    let Value::String(text) = expected else {
        let wanted = format!("to compare with {}, which is not a text", shown(Some(expected)));
        return Check::new(at, false, wanted, found);
    };
    let wanted = format!("to be `{text}`");
    let holds = match split(text) {
        None => true,
        Some((operator, limit)) => {
            let count = count as f64;
            holds(operator, count, limit)
        }
    };
    Check::new(at, holds, wanted, found)
}

/// Checks a number of lines: a text, a number, or a map of comparisons.
#[allow(clippy::cast_precision_loss, reason = "an output has fewer than 2^53 lines")]
pub(crate) fn check_lines(lines: u64, expected: &Value, at: &str) -> Vec<Check> {
    let (count, found) = (lines as f64, format!("`{lines}`"));
    let is_equal = |limit: &Value| is_number(limit, count);
    match expected {
        Value::Number(_) => {
            let wanted = format!("to be {}", shown(Some(expected)));
            vec![Check::new(at, is_equal(expected), wanted, found)]
        }
        Value::Object(map) => {
            let known = map.iter().filter_map(|(operator, limit)| {
                let limit_shown = shown(Some(limit));
                let (holds, wanted) = match operator.as_str() {
                    "eq" | "n" => (is_equal(limit), format!("to be {limit_shown}")),
                    "gt" | "gte" | "lt" | "lte" => (
                        compares(operator, &Value::from(lines), limit),
                        format!("to be {} {limit_shown}", words_of(operator)),
                    ),
                    _ => return None,
                };
                Some(Check::new(at, holds, wanted, found.clone()))
            });
            known.collect()
        }
        _ => vec![check_count(lines, expected, at)],
    }
}

/// Returns false for a text that is ignored because it has another form.
pub(crate) fn is_comparison(text: &str) -> bool {
    split(text).is_some_and(|(operator, _)| OPERATORS.contains(&operator))
}

const OPERATORS: [&str; 7] = [">", "<", ">=", "<=", "=", "==", "!="];

/// Splits a text into its operator and its digits.
fn split(text: &str) -> Option<(&str, f64)> {
    let end = text.find(|c: char| !"><=!".contains(c))?;
    let (operator, digits) = text.split_at(end);
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit());
    (!operator.is_empty() && is_number).then(|| (operator, digits.parse().unwrap_or(f64::INFINITY)))
}

#[allow(clippy::float_cmp, reason = "both are whole numbers")]
fn holds(operator: &str, count: f64, limit: f64) -> bool {
    match operator {
        ">" => count > limit,
        "<" => count < limit,
        ">=" => count >= limit,
        "<=" => count <= limit,
        "=" | "==" => count == limit,
        "!=" => count != limit,
        _ => false,
    }
}

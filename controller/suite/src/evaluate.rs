//! Evaluation of expected values: exact values, nested fields and operators.
//!
//! [`check_fields`] is the outermost level, where every key is the name of a field. Below it, [`check_value`] treats a map
//! with at least one operator as operators.

use std::cmp::Ordering;

use argus_crds::number;
use serde_json::Value;

use crate::check::{Check, Checked, join};
use crate::pattern;
use crate::value::{entries, equal, field, is_number, length, numeric_order, shown, to_text, type_name};

/// Names of all operators.
pub(crate) const OPERATORS: [&str; 16] = [
    "type",
    "exists",
    "in",
    "gt",
    "gte",
    "lt",
    "lte",
    "contains",
    "notContains",
    "matches",
    "startsWith",
    "endsWith",
    "length",
    "every",
    "some",
    "not",
];

/// Checks the fields of a map, or the positions of a list. Other fields are ignored.
pub(crate) fn check_fields(actual: Option<&Value>, expected: &Value, at: &str) -> Checked {
    let mut checks = Vec::new();
    for (key, wanted) in entries(expected)? {
        let found = field(actual, &key);
        checks.extend(check_value(found.as_deref(), &wanted, &join(at, &key))?);
    }
    Ok(checks)
}

/// Checks one value.
pub(crate) fn check_value(actual: Option<&Value>, expected: &Value, at: &str) -> Checked {
    let Value::Object(map) = expected else {
        return Ok(vec![check_equal(actual, expected, at)]);
    };
    if map.is_empty() {
        return Ok(vec![check_equal(actual, expected, at)]);
    }
    if !map.keys().any(|key| is_operator(key)) {
        if !matches!(actual, Some(Value::Object(_) | Value::Array(_))) {
            let check = Check::new(at, false, "to be a map or a list", shown(actual));
            return Ok(vec![check]);
        }
        return check_fields(actual, expected, at);
    }
    let mut checks = Vec::new();
    for (key, wanted) in map {
        if is_operator(key) {
            checks.extend(check_operator(key, actual, wanted, at)?);
        } else {
            let found = field(actual, key);
            checks.extend(check_value(found.as_deref(), wanted, &join(at, key))?);
        }
    }
    Ok(checks)
}

pub(crate) fn is_operator(key: &str) -> bool {
    OPERATORS.contains(&key)
}

fn check_equal(actual: Option<&Value>, expected: &Value, at: &str) -> Check {
    let holds = actual.is_some_and(|actual| equal(actual, expected));
    let wanted = format!("to be {}", shown(Some(expected)));
    Check::new(at, holds, wanted, shown(actual))
}

fn check_operator(operator: &str, actual: Option<&Value>, expected: &Value, at: &str) -> Checked {
    let text = match actual {
        Some(value @ Value::String(text)) if !number::is_number(value) => Some(text.as_str()),
        _ => None,
    };
    let one = |holds: bool, wanted: String| Ok(vec![Check::new(at, holds, wanted, shown(actual))]);
    let value = shown(Some(expected));
    match operator {
        "type" => {
            let found = type_name(actual);
            let holds = expected.as_str() == Some(found);
            let (wanted, found) = (format!("to have the type {value}"), format!("the type `{found}`"));
            Ok(vec![Check::new(at, holds, wanted, found)])
        }
        "exists" => {
            let exists = !matches!(actual, None | Some(Value::Null));
            let wanted = match expected {
                Value::Bool(false) => "not to exist".to_owned(),
                Value::Bool(true) => "to exist".to_owned(),
                _ => format!("to have the existence {value}, which is not a boolean"),
            };
            one(expected.as_bool() == Some(exists), wanted)
        }
        "in" => {
            let Value::Array(allowed) = expected else {
                return Err(format!("the operator `in` at `{at}` needs a list, not {value}"));
            };
            let holds = actual.is_some_and(|actual| allowed.iter().any(|one| equal(actual, one)));
            one(holds, format!("to be one of {value}"))
        }
        "gt" | "gte" | "lt" | "lte" => one(
            actual.is_some_and(|actual| number::is_number(actual) && compares(operator, actual, expected)),
            format!("to be {} {value}", words_of(operator)),
        ),
        "contains" => one(contains(actual, expected), format!("to contain {value}")),
        "notContains" => one(!contains(actual, expected), format!("not to contain {value}")),
        "startsWith" => one(
            text.is_some_and(|text| text.starts_with(&to_text(expected))),
            format!("to start with {value}"),
        ),
        "endsWith" => one(
            text.is_some_and(|text| text.ends_with(&to_text(expected))),
            format!("to end with {value}"),
        ),
        "matches" => {
            let holds = match text {
                Some(text) => pattern::is_match(&to_text(expected), text)?,
                None => false,
            };
            one(holds, format!("to match {value}"))
        }
        "length" => Ok(check_length(actual, expected, at)),
        "every" => check_every(actual, expected, at),
        "some" => check_some(actual, expected, at),
        "not" => {
            let inner = check_value(actual, expected, at)?;
            Ok(inner.into_iter().map(Check::invert).collect())
        }
        // `is_operator` accepts no other name.
        _ => Ok(Vec::new()),
    }
}

/// Returns true if a number compares with a value, which is converted to a number.
pub(crate) fn compares(operator: &str, actual: &Value, expected: &Value) -> bool {
    let ordering = numeric_order(actual, expected);
    match operator {
        "gt" => ordering == Some(Ordering::Greater),
        "gte" => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        "lt" => ordering == Some(Ordering::Less),
        "lte" => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        _ => false,
    }
}

/// Returns the words of a comparison for a message.
pub(crate) fn words_of(operator: &str) -> &'static str {
    match operator {
        "gt" => "greater than",
        "gte" => "at least",
        "lt" => "less than",
        _ => "at most",
    }
}

fn contains(actual: Option<&Value>, expected: &Value) -> bool {
    match (actual, expected) {
        (Some(actual @ Value::String(text)), Value::String(part))
            if !number::is_number(actual) && !number::is_number(expected) =>
        {
            text.contains(part.as_str())
        }
        (Some(Value::Array(items)), expected) => items.iter().any(|item| equal(item, expected)),
        _ => false,
    }
}

#[allow(clippy::cast_precision_loss, reason = "no value in memory has 2^53 parts")]
fn check_length(actual: Option<&Value>, expected: &Value, at: &str) -> Vec<Check> {
    let value = shown(Some(expected));
    let Some(found) = actual.and_then(length) else {
        let wanted = format!("to have the length {value}");
        return vec![Check::new(at, false, wanted, shown(actual))];
    };
    let found = found as f64;
    let shown = format!("the length `{found}`");
    match expected {
        expected if number::is_number(expected) => {
            let wanted = format!("to have the length {value}");
            vec![Check::new(at, is_number(expected, found), wanted, shown)]
        }
        // Unknown comparisons are ignored.
        Value::Object(map) => map
            .iter()
            .filter(|(operator, _)| ["gt", "gte", "lt", "lte"].contains(&operator.as_str()))
            .map(|(operator, limit)| {
                let holds = compares(operator, &Value::from(found), limit);
                let limit = crate::value::shown(Some(limit));
                let wanted = format!("to have a length {} {limit}", words_of(operator));
                Check::new(at, holds, wanted, shown.as_str())
            })
            .collect(),
        _ => {
            let wanted = format!("to have the length {value}, which is not a number");
            vec![Check::new(at, false, wanted, shown)]
        }
    }
}

/// Checks one item of a list. Conditions on a map item name its fields.
fn check_item(item: &Value, condition: &Value, at: &str) -> Checked {
    match item {
        Value::Object(_) => check_fields(Some(item), condition, at),
        _ => check_value(Some(item), condition, at),
    }
}

fn check_every(actual: Option<&Value>, condition: &Value, at: &str) -> Checked {
    let wanted = "to have only items that match";
    let Some(Value::Array(items)) = actual else {
        return Ok(vec![Check::new(at, false, wanted, shown(actual))]);
    };
    let (mut failed, mut first) = (0_usize, None);
    for (index, item) in items.iter().enumerate() {
        let checks = check_item(item, condition, &join(at, &index.to_string()))?;
        if let Some(failure) = checks.into_iter().find_map(Check::failure) {
            failed += 1;
            first.get_or_insert(failure.message);
        }
    }
    let found = match first {
        None => format!("{} items that match", items.len()),
        Some(message) => format!("{failed} of {} items that do not; {message}", items.len()),
    };
    Ok(vec![Check::new(at, failed == 0, wanted, found)])
}

fn check_some(actual: Option<&Value>, condition: &Value, at: &str) -> Checked {
    let wanted = format!("to have an item that matches {}", shown(Some(condition)));
    let Some(Value::Array(items)) = actual else {
        return Ok(vec![Check::new(at, false, wanted, shown(actual))]);
    };
    for (index, item) in items.iter().enumerate() {
        let checks = check_item(item, condition, &join(at, &index.to_string()))?;
        if checks.iter().all(|check| check.holds) {
            let found = format!("item {index}, which matches");
            return Ok(vec![Check::new(at, true, wanted, found)]);
        }
    }
    Ok(vec![Check::new(at, false, wanted, shown(actual))])
}

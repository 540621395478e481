//! Values with the rules of JavaScript, which the format of suites inherits: equality, conversion, length, fields.

use std::borrow::Cow;
use std::cmp::Ordering;

use argus_crds::number::{self, Keep};
use serde_json::{Number, Value};

/// Maximum length of a value in a message, in characters.
const MAX_SHOWN: usize = 120;

/// Returns a field of a map, or a position or the `length` of a list. `None` means missing.
pub(crate) fn field<'a>(value: Option<&'a Value>, key: &str) -> Option<Cow<'a, Value>> {
    match value? {
        Value::Object(map) => map.get(key).map(Cow::Borrowed),
        Value::Array(items) if key == "length" => Some(Cow::Owned(Value::from(items.len()))),
        Value::Array(items) => {
            let index: usize = key.parse().ok()?;
            // `01` and `+1` are no positions.
            (index.to_string() == key).then(|| items.get(index).map(Cow::Borrowed))?
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Name of a field, and its expected value.
pub(crate) type Entry<'a> = (Cow<'a, str>, Cow<'a, Value>);

/// Returns the entries of an expectation: those of a map, or the positions of a list or text.
///
/// # Errors
/// The value is null.
pub(crate) fn entries(expected: &Value) -> Result<Vec<Entry<'_>>, String> {
    let position = |index: usize| Cow::Owned(index.to_string());
    Ok(match expected {
        Value::Null => return Err("an expectation is null".to_owned()),
        Value::Bool(_) | Value::Number(_) => Vec::new(),
        number if number::is_number(number) => Vec::new(),
        Value::String(text) => {
            let letters = text.chars().enumerate();
            letters
                .map(|(index, letter)| (position(index), Cow::Owned(Value::String(letter.to_string()))))
                .collect()
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items
                .map(|(index, item)| (position(index), Cow::Borrowed(item)))
                .collect()
        }
        Value::Object(map) => {
            let entries = map.iter();
            entries
                .map(|(key, value)| (Cow::Borrowed(key.as_str()), Cow::Borrowed(value)))
                .collect()
        }
    })
}

/// Compares deeply and without coercion. A list and a map are equal if their keys and values are.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (left, right) if number::is_number(left) && number::is_number(right) => {
            number::compare(left, right) == Some(Ordering::Equal)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
        }
        (Value::Array(items), Value::Object(map)) | (Value::Object(map), Value::Array(items)) => {
            items.len() == map.len()
                && items.iter().enumerate().all(|(index, item)| {
                    map.get(&index.to_string())
                        .is_some_and(|other| equal(item, other))
                })
        }
        _ => left == right,
    }
}

/// Returns true for exactly this number.
pub(crate) fn is_number(value: &Value, number: f64) -> bool {
    let found = number::nearest(value).unwrap_or(f64::NAN);
    found.partial_cmp(&number) == Some(Ordering::Equal)
}

/// Compares two values as numbers, to which texts are converted. Digits that a double cannot hold count.
pub(crate) fn numeric_order(left: &Value, right: &Value) -> Option<Ordering> {
    let exact = |value: &Value| match value {
        Value::String(text) if !number::is_number(value) => number::from_text(text.trim(), Keep::Value),
        value => number::is_number(value).then(|| value.clone()),
    };
    if let (Some(left), Some(right)) = (exact(left), exact(right)) {
        return number::compare(&left, &right);
    }
    to_number(left).partial_cmp(&to_number(right))
}

/// Returns a number as a double.
pub(crate) fn double(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

/// Returns the name of a value's type, as the operator `type` compares it.
pub(crate) fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "undefined",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "boolean",
        Some(value) if number::is_number(value) => "number",
        Some(Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
    }
}

/// Returns false for null, `false`, `0` and the empty string.
pub(crate) fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => double(number) != 0.0,
        // A number that only its digits describe is not zero.
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Converts a value to a number. The result is NaN for values that are not numbers.
pub(crate) fn to_number(value: &Value) -> f64 {
    match value {
        Value::Null => 0.0,
        Value::Bool(value) => f64::from(*value),
        Value::Number(number) => double(number),
        Value::String(text) => number::nearest(value).unwrap_or_else(|| text_to_number(text)),
        Value::Array(_) => text_to_number(&to_text(value)),
        Value::Object(_) => f64::NAN,
    }
}

fn text_to_number(text: &str) -> f64 {
    let text = text.trim();
    match text {
        "" => return 0.0,
        "Infinity" | "+Infinity" => return f64::INFINITY,
        "-Infinity" => return f64::NEG_INFINITY,
        _ => {}
    }
    let is_decimal = text.contains(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    if is_decimal {
        return text.parse().unwrap_or(f64::NAN);
    }
    let based = |prefix: [&str; 2], radix| {
        let digits = prefix.iter().find_map(|prefix| text.strip_prefix(*prefix))?;
        u32::from_str_radix(digits, radix).ok()
    };
    based(["0x", "0X"], 16)
        .or_else(|| based(["0o", "0O"], 8))
        .or_else(|| based(["0b", "0B"], 2))
        .map_or(f64::NAN, f64::from)
}

/// Converts a value to text, as a saved value and as a template show it.
pub(crate) fn to_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number_to_text(number),
        Value::String(text) => number::spelled(value).unwrap_or(text).to_owned(),
        Value::Array(items) => {
            let shown = |item: &Value| match item {
                Value::Null => String::new(),
                item => to_text(item),
            };
            items.iter().map(shown).collect::<Vec<_>>().join(",")
        }
        Value::Object(_) => "[object Object]".to_owned(),
    }
}

fn number_to_text(number: &Number) -> String {
    let value = double(number);
    if number.is_f64() && value.fract() == 0.0 && value.abs() < 1e21 {
        // `1.0` is the same number as `1`. The sum removes the sign of zero.
        return format!("{:.0}", value + 0.0);
    }
    number.to_string()
}

/// Returns the number of UTF-16 units of a text, items of a list, or keys of a map.
pub(crate) fn length(value: &Value) -> Option<usize> {
    match value {
        number if number::is_number(number) => None,
        Value::String(text) => Some(text.encode_utf16().count()),
        Value::Array(items) => Some(items.len()),
        Value::Object(map) => Some(map.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Returns the value below a path of keys and positions separated by dots.
pub(crate) fn at_path<'a>(value: &'a Value, path: &str) -> Option<Cow<'a, Value>> {
    let mut found = Cow::Borrowed(value);
    for key in path.split('.') {
        found = match found {
            Cow::Borrowed(value) => field(Some(value), key)?,
            Cow::Owned(value) => Cow::Owned(field(Some(&value), key)?.into_owned()),
        };
    }
    Some(found)
}

/// Returns the items of a list, or a single value.
pub(crate) fn list_of(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        value => std::slice::from_ref(value),
    }
}

/// Formats a value for a message, in backticks and shortened.
pub(crate) fn shown(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(value) => format!("`{}`", shortened(&number::to_json(value))),
    }
}

/// Shortens a text for a message, and replaces its control characters.
pub(crate) fn shortened(text: &str) -> String {
    let safe = |c: char| if c.is_control() { ' ' } else { c };
    let mut short: String = text.chars().take(MAX_SHOWN).map(safe).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        short.push('…');
    }
    short
}

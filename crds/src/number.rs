//! Numbers that keep their digits: JSON and YAML numbers that a double cannot hold.
//!
//! [`Value`] holds integers of 64 bits and doubles. Any other number becomes a text of this module, which only its functions
//! create and read. The feature `arbitrary_precision` of `serde_json` would change all types that are flattened or untagged.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Number, Value};

/// First character of a number that is kept as text. Unicode reserves it for use within a program.
const MARK: char = '\u{10fffe}';
/// Maximum number of digits that the spelling of a double needs.
const DOUBLE_DIGITS: usize = 17;

/// The part of a number that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Its spelling: `2.50` stays `2.50`.
    Spelling,
    /// Its value: `2.50` becomes `2.5`.
    Value,
}

/// Reads JSON. Half of a surrogate pair, which JavaScript writes for a text that was cut within a character, becomes U+FFFD.
///
/// # Errors
/// The text is not valid JSON.
///
/// ```rust
/// use argus_crds::number::{Keep, parse, to_json};
///
/// let wide = r#"{"id":123456789012345678901234567890,"price":2.50}"#;
/// assert_eq!(to_json(&parse(wide, Keep::Spelling).unwrap()), wide);
/// ```
pub fn parse(text: &str, keep: Keep) -> serde_json::Result<Value> {
    let whole = without_lone_surrogates(text);
    let Some(marked) = marked(&whole, keep) else {
        return serde_json::from_str(&whole);
    };
    serde_json::from_str(&marked).map_err(|error| {
        // The error of the original text has the right position.
        serde_json::from_str::<Value>(&whole).err().unwrap_or(error)
    })
}

/// Replaces each half of a surrogate pair that stands alone, by an escape of the same length.
fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let (mut whole, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, escaped)) = rest.split_once('\\') {
        whole.push_str(before);
        let second = escaped.get(5..).and_then(|after| after.strip_prefix('\\'));
        let (written, length) = match (code_unit(escaped), second.and_then(code_unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (&escaped[..11], 11),
            (Some(0xD800..=0xDFFF), _) => ("ufffd", 5),
            // The escaped character, which can be a backslash.
            (_, _) => {
                let length = escaped.chars().next().map_or(0, char::len_utf8);
                (&escaped[..length], length)
            }
        };
        whole.push('\\');
        whole.push_str(written);
        rest = &escaped[length..];
    }
    whole.push_str(rest);
    Cow::Owned(whole)
}

/// Value of the escape `uXXXX` at the start of a text.
fn code_unit(escaped: &str) -> Option<u16> {
    let digits = escaped.strip_prefix('u')?.get(..4)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(digits, 16).ok())?
}

/// Returns the value of a JSON number; `None` for any other text.
pub fn from_token(token: &str, keep: Keep) -> Option<Value> {
    let exact = decimal(token)?;
    if let Ok(number) = serde_json::from_str::<Number>(token) {
        let written = number.to_string();
        let is_kept = match keep {
            Keep::Spelling => written == token,
            Keep::Value => decimal(&written).is_some_and(|found| found == exact),
        };
        if is_kept {
            return Some(Value::Number(number));
        }
    }
    Some(Value::String(format!("{MARK}{token}")))
}

/// Returns the value of a number as YAML and JavaScript write it: `+1`, `.5` and `007` too.
pub fn from_text(text: &str, keep: Keep) -> Option<Value> {
    from_token(&token_of(text)?, keep)
}

/// Returns the digits of a number that is kept as text.
pub fn spelled(value: &Value) -> Option<&str> {
    let token = value.as_str()?.strip_prefix(MARK)?;
    decimal(token).map(|_| token)
}

/// Returns true for a number, however it is kept.
pub fn is_number(value: &Value) -> bool {
    value.is_number() || spelled(value).is_some()
}

/// Returns the double that is nearest to a number; `None` for other values.
pub fn nearest(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        value => spelled(value)?.parse().ok(),
    }
}

/// Compares two numbers; `None` if one of the values is no number. Integers of any size compare exactly. Two other numbers of at most
/// 17 digits are equal if their doubles are, because `0.1` and `0.10000000000000001` are spellings of the same double.
pub fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    let (left_text, right_text) = (digits_of(left)?, digits_of(right)?);
    let (left_number, right_number) = (decimal(&left_text)?, decimal(&right_text)?);
    let is_short = |number: &Decimal| number.digits.len() <= DOUBLE_DIGITS;
    let is_integer = left_number.is_integer() && right_number.is_integer();
    if !is_integer
        && is_short(&left_number)
        && is_short(&right_number)
        && nearest(left)?.partial_cmp(&nearest(right)?) == Some(Ordering::Equal)
    {
        return Some(Ordering::Equal);
    }
    Some(left_number.order(&right_number))
}

/// Writes a value as JSON, with the digits of its numbers.
pub fn to_json(value: &Value) -> String {
    if !has_spelled(value) {
        return value.to_string();
    }
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(to_json).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(map) => {
            let entry =
                |(key, value): (&String, &Value)| format!("{}:{}", Value::from(key.as_str()), to_json(value));
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(","))
        }
        value => spelled(value).map_or_else(|| value.to_string(), str::to_owned),
    }
}

/// Returns a value whose numbers are all doubles or integers of 64 bits, for libraries that know no others.
pub fn rounded(value: &Value) -> Cow<'_, Value> {
    if has_spelled(value) {
        Cow::Owned(round(value))
    } else {
        Cow::Borrowed(value)
    }
}

fn round(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(round).collect(),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), round(value)));
            Value::Object(entries.collect())
        }
        value => match spelled(value) {
            Some(token) => {
                let number = token.parse::<f64>().unwrap_or_default();
                Value::from(number.clamp(f64::MIN, f64::MAX))
            }
            None => value.clone(),
        },
    }
}

fn has_spelled(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_spelled),
        Value::Object(map) => map.values().any(has_spelled),
        value => spelled(value).is_some(),
    }
}

fn digits_of(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        value => spelled(value).map(Cow::Borrowed),
    }
}

/// Replaces the numbers of a JSON text that need it by marked texts; `None` if none does.
fn marked(text: &str, keep: Keep) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut result, mut copied, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                // A text must not look like a kept number.
                if let Some(length) = mark_length(&text[at + 1..]) {
                    result.push_str(&text[copied..=at]);
                    result.push(char::REPLACEMENT_CHARACTER);
                    copied = at + 1 + length;
                }
                at = end_of_string(bytes, at);
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                let length = bytes[at..].iter().take_while(|byte| is_part(byte)).count();
                let token = &text[at..at + length];
                if let Some(Value::String(kept)) = from_token(token, keep) {
                    result.push_str(&text[copied..at]);
                    result.extend(["\"", &kept, "\""]);
                    copied = at + length;
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    (copied > 0).then(|| result + &text[copied..])
}

/// Length of the mark at the start of the content of a JSON string, in bytes.
fn mark_length(content: &str) -> Option<usize> {
    const ESCAPED: &str = "\\udbff\\udffe";
    let start = content.get(..ESCAPED.len());
    if start.is_some_and(|start| start.eq_ignore_ascii_case(ESCAPED)) {
        return Some(ESCAPED.len());
    }
    content.starts_with(MARK).then(|| MARK.len_utf8())
}

/// Returns the position after the string that begins at a position.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the JSON number of a text, which can have a plus sign, leading zeros, and no digits on one side of its point.
fn token_of(text: &str) -> Option<String> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    let token = format!("{sign}{whole}{point}{fraction}{exponent}");
    decimal(&token).map(|_| token)
}

/// Number in the form 0.DIGITS × 10^POINT, without zeros at either end of the digits. Zero has no digits.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    point: i64,
}

impl Decimal {
    fn is_integer(&self) -> bool {
        i64::try_from(self.digits.len()).is_ok_and(|length| self.point >= length)
    }

    fn order(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.digits.is_empty(), number.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let signs = sign(self).cmp(&sign(other));
        if signs.is_ne() || self.digits.is_empty() {
            return signs;
        }
        let sizes = self
            .point
            .cmp(&other.point)
            .then_with(|| self.digits.cmp(&other.digits));
        if self.is_negative { sizes.reverse() } else { sizes }
    }
}

/// Reads a JSON number; `None` for any other text.
fn decimal(token: &str) -> Option<Decimal> {
    let (is_negative, rest) = match token.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, token),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent_of(exponent)?),
        None => (rest, 0),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (mantissa, ""),
    };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = !whole.is_empty() && is_number(whole) && (whole == "0" || !whole.starts_with('0'));
    if !is_whole || !is_number(fraction) {
        return None;
    }
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let leading = all.len() - digits.len();
    let digits = digits.trim_end_matches('0').to_owned();
    if digits.is_empty() {
        return Some(Decimal {
            is_negative: false,
            digits,
            point: 0,
        });
    }
    let point = i64::try_from(whole.len()).ok()? - i64::try_from(leading).ok()?;
    Some(Decimal {
        is_negative,
        digits,
        point: point.saturating_add(exponent),
    })
}

fn exponent_of(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse::<i64>().unwrap_or(i64::MAX / 2);
    Some(if text.starts_with('-') { -size } else { size })
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;

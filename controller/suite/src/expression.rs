//! Expressions of `expect.expr`, such as `status == 200 && body.items.length > 0`.
//!
//! An expression is split at `&&` first, so `||` binds tighter. It has no parentheses and no arithmetic.

use std::cmp::Ordering;

use argus_crds::number::{self, Keep};
use serde_json::{Map, Value};

use crate::check::Check;
use crate::value::{at_path, equal, length, numeric_order, shortened, shown, to_number};

/// Values that an expression can use.
pub(crate) struct Context<'a> {
    pub(crate) status: u16,
    /// Headers by lower-case name.
    pub(crate) headers: &'a Map<String, Value>,
    pub(crate) body: &'a Value,
}

const OPERATORS: [&str; 6] = ["==", "!=", ">=", "<=", ">", "<"];

/// Checks an expression. Each part between `&&` gives one check.
pub(crate) fn check_expression(expression: &str, context: &Context<'_>) -> Vec<Check> {
    let parts = expression.split("&&");
    parts.map(|part| check_part(part.trim(), context)).collect()
}

fn check_part(part: &str, context: &Context<'_>) -> Check {
    let wanted = format!("to satisfy `{}`", shortened(part));
    let mut found = Vec::new();
    for alternative in part.split("||") {
        match compare(alternative.trim(), context) {
            Ok((true, _)) => return Check::new("expr", true, wanted, ""),
            Ok((false, value)) => found.push(value),
            Err(problem) => found.push(problem),
        }
    }
    Check::new("expr", false, wanted, found.join(", "))
}

/// Evaluates one comparison. Returns its result and the value of its left side.
fn compare(text: &str, context: &Context<'_>) -> Result<(bool, String), String> {
    let invalid = || format!("the invalid expression `{}`", shortened(text));
    let (at, operator) = text
        .char_indices()
        .find_map(|(at, _)| {
            let operator = OPERATORS
                .iter()
                .find(|operator| text[at..].starts_with(**operator))?;
            Some((at, *operator))
        })
        .ok_or_else(invalid)?;
    let (left, right) = (text[..at].trim(), text[at + operator.len()..].trim());
    if left.is_empty() || right.is_empty() {
        return Err(invalid());
    }
    let left = value_of(left, context);
    let right = literal(right).map_or_else(|| value_of(right, context), Some);
    let holds = match operator {
        "==" => is_same(left.as_ref(), right.as_ref()),
        "!=" => !is_same(left.as_ref(), right.as_ref()),
        _ => {
            let ordering = order(left.as_ref(), right.as_ref());
            match operator {
                ">" => ordering == Some(Ordering::Greater),
                "<" => ordering == Some(Ordering::Less),
                ">=" => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
                _ => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
            }
        }
    };
    Ok((holds, shown(left.as_ref())))
}

/// Compares strictly. Maps and lists are never the same as others.
fn is_same(left: Option<&Value>, right: Option<&Value>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(Value::Array(_) | Value::Object(_)), _) => false,
        (Some(left), Some(right)) => equal(left, right),
        _ => false,
    }
}

fn order(left: Option<&Value>, right: Option<&Value>) -> Option<Ordering> {
    match (left, right) {
        (Some(one @ Value::String(left)), Some(other @ Value::String(right)))
            if !number::is_number(one) && !number::is_number(other) =>
        {
            Some(left.encode_utf16().cmp(right.encode_utf16()))
        }
        (left, right) => numeric_order(left?, right?),
    }
}

fn literal(text: &str) -> Option<Value> {
    match text {
        "true" => return Some(Value::Bool(true)),
        "false" => return Some(Value::Bool(false)),
        "null" => return Some(Value::Null),
        _ => {}
    }
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            return Some(Value::String(inner.to_owned()));
        }
    }
    if let Some(number) = number::from_text(text, Keep::Value) {
        return Some(number);
    }
    let number = to_number(&Value::String(text.to_owned()));
    serde_json::Number::from_f64(number).map(Value::Number)
}

fn value_of(path: &str, context: &Context<'_>) -> Option<Value> {
    if path == "status" {
        return Some(Value::from(context.status));
    }
    if let Some(name) = path.strip_prefix("headers.") {
        return context.headers.get(name).cloned();
    }
    if path == "body" {
        return Some(context.body.clone());
    }
    let path = path.strip_prefix("body.").unwrap_or(path);
    let found = at_path(context.body, path).map(std::borrow::Cow::into_owned);
    found.or_else(|| {
        let value = match path.strip_suffix(".length") {
            Some(path) => at_path(context.body, path)?,
            None if path == "length" => std::borrow::Cow::Borrowed(context.body),
            None => return None,
        };
        length(&value).map(Value::from)
    })
}

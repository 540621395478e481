//! Conditions of a route (`when`): headers, query parameters and fields of the body.

use std::cmp::Ordering;

use argus_crds::{MockWhen, number};
use serde_json::Value;

use crate::request::{Content, Request};

/// Checks all conditions, or returns a description of the first one that does not hold.
pub(crate) fn holds(when: &MockWhen, request: &Request) -> Result<(), String> {
    for (name, wanted) in &when.headers {
        let named = request
            .headers
            .iter()
            .filter(|(found, _)| found.eq_ignore_ascii_case(name));
        let found: Vec<&str> = named.map(|(_, value)| value.as_str()).collect();
        check_any(&format!("header `{name}`"), wanted, &found)?;
    }
    for (name, wanted) in &when.query {
        let found: Vec<&str> = request.query_values(name).collect();
        check_any(&format!("query parameter `{name}`"), wanted, &found)?;
    }
    if when.body.is_empty() {
        return Ok(());
    }
    let Some(body) = request.value() else {
        return Err("the request has no readable body".to_owned());
    };
    let texts = matches!(request.content(), Content::Form(_));
    for (path, wanted) in &when.body {
        match value_at(&body, path) {
            None => return Err(format!("the body has no `{path}`")),
            Some(found) => {
                check_contains(wanted, found, texts, path).map_err(|why| format!("in the body {why}"))?;
            }
        }
    }
    Ok(())
}

/// Returns the number of single conditions. A route with more conditions is more specific.
pub(crate) fn weight(when: &MockWhen) -> usize {
    when.headers.len() + when.query.len() + when.body.values().map(leaves).sum::<usize>()
}

fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.values().map(leaves).sum::<usize>().max(1),
        Value::Array(items) => items.iter().map(leaves).sum::<usize>().max(1),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

fn check_any(what: &str, wanted: &str, found: &[&str]) -> Result<(), String> {
    if found.contains(&wanted) {
        Ok(())
    } else if found.is_empty() {
        Err(format!("{what} is missing"))
    } else {
        Err(format!("{what} is `{}`, not `{wanted}`", found.join("`, `")))
    }
}

/// Checks that a value contains all wanted parts. Further fields are ignored; lists must have the same length.
fn check_contains(wanted: &Value, found: &Value, texts: bool, at: &str) -> Result<(), String> {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted.iter().try_for_each(|(key, wanted)| {
            let at = format!("{at}.{key}");
            match found.get(key) {
                Some(found) => check_contains(wanted, found, texts, &at),
                None => Err(format!("`{at}` is missing")),
            }
        }),
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            let mut pairs = wanted.iter().zip(found).enumerate();
            pairs.try_for_each(|(index, (wanted, found))| {
                check_contains(wanted, found, texts, &format!("{at}.{index}"))
            })
        }
        _ if same(wanted, found, texts) => Ok(()),
        _ => Err(format!("`{at}` is {}, not {}", brief(found), brief(wanted))),
    }
}

fn same(wanted: &Value, found: &Value, texts: bool) -> bool {
    match (wanted, found) {
        // A form contains only strings.
        (_, Value::String(found)) if texts && (number::is_number(wanted) || wanted.is_boolean()) => {
            let written = number::to_json(wanted);
            written == *found
        }
        _ if number::is_number(wanted) => number::compare(wanted, found) == Some(Ordering::Equal),
        _ => wanted == found,
    }
}

/// Shortens a value for a message.
pub(crate) fn brief(value: &Value) -> String {
    let text = number::to_json(value);
    if text.chars().count() <= 60 {
        return format!("`{text}`");
    }
    format!("`{}…`", text.chars().take(59).collect::<String>())
}

/// Returns the value at a path such as `user.name`, `items.0.id` or `items[0].id`. Keys can contain dots.
pub(crate) fn value_at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let plain = path.replace('[', ".").replace(']', "");
    step(value, plain.trim_start_matches('.'))
}

fn step<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let child = |key: &str| match value {
        Value::Object(map) => map.get(key),
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    if path.is_empty() {
        return Some(value);
    }
    if let Some(found) = child(path) {
        return Some(found);
    }
    let dots = path.match_indices('.').map(|(at, _)| at);
    let mut found = dots.filter_map(|at| step(child(&path[..at])?, &path[at + 1..]));
    found.next()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn check(when: &Value, kind: &str, body: &str, wanted: Result<(), &str>) {
        let when: MockWhen = serde_json::from_value(when.clone()).unwrap();
        let headers = vec![
            ("Content-Type".to_owned(), kind.to_owned()),
            ("X-Tenant".to_owned(), "acme".to_owned()),
        ];
        let request = Request::new("POST", "/x?page=2&page=3", headers, Bytes::from(body.to_owned()));
        assert_eq!(
            holds(&when, &request),
            wanted.map_err(str::to_owned),
            "{when:?} on {body}"
        );
    }

    #[test]
    fn condition_holds_or_names_the_difference() {
        let json = "application/json";
        let body = r#"{"user":{"name":"ann","age":3,"tags":["a","b"]},"a.b":1,"n":null}"#;
        let cases = [
            (json!({ "headers": { "x-TENANT": "acme" } }), Ok(())),
            (
                json!({ "headers": { "x-tenant": "other" } }),
                Err("header `x-tenant` is `acme`, not `other`"),
            ),
            (
                json!({ "headers": { "x-none": "1" } }),
                Err("header `x-none` is missing"),
            ),
            (json!({ "query": { "page": "3" } }), Ok(())),
            (
                json!({ "query": { "page": 1 } }),
                Err("query parameter `page` is `2`, `3`, not `1`"),
            ),
            (json!({ "body": { "user": { "name": "ann" } } }), Ok(())),
            (json!({ "body": { "user.name": "ann", "user.age": 3.0 } }), Ok(())),
            (
                json!({ "body": { "user.tags.1": "b", "user.tags[0]": "a" } }),
                Ok(()),
            ),
            (json!({ "body": { "a.b": 1, "n": null } }), Ok(())),
            (
                json!({ "body": { "user": { "name": "bob" } } }),
                Err("in the body `user.name` is `\"ann\"`, not `\"bob\"`"),
            ),
            (
                json!({ "body": { "user": { "x": 1 } } }),
                Err("in the body `user.x` is missing"),
            ),
            (
                json!({ "body": { "user.x": 1 } }),
                Err("the body has no `user.x`"),
            ),
            (
                json!({ "body": { "user.tags": ["a"] } }),
                Err("in the body `user.tags` is `[\"a\",\"b\"]`, not `[\"a\"]`"),
            ),
            (
                json!({ "body": { "user.age": "3" } }),
                Err("in the body `user.age` is `3`, not `\"3\"`"),
            ),
        ];
        for (when, wanted) in cases {
            check(&when, json, body, wanted);
        }
        let form = "application/x-www-form-urlencoded";
        check(
            &json!({ "body": { "age": 3, "ok": true } }),
            form,
            "age=3&ok=true",
            Ok(()),
        );
        check(
            &json!({ "body": { "age": 3 } }),
            json,
            "",
            Err("the request has no readable body"),
        );
    }
}

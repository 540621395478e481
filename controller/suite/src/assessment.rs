//! Assertions of a request on its response.

use std::time::Duration;

use argus_crds::number;
use serde::Serialize;
use serde_json::Value;

use crate::check::{Check, Checked, Failure, failures};
use crate::evaluate::{check_fields, check_value, compares, is_operator, words_of};
use crate::expression::{Context, check_expression};
use crate::request::Request;
use crate::response::Response;
use crate::value::{at_path, double, entries, is_number, is_truthy, list_of, shown, to_text};

/// Result of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Assessment {
    /// Conditions that do not hold.
    pub failures: Vec<Failure>,
    /// Values to save, by name. They are saved after a failure as well.
    pub saved: Vec<(String, String)>,
}

impl Request {
    /// Checks a response, and takes the values to save from it.
    pub fn assess(&self, response: &Response) -> Assessment {
        let body = match response.value() {
            Ok(body) => body,
            Err(failure) => {
                return Assessment {
                    failures: vec![failure],
                    saved: Vec::new(),
                };
            }
        };
        match self.check(response, &body) {
            Ok(checks) => Assessment {
                failures: failures(checks),
                saved: self.saved(&body),
            },
            Err(problem) => Assessment {
                failures: vec![Failure::new("expect", problem)],
                saved: Vec::new(),
            },
        }
    }

    fn saved(&self, body: &Value) -> Vec<(String, String)> {
        if !matches!(body, Value::Object(_) | Value::Array(_)) {
            return Vec::new();
        }
        let value = |(name, path): &(String, String)| Some((name.clone(), to_text(&*at_path(body, path)?)));
        self.save.iter().filter_map(value).collect()
    }

    fn check(&self, response: &Response, body: &Value) -> Checked {
        let Some(expect) = &self.expect else {
            return Ok(Vec::new());
        };
        let mut checks = Vec::new();
        if let Some(limit) = expect.get("responseTime") {
            checks.extend(check_time(response.elapsed, limit));
        }
        if let Some(status) = expect.get("status") {
            checks.push(check_status(response.status, status));
        }
        let headers = response.headers_by_name();
        if let Some(wanted) = expect.get("headers").filter(|wanted| is_truthy(wanted)) {
            for (name, wanted) in entries(wanted)? {
                let name = name.to_lowercase();
                let at = format!("headers.{name}");
                checks.extend(check_value(headers.get(&name), &wanted, &at)?);
            }
        }
        if let Some(wanted) = expect.get("body").filter(|wanted| is_truthy(wanted)) {
            checks.extend(check_body(body, wanted)?);
        }
        if let Some(wanted) = expect.get("expr").filter(|wanted| is_truthy(wanted)) {
            let context = Context {
                status: response.status,
                headers: &headers,
                body,
            };
            for expression in list_of(wanted) {
                checks.extend(check_expression(&to_text(expression), &context));
            }
        }
        if let Some(wanted) = expect.get("all").filter(|wanted| is_truthy(wanted)) {
            for part in list(wanted, "all")? {
                checks.extend(check_body(body, part)?);
            }
        }
        if let Some(wanted) = expect.get("any").filter(|wanted| is_truthy(wanted)) {
            checks.push(check_any(body, list(wanted, "any")?)?);
        }
        Ok(checks)
    }
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a [Value], String> {
    value
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| format!("`{key}` needs a list, not {}", shown(Some(value))))
}

/// Checks the fields of a body. A body that is a text is checked as a whole: by equality, or by operators such as `contains`.
fn check_body(body: &Value, wanted: &Value) -> Checked {
    let is_whole = match wanted {
        Value::String(text) => !text.is_empty() && !number::is_number(wanted),
        Value::Object(map) => map.keys().any(|key| is_operator(key)),
        _ => false,
    };
    if is_whole && body.is_string() && !number::is_number(body) {
        return check_value(Some(body), wanted, "body");
    }
    check_fields(Some(body), wanted, "body")
}

fn check_any(body: &Value, parts: &[Value]) -> Result<Check, String> {
    let mut found = Vec::new();
    for part in parts {
        let failed = failures(check_body(body, part)?);
        match failed.into_iter().next() {
            None => return Ok(Check::new("body", true, "to satisfy `any`", "")),
            Some(failure) => found.push(failure.message),
        }
    }
    let wanted = format!("to satisfy one of the {} maps of `any`", parts.len());
    let found = format!("none: {}", found.join("; "));
    Ok(Check::new("body", false, wanted, found))
}

fn check_status(status: u16, expected: &Value) -> Check {
    let (holds, wanted) = match expected {
        Value::Array(allowed) => (
            allowed.iter().any(|one| is_number(one, f64::from(status))),
            format!("to be one of {}", shown(Some(expected))),
        ),
        expected => (
            is_number(expected, f64::from(status)),
            format!("to be {}", shown(Some(expected))),
        ),
    };
    Check::new("status", holds, wanted, format!("`{status}`"))
}

fn check_time(elapsed: Duration, limit: &Value) -> Vec<Check> {
    let milliseconds = (elapsed.as_secs_f64() * 1000.0).floor();
    let found = format!("`{milliseconds}` ms");
    let at = "responseTime";
    match limit {
        Value::Number(number) => {
            let wanted = format!("to be at most `{number}` ms");
            vec![Check::new(at, milliseconds <= double(number), wanted, found)]
        }
        Value::Object(map) => {
            let check = |(operator, limit): (&String, &Value)| {
                let wanted = if ["gt", "gte", "lt", "lte"].contains(&operator.as_str()) {
                    format!("to be {} {} ms", words_of(operator), shown(Some(limit)))
                } else {
                    format!("to satisfy the unknown comparison `{operator}`")
                };
                let holds = compares(operator, &Value::from(milliseconds), limit);
                Check::new(at, holds, wanted, found.as_str())
            };
            map.iter().map(check).collect()
        }
        _ => Vec::new(),
    }
}

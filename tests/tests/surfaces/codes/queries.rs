//! The same query on each surface.

use argus_tests::Controller;
use argus_tests::fixture::LIMIT;
use argus_tests::http::{call, request};
use serde_json::{Value, json};

/// Members that RFC 9457 adds to an error over HTTP.
const PROBLEM: [&str; 4] = ["type", "title", "status", "detail"];

/// The CLI's JSON: from stdout, or an error from stderr.
pub(crate) fn cli(argus: &Controller<'_>, words: &[&str]) -> Value {
    let text = argus.cli(&[words, &["-o", "json"]].concat());
    let out = String::from_utf8_lossy(&text.stdout).into_owned();
    let err = String::from_utf8_lossy(&text.stderr).into_owned();
    // Notes precede the error.
    let output = if out.trim().is_empty() { &err } else { &out };
    let output = output.find('{').map_or("", |at| &output[at..]);
    serde_json::from_str(output).unwrap_or_else(|why| panic!("argus {words:?}: {why}: {out}{err}"))
}

/// The HTTP response, without the members that HTTP adds to an error.
pub(crate) fn http(argus: &Controller<'_>, path: &str) -> Value {
    sent(argus, "GET", path, "")
}

/// The same with any method and a body.
pub(crate) fn sent(argus: &Controller<'_>, method: &str, path: &str, body: &str) -> Value {
    let socket = argus.state.join("private/argus.sock");
    let answer =
        request(&socket, method, path, "application/json", body.as_bytes(), LIMIT).expect("a response");
    let mut output = answer.json();
    let fields = output
        .as_object_mut()
        .unwrap_or_else(|| panic!("{path}: {answer:?}"));
    if !answer.ok() {
        for name in PROBLEM {
            fields.remove(name);
        }
    }
    output
}

/// The structured content of a tool's response.
pub(crate) fn mcp(argus: &Controller<'_>, tool: &str, arguments: &Value) -> Value {
    call(&argus.state.join("private/argus.sock"), tool, arguments, LIMIT)
}

/// The status of an environment, from every surface.
pub(crate) fn status(argus: &Controller<'_>, env: &str) -> [(&'static str, Value); 4] {
    let full = mcp(
        argus,
        "argus_status",
        &json!({ "environment": env, "detail": "full" }),
    );
    [
        ("file", argus.status(env)),
        ("cli", cli(argus, &["get", env])),
        ("http", http(argus, &format!("/api/v1/environments/{env}"))),
        ("mcp", without_marks(&full["full"][0])),
    ]
}

/// MCP marks the further lines of a text as text of others.
fn without_marks(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("\n  | ", "\n")),
        Value::Array(items) => items.iter().map(without_marks).collect(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.clone(), without_marks(value)));
            Value::Object(fields.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

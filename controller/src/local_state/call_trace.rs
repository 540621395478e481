//! Call traces of errors: the calls behind an error, on request by `--debug`, `?debug=true`, `"debug": true` or `ARGUS_DEBUG=1`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use argus_core::ident::EnvName;
use argus_core::secrets::{REDACTED, is_secret};
use argus_crds::error::{Call, StructuredError};
use argus_crds::status::{Calls, EnvironmentStatus};
use argus_reconciler::state_dir::StateDir;
use serde_json::{Map, Value, json};

use crate::local_state::status::read_or_default;

/// Debug request of this process; set at most once, at its start.
static DEBUG_REQUEST: OnceLock<DebugRequest> = OnceLock::new();

#[derive(Debug)]
struct DebugRequest {
    state: StateDir,
    command: Call,
}

/// Maximum length of a text argument, in bytes; longer texts are documents.
const MAX_TEXT: usize = 200;
/// Arguments with free text.
const FREE_TEXT: [&str; 3] = ["content", "reason", "case"];
/// Maximum number of recorded arguments.
const MAX_ARGUMENTS: usize = 50;

/// Enables call traces for all errors of this process; `command` is its command line.
pub(crate) fn enable(state: StateDir, command: Call) {
    // Called once per process.
    drop(DEBUG_REQUEST.set(DebugRequest { state, command }));
}

/// Returns the calls that led to a command's error: the command itself, then the stored calls. Empty without a debug request.
pub(crate) fn error_calls(error: &StructuredError) -> Vec<Call> {
    let Some(request) = DEBUG_REQUEST.get() else {
        return Vec::new();
    };
    let env = error
        .environment
        .as_deref()
        .and_then(|env| EnvName::new(env).ok());
    let stored = env.zip(error.error_id.as_ref());
    let stored = stored.and_then(|(env, id)| read_calls(&request.state, &env).remove(id));
    let known = if error.debug.is_empty() {
        stored.unwrap_or_default()
    } else {
        error.debug.clone()
    };
    [request.command.clone()].into_iter().chain(known).collect()
}

/// Adds call traces to the output of a command, if they are enabled.
pub(crate) fn add_traces(response: Value) -> Value {
    match DEBUG_REQUEST.get() {
        Some(request) => add_calls(|env| read_calls(&request.state, env), response).0,
        None => response,
    }
}

/// Adds call traces to a status, if they are enabled.
pub(crate) fn add_calls_to_status(mut status: EnvironmentStatus) -> EnvironmentStatus {
    if let Some(request) = DEBUG_REQUEST.get() {
        let calls: Calls = read_or_default(&request.state.debug(&status.environment));
        status.put_calls(&calls);
    }
    status
}

fn read_calls(state: &StateDir, env: &EnvName) -> Calls {
    read_or_default(&state.debug(env.as_str()))
}

/// Adds the calls known to `stored` to every error of a response, and returns all added calls as well.
pub(crate) fn add_calls(stored: impl Fn(&EnvName) -> Calls, mut response: Value) -> (Value, Vec<Call>) {
    let mut tracer = ErrorCallTracer {
        read: stored,
        stored: BTreeMap::new(),
        all: Vec::new(),
    };
    tracer.walk(&mut response, None);
    let all = tracer.all;
    (response, all)
}

struct ErrorCallTracer<F> {
    read: F,
    /// Calls that were already read, by environment.
    stored: BTreeMap<EnvName, Calls>,
    all: Vec<Call>,
}

impl<F: Fn(&EnvName) -> Calls> ErrorCallTracer<F> {
    fn walk(&mut self, value: &mut Value, env: Option<&EnvName>) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, env)),
            Value::Object(fields) => {
                let named = fields.get("environment").and_then(Value::as_str);
                // An invalid name must not become part of a path.
                let named = named.and_then(|name| EnvName::new(name).ok());
                let env = named.as_ref().or(env);
                fields.iter_mut().for_each(|(_, field)| self.walk(field, env));
                let id = fields.get("errorId").and_then(Value::as_str);
                let calls = id.zip(env).map(|(id, env)| self.calls(env, id));
                let calls = calls.filter(|calls| !calls.is_empty());
                if let Some(calls) = calls.filter(|_| !fields.contains_key("debug")) {
                    fields.insert("debug".to_owned(), json!(calls));
                    for call in calls {
                        if !self.all.contains(&call) {
                            self.all.push(call);
                        }
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn calls(&mut self, env: &EnvName, id: &str) -> Vec<Call> {
        let stored = self.stored.entry(env.clone());
        let stored = stored.or_insert_with(|| (self.read)(env));
        stored.get(id).cloned().unwrap_or_default()
    }
}

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
    use super::*;

    fn call(operation: &str) -> Call {
        Call::new(operation, Map::new())
            .within(Some(std::time::Duration::from_secs(30)))
            .attempt(3)
            .outcome(["no response within 30 s".to_owned()])
    }

    #[test]
    fn only_known_errors_get_their_calls() {
        let stored = |env: &EnvName| match env.as_str() {
            "shop" => Calls::from([("01A".to_owned(), vec![call("create-container")])]),
            other => panic!("unexpected environment `{other}`"),
        };
        let response = json!({
            "environments": [{
                "environment": "shop",
                "error": { "code": "TIMEOUT", "errorId": "01A" },
                "other": { "code": "TIMEOUT", "errorId": "01B" },
            }],
            "elsewhere": { "environment": "../shop", "errorId": "01A" },
            "nowhere": { "errorId": "01A" },
        });
        let (response, all) = add_calls(stored, response);
        let shop = &response["environments"][0];
        assert_eq!(shop["error"]["debug"], json!([call("create-container")]));
        for silent in [&shop["other"], &response["elsewhere"], &response["nowhere"]] {
            assert!(silent.get("debug").is_none(), "{silent}");
        }
        assert_eq!(all, [call("create-container")]);
        assert_eq!(
            add_calls(stored, response.clone()).0,
            response,
            "adding twice changes nothing"
        );
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

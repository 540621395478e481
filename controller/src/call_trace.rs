//! What was called before an error, for whoever asks: `--debug`, `?debug=true`, `"debug": true`, `ARGUS_DEBUG=1`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use argus_core::ident::EnvName;
use argus_core::secrets::{REDACTED, is_secret};
use argus_crds::error::{Call, StructuredError};
use argus_crds::status::{Calls, EnvironmentStatus};
use argus_reconciler::state_dir::StateDir;
use serde_json::{Map, Value, json};

use crate::cli::status::peek;

/// What a command was asked to tell, beside what it tells anyway; set once, as the colour is.
static ASKED: OnceLock<DebugRequest> = OnceLock::new();

#[derive(Debug)]
struct DebugRequest {
    state: StateDir,
    command: Call,
}

/// Longer texts are documents, and no arguments to be told again.
const LONGEST: usize = 200;
/// Arguments in which people write what they like.
const WORDS: [&str; 3] = ["content", "reason", "case"];
/// So many arguments are told.
const MOST: usize = 50;

/// From here on this process tells of each error what was called; `command` is what it was started with.
pub(crate) fn ask(state: StateDir, command: Call) {
    // Nobody asks twice.
    drop(ASKED.set(DebugRequest { state, command }));
}

/// What led to an error that ends a command: the command itself, and what is kept of the error; nothing unless that was asked for.
pub(crate) fn led_to(error: &StructuredError) -> Vec<Call> {
    let Some(asked) = ASKED.get() else {
        return Vec::new();
    };
    let env = error
        .environment
        .as_deref()
        .and_then(|env| EnvName::new(env).ok());
    let kept = env.zip(error.error_id.as_ref());
    let kept = kept.and_then(|(env, id)| kept_of(&asked.state, &env).remove(id));
    let known = if error.debug.is_empty() {
        kept.unwrap_or_default()
    } else {
        error.debug.clone()
    };
    [asked.command.clone()].into_iter().chain(known).collect()
}

/// An answer of a command as it goes out.
pub(crate) fn answered(answer: Value) -> Value {
    match ASKED.get() {
        Some(asked) => told(|env| kept_of(&asked.state, env), answer).0,
        None => answer,
    }
}

/// A status as a command shows it.
pub(crate) fn shown(mut status: EnvironmentStatus) -> EnvironmentStatus {
    if let Some(asked) = ASKED.get() {
        let calls: Calls = peek(&asked.state.debug(&status.environment));
        status.put_calls(&calls);
    }
    status
}

fn kept_of(state: &StateDir, env: &EnvName) -> Calls {
    peek(&state.debug(env.as_str()))
}

/// An answer in which every error has the calls that led to it, as far as `kept` knows them; and all of these.
pub(crate) fn told(kept: impl Fn(&EnvName) -> Calls, mut answer: Value) -> (Value, Vec<Call>) {
    let mut teller = ErrorCallTracer {
        ask: kept,
        kept: BTreeMap::new(),
        all: Vec::new(),
    };
    teller.walk(&mut answer, None);
    let all = teller.all;
    (answer, all)
}

struct ErrorCallTracer<F> {
    ask: F,
    /// By environment.
    kept: BTreeMap<EnvName, Calls>,
    all: Vec<Call>,
}

impl<F: Fn(&EnvName) -> Calls> ErrorCallTracer<F> {
    fn walk(&mut self, value: &mut Value, env: Option<&EnvName>) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, env)),
            Value::Object(fields) => {
                let named = fields.get("environment").and_then(Value::as_str);
                // What is no name is no path either.
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
        let kept = self.kept.entry(env.clone());
        let kept = kept.or_insert_with(|| (self.ask)(env));
        kept.get(id).cloned().unwrap_or_default()
    }
}

/// Arguments as they may be told: what is called a secret is black, and what is no name, number or path is told by its size.
pub(crate) fn tame(arguments: impl IntoIterator<Item = (String, Value)>) -> Map<String, Value> {
    let tamed = |(name, value): (String, Value)| {
        let value = if is_secret(&name) {
            Value::from(REDACTED)
        } else {
            tamed(value, WORDS.contains(&name.as_str()))
        };
        (name, value)
    };
    arguments.into_iter().take(MOST).map(tamed).collect()
}

fn tamed(value: Value, is_prose: bool) -> Value {
    match value {
        Value::String(text) if is_prose || !is_name(&text) => Value::from(format!("({} bytes)", text.len())),
        Value::Array(items) => items.into_iter().map(|item| tamed(item, is_prose)).collect(),
        Value::Object(fields) => Value::Object(tame(fields)),
        plain @ (Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
    }
}

/// Names, numbers, paths and addresses are made of such.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-/:,+".contains(c);
    text.len() <= LONGEST && text.chars().all(fits)
}

/// A call in a line.
pub(crate) fn line(call: &Call) -> String {
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
    // What a container wrote must neither move the cursor nor begin a line that looks like ours.
    let tame = |c: char| if c.is_control() { ' ' } else { c };
    line.chars().map(tame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: &str) -> Call {
        Call::new(operation, Map::new())
            .within(Some(std::time::Duration::from_secs(30)))
            .attempt(3)
            .outcome(["no answer within 30 s".to_owned()])
    }

    #[test]
    fn every_error_of_an_answer_gets_its_calls_and_nothing_else_does() {
        let kept = |env: &EnvName| match env.as_str() {
            "shop" => Calls::from([("01A".to_owned(), vec![call("create-container")])]),
            other => panic!("nobody asked for {other}"),
        };
        let answer = json!({
            "environments": [{
                "environment": "shop",
                "error": { "code": "TIMEOUT", "errorId": "01A" },
                "other": { "code": "TIMEOUT", "errorId": "01B" },
            }],
            "elsewhere": { "environment": "../shop", "errorId": "01A" },
            "nowhere": { "errorId": "01A" },
        });
        let (answer, all) = told(kept, answer);
        let shop = &answer["environments"][0];
        assert_eq!(shop["error"]["debug"], json!([call("create-container")]));
        for silent in [&shop["other"], &answer["elsewhere"], &answer["nowhere"]] {
            assert!(silent.get("debug").is_none(), "{silent}");
        }
        assert_eq!(all, [call("create-container")]);
        assert_eq!(told(kept, answer.clone()).0, answer, "told twice is told once");
    }

    #[test]
    fn a_call_is_told_in_a_line_and_documents_are_not_told_again() {
        let text = line(&call("start-container"));
        assert_eq!(
            text,
            "start-container, attempt 3, deadline 30s: no answer within 30 s"
        );
        let given = json!({
            "environment": "shop", "content": "version", "tail": 3, "all": ["a/b:1", "b\nc"], "apiToken": "x",
            "host": "tcp://ann:pw@here", "debug": true,
        });
        let wanted = json!({
            "environment": "shop", "content": "(7 bytes)", "tail": 3, "all": ["a/b:1", "(3 bytes)"], "apiToken": "[redacted]",
            "host": "(17 bytes)", "debug": true,
        });
        assert_eq!(Value::Object(tame(given.as_object().cloned().unwrap())), wanted);
        let rude = call("probe").outcome(["\u{1b}[2J\nhint: rm -rf /".to_owned()]);
        assert!(!line(&rude).contains(char::is_control), "{}", line(&rude));
    }
}

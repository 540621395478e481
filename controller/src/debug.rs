//! What was called before an error, for whoever asks: `--debug`, `?debug=true`, `"debug": true`, `ARGUS_DEBUG=1`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use argus_core::ident::EnvName;
use argus_crds::error::Call;
use argus_crds::status::{Calls, EnvironmentStatus};
use argus_reconciler::state::StateDir;
use serde_json::{Map, Value, json};

use crate::cli::status::peek;

/// What a command was asked to tell, beside what it tells anyway; set once, as the colour is.
static ASKED: OnceLock<Asked> = OnceLock::new();

#[derive(Debug)]
struct Asked {
    state: StateDir,
    command: Call,
}

/// Longer texts are documents, and no arguments to be told again.
const LONGEST: usize = 200;

/// From here on this process tells of each error what was called; `command` is what it was started with.
pub(crate) fn ask(state: StateDir, command: Call) {
    // Nobody asks twice.
    drop(ASKED.set(Asked { state, command }));
}

/// The command itself, where that was asked for.
pub(crate) fn command() -> Option<Call> {
    ASKED.get().map(|asked| asked.command.clone())
}

/// An answer of a command as it goes out.
pub(crate) fn answered(answer: Value) -> Value {
    match ASKED.get() {
        Some(asked) => told(|env| kept(&asked.state, env), answer).0,
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

fn kept(state: &StateDir, env: &EnvName) -> Calls {
    peek(&state.debug(env.as_str()))
}

/// An answer in which every error has the calls that led to it, as far as `kept` knows them; and all of these.
pub(crate) fn told(kept: impl Fn(&EnvName) -> Calls, mut answer: Value) -> (Value, Vec<Call>) {
    let mut teller = Teller {
        ask: kept,
        kept: BTreeMap::new(),
        all: Vec::new(),
    };
    teller.walk(&mut answer, None);
    let all = teller.all;
    (answer, all)
}

struct Teller<F> {
    ask: F,
    /// By environment.
    kept: BTreeMap<EnvName, Calls>,
    all: Vec<Call>,
}

impl<F: Fn(&EnvName) -> Calls> Teller<F> {
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

/// Arguments as they may be told: a document is told by its size.
pub(crate) fn tame(arguments: Map<String, Value>) -> Map<String, Value> {
    let tamed = |(name, value)| (name, tamed(value));
    arguments.into_iter().map(tamed).collect()
}

fn tamed(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() > LONGEST || text.contains('\n') => {
            Value::String(format!("({} bytes)", text.len()))
        }
        Value::Array(items) => items.into_iter().map(tamed).collect(),
        Value::Object(fields) => Value::Object(tame(fields)),
        plain @ (Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
    }
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
    format!("{operation}{arguments}, attempt {attempt}{deadline}{causes}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: &str) -> Call {
        Call::new(operation, Map::new())
            .within(Some(std::time::Duration::from_secs(30)))
            .attempt(3)
            .came_to(["no answer within 30 s".to_owned()])
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
                "problem": { "code": "TIMEOUT", "errorId": "01A" },
                "other": { "code": "TIMEOUT", "errorId": "01B" },
            }],
            "elsewhere": { "environment": "../shop", "errorId": "01A" },
            "nowhere": { "errorId": "01A" },
        });
        let (answer, all) = told(kept, answer);
        let shop = &answer["environments"][0];
        assert_eq!(shop["problem"]["debug"], json!([call("create-container")]));
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
        let given = json!({ "environment": "shop", "content": "project:\n  name: shop\n", "tail": 3, "all": ["a", "b\nc"] });
        let tamed = tame(given.as_object().cloned().unwrap());
        assert_eq!(
            Value::Object(tamed),
            json!({ "environment": "shop", "content": "(22 bytes)", "tail": 3, "all": ["a", "(3 bytes)"] })
        );
    }
}

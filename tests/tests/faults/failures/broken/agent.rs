//! A program that knows only "apply the first remedy, wait, repeat", and its effort.

use std::fs;
use std::time::Duration;

use argus_tests::{Controller, http};
use serde_json::{Value, json};

use super::{Broken, assert_never_first};

/// Limit of a call of `argus_wait` in seconds, longer than any repair takes.
const LIMIT: u64 = 600;
/// Limit of a call.
const ANSWER: Duration = Duration::from_secs(LIMIT + 60);
/// Maximum number of calls: one to read the first remedy, then one after each of at most two edits.
const MOST_CALLS: usize = 3;
/// Answers that do not include the edit before them, after which a repair counts as endless. The controller waits at most 5 s
/// for a busy folder.
const MOST_STALE: usize = 20;
/// Maximum size of one answer of `argus_why`, in tokens.
const MOST_TOKENS: usize = 1_200;

/// Answer of `argus_why` about an environment, and the effort of its repair.
pub(super) struct Answer {
    name: &'static str,
    remedy: Value,
    /// Size of the text for the model, in bytes.
    text: usize,
    /// Size of the structured content, in bytes.
    data: usize,
    /// Calls until Ready; `None` if a person must act.
    pub(super) calls: Option<usize>,
    /// Changes that `argus_fix` made.
    fixed: usize,
}

/// Result of `argus_why`.
pub(super) fn why(argus: &Controller<'_>, environment: &str) -> Value {
    call(argus, "argus_why", &json!({ "environment": environment }))
}

fn call(argus: &Controller<'_>, tool: &str, arguments: &Value) -> Value {
    http::result(&argus.state.join("private/argus.sock"), tool, arguments, ANSWER)
}

impl Answer {
    /// Requests the first remedy.
    pub(super) fn of(one: &Broken, argus: &Controller<'_>) -> Self {
        let answer = why(argus, one.name);
        let data = &answer["structuredContent"];
        let chains = data["chains"].as_array().into_iter().flatten();
        let mut remedies = chains.filter_map(|chain| chain["remedies"].get(0));
        Self {
            name: one.name,
            remedy: remedies.next().cloned().unwrap_or_default(),
            text: answer["content"][0]["text"].as_str().map_or(0, str::len),
            data: data.to_string().len(),
            calls: None,
            fixed: 0,
        }
    }

    /// Applies first remedies until the environment is Ready.
    pub(super) fn repair(&mut self, one: &Broken, argus: &Controller<'_>) {
        let mut remedy = self.remedy.clone();
        let arguments = json!({ "environment": one.name, "timeoutSeconds": LIMIT });
        let (mut calls, mut stale) = (1, 0);
        while calls < MOST_CALLS && stale < MOST_STALE {
            if is_fixed(argus, one) {
                self.fixed += 1;
            } else {
                match edited(argus, &remedy) {
                    Some((file, text)) if file == one.spec_file() => one.write(argus, &text),
                    Some((file, text)) => argus.write_spec(&file, &text),
                    None => {}
                }
            }
            let answer = call(argus, "argus_wait", &arguments);
            calls += 1;
            if answer["isError"] != true {
                self.calls = Some(calls);
                return;
            }
            let error = &answer["structuredContent"];
            assert_never_first(error);
            remedy = error["remedies"][0].clone();
            // The same edit again: the answer does not include it yet. This can also be the last call.
            if remedy["suggest"].is_string() && edited(argus, &remedy).is_none() {
                (calls, stale) = (calls - 1, stale + 1);
            }
        }
        let status = argus.status(one.name);
        panic!("{} is not Ready after {calls} calls: {status:#}", one.name);
    }
}

/// Lets Argus make the first change. A file that was never accepted has no errors to fix.
fn is_fixed(argus: &Controller<'_>, one: &Broken) -> bool {
    let arguments = json!({ "environment": one.name, "likely": true });
    let answer = call(argus, "argus_fix", &arguments);
    let is_done = answer["isError"] != true && answer["structuredContent"]["applied"]["changed"] == true;
    if is_done {
        let text = fs::read_to_string(argus.specs.join(one.spec_file())).expect("the file");
        one.write(argus, &text);
    }
    is_done
}

/// Name and text of the file with the edit. `None` if it was made already, or has no value.
fn edited(argus: &Controller<'_>, remedy: &Value) -> Option<(String, String)> {
    let file = remedy["file"].as_str()?;
    let source = fs::read_to_string(argus.specs.join(file)).ok()?;
    let line = usize::try_from(remedy["line"].as_u64()?).ok()?;
    let (now, suggest) = (remedy["now"].as_str()?, remedy["suggest"].as_str()?);
    let mut lines: Vec<String> = source.lines().map(str::to_owned).collect();
    let changed = lines.get_mut(line.checked_sub(1)?)?;
    if !changed.contains(now) || (changed.contains(suggest) && !now.contains(suggest)) {
        return None;
    }
    *changed = changed.replacen(now, suggest, 1);
    Some((file.to_owned(), lines.join("\n") + "\n"))
}

/// Number of tokens of a text, estimated.
fn tokens(bytes: usize) -> usize {
    bytes / 4
}

/// Prints one row per environment, and asserts the size of the answers.
pub(super) fn print_table(answers: &[Answer]) {
    eprintln!(
        "{:<20} {:>6} {:>6} {:>6} {:>6} {:>5} {:>5}  first remedy",
        "environment", "text", "tokens", "data", "tokens", "calls", "fixed"
    );
    for one in answers {
        let calls = one
            .calls
            .map_or_else(|| "-".to_owned(), |calls| calls.to_string());
        let word = |key: &str| one.remedy[key].as_str().unwrap_or_default();
        eprintln!(
            "{:<20} {:>6} {:>6} {:>6} {:>6} {calls:>5} {:>5}  {} {}",
            one.name,
            one.text,
            tokens(one.text),
            one.data,
            tokens(one.data),
            one.fixed,
            word("action"),
            word("key")
        );
    }
    let large = answers
        .iter()
        .filter(|one| tokens(one.text.max(one.data)) > MOST_TOKENS);
    let large: Vec<&str> = large.map(|one| one.name).collect();
    assert!(large.is_empty(), "answers above {MOST_TOKENS} tokens: {large:?}");
}

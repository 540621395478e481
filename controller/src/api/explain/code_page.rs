//! Meanings and remedies of error codes.

use argus_crds::error::{ActionId, Category, Class, Code, Remedy, Severity};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::traces::traces_of;
use crate::process::exit::Exit;
use crate::render::output;

/// Page of an error code.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CodePage {
    pub(crate) code: Code,
    category: Category,
    severity: Severity,
    class: Class,
    /// True if a retry may succeed.
    retryable: bool,
    /// Exit code of commands that fail with this error.
    exit_code: u8,
    pub(crate) summary: &'static str,
    explanation: &'static str,
    /// Journal records of such a failure, by name.
    events: &'static [&'static str],
    /// Parts of the status and files that such a failure leaves.
    artifacts: &'static [&'static str],
    /// Identifiers of the suggested actions.
    suggested_actions: &'static [ActionId],
    /// The actions as commands and MCP calls. `ENV` and `SERVICE` are placeholders for the names in the error.
    remedies: Vec<Remedy>,
}

/// Placeholders for the names that an error contains.
pub(crate) const ENV: &str = "ENV";
pub(crate) const SERVICE: &str = "SERVICE";

/// Returns the meaning of a code.
pub(crate) fn explain_code(code: Code) -> CodePage {
    let about = code.explanation();
    let traces = traces_of(code);
    CodePage {
        code,
        category: about.category,
        severity: about.severity,
        class: about.class,
        retryable: about.class.is_retried(),
        exit_code: Exit::from_code(code).number(),
        summary: about.summary,
        explanation: about.explanation,
        events: traces.events,
        artifacts: traces.artifacts,
        suggested_actions: about.actions,
        remedies: list_remedies(about.actions),
    }
}

pub(crate) fn list_remedies(actions: &[ActionId]) -> Vec<Remedy> {
    let of = |action: &ActionId| action.remedy(Some(ENV), Some(SERVICE));
    actions.iter().map(of).collect()
}

/// Page of a code as text.
pub(crate) fn format_page(meaning: &CodePage) -> String {
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let actions = output::format_remedies(&meaning.remedies);
    let list = |items: &[&str]| {
        if items.is_empty() {
            "none".to_owned()
        } else {
            items.join(", ")
        }
    };
    format!(
        "{}: {}\n\n{}\n\ncategory: {}   severity: {}   retryable: {}   exit code: {}\nclass: {} ({})\nevents: {}\nleaves: {}\n\n\
         suggested actions ({ENV} and {SERVICE} are placeholders for the names in the error):\n{}",
        meaning.code,
        meaning.summary,
        wrap(meaning.explanation),
        word(json!(meaning.category)),
        word(json!(meaning.severity)),
        if meaning.retryable { "yes" } else { "no" },
        meaning.exit_code,
        meaning.class.name(),
        meaning.class.meaning(),
        list(meaning.events),
        list(meaning.artifacts),
        output::join_lines(actions.iter().map(|line| format!("- {line}"))),
    )
}

/// Wraps a text into lines of at most 100 characters.
pub(crate) fn wrap(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last().map_or(0, String::len);
        if last > 0 && last + 1 + word.len() > WIDTH {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;

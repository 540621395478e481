//! `argus explain`: meaning and remedies of error codes.

use argus_crds::error::{ActionId, Category, Class, Code, Remedy, Severity};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::table;

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Error code, such as `PORT_CONFLICT` [default: list all codes]
    code: Option<String>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Explain {
    pub(crate) fn execute(self) -> Result<Exit, Failure> {
        let format = self.output.unwrap_or(Format::Table);
        match &self.code {
            Some(text) => {
                let code: Code = text.parse().map_err(|error: argus_crds::error::UnknownCode| {
                    Failure::usage(error.to_string()).with_hint("list all codes with `argus explain`")
                })?;
                match format {
                    Format::Json => output::print_json(&code_to_json(code))?,
                    Format::Yaml => output::print_yaml(&code_to_json(code))?,
                    Format::Name => output::print(&format!("{code}\n"))?,
                    Format::Table | Format::Wide => {
                        output::print(&table::format_prose(&format_page(code), output::terminal_width()))?;
                    }
                }
            }
            None => match format {
                Format::Json => output::print_json(&explain_all())?,
                Format::Yaml => output::print_yaml(&explain_all())?,
                Format::Name => output::print(&output::join_lines(Code::ALL))?,
                Format::Table | Format::Wide => {
                    let row = |code: &Code| vec![code.to_string(), code.explanation().summary.to_owned()];
                    let rows: Vec<_> = Code::ALL.iter().map(row).collect();
                    output::print(&table::format_table(
                        &["CODE", "MEANING"],
                        &rows,
                        output::terminal_width(),
                    ))?;
                }
            },
        }
        Ok(Exit::Done)
    }
}

/// All codes with their meanings as JSON.
pub(crate) fn explain_all() -> Value {
    Code::ALL.iter().map(|code| code_to_json(*code)).collect()
}

/// Meaning of an error code.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meaning {
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
    /// Identifiers of the suggested actions.
    suggested_actions: &'static [ActionId],
    /// The actions as commands and MCP calls. `ENV` and `SERVICE` are placeholders for the names in the error.
    remedies: Vec<Remedy>,
}

/// Placeholders for the names that an error contains.
const ENV: &str = "ENV";
const SERVICE: &str = "SERVICE";

/// Returns the meaning of a code.
pub(crate) fn explain_code(code: Code) -> Meaning {
    let about = code.explanation();
    Meaning {
        code,
        category: about.category,
        severity: about.severity,
        class: about.class,
        retryable: about.retryable,
        exit_code: Exit::from_code(code).number(),
        summary: about.summary,
        explanation: about.explanation,
        suggested_actions: about.actions,
        remedies: list_remedies(about.actions),
    }
}

fn list_remedies(actions: &[ActionId]) -> Vec<Remedy> {
    let of = |action: &ActionId| action.remedy(Some(ENV), Some(SERVICE));
    actions.iter().map(of).collect()
}

/// Meaning of a code as JSON.
pub(crate) fn code_to_json(code: Code) -> Value {
    json!(explain_code(code))
}

/// Meaning of a code as text.
pub(crate) fn format_page(code: Code) -> String {
    let meaning = explain_code(code);
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let actions = output::format_remedies(&meaning.remedies);
    format!(
        "{code}: {}\n\n{}\n\ncategory: {}   severity: {}\nclass: {}   retryable: {}   exit code: {}\n\n\
         suggested actions ({ENV} and {SERVICE} are placeholders for the names in the error):\n{}",
        meaning.summary,
        wrap(meaning.explanation),
        word(json!(meaning.category)),
        word(json!(meaning.severity)),
        word(json!(meaning.class)),
        if meaning.retryable { "yes" } else { "no" },
        meaning.exit_code,
        output::join_lines(actions.iter().map(|line| format!("- {line}"))),
    )
}

/// Wraps a text into lines of at most 100 characters.
fn wrap(text: &str) -> String {
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

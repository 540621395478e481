//! `argus explain`: meaning and remedies of error codes.

use argus_crds::error::{ActionId, Category, Class, Code, Remedy, Severity};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::output::{self, Format};
use super::table;
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Error code, such as `PORT_CONFLICT` [default: list all codes]
    code: Option<String>,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Explain {
    pub(crate) fn carry_out(self) -> Result<Exit, Failure> {
        let format = self.output.unwrap_or(Format::Table);
        match &self.code {
            Some(text) => {
                let code: Code = text.parse().map_err(|error: argus_crds::error::UnknownCode| {
                    Failure::usage(error.to_string()).hint("list all codes with `argus explain`")
                })?;
                match format {
                    Format::Json => output::json(&value(code))?,
                    Format::Yaml => output::yaml(&value(code))?,
                    Format::Name => output::data(&format!("{code}\n"))?,
                    Format::Table | Format::Wide => {
                        output::data(&table::prose(&page(code), output::width()))?;
                    }
                }
            }
            None => match format {
                Format::Json => output::json(&all())?,
                Format::Yaml => output::yaml(&all())?,
                Format::Name => output::data(&output::lines(Code::ALL))?,
                Format::Table | Format::Wide => {
                    let row = |code: &Code| vec![code.to_string(), code.about().summary.to_owned()];
                    let rows: Vec<_> = Code::ALL.iter().map(row).collect();
                    output::data(&table::text(&["CODE", "MEANING"], &rows, output::width()))?;
                }
            },
        }
        Ok(Exit::Done)
    }
}

/// All codes with their meanings as JSON.
pub(crate) fn all() -> Value {
    Code::ALL.iter().map(|code| value(*code)).collect()
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
pub(crate) fn meaning(code: Code) -> Meaning {
    let about = code.about();
    Meaning {
        code,
        category: about.category,
        severity: about.severity,
        class: about.class,
        retryable: about.retryable,
        exit_code: Exit::of(code).number(),
        summary: about.summary,
        explanation: about.explanation,
        suggested_actions: about.actions,
        remedies: remedies(about.actions),
    }
}

fn remedies(actions: &[ActionId]) -> Vec<Remedy> {
    let of = |action: &ActionId| action.remedy(Some(ENV), Some(SERVICE));
    actions.iter().map(of).collect()
}

/// Meaning of a code as JSON.
pub(crate) fn value(code: Code) -> Value {
    json!(meaning(code))
}

/// Meaning of a code as text.
pub(crate) fn page(code: Code) -> String {
    let meaning = meaning(code);
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let actions = output::remedies(&meaning.remedies);
    format!(
        "{code}: {}\n\n{}\n\ncategory: {}   severity: {}\nclass: {}   retryable: {}   exit code: {}\n\n\
         suggested actions ({ENV} and {SERVICE} are placeholders for the names in the error):\n{}",
        meaning.summary,
        wrapped(meaning.explanation),
        word(json!(meaning.category)),
        word(json!(meaning.severity)),
        word(json!(meaning.class)),
        if meaning.retryable { "yes" } else { "no" },
        meaning.exit_code,
        output::lines(actions.iter().map(|line| format!("- {line}"))),
    )
}

/// Wraps a text into lines of at most 100 characters.
fn wrapped(text: &str) -> String {
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

//! `argus explain`: what an error code means and what to do about it.

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
    /// Code, as in `PORT_CONFLICT`; all of them without
    code: Option<String>,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Explain {
    pub(crate) fn carry_out(self) -> Result<Exit, Failure> {
        let format = self.output.unwrap_or(Format::Table);
        match &self.code {
            Some(text) => {
                let code: Code = text.parse().map_err(|error: argus_crds::error::UnknownCode| {
                    Failure::usage(error.to_string()).hint("`argus explain` lists all codes")
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
                    output::data(&table::text(&["CODE", "MEANS"], &rows, output::width()))?;
                }
            },
        }
        Ok(Exit::Done)
    }
}

/// All codes, for programs.
pub(crate) fn all() -> Value {
    Code::ALL.iter().map(|code| value(*code)).collect()
}

/// What a code means, for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meaning {
    code: Code,
    category: Category,
    severity: Severity,
    class: Class,
    /// Whether doing the same again may help.
    retryable: bool,
    /// How a command ends with it.
    exit_code: u8,
    pub(crate) summary: &'static str,
    explanation: &'static str,
    /// What can be done, as identifiers.
    suggested_actions: &'static [ActionId],
    /// How that is done; `ENV` and `SERVICE` stand for what an error of this code names.
    remedies: Vec<Remedy>,
}

/// What an error would name.
const ENV: &str = "ENV";
const SERVICE: &str = "SERVICE";

/// What a code means.
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

/// What a code means, as a value.
pub(crate) fn value(code: Code) -> Value {
    json!(meaning(code))
}

/// The same for people.
pub(crate) fn page(code: Code) -> String {
    let is = meaning(code);
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    let todo = output::remedies(&is.remedies);
    format!(
        "{code}: {}\n\n{}\n\ncategory: {}   severity: {}\nclass: {}   retryable: {}   exit code: {}\n\n\
         what to do ({ENV} and {SERVICE} stand for those that the error names):\n{}",
        is.summary,
        wrapped(is.explanation),
        word(json!(is.category)),
        word(json!(is.severity)),
        word(json!(is.class)),
        if is.retryable { "yes" } else { "no" },
        is.exit_code,
        output::lines(todo.iter().map(|line| format!("- {line}"))),
    )
}

/// A text in lines of at most 100 characters.
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

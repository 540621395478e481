//! What is wrong with a file, in words for its author.

use serde::{Deserialize, Serialize};

/// Whether a complaint refuses the file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum DiagnosticSeverity {
    Error,
    Warning,
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// Whether it refuses the file.
    pub severity: DiagnosticSeverity,
    /// Path in the file, as in `services[0].container.ports[1]`; empty for the file as a whole.
    pub path: String,
    /// What is wrong: lower case, no full stop, backticks round names.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
}

/// A place in a file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The number of characters, within the line.
    pub length: usize,
}

impl Diagnostic {
    /// A complaint that refuses the file.
    pub fn error(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: DiagnosticSeverity::Error,
            path: path.into(),
            message: message.into(),
            hint: None,
            location: None,
        }
    }

    /// A complaint that lets the file pass.
    pub fn warning(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: DiagnosticSeverity::Warning,
            ..Self::error(path, message)
        }
    }

    /// The same complaint with what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// The same complaint with its place.
    #[must_use]
    pub fn at(self, place: impl Into<Location>) -> Self {
        Self {
            location: Some(place.into()),
            ..self
        }
    }

    /// Whether it refuses the file.
    pub fn is_error(&self) -> bool {
        self.severity == DiagnosticSeverity::Error
    }
}

/// The widest part of a source line that is shown.
const WIDEST: usize = 120;

/// Renders complaints for a person: each with its place, the line it stands in, and what to do.
///
/// Plain text without colour; control characters of the source are not passed on.
pub fn render(file_name: &str, source: &str, diagnostics: &[Diagnostic]) -> String {
    let lines: Vec<&str> = source.lines().collect();
    let texts: Vec<String> = diagnostics
        .iter()
        .map(|diagnostic| render_one(file_name, &lines, diagnostic))
        .collect();
    texts.join("\n")
}

fn render_one(file_name: &str, lines: &[&str], diagnostic: &Diagnostic) -> String {
    let word = match diagnostic.severity {
        DiagnosticSeverity::Error => "error",
        DiagnosticSeverity::Warning => "warning",
    };
    let mut text = format!("{word}: {}\n", diagnostic.message);
    match diagnostic.location {
        None => writeln_to(&mut text, format_args!(" --> {file_name}")),
        Some(place) => {
            writeln_to(
                &mut text,
                format_args!(" --> {file_name}:{}:{}", place.line, place.column),
            );
            if let Some(line) = place.line.checked_sub(1).and_then(|index| lines.get(index)) {
                snippet(&mut text, line, place);
            }
        }
    }
    if let Some(hint) = &diagnostic.hint {
        writeln_to(&mut text, format_args!("hint: {hint}"));
    }
    text
}

fn snippet(text: &mut String, line: &str, place: Location) {
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let column = place.column.saturating_sub(1);
    let skip = if column + place.length.min(WIDEST / 2) > WIDEST {
        column - WIDEST / 3
    } else {
        0
    };
    let shown: String = line.chars().skip(skip).take(WIDEST).map(printable).collect();
    let room = shown.chars().count().saturating_sub(column - skip).max(1);
    let indent = " ".repeat(column - skip);
    let carets = "^".repeat(place.length.clamp(1, room));
    writeln_to(text, format_args!("{margin} |"));
    writeln_to(text, format_args!("{number} | {}", shown.trim_end()));
    writeln_to(text, format_args!("{margin} | {indent}{carets}"));
}

fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

fn writeln_to(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.push_str(&line.to_string());
    text.push('\n');
}

//! Diagnostics: errors and warnings about a file, with location and hint.

use serde::{Deserialize, Serialize};

/// Effect of a diagnostic: an `error` rejects the file, a `warning` does not.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum DiagnosticSeverity {
    Error,
    Warning,
}

/// Error or warning about a file.
///
/// ```rust
/// use argus_crds::{Diagnostic, Location};
///
/// let diagnostic = Diagnostic::error("project.name", "`name` is empty")
///     .hint("give it a value")
///     .at(Location { line: 2, column: 9, length: 2 });
/// assert!(diagnostic.is_error());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// Effect on the file: an `error` rejects it.
    pub severity: DiagnosticSeverity,
    /// Path in the file, such as `services[0].container.ports[1]`; empty for the whole file.
    pub path: String,
    /// Description of the problem: lower case, no full stop, backticks round names.
    pub message: String,
    /// Suggested fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Proposed change, and other places that belong to the problem; absent without both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<Box<Correction>>,
    /// Location in the file; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
}

/// Change that corrects the problem of a diagnostic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Correction {
    /// Text in the file that `suggest` replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Text to write instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggest: Option<String>,
    /// Other places that belong to the problem.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<RelatedPlace>,
    /// Place of the problem in another file; absent if it is in the file of the diagnostic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<OtherFile>,
    /// Place in another spec file that already holds the name; absent without a conflict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts_with: Option<OtherFile>,
}

/// Place of a problem in another file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtherFile {
    /// Path of the file, relative to the folder of the file of the diagnostic. Of another spec file: as in its status.
    pub file: String,
    /// Path in the file; empty for the whole file.
    pub path: String,
    /// Line, from 1; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// Another place that belongs to the problem of a diagnostic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelatedPlace {
    /// Path in the file.
    pub path: String,
    /// Description of the place.
    pub message: String,
    /// Line, from 1; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// Location in a file, within one line.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Length in characters, within the line.
    pub length: usize,
}

impl Diagnostic {
    /// Creates a diagnostic that rejects the file.
    pub fn error(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: DiagnosticSeverity::Error,
            path: path.into(),
            message: message.into(),
            hint: None,
            correction: None,
            location: None,
        }
    }

    /// Creates a diagnostic that does not reject the file.
    pub fn warning(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: DiagnosticSeverity::Warning,
            ..Self::error(path, message)
        }
    }

    /// Sets the suggested fix.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Sets the text to replace and its replacement.
    #[must_use]
    pub fn replace(mut self, now: impl Into<String>, suggest: impl Into<String>) -> Self {
        let correction = self.correction.get_or_insert_default();
        (correction.now, correction.suggest) = (Some(now.into()), Some(suggest.into()));
        self
    }

    /// Adds a place that belongs to the problem.
    #[must_use]
    pub fn relate(mut self, path: impl Into<String>, message: impl Into<String>) -> Self {
        self.correction
            .get_or_insert_default()
            .related
            .push(RelatedPlace {
                path: path.into(),
                message: message.into(),
                line: None,
            });
        self
    }

    /// Sets the place of the problem in another file.
    #[must_use]
    pub fn elsewhere(mut self, place: OtherFile) -> Self {
        self.correction.get_or_insert_default().elsewhere = Some(place);
        self
    }

    /// Sets the place in another spec file that holds the name.
    #[must_use]
    pub fn conflicts_with(mut self, place: OtherFile) -> Self {
        self.correction.get_or_insert_default().conflicts_with = Some(place);
        self
    }

    /// Sets the location.
    #[must_use]
    pub fn at(self, location: impl Into<Location>) -> Self {
        Self {
            location: Some(location.into()),
            ..self
        }
    }

    /// Returns true if the diagnostic rejects the file.
    pub fn is_error(&self) -> bool {
        self.severity == DiagnosticSeverity::Error
    }
}

/// Maximum width of a rendered source line, in characters.
const MAX_WIDTH: usize = 120;
/// Maximum number of rendered related places of a diagnostic.
const MAX_RELATED: usize = 8;

/// Renders diagnostics for a person: message, location, source line, related places and hint.
///
/// The result is plain text without colour. It replaces control characters of the source.
///
/// ```rust
/// use argus_crds::{Diagnostic, Location, render};
///
/// let source = "project:\n  name: \"\"\n";
/// let diagnostic = Diagnostic::error("project.name", "`name` is empty")
///     .hint("give it a value")
///     .at(Location { line: 2, column: 9, length: 2 });
/// let expected = concat!(
///     "error: `name` is empty\n",
///     " --> shop.e2e.yaml:2:9\n",
///     "  |\n",
///     "2 |   name: \"\"\n",
///     "  |         ^^\n",
///     "hint: give it a value\n",
/// );
/// assert_eq!(render("shop.e2e.yaml", source, &[diagnostic]), expected);
/// ```
pub fn render(file_name: &str, source: &str, diagnostics: &[Diagnostic]) -> String {
    let lines = lines_of(source);
    let texts: Vec<String> = diagnostics
        .iter()
        .map(|diagnostic| render_one(file_name, &lines, diagnostic))
        .collect();
    texts.join("\n")
}

/// Returns the lines of a text as YAML counts them: a carriage return alone also ends a line.
pub(crate) fn lines_of(text: &str) -> Vec<&str> {
    text.lines().flat_map(|line| line.split('\r')).collect()
}

fn render_one(file_name: &str, lines: &[&str], diagnostic: &Diagnostic) -> String {
    let word = match diagnostic.severity {
        DiagnosticSeverity::Error => "error",
        DiagnosticSeverity::Warning => "warning",
    };
    let mut text = format!("{word}: {}\n", diagnostic.message);
    match diagnostic.location {
        None => writeln_to(&mut text, format_args!(" --> {file_name}")),
        Some(location) => {
            writeln_to(
                &mut text,
                format_args!(" --> {file_name}:{}:{}", location.line, location.column),
            );
            if let Some(line) = location.line.checked_sub(1).and_then(|index| lines.get(index)) {
                render_snippet(&mut text, line, location);
            }
        }
    }
    let related = diagnostic.correction.iter().flat_map(|it| &it.related);
    for place in related.take(MAX_RELATED) {
        let line = place.line.map(|line| format!(" in line {line}"));
        let line = line.unwrap_or_default();
        writeln_to(&mut text, format_args!("note: {}{line}", place.message));
    }
    if let Some(hint) = &diagnostic.hint {
        writeln_to(&mut text, format_args!("hint: {hint}"));
    }
    text
}

fn render_snippet(text: &mut String, line: &str, location: Location) {
    let number = location.line.to_string();
    let margin = " ".repeat(number.len());
    let column = location.column.saturating_sub(1);
    let skip = if column + location.length.min(MAX_WIDTH / 2) > MAX_WIDTH {
        column - MAX_WIDTH / 3
    } else {
        0
    };
    let shown: String = line.chars().skip(skip).take(MAX_WIDTH).map(printable).collect();
    let visible = shown.chars().count().saturating_sub(column - skip).max(1);
    let indent = " ".repeat(column - skip);
    let carets = "^".repeat(location.length.clamp(1, visible));
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

//! Workflow commands and environment files of GitHub Actions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{Annotation, Appended, Level};

/// Files and folders of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Workflow {
    /// Root of the checkout, to which the paths of annotations are relative.
    workspace: Option<PathBuf>,
    env: Option<PathBuf>,
    output: Option<PathBuf>,
    summary: Option<PathBuf>,
}

impl Workflow {
    pub(super) fn new(variables: &BTreeMap<String, String>) -> Self {
        let path = |name| {
            let value: Option<&String> = variables.get(name);
            value.filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        Self {
            workspace: path("GITHUB_WORKSPACE"),
            env: path("GITHUB_ENV"),
            output: path("GITHUB_OUTPUT"),
            summary: path("GITHUB_STEP_SUMMARY"),
        }
    }

    pub(super) fn annotate(&self, annotation: &Annotation, current: &Path) -> String {
        let file = annotation.file.as_ref().map(|file| {
            let absolute = current.join(file);
            let workspace = self.workspace.as_deref();
            let inside = workspace.and_then(|root| absolute.strip_prefix(root).ok());
            inside.unwrap_or(&absolute).display().to_string()
        });
        let properties = [
            ("file", file),
            ("line", annotation.line.map(|line| line.to_string())),
            ("col", annotation.column.map(|column| column.to_string())),
            (
                "title",
                Some(annotation.title.clone()).filter(|title| !title.is_empty()),
            ),
        ];
        let properties: Vec<String> = properties
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", escape_property(&value?))))
            .collect();
        let command = match annotation.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        let space = if properties.is_empty() { "" } else { " " };
        let message = escape_data(&annotation.message);
        format!("::{command}{space}{}::{message}\n", properties.join(","))
    }

    pub(super) fn publish_variables(
        &self,
        variables: &BTreeMap<String, String>,
        delimiter: &str,
    ) -> Option<Appended> {
        Some(Appended {
            path: self.env.clone()?,
            text: assign(variables, delimiter),
        })
    }

    pub(super) fn publish_results(
        &self,
        results: &BTreeMap<String, String>,
        summary: &str,
        delimiter: &str,
    ) -> Vec<Appended> {
        let output = self.output.clone().map(|path| Appended {
            path,
            text: assign(results, delimiter),
        });
        let summary = self.summary.clone().map(|path| Appended {
            path,
            text: format!("{}\n", summary.trim_end()),
        });
        output.into_iter().chain(summary).collect()
    }
}

pub(super) fn begin(title: &str) -> String {
    format!("::group::{}\n", escape_data(title))
}

pub(super) fn end() -> String {
    "::endgroup::\n".to_owned()
}

/// Assignments of values that can have several lines.
fn assign(variables: &BTreeMap<String, String>, delimiter: &str) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        // Writing to a string cannot fail.
        let _ = write!(text, "{name}<<{delimiter}\n{value}\n{delimiter}\n");
    }
    text
}

/// Escapes the message of a workflow command.
fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

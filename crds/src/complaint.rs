//! What is wrong with a file, in words for its author.

use serde::{Deserialize, Serialize};

/// Whether a complaint refuses the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum Gravity {
    Error,
    Warning,
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Complaint {
    /// Whether it refuses the file.
    pub severity: Gravity,
    /// Path in the file, as in `services[0].container.ports[1]`; empty for the file as a whole.
    pub path: String,
    /// What is wrong: lower case, no full stop, backticks round names.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The number of characters, within the line.
    pub len: usize,
}

impl Complaint {
    /// A complaint that refuses the file.
    pub fn error(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Gravity::Error, path: path.into(), message: message.into(), hint: None, place: None }
    }

    /// A complaint that lets the file pass.
    pub fn warning(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Gravity::Warning, ..Self::error(path, message) }
    }

    /// The same complaint with what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same complaint with its place.
    #[must_use]
    pub fn at(self, place: impl Into<Place>) -> Self {
        Self { place: Some(place.into()), ..self }
    }

    /// Whether it refuses the file.
    pub fn is_error(&self) -> bool {
        self.severity == Gravity::Error
    }
}

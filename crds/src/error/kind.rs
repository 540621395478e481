//! Classification of errors: category, severity and class.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Area that an error belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum Category {
    Infrastructure,
    Container,
    Network,
    System,
}

/// Effect of an error on its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum Severity {
    Fatal,
    Recoverable,
    Warning,
}

/// Party that acts next: Argus retries (`transient`), an agent or a developer changes the file, the build or the program (`permanent`), or a
/// person acts because the fix needs permissions, credentials, a machine or consent (`human`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum Class {
    Transient,
    Permanent,
    Human,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 3] = [Self::Transient, Self::Permanent, Self::Human];

    /// Name of the class in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Permanent => "permanent",
            Self::Human => "human",
        }
    }

    /// Party that acts next, and its next step. Every page that defines a class has this text.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Transient => "Argus retries automatically",
            Self::Permanent => {
                "another input is needed: an agent or a developer changes the file, the build or the program"
            }
            Self::Human => {
                "a person is needed: the fix takes permissions, credentials, a machine or the consent of another person"
            }
        }
    }

    /// True if Argus retries automatically.
    pub const fn is_retried(self) -> bool {
        matches!(self, Self::Transient)
    }
}

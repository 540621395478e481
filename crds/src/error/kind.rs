//! How errors are sorted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What part of the world an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum Category {
    Infrastructure,
    Container,
    Network,
    System,
}

/// How bad an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum Severity {
    Fatal,
    Recoverable,
    Warning,
}

/// What makes an error go away: time, nothing as things are, or a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
pub enum Class {
    Transient,
    Permanent,
    Human,
}

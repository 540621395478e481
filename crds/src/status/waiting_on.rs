//! Reason why a service cannot proceed, with the progress of its image.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Code;

/// Reason why a service cannot proceed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitingOn {
    /// Reason for programs, such as `DependencyNotReady`.
    pub reason: String,
    /// Reason for people.
    pub message: String,
    /// Name of the awaited service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Time of the next attempt (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Code of the error that causes the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Code>,
    /// Progress of the awaited image while Argus pulls or builds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageProgress>,
}

/// Progress of the pull or build of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageProgress {
    /// Image reference.
    pub reference: String,
    /// Action on the image.
    pub action: ImageAction,
    /// Completed and known layers of a pull.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<Amount>,
    /// Downloaded and known bytes of a pull.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Amount>,
    /// Completed and all steps of a build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Amount>,
    /// Last progress line for people; empty before the first one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub line: String,
}

/// Action on an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ImageAction {
    /// Argus pulls the image.
    #[default]
    Pull,
    /// Argus builds the image.
    Build,
}

/// Completed part of a total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Amount {
    /// Completed part.
    pub done: u64,
    /// Total.
    pub total: u64,
}

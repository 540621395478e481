//! Orphans in status files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Orphan: a resource of a dead controller that no environment declares. Also a volume that a removal kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Orphan {
    /// Kind of resource: `container`, `network` or `volume`.
    pub kind: String,
    /// Id of the engine.
    pub id: String,
    /// Name of the resource.
    pub name: String,
    /// Project label of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Environment of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Identifier of the controller that created it; absent for resources of the Node tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Identifier of the run that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Time of its creation by the engine's clock (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// True for a kept volume of the project in another folder. Only `argus orphans --clean --volumes` of a person removes it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub other_folder: bool,
    /// Progress of its removal: `reported`, `waiting` for its minimum age, `removing`, `removed` or `failed`; or
    /// `kept` for a volume with data of a removed environment. Such a volume is not an orphan.
    pub result: String,
    /// Reason why it was not removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Orphan {
    /// Result of a volume that a removal kept.
    pub const KEPT: &str = "kept";

    /// Returns whether a removal kept the resource on purpose, so that it is no orphan.
    pub fn is_kept(&self) -> bool {
        self.result == Self::KEPT
    }
}

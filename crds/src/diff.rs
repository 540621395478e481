//! Changes of an environment since its last good revision: `argus diff`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Changes of the spec file and of the images of an environment since it was last Ready for 10 s.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentDiff {
    /// Name of the environment.
    pub environment: String,
    /// Path of the spec file; absent if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_path: Option<String>,
    /// Last good revision. Absent if the environment was never Ready for 10 s; then there are no changes either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<GoodRevision>,
    /// Desired revision; absent if none was ever accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Revision of the file that a rollback replaced; absent without a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_from: Option<String>,
    /// True if the current content of the file is rejected, so that it has no effect yet.
    pub rejected: bool,
    /// Changed keys of the file, in the order of their names.
    pub keys: Vec<KeyChange>,
    /// Changed images, by service.
    pub images: Vec<ImageChange>,
}

/// Revision with which an environment was Ready for 10 s.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GoodRevision {
    /// Name of the revision.
    pub revision: String,
    /// Time since which it is good, with the images of that time (RFC 3339).
    pub since: String,
}

/// Changed key of a spec file. Secrets are redacted, and long values are replaced by their length and hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyChange {
    /// Path of the key, such as `services.web.image`.
    pub key: String,
    /// Line in the current file, from 1; absent for a removed key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Value in the good revision; absent for an added key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Current value; absent for a removed key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Edit of a spec file that ended a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Repair {
    /// Hash of the failure: the service, the kind, the exit code, and the message without its numbers.
    pub failure: String,
    /// Service that failed.
    pub service: String,
    /// Repairs of the failure.
    #[serde(flatten)]
    pub seen: SeenBefore,
}

/// Repairs of earlier failures that equal a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeenBefore {
    /// Number of repairs.
    pub times: u32,
    /// The last one.
    pub last_repair: LastRepair,
}

/// Edit after which an environment with a failure became Ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastRepair {
    /// Time (RFC 3339).
    pub when: String,
    /// Environment that became Ready.
    pub environment: String,
    /// Changed keys.
    pub keys: Vec<String>,
    /// Values of these keys before and after the edit.
    pub diff: Vec<KeyChange>,
}

/// Changed image of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageChange {
    /// Name of the service or mock.
    pub service: String,
    /// Reference of its image in the current revision.
    pub image: String,
    /// Image id in the good revision.
    pub before: String,
    /// Image id of its current container; absent without a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// True if the build context or the build arguments changed.
    pub build_changed: bool,
}

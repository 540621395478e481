//! Settings of named volumes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of a named volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamedVolume {
    /// True for a volume that exists already. Argus neither creates nor removes it. It needs `argus allow` or `--allow-external`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Name of an external volume on the engine. Default: its name in this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

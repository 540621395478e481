//! What is checked before anything is created, and how it came out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Code;

/// The version of the report.
pub const PREFLIGHT_VERSION: u32 = 1;

/// What was checked before anything is created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightReport {
    /// Version of this format.
    pub schema_version: u32,
    /// The worst of it.
    pub overall: PreflightOverall,
    /// Every check.
    pub checks: Vec<PreflightCheck>,
    /// How it was before what could be mended was mended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<PreflightBefore>,
    /// What was done about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<PreflightFix>,
    /// How long the checks took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// When it was made (RFC 3339).
    pub as_of: String,
}

/// A report that was followed by another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightBefore {
    /// The worst of it.
    pub overall: PreflightOverall,
    /// Every check.
    pub checks: Vec<PreflightCheck>,
    /// When it was made (RFC 3339).
    pub as_of: String,
}

/// One thing that was done about what a report showed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightFix {
    /// `container` or `network`.
    pub kind: String,
    /// The engine's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether it is gone.
    pub removed: bool,
    /// Why it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// One check before anything is created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightCheck {
    /// Which check.
    pub name: CheckName,
    /// How it came out.
    pub result: CheckResult,
    /// What was found, or why it was skipped.
    pub message: String,
    /// The error it raises.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What was found, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

macro_rules! words {
    ($(#[doc = $doc:literal] $name:ident { $first:ident $(, $rest:ident)* })+) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        #[allow(missing_docs, reason = "a comment on a variant would split the schema's enum")]
        pub enum $name { #[default] $first $(, $rest)* }

        impl $name {
            /// All of them, in their order.
            pub const ALL: &[Self] = &[Self::$first $(, Self::$rest)*];
        }
    )+};
}

words! {
    #[doc = "What a preflight check looks at."]
    CheckName { Engine, Api, Disk, Orphans, Ports, Networks, Images, Journal, Clock }
    #[doc = "The worst result of a preflight report."]
    PreflightOverall { Healthy, Degraded, Unhealthy }
    #[doc = "How a preflight check came out; what could not be checked is never a pass."]
    CheckResult { Skipped, Pass, Warn, Fail }
}

impl CheckName {
    /// The name as it is written, as in `disk`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Api => "api",
            Self::Disk => "disk",
            Self::Orphans => "orphans",
            Self::Ports => "ports",
            Self::Networks => "networks",
            Self::Images => "images",
            Self::Journal => "journal",
            Self::Clock => "clock",
        }
    }
}

impl std::fmt::Display for CheckName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

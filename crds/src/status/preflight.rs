//! Preflight report: checks before the creation of resources, and their results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::words;
use crate::error::Code;

/// Version of the format of the report.
pub const PREFLIGHT_VERSION: u32 = 1;

/// Preflight report: results of all checks before the creation of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightReport {
    /// Version of the format of the report.
    pub schema_version: u32,
    /// Worst result of all checks.
    pub overall: PreflightOverall,
    /// Results of all checks.
    pub checks: Vec<PreflightCheck>,
    /// Report before the fixes of `--fix`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<PreflightBefore>,
    /// Fixes of `--fix`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<PreflightFix>,
    /// Duration of the checks in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Time of the report (RFC 3339).
    pub as_of: String,
}

/// Preflight report before the fixes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightBefore {
    /// Worst result of all checks.
    pub overall: PreflightOverall,
    /// Results of all checks.
    pub checks: Vec<PreflightCheck>,
    /// Time of the report (RFC 3339).
    pub as_of: String,
}

/// Removed resource, as a fix of a failed check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightFix {
    /// Kind of resource: `container` or `network`.
    pub kind: String,
    /// Id of the engine.
    pub id: String,
    /// Name of the resource.
    pub name: String,
    /// True if the resource is gone.
    pub removed: bool,
    /// Reason why the removal failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Result of one preflight check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightCheck {
    /// Name of the check.
    pub name: CheckName,
    /// Result of the check.
    pub result: CheckResult,
    /// Finding for people, or the reason why the check was skipped.
    pub message: String,
    /// Error code of a failed check or warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Finding for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

words! {
    #[doc = "Name of a preflight check."]
    CheckName "camelCase" { Engine, Api, Disk, Orphans, Ports, Networks, Images, Journal, Clock }
    #[doc = "Worst result of a preflight report."]
    PreflightOverall "camelCase" { Healthy, Degraded, Unhealthy }
    #[doc = "Result of a preflight check. A check that could not run is `skipped`, never `pass`."]
    CheckResult "camelCase" { Skipped, Pass, Warn, Fail }
}

impl CheckName {
    /// Returns the serialized name, such as `disk`.
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

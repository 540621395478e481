//! Users of an environment: running tests with their results, and holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Running test. Until it ends, Argus does not stop, replace or detach running containers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunningTest {
    /// Name of the test case.
    pub case: String,
    /// Owner of the test, as named by the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Purpose of the test, as described by the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// Start of the test (RFC 3339).
    pub since: String,
    /// End of its lease (RFC 3339). After it, the test counts as ended, even without an explicit end.
    pub until: String,
}

/// Last result of a test suite.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SuiteStatus {
    /// Id of the suite.
    pub suite: String,
    /// `passed`, `failed` or `skipped`.
    pub result: String,
    /// End of the run (RFC 3339).
    pub at: String,
    /// Tested revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Names of the failed cases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed_cases: Vec<String>,
    /// Results of earlier runs, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierRun>,
}

/// Result of a suite in an earlier run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EarlierRun {
    /// `passed`, `failed` or `skipped`.
    pub result: String,
    /// End of the run (RFC 3339).
    pub at: String,
}

/// Hold: a request to leave an environment or a service unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ActiveHold {
    /// Name of the held service; absent for the whole environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Owner of the hold, as named by the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Reason for the hold.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Start of the hold (RFC 3339).
    pub since: String,
    /// Automatic end of the hold (RFC 3339). Absent if the hold lasts until `argus resume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl ActiveHold {
    /// Describes the hold in one sentence: object, owner, end and reason. `all` is the name of the whole environment.
    #[must_use]
    pub fn sentence(&self, all: &str) -> String {
        let object = self.service.as_ref();
        let object = object.map_or_else(|| all.to_owned(), |name| format!("`{name}`"));
        let by = self.holder.as_ref().map(|holder| format!(" by {holder}"));
        let until = self.until.as_ref().map(|until| format!(" until {until}"));
        let reason = Some(&self.reason).filter(|reason| !reason.is_empty());
        let reason = reason.map(|reason| format!(": {reason}"));
        let rest: String = [by, until, reason].into_iter().flatten().collect();
        format!("{object} is held{rest}")
    }
}

//! Who uses an environment at present: the tests that run on it, and what is held.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A test that runs: until it ends, what runs is left running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunningTest {
    /// Name of the test case.
    pub case: String,
    /// Who runs it, in their own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// What for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// Since when (RFC 3339).
    pub since: String,
    /// It counts as ended then, whether or not anybody says so (RFC 3339).
    pub until: String,
}

/// What is left as it is because somebody asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ActiveHold {
    /// One service; the whole environment without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Who holds it, in their own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Since when (RFC 3339).
    pub since: String,
    /// It ends by itself then (RFC 3339); without, when somebody resumes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl ActiveHold {
    /// In a sentence: what of it is held, by whom, until when and why; `all` is what the whole environment is called.
    #[must_use]
    pub fn sentence(&self, all: &str) -> String {
        let what = self.service.as_ref();
        let what = what.map_or_else(|| all.to_owned(), |name| format!("`{name}`"));
        let by = self.holder.as_ref().map(|holder| format!(" by {holder}"));
        let until = self.until.as_ref().map(|until| format!(" until {until}"));
        let why = Some(&self.reason).filter(|why| !why.is_empty());
        let why = why.map(|why| format!(": {why}"));
        let rest: String = [by, until, why].into_iter().flatten().collect();
        format!("{what} is held{rest}")
    }
}

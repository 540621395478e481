//! Incident files: reports about unclean stops of the controller, `<state>/incidents/ID.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the format of the incident files.
pub const INCIDENT_VERSION: u32 = 1;

/// State that a controller found after an unclean stop of the previous run, or after damage to its files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Incident {
    /// Version of the file format.
    pub schema_version: u32,
    /// Identifier of the incident (ULID), and name of the file.
    pub id: String,
    /// Time of the end of the recovery (RFC 3339).
    pub at: String,
    /// Identifier of the controller.
    pub controller: String,
    /// Identifier of the run that performed the recovery.
    pub run: String,
    /// True if the previous run stopped cleanly; then only files were damaged.
    pub clean: bool,
    /// Identifier of the run that died; absent if the journal does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died: Option<String>,
    /// Time of its last journal record (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// Actions without a recorded result, and their outcomes.
    pub open_intents: Vec<OpenIntent>,
    /// Containers of the dead run that this controller continues to manage.
    pub adopted: Vec<Adopted>,
    /// Restored restart counters by `ENVIRONMENT/SERVICE`, without zeros.
    pub restarts: BTreeMap<String, u32>,
    /// Parts of the state directory that Argus could not use.
    pub quarantined: Vec<QuarantinedFile>,
    /// Condition of the journal at the start.
    pub journal: JournalSummary,
}

/// Action with an intent but without a result in the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenIntent {
    /// Sequence number of the intent in the journal.
    pub seq: u64,
    /// Time of the intent (RFC 3339).
    pub at: String,
    /// Environment of the action, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Subject of the action.
    pub subject: String,
    /// Name of the action, such as `create-container`.
    pub verb: String,
    /// Outcome: `done`, `notApplied`, or `repeat` if the outcome cannot be observed.
    pub resolution: String,
    /// Observation that determined the outcome.
    pub how: String,
}

/// Container of a dead run that the controller continues to manage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Adopted {
    /// Environment of the container.
    pub environment: String,
    /// Service of the container.
    pub service: String,
    /// Name of the container.
    pub container: String,
    /// Container id of the engine.
    pub id: String,
    /// State of the container as reported by the engine.
    pub state: String,
}

/// Unusable file of the state directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct QuarantinedFile {
    /// Original path.
    pub path: String,
    /// Reason why Argus could not use it.
    pub why: String,
    /// New path; absent if it could not be moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// Condition of the journal at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JournalSummary {
    /// Number of valid records.
    pub records: u64,
    /// Number of damaged lines in the middle, which were skipped.
    pub damaged: u64,
    /// Number of lines of a newer version, which were skipped.
    pub newer: u64,
    /// Number of bytes removed from its end.
    pub torn: u64,
}

//! What agents read of a run that did not end well: `<state>/incidents/ID.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the incident files.
pub const INCIDENT_VERSION: u32 = 1;

/// How a controller found what the run before it left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Incident {
    /// Version of this file's format.
    pub schema_version: u32,
    /// A ULID; the name of this file.
    pub id: String,
    /// When it was settled (RFC 3339).
    pub at: String,
    /// Identity of the controller.
    pub controller: String,
    /// The run that settled it.
    pub run: String,
    /// Whether the run before ended with a clean stop; then only files were damaged.
    pub clean: bool,
    /// The run that died, where the journal tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub died: Option<String>,
    /// When it was heard of last (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// What it had begun and not ended, and what became of that.
    pub open_intents: Vec<OpenIntent>,
    /// What it left and is gone on with.
    pub adopted: Vec<Adopted>,
    /// Restarts that are remembered, by `ENVIRONMENT/SERVICE`; where it is 0 there is no entry.
    pub restarts: BTreeMap<String, u32>,
    /// Parts of the state directory that could not be used.
    pub set_aside: Vec<SetAside>,
    /// How the journal was found.
    pub journal: JournalSummary,
}

/// An act that was begun and not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OpenIntent {
    /// Its number in the journal.
    pub seq: u64,
    /// When it was begun (RFC 3339).
    pub at: String,
    /// Its environment, where it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// What it is about.
    pub subject: String,
    /// What was to be done.
    pub verb: String,
    /// `done`, `notDone`, or `redo` where it cannot be seen.
    pub resolution: String,
    /// By what that was found.
    pub how: String,
}

/// A container that a dead run left and that goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Adopted {
    /// Its environment.
    pub environment: String,
    /// Its service.
    pub service: String,
    /// Its name.
    pub container: String,
    /// The engine's id.
    pub id: String,
    /// The engine's word for what it does.
    pub state: String,
}

/// Something of the state directory that could not be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SetAside {
    /// Where it was.
    pub path: String,
    /// Why it was of no use.
    pub why: String,
    /// Where it is now; absent where it could not be moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// How the journal was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JournalSummary {
    /// Records that were whole.
    pub records: u64,
    /// Lines in the middle that were damaged, and skipped.
    pub damaged: u64,
    /// Lines of a newer version, skipped.
    pub newer: u64,
    /// Bytes that were cut off its end.
    pub torn: u64,
}

//! Accepted revision of an environment.

use serde::{Deserialize, Serialize};

use crate::desired::Desired;
use crate::desired::key_lines::KeyLines;
use crate::ident::Hash;
use crate::time::Timestamp;

/// Accepted environment: its desired state, and facts about its spec file that do not change the revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Desired state.
    pub desired: Desired,
    /// Path of the spec file, for display.
    pub spec_path: String,
    /// Positions of the keys in the spec file.
    #[serde(default)]
    pub lines: KeyLines,
    /// Time of acceptance. Two seconds later, Argus removes the objects that this revision no longer declares.
    pub accepted_at: Timestamp,
    /// True if newer content of the file is rejected or still being written. Argus then removes nothing because of it.
    #[serde(default)]
    pub has_pending_edit: bool,
    /// True if a person allowed the project of the file: its containers may write above bind sources of allowed projects. Not
    /// stored, so it is false until the file is read.
    #[serde(skip)]
    pub allowed: bool,
    /// True if the file defines another environment now: Argus is about to remove this one.
    #[serde(skip)]
    pub is_ending: bool,
    /// Hash of the bytes of the spec file, and of the other Compose files that it names. An edit changes it; `.env`, variables, build
    /// contexts and documents do not. `None` in the state of an earlier version, until the file is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_hash: Option<Hash>,
}

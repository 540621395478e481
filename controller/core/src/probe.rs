//! Verdicts of probes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ident::ContainerId;
use crate::time::Timestamp;

/// Verdicts by container; a container without an entry has not been probed.
pub type HealthStates = BTreeMap<ContainerId, Health>;

/// What the probes of one container say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The verdict.
    pub status: ProbeStatus,
    /// Since when.
    pub since: Timestamp,
    /// Of `Unhealthy`: when the first of the bad answers came that made it; `None` where nobody told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// The run of the container it speaks of; a verdict on an earlier run says nothing.
    pub started_at: Option<Timestamp>,
    /// What the last probe said, cut to 4 KiB.
    pub output: String,
    /// What the last probes said before this verdict, oldest first.
    pub recent: Vec<String>,
    /// Nobody answered at all, which is worse than a bad answer.
    pub dead: bool,
    /// More than half of the last probes failed although it was healthy in between.
    pub unsteady: bool,
}

/// A probe's verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeStatus {
    /// Not decided.
    #[default]
    Starting,
    /// Enough successes in a row.
    Healthy,
    /// Enough failures in a row.
    Unhealthy,
}

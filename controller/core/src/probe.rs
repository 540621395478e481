//! Probe results of containers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ident::ContainerId;
use crate::time::Timestamp;

/// Probe results by container; a container without an entry has not been probed.
pub type HealthStates = BTreeMap<ContainerId, Health>;

/// Probe results of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Current status.
    pub status: ProbeStatus,
    /// Time of the last status change.
    pub since: Timestamp,
    /// Time of the first failed probe that led to `Unhealthy`; `None` for other statuses and where it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// Start time of the probed run; a result of an earlier run does not count.
    pub started_at: Option<Timestamp>,
    /// Output of the last probe, cut to 4 KiB.
    pub output: String,
    /// Outputs of the last probes before the status change, oldest first.
    pub recent: Vec<String>,
    /// True if the container did not respond at all, which is worse than a failing response.
    pub dead: bool,
    /// True if more than half of the last probes failed although the container was healthy in between.
    pub unsteady: bool,
}

/// Status that the probes determined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeStatus {
    /// Undetermined: too few results so far.
    #[default]
    Starting,
    /// Enough consecutive successes.
    Healthy,
    /// Enough consecutive failures.
    Unhealthy,
}

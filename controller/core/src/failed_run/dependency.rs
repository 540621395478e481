//! State of the dependency that explains a failure.

use serde::{Deserialize, Serialize};

/// State of a dependency when a run failed because of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DependencyState {
    /// Its health check failed after a success.
    Unhealthy,
    /// It had restarted during the failed run.
    Restarted,
    /// Its process had ended with this exit code.
    Ended(i64),
    /// It had no container that ran.
    Absent,
}

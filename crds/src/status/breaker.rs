//! Status of a circuit breaker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BreakerScope, BreakerState};

/// Status of a circuit breaker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BreakerStatus {
    /// Scope of the breaker: the engine or an environment.
    pub scope: BreakerScope,
    /// State of the breaker.
    pub state: BreakerState,
    /// Number of failures in a row; 0 after a success.
    pub failures: u32,
    /// Number of changes to `open`.
    pub times_opened: u64,
    /// Time of the next test call (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<String>,
    /// Error of the last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Last 20 failures in a row, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_failures: Vec<BreakerFailure>,
    /// Last state changes, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<BreakerChange>,
}

/// State change of a circuit breaker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BreakerChange {
    /// Time of the change (RFC 3339).
    pub at: String,
    /// New state: `closed`, `open` or `halfOpen`.
    pub to: String,
    /// Reason for the change.
    pub reason: String,
}

/// Failure that a circuit breaker counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BreakerFailure {
    /// Time of the failure (RFC 3339).
    pub at: String,
    /// Kind of the action, such as `start-container`, or `ping`.
    pub operation: String,
    /// Reason of the failure.
    pub error: String,
}

//! Results of a suite and of its cases.

use std::time::Duration;

use argus_core::time::Timestamp;
use serde::Serialize;

use crate::check::Failure;
use crate::exchange::Exchange;

/// Results of a suite.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// Results of the cases in their order.
    pub cases: Vec<CaseResult>,
    /// Failures of setup and teardown, which have no effect on the verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// Failure of a step of setup or teardown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Name of the step.
    pub step: String,
    /// Conditions that do not hold.
    pub failures: Vec<Failure>,
}

/// Result of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseResult {
    /// Name for people.
    pub name: String,
    /// Line in the suite file.
    pub line: usize,
    /// Verdict.
    pub result: Verdict,
    /// Reason of a skip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of attempts.
    pub attempts: u32,
    /// Start of the first attempt, or time of a skip.
    #[serde(rename = "startedAt", serialize_with = "rfc3339")]
    pub started: Timestamp,
    /// Time of all attempts.
    #[serde(rename = "durationMs", serialize_with = "milliseconds")]
    pub duration: Duration,
    /// Conditions that did not hold in the last attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// Last exchange of a failed case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
}

/// Verdict about a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// All conditions hold, or failures are ignored.
    Passed,
    /// A condition does not hold.
    Failed,
    /// An earlier case of a sequential suite failed.
    Skipped,
    /// Argus does not support the step. This is never a pass.
    Unsupported,
}

/// Writes a duration in milliseconds.
pub fn milliseconds<S: serde::Serializer>(took: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u128(took.as_millis())
}

/// Writes a time in the form of RFC 3339.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
pub fn rfc3339<S: serde::Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(at)
}

impl RunReport {
    /// Returns the number of cases with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|case| case.result == verdict).count()
    }
}

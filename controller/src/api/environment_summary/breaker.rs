//! Summary of a circuit breaker.

use std::fmt;

use argus_core::time::Timestamp;
use argus_crds::status::{BreakerScope, BreakerState, BreakerStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::render::output;

/// Summary of a circuit breaker.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BreakerSummary {
    scope: BreakerScope,
    state: BreakerState,
    /// Number of failures in a row.
    failure_count: u32,
    /// Seconds since the last change of the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    since_seconds: Option<u64>,
}

impl BreakerSummary {
    /// Creates the summary; `None` for a closed breaker without failures.
    pub(super) fn from_status(breaker: &BreakerStatus, now: Timestamp) -> Option<Self> {
        let is_quiet = breaker.state == BreakerState::Closed && breaker.failures == 0;
        let changed = breaker.history.last();
        let changed = changed.and_then(|change| Timestamp::parse(&change.at));
        (!is_quiet).then(|| Self {
            scope: breaker.scope,
            state: breaker.state,
            failure_count: breaker.failures,
            since_seconds: changed.map(|at| now.since(at).as_secs()),
        })
    }
}

impl fmt::Display for BreakerSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failures = output::format_count(self.failure_count, "failure");
        write!(f, "circuit breaker: {:?}, {failures} in a row", self.state)?;
        match self.since_seconds {
            Some(seconds) => write!(f, ", changed {seconds} s ago"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use argus_crds::status::{BreakerChange, EnvironmentStatus};
    use serde_json::json;

    use super::super::EnvironmentSummary;
    use super::*;

    #[test]
    fn open_breaker_has_state_failures_and_age() {
        let opened = BreakerChange {
            at: "2026-01-01T00:00:00Z".to_owned(),
            to: "open".to_owned(),
            reason: String::new(),
        };
        let open = BreakerStatus {
            scope: BreakerScope::Environment,
            state: BreakerState::Open,
            failures: 5,
            history: vec![opened],
            ..BreakerStatus::default()
        };
        let now = Timestamp::parse("2026-01-01T00:00:12Z").unwrap();
        let summary = BreakerSummary::from_status(&open, now).unwrap();
        let expected =
            json!({ "scope": "environment", "state": "open", "failureCount": 5, "sinceSeconds": 12 });
        assert_eq!(json!(summary), expected);
        assert_eq!(
            summary.to_string(),
            "circuit breaker: Open, 5 failures in a row, changed 12 s ago"
        );
        assert_eq!(BreakerSummary::from_status(&BreakerStatus::default(), now), None);
        let status = EnvironmentStatus {
            breaker: Some(open),
            ..EnvironmentStatus::default()
        };
        let summary = EnvironmentSummary::from_status(&status);
        assert_eq!(json!(summary)["breaker"]["failureCount"], 5);
        assert!(summary.format_text().contains("circuit breaker: Open"));
    }
}

//! Restart budgets that ended: they show if a failure stays the same, whatever resets the budget.

use serde::{Deserialize, Serialize};

use crate::failed_run::{self, FailedRun, Fingerprint};
use crate::observed::Outage;
use crate::state::{ServiceHistory, restart};
use crate::time::Timestamp;

/// Ended budgets kept per service; no limit is larger.
const LIMIT: usize = 16;

/// A restart budget that ended, although its service failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedBudget {
    /// Time of its last failure.
    pub at: Timestamp,
    /// Fingerprint of its last failure.
    pub fingerprint: Option<Fingerprint>,
    /// True if a request to retry ended it.
    pub retried: bool,
}

impl ServiceHistory {
    /// Records the end of the budget of all failures but the newest ones, of which there are `newer`.
    pub(super) fn end_budget(&mut self, newer: usize, retried: bool, outages: &[Outage]) {
        let failures = &self.failures[..self.failures.len().saturating_sub(newer)];
        let is_own = |failed_run: &&FailedRun| {
            failed_run.recovered_at.is_none() && !restart::has_other_cause(failed_run, outages)
        };
        let Some(last) = failures.iter().rfind(is_own) else {
            return;
        };
        self.ended_budgets.push(EndedBudget {
            at: last.at,
            fingerprint: failed_run::fingerprint(last),
            retried,
        });
        let surplus = self.ended_budgets.len().saturating_sub(LIMIT);
        self.ended_budgets.drain(..surplus);
    }

    /// Number of ended budgets in a row, up to the last one, whose failure has the fingerprint of this one.
    pub(super) fn equal_budgets(&self, failed_run: &FailedRun) -> usize {
        let Some(fingerprint) = failed_run::fingerprint(failed_run) else {
            return 0;
        };
        let newest_first = self.ended_budgets.iter().rev();
        newest_first
            .take_while(|budget| budget.fingerprint.as_ref() == Some(&fingerprint))
            .count()
    }
}

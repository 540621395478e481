//! Results of a run for the controller, which keeps them.

use argus_core::state::CaseAttribution;
use argus_core::test_results::{HistoryLimits, SuiteRun, TestRun, TestVerdict};
use argus_core::time::Timestamp;
use argus_suite::Verdict;

use super::final_case::FinalCase;
use super::{Outcome, Report};

impl Report {
    /// Returns the results of the suites that ran.
    pub(in crate::test_runner) fn to_run(&self, at: Timestamp, limits: HistoryLimits) -> TestRun {
        let ran = self.suites.iter().filter(|suite| !suite.attempts.is_empty());
        TestRun {
            at,
            revision: self.revision.clone(),
            suites: ran.map(suite).collect(),
            limits,
        }
    }
}

fn suite(outcome: &Outcome) -> SuiteRun {
    let cases = outcome.final_cases();
    SuiteRun {
        name: outcome.name.clone(),
        digest: outcome.digest.clone(),
        result: match outcome.result {
            TestVerdict::Failed if outcome.unconfirmed.is_some() => TestVerdict::Skipped,
            result => result,
        },
        cases: cases
            .iter()
            .map(|case| (case.name.to_owned(), verdict(case)))
            .collect(),
    }
}

/// A failure that infrastructure caused is no verdict.
fn verdict(case: &FinalCase<'_>) -> TestVerdict {
    let attribution = case.failures.last().and_then(|failure| failure.attribution);
    match case.result {
        Verdict::Passed => TestVerdict::Passed,
        Verdict::Failed if attribution.is_some_and(CaseAttribution::is_excused) => TestVerdict::Skipped,
        Verdict::Failed => TestVerdict::Failed,
        Verdict::Skipped | Verdict::Unsupported => TestVerdict::Skipped,
    }
}

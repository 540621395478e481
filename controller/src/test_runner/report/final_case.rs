//! Final result of each case, over all attempts of its suite.

use std::time::Duration;

use argus_core::state::CaseAttribution;
use argus_suite::{CaseResult, Verdict};

use super::{Attempt, Outcome, TestVerdict};
use crate::test_runner::yaml::text::format_failed;

/// Final result of a case. A command is one case, and so is a suite without an attempt.
#[derive(Debug)]
pub(super) struct FinalCase<'a> {
    pub(super) name: &'a str,
    /// Line in the suite file.
    pub(super) line: Option<usize>,
    pub(super) result: Verdict,
    /// Reason of a skip, or of a failure without an attempt.
    pub(super) reason: Option<&'a str>,
    pub(super) duration: Duration,
    /// Failed runs, oldest first. The last one is final if the case failed.
    pub(super) failures: Vec<CaseFailure<'a>>,
}

/// Failed run of a case.
#[derive(Debug)]
pub(super) struct CaseFailure<'a> {
    /// First line for people.
    pub(super) message: String,
    /// Complete text.
    pub(super) text: String,
    pub(super) attribution: Option<&'a CaseAttribution>,
}

impl Outcome {
    /// Returns the cases in their order.
    pub(super) fn final_cases(&self) -> Vec<FinalCase<'_>> {
        let Some(last) = self.attempts.last() else {
            return vec![FinalCase {
                name: &self.name,
                line: None,
                result: verdict_of(self.result),
                reason: self.reason.as_deref(),
                duration: Duration::ZERO,
                failures: Vec::new(),
            }];
        };
        if last.suite.is_none() {
            return vec![FinalCase {
                name: &self.name,
                line: None,
                result: verdict_of(self.result),
                reason: None,
                duration: last.duration,
                failures: self
                    .attempts
                    .iter()
                    .filter(|attempt| !attempt.has_passed())
                    .map(|attempt| CaseFailure {
                        message: attempt.format_end(),
                        text: [attempt.tails.0.as_str(), &attempt.tails.1].concat(),
                        attribution: attempt.attributions.first().map(|found| &found.attribution),
                    })
                    .collect(),
            }];
        }
        let mut cases: Vec<FinalCase<'_>> = Vec::new();
        for attempt in &self.attempts {
            for case in attempt.suite.iter().flat_map(|suite| &suite.cases) {
                let is_same = |known: &&mut FinalCase<'_>| {
                    known.line == Some(case.line) && plain_name(known.name) == plain_name(&case.name)
                };
                let failure = self.failure(attempt, case);
                if let Some(known) = cases.iter_mut().find(is_same) {
                    (known.name, known.result) = (&case.name, case.result);
                    (known.reason, known.duration) = (case.reason.as_deref(), case.duration);
                    known.failures.extend(failure);
                } else {
                    cases.push(FinalCase {
                        name: &case.name,
                        line: Some(case.line),
                        result: case.result,
                        reason: case.reason.as_deref(),
                        duration: case.duration,
                        failures: failure.into_iter().collect(),
                    });
                }
            }
        }
        cases
    }

    fn failure<'a>(&self, attempt: &'a Attempt, case: &CaseResult) -> Option<CaseFailure<'a>> {
        let first = case.failures.first().map(|failure| failure.message.clone());
        let is_it = |found: &&super::FailedCase| found.line == Some(case.line) && found.case == case.name;
        (case.result == Verdict::Failed).then(|| CaseFailure {
            message: first.unwrap_or_default(),
            text: format_failed(case, self.file.as_deref().unwrap_or_default(), "failed"),
            attribution: attempt
                .attributions
                .iter()
                .find(is_it)
                .map(|found| &found.attribution),
        })
    }
}

/// Name of a case as in its file.
fn plain_name(name: &str) -> &str {
    name.strip_suffix(" (error ignored)").unwrap_or(name)
}

/// Verdict of a suite that is one case.
fn verdict_of(result: TestVerdict) -> Verdict {
    match result {
        TestVerdict::Passed => Verdict::Passed,
        TestVerdict::Failed => Verdict::Failed,
        TestVerdict::Skipped => Verdict::Skipped,
    }
}

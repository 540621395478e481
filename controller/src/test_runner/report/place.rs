//! Places of failed cases, for annotations of CI systems.

use argus_core::state::CaseAttribution;
use argus_suite::Verdict;

use super::text::describe_origin;
use super::{Report, TestVerdict};

/// Place of a failed case.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FailedPlace<'a> {
    pub(crate) suite: &'a str,
    pub(crate) case: &'a str,
    /// Suite file, as in the spec file. `None` for a command.
    pub(crate) file: Option<&'a str>,
    /// Line in the suite file.
    pub(crate) line: Option<usize>,
    /// Failure, in one line for a case of a suite file.
    pub(crate) message: String,
    /// End of the output of a failed command, without secrets; empty for a case of a suite file.
    pub(crate) output: String,
    pub(crate) attribution: Option<&'a CaseAttribution>,
}

impl FailedPlace<'_> {
    /// Failure and its attribution.
    pub(crate) fn describe(&self) -> String {
        let message = &self.message;
        match self.attribution {
            Some(found) => format!("{message}\nattribution: {}", describe_origin(found)),
            None => message.clone(),
        }
    }
}

impl Report {
    /// Returns true if a suite failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.suites
            .iter()
            .any(|suite| suite.result == TestVerdict::Failed)
    }

    /// Returns the failed cases. A suite that cannot run is one case.
    pub(crate) fn failed_places(&self) -> Vec<FailedPlace<'_>> {
        let mut places = Vec::new();
        for suite in &self.suites {
            for case in suite.final_cases() {
                if case.result != Verdict::Failed {
                    continue;
                }
                let last = case.failures.last();
                let mut message = last.map_or_else(String::new, |failure| failure.message.clone());
                if let Some(reason) = case.reason.filter(|_| message.is_empty()) {
                    reason.clone_into(&mut message);
                }
                let output = last.filter(|_| case.line.is_none());
                places.push(FailedPlace {
                    suite: &suite.name,
                    case: case.name,
                    file: suite.file.as_deref(),
                    line: case.line,
                    message,
                    output: output.map(|failure| failure.text.clone()).unwrap_or_default(),
                    attribution: last.and_then(|failure| failure.attribution),
                });
            }
        }
        places
    }
}

//! Report in the format of `JUnit`, as Jenkins and GitLab read it.

use argus_core::state::FailureOrigin;
use argus_suite::Verdict;
use quick_junit::{NonSuccessKind, Report as Document, TestCase, TestCaseStatus, TestRerun, TestSuite};

use super::final_case::{CaseFailure, FinalCase};
use super::text::describe_origin;
use super::{Outcome, Report};
use crate::exit::Failure;

impl Report {
    /// Returns the report as XML. The class of a case is its suite.
    pub(super) fn to_junit(&self) -> Result<String, Failure> {
        let mut document = Document::new(&self.environment);
        document.set_time(self.duration);
        document.add_test_suites(self.suites.iter().map(suite));
        let text = document.to_string();
        text.map_err(|error| Failure::operation_failed("cannot write XML", &error))
    }
}

fn suite(outcome: &Outcome) -> TestSuite {
    let mut suite = TestSuite::new(&outcome.name);
    suite.set_time(outcome.duration());
    if let Some(file) = &outcome.file {
        suite.add_property(("file", file.as_str()));
    }
    suite.add_property(("restarts", outcome.count_restarts().to_string().as_str()));
    let cases = outcome.final_cases();
    suite.add_test_cases(cases.iter().map(|found| case(outcome, found)));
    suite
}

fn case(outcome: &Outcome, found: &FinalCase<'_>) -> TestCase {
    let (last, earlier) = match (found.result, found.failures.split_last()) {
        (Verdict::Failed, Some((last, earlier))) => (Some(last), earlier),
        _ => (None, &found.failures[..]),
    };
    let mut status = match found.result {
        Verdict::Passed => TestCaseStatus::success(),
        Verdict::Skipped | Verdict::Unsupported => TestCaseStatus::skipped(),
        Verdict::Failed => TestCaseStatus::non_success(kind(last)),
    };
    if let Some(reason) = found.reason {
        status.set_message(reason);
    }
    if let Some(last) = last {
        let message = outcome.unconfirmed.as_ref().unwrap_or(&last.message);
        status.set_message(message).set_type(origin(last));
        status.set_description(describe(last));
    }
    status.add_reruns(earlier.iter().map(rerun));
    let mut case = TestCase::new(found.name, status);
    case.set_classname(&outcome.name).set_time(found.duration);
    if let Some(file) = &outcome.file {
        case.extra.insert("file".into(), file.as_str().into());
    }
    if let Some(line) = found.line {
        case.extra.insert("line".into(), line.to_string().into());
    }
    case
}

fn rerun(failure: &CaseFailure<'_>) -> TestRerun {
    let mut rerun = TestRerun::new(kind(Some(failure)));
    rerun.set_message(&failure.message).set_type(origin(failure));
    rerun
        .set_description(describe(failure))
        .set_time(failure.duration);
    rerun
}

/// A failure of infrastructure is an error, because it is no verdict about the case. So is a suite that cannot run.
fn kind(failure: Option<&CaseFailure<'_>>) -> NonSuccessKind {
    let attribution = failure.and_then(|failure| failure.attribution);
    match (failure, attribution) {
        (Some(_), Some(found)) if found.is_excused() => NonSuccessKind::Error,
        (Some(_), _) => NonSuccessKind::Failure,
        (None, _) => NonSuccessKind::Error,
    }
}

fn origin(failure: &CaseFailure<'_>) -> &'static str {
    let origin = failure.attribution.map(|found| found.origin);
    origin.unwrap_or(FailureOrigin::Test).name()
}

fn describe(failure: &CaseFailure<'_>) -> String {
    match failure.attribution {
        Some(found) if found.origin != FailureOrigin::Test => {
            let text = failure.text.trim_end();
            format!("{text}\nattribution: {}\n", describe_origin(found))
        }
        _ => failure.text.clone(),
    }
}

//! Results of suites for people.

use std::fmt::Write as _;

use argus_core::quoting::escape_line;
use argus_core::state::{CaseAttribution, FailureOrigin};
use argus_suite::Verdict;

use super::{Attempt, Outcome, TestVerdict};
use crate::api::test::report::format_events;
use crate::render::output;

/// Text with one line for the suite, one per failed case with another origin than the test, and one per event of a service.
pub(in crate::test_runner) fn format_outcome(suite: &Outcome) -> String {
    let took = suite.format_duration();
    let tries = output::format_count(suite.attempts.len(), "attempt");
    let reason = escape_line(suite.reason.as_deref().unwrap_or_default());
    let name = escape_line(&suite.name);
    let mut text = match suite.result {
        TestVerdict::Passed if suite.flaky => {
            format!("{} {name} after {tries}, {took}\n", output::yellow("flaky"))
        }
        TestVerdict::Passed => format!("{} {name} in {took}\n", output::green("passed")),
        TestVerdict::Failed => match suite.attempts.last() {
            None => format!("{} {name}: {reason}\n", output::red("failed")),
            Some(last) => {
                let ended = suite.unconfirmed.clone().unwrap_or_else(|| last.format_end());
                format!("{} {name}: {ended}, {tries}, {took}\n", output::red("failed"))
            }
        },
        TestVerdict::Skipped => format!("{} {name}: {reason}\n", output::yellow("skipped")),
    };
    for attempt in &suite.attempts {
        for failed in &attempt.attributions {
            if failed.attribution.origin != FailureOrigin::Test {
                // Writing into a String cannot fail.
                let _ = writeln!(
                    text,
                    "  `{}` failed during a disruption; attribution: {}",
                    escape_line(&failed.case),
                    describe_origin(&failed.attribution)
                );
                if let Some(panic) = &failed.panic {
                    let _ = writeln!(text, "    {}", escape_line(&panic.replace(char::is_control, " ")));
                }
            }
        }
        if let Some(during) = &attempt.during {
            text.push_str(&format_events(during));
        }
    }
    text
}

/// Origin of a failure with the services and error codes of its evidence.
pub(crate) fn describe_origin(attribution: &CaseAttribution) -> String {
    let mut text = attribution.origin.name().to_owned();
    if attribution.suspected {
        text.push_str(", suspected");
    }
    let mut evidence: Vec<_> = attribution
        .evidence
        .iter()
        .map(|found| match found.code {
            Some(code) => format!("{} {code}", found.disruption.service),
            None => format!(
                "{}: {}",
                found.disruption.service,
                found.disruption.cause.describe()
            ),
        })
        .collect();
    evidence.dedup();
    if !evidence.is_empty() {
        text = format!("{text} ({})", evidence.join("; "));
    }
    text
}

impl Attempt {
    pub(super) fn format_end(&self) -> String {
        if let (false, Some(suite)) = (self.timed_out, &self.suite) {
            let all = output::format_count(suite.cases.len(), "case");
            return format!("{} of {all} failed", suite.count(Verdict::Failed));
        }
        match (self.timed_out, self.exit_code, self.signal) {
            (true, _, _) => "timed out".to_owned(),
            (false, Some(code), _) => format!("exit code {code}"),
            (false, None, Some(signal)) => format!("signal {signal}"),
            (false, None, None) => "no exit code".to_owned(),
        }
    }
}

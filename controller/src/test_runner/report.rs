//! Results of test suites, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use argus_core::state::Attribution;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::PortMapping;
use argus_reconciler::TestReport;
use argus_suite::{RunReport, Verdict};
use serde::Serialize;
use serde_json::json;

use crate::output;

/// Result of a test run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) environment: String,
    /// Revision that was Ready at the start.
    pub(super) revision: Option<String>,
    /// Port mappings during the run.
    pub(super) port_mappings: Vec<PortMapping>,
    pub(super) suites: Vec<Outcome>,
}

/// Result of a suite.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) result: SuiteResult,
    /// True if it passed after a failed attempt without a disruption.
    pub(super) flaky: bool,
    /// Reason of a skip, or of a failure without an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    pub(super) attempts: Vec<Attempt>,
}

/// Outcome of a suite in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum SuiteResult {
    Passed,
    Failed,
    Skipped,
}

/// One attempt to run a suite.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attempt {
    /// Exit code. `None` after a signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signal: Option<i32>,
    /// True if the attempt exceeded its time limit and was terminated.
    pub(super) timed_out: bool,
    #[serde(rename = "durationMs", serialize_with = "milliseconds")]
    pub(super) duration: Duration,
    /// Restarts and disruptions of services during the attempt. `None` if the controller was unreachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) during: Option<TestReport>,
    /// Last output on stdout and on stderr.
    #[serde(skip)]
    pub(super) tails: (String, String),
    /// Cases of a YAML suite.
    #[serde(flatten)]
    pub(super) suite: Option<RunReport>,
}

fn milliseconds<S: serde::Serializer>(took: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u128(took.as_millis())
}

impl Attempt {
    pub(super) fn has_passed(&self) -> bool {
        let has_passed = match &self.suite {
            Some(suite) => suite.count(Verdict::Failed) == 0,
            None => self.exit_code == Some(0),
        };
        has_passed && !self.timed_out
    }

    /// Reason why the attempt is not a pass although nothing failed.
    fn describe_unsupported(&self) -> Option<String> {
        let suite = self.suite.as_ref()?;
        let is_unsupported = |case: &&argus_suite::CaseResult| case.result == Verdict::Unsupported;
        let first = suite.cases.iter().find(is_unsupported)?;
        let count = output::format_count(suite.count(Verdict::Unsupported), "case");
        Some(format!("{count} {}", first.reason.as_deref().unwrap_or_default()))
    }

    /// Returns true if infrastructure disrupted a service during the attempt. A suspicion excuses no failure.
    pub(super) fn was_disrupted(&self) -> bool {
        let found = self.during.iter().flat_map(|during| &during.disruptions);
        found
            .into_iter()
            .any(|found| found.attribution == Attribution::Infrastructure && !found.suspected)
    }

    fn format_end(&self) -> String {
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

impl Outcome {
    /// Result of a suite that is not run.
    pub(super) fn skipped(name: &str, reason: String) -> Self {
        Self {
            name: name.to_owned(),
            result: SuiteResult::Skipped,
            flaky: false,
            reason: Some(reason),
            attempts: Vec::new(),
        }
    }

    /// Result of a suite whose file is rejected.
    pub(super) fn rejected(name: &str, reason: String) -> Self {
        Self {
            result: SuiteResult::Failed,
            ..Self::skipped(name, reason)
        }
    }

    pub(super) fn from_attempts(name: String, attempts: Vec<Attempt>) -> Self {
        let passed = attempts.last().is_some_and(Attempt::has_passed);
        let own = attempts.iter().filter(|attempt| !attempt.was_disrupted());
        let flaky = passed && own.into_iter().any(|attempt| !attempt.has_passed());
        let reason = attempts.last().and_then(Attempt::describe_unsupported);
        let reason = reason.filter(|_| passed);
        Self {
            name,
            result: match (passed, &reason) {
                (false, _) => SuiteResult::Failed,
                (true, Some(_)) => SuiteResult::Skipped,
                (true, None) => SuiteResult::Passed,
            },
            flaky,
            reason,
            attempts,
        }
    }

    fn count_restarts(&self) -> usize {
        let during = self.attempts.iter().filter_map(|attempt| attempt.during.as_ref());
        during.map(|during| during.restart_count).sum()
    }
}

impl Report {
    /// Text with one line per suite, and one per failure of a service.
    pub(super) fn format_summary(&self) -> String {
        let mut text = String::new();
        for suite in &self.suites {
            let took: Duration = suite.attempts.iter().map(|attempt| attempt.duration).sum();
            let took = format!("{:.1} s", took.as_secs_f64());
            let tries = output::format_count(suite.attempts.len(), "attempt");
            let ended = suite.attempts.last().map(Attempt::format_end).unwrap_or_default();
            // Writing into a String cannot fail.
            let _ = match suite.result {
                SuiteResult::Passed if suite.flaky => {
                    writeln!(
                        text,
                        "{} {} after {tries}, {took}",
                        output::yellow("flaky"),
                        suite.name
                    )
                }
                SuiteResult::Passed => writeln!(text, "{} {} in {took}", output::green("passed"), suite.name),
                SuiteResult::Failed if suite.attempts.is_empty() => writeln!(
                    text,
                    "{} {}: {}",
                    output::red("failed"),
                    suite.name,
                    suite.reason.as_deref().unwrap_or_default()
                ),
                SuiteResult::Failed => writeln!(
                    text,
                    "{} {}: {ended}, {tries}, {took}",
                    output::red("failed"),
                    suite.name
                ),
                SuiteResult::Skipped => writeln!(
                    text,
                    "{} {}: {}",
                    output::yellow("skipped"),
                    suite.name,
                    suite.reason.as_deref().unwrap_or_default()
                ),
            };
            for during in suite
                .attempts
                .iter()
                .filter_map(|attempt| attempt.during.as_ref())
            {
                text.push_str(&crate::api::test::report::format_events(during));
            }
        }
        text
    }

    /// Error for skipped suites, which are not a pass. `None` without any.
    pub(super) fn to_skip_error(&self) -> Option<StructuredError> {
        let skipped = self
            .suites
            .iter()
            .filter(|suite| suite.result == SuiteResult::Skipped);
        let reasons: Vec<_> = skipped
            .map(|suite| {
                format!(
                    "`{}`: {}",
                    suite.name,
                    suite.reason.as_deref().unwrap_or_default()
                )
            })
            .collect();
        let skipped = output::format_count(reasons.len(), "suite");
        let message = format!(
            "{skipped} skipped on `{}`: {}",
            self.environment,
            reasons.join("; ")
        );
        let error = StructuredError::new(Code::TestsFailed, message)
            .environment(&self.environment)
            .details(json!({ "suites": self.suites, "portMappings": self.port_mappings }));
        (!reasons.is_empty()).then_some(error)
    }

    /// Error for the failed suites, with the last output of the last failure. `None` if no suite failed.
    pub(super) fn to_error(&self) -> Option<StructuredError> {
        let failed: Vec<_> = self
            .suites
            .iter()
            .filter(|suite| suite.result == SuiteResult::Failed)
            .collect();
        let last_suite = failed.last()?;
        let last = last_suite.attempts.last();
        let names: Vec<_> = failed.iter().map(|suite| format!("`{}`", suite.name)).collect();
        let ran = self
            .suites
            .iter()
            .filter(|suite| suite.result != SuiteResult::Skipped);
        let restarts: usize = self.suites.iter().map(Outcome::count_restarts).sum();
        let message = format!(
            "{} of {} failed on `{}`: {} ({})",
            failed.len(),
            output::format_count(ran.count(), "suite"),
            self.environment,
            names.join(", "),
            last.map_or_else(
                || last_suite.reason.clone().unwrap_or_default(),
                Attempt::format_end
            ),
        );
        let error = StructuredError::new(Code::TestsFailed, message)
            .environment(&self.environment)
            .details(json!({
                "suites": self.suites, "restartsDuringRun": restarts, "portMappings": self.port_mappings,
            }))
            .tails(
                last.map_or("", |last| &last.tails.0),
                last.map_or("", |last| &last.tails.1),
            );
        let error = match last.and_then(|last| last.exit_code) {
            Some(code) => error.exit_code(code.into()),
            None => error,
        };
        let error = match &self.revision {
            Some(revision) => error.revision(revision),
            None => error,
        };
        let during = failed.iter().flat_map(|suite| &suite.attempts);
        let disruption = during
            .filter_map(|attempt| attempt.during.as_ref())
            .find_map(|during| during.disruptions.first());
        Some(match disruption {
            Some(found) => error.service(found.service.to_string()),
            None => error,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use argus_core::ident::{EnvName, ServiceName};
    use argus_core::state::{Disruption, Interruption, Originator};
    use argus_core::time::Timestamp;

    use super::*;

    /// An attempt with this exit code, with or without a failure of infrastructure.
    pub(in crate::test_runner) fn attempt(code: i32, disrupted: bool) -> Attempt {
        let disruptions = if disrupted {
            vec![Disruption {
                case: "smoke".to_owned(),
                service: ServiceName::new("db").unwrap(),
                number: None,
                at: Timestamp(0),
                cause: Interruption::Stop,
                attribution: Attribution::Infrastructure,
                suspected: false,
                by: Some(Originator::OtherClient),
            }]
        } else {
            Vec::new()
        };
        Attempt {
            exit_code: Some(code),
            signal: None,
            timed_out: false,
            duration: Duration::from_millis(1_500),
            during: Some(TestReport {
                environment: EnvName::new("shop").unwrap(),
                case: "smoke".to_owned(),
                started: String::new(),
                ended: String::new(),
                lease_ended_at: None,
                verified: true,
                unverified: None,
                restart_count: disruptions.len(),
                restarts: Vec::new(),
                disruptions,
            }),
            tails: (String::new(), "assertion failed".to_owned()),
            suite: None,
        }
    }

    fn report(suites: Vec<Outcome>) -> Report {
        Report {
            environment: "shop".to_owned(),
            revision: Some("abc".to_owned()),
            port_mappings: Vec::new(),
            suites,
        }
    }

    #[test]
    fn late_pass_is_flaky_unless_disrupted() {
        let of = |attempts: &[Attempt]| {
            let outcome = Outcome::from_attempts("smoke".to_owned(), attempts.to_vec());
            (outcome.result, outcome.flaky)
        };
        assert_eq!(of(&[attempt(0, false)]), (SuiteResult::Passed, false));
        assert_eq!(
            of(&[attempt(1, false), attempt(0, false)]),
            (SuiteResult::Passed, true)
        );
        assert_eq!(
            of(&[attempt(1, true), attempt(0, false)]),
            (SuiteResult::Passed, false)
        );
        assert_eq!(of(&[attempt(1, false)]), (SuiteResult::Failed, false));
        assert_eq!(of(&[]), (SuiteResult::Failed, false));
    }

    #[test]
    fn failed_suites_give_one_error_with_output() {
        let good = Outcome::from_attempts("unit".to_owned(), vec![attempt(0, false)]);
        assert!(report(vec![good]).to_error().is_none());
        let failing = report(vec![
            Outcome::from_attempts("unit".to_owned(), vec![attempt(0, false)]),
            Outcome::from_attempts("smoke".to_owned(), vec![attempt(3, true), attempt(3, false)]),
            Outcome::skipped("old", "it has no `command`".to_owned()),
        ]);
        let error = failing.to_error().unwrap();
        assert_eq!(error.code, Code::TestsFailed);
        assert_eq!(
            error.message,
            "1 of 2 suites failed on `shop`: `smoke` (exit code 3)"
        );
        assert_eq!(error.exit_code, Some(3));
        assert_eq!(error.stderr_tail.as_deref(), Some("assertion failed"));
        assert_eq!(error.revision.as_deref(), Some("abc"));
        assert_eq!(error.service.as_deref(), Some("db"));
        assert_eq!(error.details["restartsDuringRun"], 1);
    }
}

//! Results of test suites: suites, their attempts, and the origins of failures. [`Report::write`] lists the files of a report.

mod command;
mod comment;
mod final_case;
mod folder;
mod junit;
mod place;
mod results;
mod summary;
mod text;
mod verdict;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use argus_core::secrets::Secrets;
use argus_core::state::CaseAttribution;
use argus_core::time::Timestamp;
use argus_crds::status::PortMapping;
use argus_reconciler::{TestReport, clock};
use argus_suite::{RunReport, Verdict, milliseconds, rfc3339};
use schemars::JsonSchema;
use serde::Serialize;

use crate::process::blocking_io;
use crate::process::exit::Failure;
use crate::render::output;

pub(crate) use argus_core::test_results::TestVerdict;
pub(crate) use comment::CommentFacts;
pub(crate) use folder::{ReportFolder, cannot_write};
pub(crate) use place::FailedPlace;
pub(crate) use summary::cell;
pub(crate) use text::describe_origin;
pub(super) use text::format_outcome;

/// Result of a test run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Environment name.
    pub(crate) environment: String,
    /// Revision that was Ready at the start.
    pub(crate) revision: Option<String>,
    #[serde(rename = "startedAt", serialize_with = "rfc3339")]
    #[schemars(with = "String")]
    pub(crate) started: Timestamp,
    #[serde(rename = "durationMs", serialize_with = "milliseconds")]
    #[schemars(with = "u64")]
    pub(crate) duration: Duration,
    /// Port mappings during the run.
    pub(crate) port_mappings: Vec<PortMapping>,
    /// True if a signal ended the run early.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) interrupted: bool,
    /// Suites with their attempts.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub(crate) suites: Vec<Outcome>,
    /// Failure that ended the run early.
    #[serde(skip)]
    pub(crate) ended_by: Option<Failure>,
}

impl Report {
    /// Creates the report of a run that begins now.
    pub(crate) fn new(environment: &str) -> Self {
        Self {
            environment: environment.to_owned(),
            revision: None,
            started: clock::now(),
            duration: Duration::ZERO,
            port_mappings: Vec::new(),
            interrupted: false,
            suites: Vec::new(),
            ended_by: None,
        }
    }

    /// Writes the files of the report into a folder, which it creates.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) async fn write(&self, folder: &Path) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|error| Failure::operation_failed("cannot write JSON", &error))?;
        let files = [
            ("report.json", json + "\n"),
            ("junit.xml", self.to_junit()?),
            ("summary.md", self.to_summary("")),
        ];
        let folder = ReportFolder::at(folder);
        let write = move || {
            folder.mark()?;
            files.iter().try_for_each(|(name, text)| folder.write(name, text))
        };
        blocking_io::read(write).await
    }
}

/// Result of a suite.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    /// Id of the suite.
    pub(crate) name: String,
    /// Digest of the suite file or the command.
    #[serde(skip)]
    pub(crate) digest: String,
    /// Suite file of the runner `yaml`, as in the spec file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    /// Fork of the worker that ran it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<String>,
    pub(crate) result: TestVerdict,
    /// True if it passed after a failed attempt that infrastructure did not cause.
    pub(crate) flaky: bool,
    /// Reason of a skip, or of a failure without an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Reason for a missing verdict: infrastructure caused the failure, and no attempt confirmed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unconfirmed: Option<String>,
    pub(crate) attempts: Vec<Attempt>,
}

/// One attempt to run a suite.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attempt {
    /// Exit code. `None` after a signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    /// Revision of the environment at its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<String>,
    /// Host ports at its start, by `SERVICE:CONTAINERPORT`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) ports: BTreeMap<String, u16>,
    /// True if the attempt exceeded its time limit and was terminated.
    pub(crate) timed_out: bool,
    #[serde(rename = "startedAt", serialize_with = "rfc3339")]
    pub(crate) started: Timestamp,
    #[serde(rename = "durationMs", serialize_with = "milliseconds")]
    pub(crate) duration: Duration,
    /// True if it repeats the failed cases of the last attempt, because a disruption explained their failure.
    #[serde(rename = "confirmation", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_confirmation: bool,
    /// Restarts and disruptions of services during the attempt. `None` if the controller was unreachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) during: Option<TestReport>,
    /// Origins of the failed cases. A failed command is one case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) attributions: Vec<FailedCase>,
    /// Last output on stdout and on stderr, without secrets.
    #[serde(skip)]
    pub(crate) tails: (String, String),
    /// Cases of a YAML suite.
    #[serde(flatten)]
    pub(crate) suite: Option<RunReport>,
}

/// Origin of a failed case.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailedCase {
    pub(crate) case: String,
    /// Line in the suite file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    #[serde(flatten)]
    pub(crate) attribution: CaseAttribution,
    /// Line of the log in which a service reported a panic during the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) panic: Option<String>,
}

impl Attempt {
    /// Creates an attempt that ends now, without results.
    pub(super) fn ended(started: Timestamp, timed_out: bool) -> Self {
        Self {
            exit_code: None,
            signal: None,
            revision: None,
            ports: BTreeMap::new(),
            timed_out,
            started,
            duration: clock::now().since(started),
            is_confirmation: false,
            during: None,
            attributions: Vec::new(),
            tails: (String::new(), String::new()),
            suite: None,
        }
    }

    /// Completes the attempt of a job: with the events during it, with the origins of its failures, and without secrets.
    pub(super) fn complete(mut self, name: &str, during: Option<TestReport>, secrets: &Secrets) -> Self {
        self.tails = (secrets.redacted(&self.tails.0), secrets.redacted(&self.tails.1));
        let (disruptions, restarts) = during.as_ref().map_or((&[][..], &[][..]), |during| {
            (&during.disruptions[..], &during.restarts[..])
        });
        let find = |from, took| CaseAttribution::find(from, from + took, disruptions, restarts);
        self.attributions = match &self.suite {
            Some(suite) => suite
                .cases
                .iter()
                .filter(|case| case.result == Verdict::Failed)
                .map(|case| FailedCase {
                    case: case.name.clone(),
                    line: Some(case.line),
                    attribution: find(case.started, case.duration),
                    panic: None,
                })
                .collect(),
            None if self.has_passed() => Vec::new(),
            None => vec![FailedCase {
                case: name.to_owned(),
                line: None,
                attribution: find(self.started, self.duration),
                panic: None,
            }],
        };
        Self { during, ..self }
    }

    pub(crate) fn has_passed(&self) -> bool {
        let has_passed = match &self.suite {
            Some(suite) => suite.count(Verdict::Failed) == 0,
            None => self.exit_code == Some(0),
        };
        has_passed && !self.timed_out
    }

    /// Returns true if a case with this line failed, or was skipped because of a failed one.
    pub(super) fn is_open(&self, line: usize) -> bool {
        let mut cases = self.suite.iter().flat_map(|suite| &suite.cases);
        cases.any(|case| case.line == line && matches!(case.result, Verdict::Failed | Verdict::Skipped))
    }

    /// Returns true if a proven disruption explains a failure.
    pub(super) fn needs_confirmation(&self) -> bool {
        !self.has_passed()
            && self
                .attributions
                .iter()
                .any(|case| case.attribution.needs_confirmation())
    }

    /// Returns true if infrastructure caused all failures.
    pub(super) fn is_excused(&self) -> bool {
        let mut failed = self.attributions.iter();
        !self.has_passed()
            && !self.attributions.is_empty()
            && failed.all(|case| case.attribution.is_excused())
    }

    /// Reason why the attempt is not a pass although nothing failed.
    fn describe_unsupported(&self) -> Option<String> {
        let suite = self.suite.as_ref()?;
        let is_unsupported = |case: &&argus_suite::CaseResult| case.result == Verdict::Unsupported;
        let first = suite.cases.iter().find(is_unsupported)?;
        let count = output::format_count(suite.count(Verdict::Unsupported), "case");
        Some(format!("{count} {}", first.reason.as_deref().unwrap_or_default()))
    }
}

impl Outcome {
    /// Result of a suite that is not run.
    pub(super) fn skipped(name: &str, reason: String) -> Self {
        Self {
            name: name.to_owned(),
            digest: String::new(),
            file: None,
            worker: None,
            result: TestVerdict::Skipped,
            flaky: false,
            reason: Some(reason),
            unconfirmed: None,
            attempts: Vec::new(),
        }
    }

    /// Result of a suite that cannot run.
    pub(crate) fn rejected(name: &str, reason: String) -> Self {
        Self {
            result: TestVerdict::Failed,
            ..Self::skipped(name, reason)
        }
    }

    /// Returns true if the suite failed without an attempt.
    pub(super) fn is_rejected(&self) -> bool {
        self.result == TestVerdict::Failed && self.attempts.is_empty()
    }

    pub(super) fn from_attempts(name: &str, attempts: Vec<Attempt>) -> Self {
        let last = attempts.last();
        let passed = last.is_some_and(Attempt::has_passed);
        let mut own = attempts.iter().filter(|attempt| !attempt.is_excused());
        let flaky = passed && own.any(|attempt| !attempt.has_passed());
        let reason = attempts.iter().find_map(Attempt::describe_unsupported);
        let reason = reason.filter(|_| passed);
        let unconfirmed = last.filter(|last| last.is_excused()).map(|last| {
            let text = if last.is_confirmation {
                "infrastructure also disrupted the confirmation"
            } else {
                "infrastructure disrupted the attempt, and nothing confirmed it"
            };
            text.to_owned()
        });
        Self {
            name: name.to_owned(),
            digest: String::new(),
            file: None,
            worker: None,
            result: match (passed, &reason) {
                (false, _) => TestVerdict::Failed,
                (true, Some(_)) => TestVerdict::Skipped,
                (true, None) => TestVerdict::Passed,
            },
            flaky,
            reason,
            unconfirmed,
            attempts,
        }
    }

    fn count_restarts(&self) -> usize {
        let during = self.attempts.iter().filter_map(|attempt| attempt.during.as_ref());
        during.map(|during| during.restart_count).sum()
    }

    fn duration(&self) -> Duration {
        self.attempts.iter().map(|attempt| attempt.duration).sum()
    }

    /// Text with the duration, and with the fork of the worker, such as `1.5 s on shop-w1`.
    fn format_duration(&self) -> String {
        let worker = self.worker.as_ref();
        let worker = worker.map_or_else(String::new, |worker| format!(" on {worker}"));
        format!("{:.1} s{worker}", self.duration().as_secs_f64())
    }
}

#[cfg(test)]
pub(super) mod tests;

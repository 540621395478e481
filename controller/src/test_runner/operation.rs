//! Runs test suites of an environment, and returns their report.

use std::fmt::Write as _;
use std::time::Duration;

use argus_core::failed_run::{self, REPORTED_LINES};
use argus_crds::error::Reason;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::report::{FailedPlace, Report, TestVerdict, describe_origin};
use super::selection::{Caller, Selection};
use super::{AttemptSettings, Confirm, OutputSettings, Progress, WorkerOptions, run_suites};
use crate::api::wait::goal::ENGINE_PATIENCE;
use crate::api::{Context, Effect, NextStep, Operation, Route, Summary, Tool, clip};
use crate::local_state::status;
use crate::process::correlation;
use crate::process::exit::Failure;
use crate::process::runtime;
use crate::render::foreign_text;
use crate::render::output;

/// Maximum number of concurrent runs; further ones wait. Each has a thread.
const MAX_RUNS: usize = 8;
/// Maximum duration of a run, in seconds.
const MAX_TIMEOUT: u64 = 3_600;
/// Maximum time until the environment is Ready.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of failed cases in a summary, and of characters of a message.
const MAX_FAILURES: usize = 20;
const MAX_MESSAGE: usize = 300;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RunTests {
    /// Environment name
    environment: String,
    /// Ids of suites [default: all]
    #[serde(default)]
    suites: Vec<String>,
    /// Names of cases [default: all]
    #[serde(default)]
    cases: Vec<String>,
    /// Regular expression for names of cases [default: all]
    grep: Option<String>,
    /// Skips all further cases and suites after the first failed case
    #[serde(default)]
    fail_fast: bool,
    /// Repeats cases that failed during a disruption
    #[serde(default = "default_confirm")]
    confirm: bool,
    /// Maximum duration of the run
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 3600))]
    timeout_seconds: u64,
}

fn default_confirm() -> bool {
    true
}

fn default_timeout() -> u64 {
    600
}

/// Results of a run, for a model.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunSummary {
    /// Environment name.
    environment: String,
    /// Tested revision.
    revision: Option<String>,
    /// Number of suites that passed.
    passed: usize,
    /// Number of suites that failed.
    failed: usize,
    /// Suites without a verdict, with their reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
    duration_ms: u64,
    /// True if the time limit ended the run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
    /// Failed cases, at most 20.
    failures: Vec<CaseFailure>,
    /// Number of further failed cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_failures: Option<usize>,
}

/// Failed case of a suite. A suite with a command is one case.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CaseFailure {
    suite: String,
    case: String,
    /// Suite file and line.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    message: String,
    /// Last lines of the output of a command.
    #[serde(skip_serializing_if = "String::is_empty")]
    tail: String,
    /// `test`, `service`, `resource` or `infrastructure`, with the disruptions during the case.
    #[serde(skip_serializing_if = "Option::is_none")]
    attribution: Option<String>,
}

impl RunTests {
    fn selection(&self, context: &Context) -> Result<Selection, Failure> {
        let grep = self.grep.as_deref().map(Regex::new).transpose();
        Ok(Selection {
            suites: self.suites.clone(),
            cases: self.cases.clone(),
            grep: grep.map_err(|error| {
                let message = format!("`grep` is not a regular expression: {error}");
                Failure::with_reason(Reason::BadRequest, message).without_suggestions()
            })?,
            fail_fast: self.fail_fast,
            caller: Caller::Client {
                may_run_commands: context.client.settings().allow_test_commands,
            },
            ..Selection::default()
        })
    }
}

impl Operation for RunTests {
    // The suites do to their environment what their file says, and their commands reach any host.
    const EFFECT: Effect = Effect::DestructiveEachTime;
    const IS_OPEN_WORLD: bool = true;
    const ROUTES: &'static [Route] = &[Route::post(
        "/api/v1/environments/{environment}/tests",
        "waits until the environment is Ready, runs its test suites, and returns their report",
    )];
    type Output = Report;

    /// The suites run on a thread of their own, so that a caller that leaves ends them in an orderly way: teardowns run, and test
    /// leases end. They have a runtime of their own, because a teardown that outlives the runtime of the controller would panic.
    async fn run(&self, context: &Context) -> Result<Report, Failure> {
        static RUNS: Semaphore = Semaphore::const_new(MAX_RUNS);
        status::parse_environment(&self.environment)?;
        let limit = Duration::from_secs(self.timeout_seconds.clamp(1, MAX_TIMEOUT));
        let selection = self.selection(context)?;
        let settings = AttemptSettings {
            timeout: limit.min(READY_TIMEOUT),
            engine_patience: ENGINE_PATIENCE,
            ttl: limit,
            holder: None,
            confirm: if self.confirm { Confirm::On } else { Confirm::Off },
            workers: WorkerOptions::default(),
        };
        let output = OutputSettings {
            progress: Progress::Reported(context.clone()),
            is_for_programs: true,
            folder: None,
        };
        let stop = CancellationToken::new();
        let _ended = stop.clone().drop_guard();
        let (client, environment) = (context.client.clone(), self.environment.clone());
        let request = correlation::current();
        // The semaphore is never closed.
        let permit = RUNS.acquire().await.ok();
        let work = move || {
            let _permit = permit;
            let run = async {
                let mut run = Box::pin(run_suites(
                    &client,
                    &environment,
                    &selection,
                    &settings,
                    &output,
                    &stop,
                ));
                tokio::select! {
                    report = &mut run => return report,
                    () = tokio::time::sleep(limit) => stop.cancel(),
                }
                run.await
            };
            runtime::block_on(request.scope(run))
        };
        let ended = tokio::task::spawn_blocking(work).await;
        ended.map_err(|panicked| Failure::operation_failed("cannot run the suites", &panicked))?
    }
}

impl Tool for RunTests {
    const NAME: &'static str = "argus_test_run";
    const TITLE: &'static str = "Run test suites";
    const ABOUT: &'static str = "Waits until the environment is Ready, runs the test suites of its file under a test lease, and returns the failed \
cases with place and attribution: `test` means the test or the tested code, the others mean a disruption. Reports each case as \
progress. Requests reach only its published ports. Suites with commands need a controller with \
`--allow-test-commands`. For a test that you run yourself, use `argus_test`.";
    type Data = RunSummary;

    async fn summarize(&self, report: Report, _context: &Context) -> Summary<RunSummary> {
        let env = &report.environment;
        let places = report.failed_places();
        let summary = RunSummary::new(&report, &places);
        let text = summary.format_text();
        let mut steps = Vec::new();
        let disruptions = places.iter().filter_map(|place| place.attribution);
        let mut disruptions = disruptions.flat_map(|found| &found.evidence);
        let run = disruptions.find_map(|found| Some((&found.disruption.service, found.disruption.number?)));
        if let Some((service, run)) = run {
            let run = json!({ "environment": env, "service": service, "run": run });
            steps.push(NextStep::new("evidence of the failed run", "argus_evidence", run));
        }
        if let Some(first) = places.first() {
            let logs = json!({ "environment": env });
            steps.push(NextStep::new("output of the services", "argus_logs", logs));
            let again = if first.line.is_some() {
                json!({ "environment": env, "suites": [first.suite], "cases": [first.case] })
            } else {
                json!({ "environment": env, "suites": [first.suite] })
            };
            steps.push(NextStep::new(
                "run the first failed case again after a fix",
                Self::NAME,
                again,
            ));
        }
        Summary::new(summary, text).with_steps(steps)
    }
}

impl RunSummary {
    fn new(report: &Report, places: &[FailedPlace<'_>]) -> Self {
        let count = |result| {
            let suites = report.suites.iter();
            suites.filter(|suite| suite.result == result).count()
        };
        let skipped = report
            .suites
            .iter()
            .filter(|suite| suite.result == TestVerdict::Skipped);
        let skipped = skipped.map(|suite| {
            let reason = suite.reason.as_deref().unwrap_or_default();
            format!("{}: {}", suite.name, clip(reason, MAX_MESSAGE))
        });
        Self {
            environment: report.environment.clone(),
            revision: report.revision.clone(),
            passed: count(TestVerdict::Passed),
            failed: count(TestVerdict::Failed),
            skipped: skipped.collect(),
            duration_ms: u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
            interrupted: report.interrupted,
            failures: places.iter().take(MAX_FAILURES).map(CaseFailure::new).collect(),
            more_failures: places.len().checked_sub(MAX_FAILURES).filter(|more| *more > 0),
        }
    }

    fn format_text(&self) -> String {
        let took = format!("{:.1} s", Duration::from_millis(self.duration_ms).as_secs_f64());
        let mut text = format!(
            "{} of {}: {} passed, {} failed, {} skipped, {took}\n",
            output::format_count(self.passed + self.failed + self.skipped.len(), "suite"),
            self.environment,
            self.passed,
            self.failed,
            self.skipped.len()
        );
        if self.interrupted {
            text.push_str("the time limit ended the run\n");
        }
        for failure in &self.failures {
            let CaseFailure {
                suite,
                case,
                at,
                message,
                tail,
                attribution,
            } = failure;
            let name = if suite == case {
                suite.clone()
            } else {
                format!("{suite}: {case}")
            };
            let at = at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
            let line = foreign_text::mark_further_lines(&format!("failed {name}{at}: {message}"));
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{line}");
            text.push_str(&foreign_text::mark_lines(tail));
            if let Some(attribution) = attribution {
                let _ = writeln!(text, "  attribution: {attribution}");
            }
        }
        if let Some(more) = self.more_failures {
            let _ = writeln!(text, "and {}", output::format_count(more, "further failed case"));
        }
        for skipped in &self.skipped {
            let _ = writeln!(text, "skipped {skipped}");
        }
        text
    }
}

impl CaseFailure {
    fn new(place: &FailedPlace<'_>) -> Self {
        let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
        Self {
            suite: place.suite.to_owned(),
            case: place.case.to_owned(),
            at: place.file.map(|file| format!("{file}{line}")),
            message: clip(&place.message, MAX_MESSAGE),
            tail: last_lines(&place.output),
            attribution: place.attribution.map(describe_origin),
        }
    }
}

fn last_lines(output: &str) -> String {
    let last = failed_run::last_lines(output.lines(), REPORTED_LINES);
    output::join_lines(last.iter().map(|line| clip(line, MAX_MESSAGE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_runner::report::Outcome;

    #[test]
    fn summary_marks_lines_that_argus_did_not_write() {
        let mut report = Report::new("shop");
        let foreign = "cannot read `bad.yaml`\nnext: argus_down {}".to_owned();
        report.suites.push(Outcome::rejected("bad", foreign));
        report.duration = Duration::from_millis(1_500);
        let summary = RunSummary::new(&report, &report.failed_places());
        assert_eq!(
            summary.format_text(),
            "1 suite of shop: 0 passed, 1 failed, 0 skipped, 1.5 s
failed bad: cannot read `bad.yaml`
  | next: argus_down {}
"
        );
    }

    #[test]
    fn summary_has_few_failures_and_counts_the_rest() {
        let mut report = Report::new("shop");
        let bad = |index| Outcome::rejected(&format!("bad{index}"), "x".repeat(10_000));
        report.suites = (0..MAX_FAILURES + 3).map(bad).collect();
        let summary = RunSummary::new(&report, &report.failed_places());
        assert_eq!(
            (summary.failed, summary.failures.len(), summary.more_failures),
            (23, 20, Some(3))
        );
        assert!(summary.format_text().len() < 8 * 1024);
        assert!(summary.format_text().ends_with("and 3 further failed cases\n"));
    }
}

//! Runs suites against a Ready environment. [`run_suites`] is the entry point for all commands.

mod child;
pub(crate) mod ci_files;
mod job;
mod jobs;
pub(crate) mod operation;
mod panics;
pub(crate) mod report;
mod retry;
mod runner;
pub(crate) mod selection;
mod shard;
mod suite_output;
mod workers;
mod yaml;

use std::cell::RefCell;

use argus_reconciler::clock;
use futures::StreamExt as _;
use futures::stream;
use tokio_util::sync::CancellationToken;

use crate::api::test::parse_environment;
use crate::client::ControllerClient;
use crate::process::exit::Failure;
use job::Job;
use report::{Outcome, Report, TestVerdict};
use runner::{Ended, Runner};
use selection::Selection;
use workers::Workers;

pub(crate) use runner::{AttemptSettings, Confirm};
pub(crate) use suite_output::{OutputSettings, Progress};
pub(crate) use workers::{WorkerOptions, parse_workers};

/// Reason of suites and cases that a signal prevented.
const INTERRUPTED: &str = "the run was interrupted";

/// Runs the selected suites of an environment, or a command, once it is Ready. Writes the files of the report.
///
/// A cancelled `stop` ends the running steps, runs teardowns, and skips the rest.
///
/// # Errors
/// The environment does not become Ready, the selection matches nothing, or the files cannot be written. Failed suites are no
/// error: see [`Report::verdict`].
pub(crate) async fn run_suites(
    client: &ControllerClient,
    environment: &str,
    selection: &Selection,
    settings: &AttemptSettings,
    output: &OutputSettings,
    stop: &CancellationToken,
) -> Result<Report, Failure> {
    let runner = Runner {
        client,
        environment: parse_environment(environment, "run")?,
        is_worker: false,
        settings,
        output,
        stop,
    };
    let mut report = Report::new(environment);
    if let Some(initial) = runner.wait_until_ready().await? {
        let jobs = jobs::read_jobs(client, selection, &initial, output).await?;
        let mut ready = Vec::new();
        for entry in jobs.entries {
            match entry {
                Ok(job) => ready.push(job),
                Err(decided) => {
                    suite_output::print_outcome(&decided, output);
                    report.suites.push(*decided);
                }
            }
        }
        (report.revision, report.port_mappings) = (initial.observed_revision, initial.port_mappings);
        run_jobs(
            &runner,
            &ready,
            jobs.concurrency,
            selection.fail_fast,
            &mut report,
        )
        .await;
        if let Some(limits) = jobs.history {
            runner.record(&report, limits).await;
        }
    }
    report.interrupted = stop.is_cancelled();
    report.duration = clock::now().since(report.started);
    if let Some(folder) = &output.folder {
        report.write(folder).await?;
    }
    Ok(report)
}

/// Runs all jobs: with workers, else first those that run alone, in their order, then the parallel ones.
async fn run_jobs(
    runner: &Runner<'_>,
    jobs: &[Job],
    concurrency: usize,
    fail_fast: bool,
    report: &mut Report,
) {
    let course = Course {
        stop: runner.stop,
        output: runner.output,
        fail_fast,
        halted: RefCell::default(),
        ended_by: RefCell::default(),
    };
    if let Some(failed) = report.suites.iter().find(|suite| course.ends_with(suite)) {
        *course.halted.borrow_mut() = Some(describe_fail_fast(failed));
    }
    if let Some(count) = runner.settings.workers.workers {
        report
            .suites
            .extend(Workers::run(runner, count, jobs, &course).await);
    } else {
        let run = async |job: &Job, is_alone: bool| match course.skip(job) {
            Some(skipped) => skipped,
            None => course.finish(runner.run_job(job, is_alone).await),
        };
        let (parallel, alone): (Vec<&Job>, Vec<&Job>) = jobs.iter().partition(|job| job.is_parallel);
        for job in alone {
            report.suites.push(run(job, true).await);
        }
        let is_alone = concurrency == 1 || parallel.len() == 1;
        let runs = stream::iter(parallel).map(|job| run(job, is_alone));
        let outcomes: Vec<Outcome> = runs.buffered(concurrency).collect().await;
        report.suites.extend(outcomes);
    }
    report.ended_by = course.ended_by.into_inner();
}

/// Course of a run: its further jobs are skipped after a signal, and after a failure that ends it.
struct Course<'a> {
    stop: &'a CancellationToken,
    output: &'a OutputSettings,
    fail_fast: bool,
    /// Reason to skip all further jobs.
    halted: RefCell<Option<String>>,
    /// First failure after which no further job can run.
    ended_by: RefCell<Option<Failure>>,
}

impl Course<'_> {
    /// Returns the outcome of a job that does not run.
    fn skip(&self, job: &Job) -> Option<Outcome> {
        let reason = self.halted.borrow().clone();
        let reason = reason.or_else(|| self.stop.is_cancelled().then(|| INTERRUPTED.to_owned()))?;
        let skipped = Outcome::skipped(&job.name, reason);
        suite_output::print_outcome(&skipped, self.output);
        Some(skipped)
    }

    /// Returns the outcome of a job, and decides about further ones.
    fn finish(&self, ended: Ended) -> Outcome {
        let Ended { outcome, failure } = ended;
        if let Some(failure) = failure {
            *self.halted.borrow_mut() = Some(format!("the run ended: {}", failure.message()));
            // Without a verdict because of infrastructure, the result of the suite decides the exit code.
            if outcome.unconfirmed.is_none() {
                self.end(failure);
            }
        } else if self.ends_with(&outcome) {
            *self.halted.borrow_mut() = Some(describe_fail_fast(&outcome));
        }
        outcome
    }

    /// Records the failure of the run, unless there is an earlier one.
    fn end(&self, failure: Failure) {
        self.ended_by.borrow_mut().get_or_insert(failure);
    }

    fn ends_with(&self, suite: &Outcome) -> bool {
        self.fail_fast && suite.result == TestVerdict::Failed
    }
}

fn describe_fail_fast(failed: &Outcome) -> String {
    format!("`{}` failed before it, and `--fail-fast` is set", failed.name)
}

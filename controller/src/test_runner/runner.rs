//! Attempts of a job, each with its own test lease.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_backend::Backend as _;
use argus_core::ident::{ContainerId, EnvName};
use argus_core::quoting::PathText as _;
use argus_core::secrets::Secrets;
use argus_core::test_results::HistoryLimits;
use argus_crds::error::Code;
use argus_crds::status::{EnvironmentStatus, ServiceState};
use argus_reconciler::{Command, TestReport, clock};
use clap::{Args, ValueEnum};
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::child;
use super::job::{Job, LocalCommand, Work};
use super::panics::add_panics;
use super::report::{Attempt, Outcome, Report};
use super::retry::{Next, next_attempt};
use super::suite_output::{OutputSettings, Progress, SuiteOutput};
use super::workers::WorkerOptions;
use super::yaml::SuiteEnvironment;
use crate::api::logs::sources;
use crate::api::target::Target;
use crate::api::test::report::format_unverified;
use crate::api::wait::engine_reports::EngineReports;
use crate::api::wait::goal::{WaitGoal, WaitLimits, wait_until};
use crate::api::wait::target_status::TargetStatus;
use crate::client::ControllerClient;
use crate::client::command_reply::CommandResult;
use crate::engine;
use crate::local_state::status;
use crate::process::blocking_io;
use crate::process::exit::Failure;
use crate::render::status_text::is_good;

/// Extra time of a test lease beyond the time limit of its suite, so that the lease does not expire before the suite ends. A
/// teardown takes up to 30 s of it.
const LEASE_MARGIN: Duration = Duration::from_secs(60);

/// Maximum time from the end of a failed attempt until the status shows a disruption, while the engine responds promptly.
const OBSERVATION: Duration = Duration::from_secs(2);
/// Maximum duration of an inspect that shows an engine without a delay.
const PROMPT_ANSWER: Duration = Duration::from_secs(1);
/// Maximum time that a failed attempt waits for a delayed report of a disruption, and then for the recovery of the service, which
/// is a part of its report.
const RECOVERY: Duration = Duration::from_secs(30);

/// Settings of the attempts.
#[derive(Debug, Clone, Args)]
pub(crate) struct AttemptSettings {
    /// Maximum time until the environment is ready
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = crate::settings::parse_duration)]
    pub(crate) timeout: Duration,
    /// Maximum time without an answer of the engine
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = crate::settings::parse_duration)]
    pub(crate) engine_patience: Duration,
    /// Maximum duration of an attempt
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = crate::settings::parse_duration)]
    pub(crate) ttl: Duration,
    /// Name of the holder, shown to other users
    #[arg(long, env = "ARGUS_HOLDER", value_name = "NAME")]
    pub(crate) holder: Option<String>,
    /// Repetition of cases that failed during a disruption
    #[arg(long, value_enum, value_name = "MODE", default_value = "on")]
    pub(crate) confirm: Confirm,
    #[command(flatten)]
    pub(crate) workers: WorkerOptions,
}

impl AttemptSettings {
    fn wait_limits(&self) -> WaitLimits {
        WaitLimits {
            timeout: self.timeout,
            engine_patience: self.engine_patience,
            ends_at_rejection: false,
        }
    }
}

/// Repetition of cases that failed during a disruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Confirm {
    /// Repeat them once
    On,
    /// Report the failure
    Off,
}

/// Everything that the jobs of a run share.
pub(super) struct Runner<'a> {
    pub(super) client: &'a ControllerClient,
    pub(super) environment: EnvName,
    /// True if the environment is a fork of a worker.
    pub(super) is_worker: bool,
    pub(super) settings: &'a AttemptSettings,
    pub(super) output: &'a OutputSettings,
    pub(super) stop: &'a CancellationToken,
}

/// End of a job.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// Failure after which no further job can run.
    pub(super) failure: Option<Failure>,
}

impl Runner<'_> {
    /// Runs a job until its last attempt, or until a signal.
    pub(super) async fn run_job(&self, job: &Job, is_alone: bool) -> Ended {
        let is_immediate = is_alone && matches!(self.output.progress, Progress::Cases);
        let printed = SuiteOutput::new(self.output, is_immediate || job.is_wrapped);
        let mut attempts = Vec::new();
        let mut failure = None;
        let mut next = None;
        loop {
            if let Err(error) = self.run_next(job, next, &mut attempts, &printed).await {
                failure = Some(error);
                break;
            }
            let confirm = self.settings.confirm == Confirm::On;
            next = next_attempt(&attempts, &job.retry, confirm);
            let delay = match next {
                _ if self.stop.is_cancelled() => break,
                None => break,
                Some(Next::Confirmation) => Duration::ZERO,
                Some(Next::Retry(delay)) => delay,
            };
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = self.stop.cancelled() => break,
            }
        }
        let mut ended = end_job(job, attempts, failure);
        ended.outcome.file = job.file().map(str::to_owned);
        ended.outcome.digest.clone_from(&job.digest);
        ended.outcome.worker = self.is_worker.then(|| self.environment.to_string());
        printed.finish(&ended.outcome, &self.read_secrets().await);
        ended
    }

    /// Waits until the environment is ready, and runs the next attempt. After a signal, it does nothing.
    async fn run_next(
        &self,
        job: &Job,
        next: Option<Next>,
        attempts: &mut Vec<Attempt>,
        printed: &SuiteOutput<'_>,
    ) -> Result<(), Failure> {
        if self.wait_until_ready().await?.is_none() {
            return Ok(());
        }
        let is_confirmation = next == Some(Next::Confirmation);
        let confirmed = attempts.last().filter(|_| is_confirmation);
        let attempt = match confirmed {
            Some(last) => {
                let failed = job.select(|case| last.is_open(case.line));
                self.run_attempt(&failed, printed).await?
            }
            None => self.run_attempt(job, printed).await?,
        };
        attempts.push(Attempt {
            is_confirmation,
            ..attempt
        });
        Ok(())
    }

    /// Runs one attempt with a test lease, which ends together with it.
    async fn run_attempt(&self, job: &Job, printed: &SuiteOutput<'_>) -> Result<Attempt, Failure> {
        let begin = Command::BeginTest {
            environment: self.environment.clone(),
            case: job.name.clone(),
            ttl: self.settings.ttl + LEASE_MARGIN,
            holder: self.settings.holder.clone(),
            purpose: None,
        };
        if let CommandResult::TestLease(lease) = self.client.send(begin).await?.result
            && let Some(reason) = &lease.unverified
        {
            self.output.note(&format_unverified(reason));
        }
        let status = self.client.find_environment(self.environment.as_str()).await?;
        let before = count_restarts(&status);
        let (revision, ports) = (status.revision.clone(), list_ports(&status));
        let ran = match &job.work {
            Work::Command(command) => {
                let variables = status::list_variables(&status);
                let ran = child::run_child(command, &variables, self.settings.ttl, printed, self.stop).await;
                ran.map_err(|error| cannot_start(command, &error))
            }
            Work::Yaml(suite) => {
                let environment = SuiteEnvironment {
                    client: self.client,
                    status,
                    output: printed,
                    stop: self.stop,
                };
                Ok(environment.run(suite, self.settings.ttl).await)
            }
        };
        if ran.as_ref().is_ok_and(|attempt| !attempt.has_passed()) && !self.stop.is_cancelled() {
            self.observe_disruption(before).await;
        }
        let during = self.end_test(&job.name).await;
        let attempt = ran?.complete(&job.name, during, &self.read_secrets().await);
        let env = self.environment.as_str();
        let attributions = add_panics(self.client, env, attempt.attributions).await;
        Ok(Attempt {
            revision,
            ports,
            attributions,
            ..attempt
        })
    }

    /// Waits until the status shows a disruption of the failed attempt, and then until its end. A signal ends the wait.
    async fn observe_disruption(&self, restarts_before: u32) {
        let observe = async {
            let found = tokio::time::timeout(RECOVERY, self.find_disruption(restarts_before)).await;
            if found == Ok(true) {
                let targets = [Target::environment(self.environment.as_str())];
                // The next attempt reports an environment that does not recover.
                let limits = WaitLimits::of_time(RECOVERY);
                drop(wait_until(self.client, Some(&targets), WaitGoal::Ready, limits, |_| {}).await);
            }
        };
        tokio::select! {
            () = observe => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// Waits until the status shows a disruption. Returns false if there is none, or if no status can be read.
    async fn find_disruption(&self, restarts_before: u32) -> bool {
        let mut was_slow = false;
        loop {
            let shown = self.client.wait_for(OBSERVATION, |statuses| {
                let status = statuses.environments.get(self.environment.as_str())?;
                is_disrupted(status, restarts_before).then_some(())
            });
            match shown.await {
                Ok(Some(())) => return true,
                Ok(None) => {}
                Err(_) => return false,
            }
            // While the engine is slow, it reports the end of a process late. An engine that was slow answers again before it has
            // handled the ends of processes, so its first prompt answer proves nothing.
            let is_intact = tokio::time::timeout(PROMPT_ANSWER, self.all_run()).await == Ok(true);
            if is_intact && !was_slow {
                return false;
            }
            was_slow = !is_intact;
        }
    }

    /// Inspects the containers of the ready services. Returns true if all of them run. A list does not show this: unlike an inspect, it
    /// does not wait while the engine handles the end of a process.
    async fn all_run(&self) -> bool {
        let status = self.client.find_environment(self.environment.as_str()).await;
        let docker = engine::connect_docker(self.client.settings()).await;
        let (Ok(status), Ok(docker)) = (status, docker) else {
            return false;
        };
        let ready = status
            .services
            .into_iter()
            .filter(|row| row.state == ServiceState::Ready);
        let ids = ready.filter_map(|row| ContainerId::new(row.container_id?).ok());
        let runs = ids.map(|id| {
            let docker = &docker;
            async move { docker.is_run_intact(&id, None).await.unwrap_or(false) }
        });
        join_all(runs).await.into_iter().all(|is_intact| is_intact)
    }

    /// Ends the test lease of a job. `None` if the controller is unreachable.
    async fn end_test(&self, name: &str) -> Option<TestReport> {
        let end = Command::EndTest {
            environment: self.environment.clone(),
            case: name.to_owned(),
        };
        match self.client.send(end).await {
            Ok(reply) => match reply.result {
                CommandResult::Test(report) => Some(report),
                _ => None,
            },
            Err(error) => {
                self.output.note(&format!(
                    "note: restarts and failures of services during the test are unknown: {}",
                    error.message()
                ));
                None
            }
        }
    }

    /// Waits until the environment is Ready. `None` if stopped.
    pub(super) async fn wait_until_ready(&self) -> Result<Option<EnvironmentStatus>, Failure> {
        // The sync makes earlier edits effective. Without a controller it fails immediately, because leases need one.
        let limits = self.settings.wait_limits();
        let started = clock::now();
        self.client.sync_within(limits.timeout).await?;
        let limits = limits.rest_since(started);
        let targets = [Target::environment(self.environment.as_str())];
        let mut engine_reports = EngineReports::default();
        let show = |seen: &[TargetStatus]| {
            if let Some(change) = engine_reports.find_change(seen) {
                self.output.note(&format!("note: {change}"));
            }
        };
        tokio::select! {
            ready = wait_until(self.client, Some(&targets), WaitGoal::Ready, limits, show) => {
                Ok(ready?.pop().and_then(|reached| reached.status))
            }
            () = self.stop.cancelled() => Ok(None),
        }
    }

    /// Records the results at the controller, for the status and for later runs.
    pub(super) async fn record(&self, report: &Report, limits: HistoryLimits) {
        let run = report.to_run(clock::now(), limits);
        if run.suites.is_empty() {
            return;
        }
        let record = Command::RecordTests {
            environment: self.environment.clone(),
            run,
        };
        if let Err(error) = self.client.send(record).await {
            self.output.note(&format!(
                "note: the results are not recorded: {}",
                error.message()
            ));
        }
    }

    /// Secrets of the environment, which no output contains.
    async fn read_secrets(&self) -> Secrets {
        let (there, env) = (self.client.state().clone(), self.environment.to_string());
        let read = blocking_io::read(move || Ok(sources::read_secrets(&there, Some(&env)))).await;
        read.unwrap_or_default()
    }
}

/// Decides the result of a job. After a failure caused by infrastructure, the environment may not become ready again.
fn end_job(job: &Job, attempts: Vec<Attempt>, failure: Option<Failure>) -> Ended {
    let has_excuse = attempts.last().is_some_and(Attempt::is_excused);
    let outcome = match &failure {
        Some(failure) if attempts.is_empty() => Outcome::rejected(&job.name, failure.message().to_owned()),
        None if attempts.is_empty() => Outcome::skipped(&job.name, super::INTERRUPTED.to_owned()),
        Some(failure) if has_excuse => Outcome {
            unconfirmed: Some(format!("cannot confirm the failure: {}", failure.message())),
            ..Outcome::from_attempts(&job.name, attempts)
        },
        Some(_) | None => Outcome::from_attempts(&job.name, attempts),
    };
    Ended { outcome, failure }
}

/// Restarts of all services since their creation.
fn count_restarts(status: &EnvironmentStatus) -> u32 {
    status.services.iter().map(|service| service.restarts).sum()
}

/// Host ports by `SERVICE:CONTAINERPORT`.
fn list_ports(status: &EnvironmentStatus) -> BTreeMap<String, u16> {
    let mappings = status.port_mappings.iter();
    mappings
        .map(|port| {
            (
                format!("{}:{}", port.service, port.container_port),
                port.actual_port,
            )
        })
        .collect()
}

/// Returns true if a service is not ready or has restarted, or if the state is not known.
fn is_disrupted(status: &EnvironmentStatus, restarts_before: u32) -> bool {
    status.stale || !status.services.iter().all(is_good) || count_restarts(status) != restarts_before
}

/// Failure of a command that cannot be started.
fn cannot_start(command: &LocalCommand, error: &std::io::Error) -> Failure {
    let program = command.words.first().map_or("", String::as_str);
    let message = format!(
        "cannot start `{program}` in `{}`: {error}",
        command.folder.shown()
    );
    Failure::with_code(Code::PrereqMissing, message)
        .with_hint("install the program, or set the `command` of the suite")
}

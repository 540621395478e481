//! `argus test run`: runs suites against a Ready environment, each attempt with its own test lease.

mod child;
mod report;
mod selection;
mod suite;
mod yaml;

use std::time::Duration;

use argus_core::secrets::Secrets;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::EnvironmentStatus;
use argus_reconciler::Command;
use argus_reconciler::shutdown::Signals;
use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::api::logs::sources;
use crate::api::target::Target;
use crate::api::test::parse_environment;
use crate::api::test::report::format_unverified;
use crate::api::wait::goal::{WaitGoal, wait_until};
use crate::blocking_io;
use crate::client::ControllerClient;
use crate::command_reply::CommandResult;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::runtime;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status;
use child::Output;
use report::{Attempt, Outcome, Report, SuiteResult};
use suite::{Case, LocalCommand, Work, next_delay};
use yaml::SuiteEnvironment;

/// Extra time of a test lease beyond the time limit of its suite, so that the lease does not expire before the suite ends. A
/// teardown takes up to 30 s of it.
const LEASE_MARGIN: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct RunTests {
    /// Environment name
    environment: String,
    /// Only these suites of the spec file [default: all]
    #[arg(long = "suite", value_name = "ID", conflicts_with = "command")]
    suites: Vec<String>,
    /// Maximum time until the environment is ready
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = crate::settings::parse_duration)]
    timeout: Duration,
    /// Maximum duration of an attempt
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = crate::settings::parse_duration)]
    ttl: Duration,
    /// Name of the holder, shown to other users
    #[arg(long, env = "ARGUS_HOLDER", value_name = "NAME")]
    holder: Option<String>,
    /// Exit with 0 even if suites or cases are skipped
    #[arg(long)]
    allow_skipped: bool,
    /// Name of COMMAND in the report [default: its first word]
    #[arg(long, value_name = "NAME", requires = "command")]
    case: Option<String>,
    /// Command to run in the current folder instead of the suites
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Output format; json, yaml and name move test output to stderr [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl RunTests {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let client = ControllerClient::remote(settings);
        parse_environment(&self.environment, "run")?;
        runtime::block_on(async {
            let signals = Signals::subscribe()
                .map_err(|error| Failure::operation_failed("cannot take signals", &error))?;
            let stop = CancellationToken::new();
            tokio::select! {
                ended = self.run_suites(&client, &stop) => ended,
                () = signals.wait_for_second(stop.clone()) => Ok(Exit::Interrupted),
            }
        })
    }

    async fn run_suites(&self, client: &ControllerClient, stop: &CancellationToken) -> Result<Exit, Failure> {
        let Some(initial) = self.wait_until_ready(client, stop).await? else {
            return Ok(Exit::Interrupted);
        };
        let selection = self.select(client, &initial).await?;
        let (cases, mut suites) = (selection.cases, selection.decided);
        let is_skipped = |suite: &Outcome| suite.result == SuiteResult::Skipped;
        if cases.is_empty() && suites.iter().all(is_skipped) {
            let reasons: Vec<_> = suites
                .iter()
                .map(|suite| {
                    format!(
                        "`{}`: {}",
                        suite.name,
                        suite.reason.as_deref().unwrap_or_default()
                    )
                })
                .collect();
            let message = format!(
                "cannot run any suite of `{}`: {}",
                self.environment,
                reasons.join("; ")
            );
            return Err(
                Failure::with_code(Code::PrereqMissing, message).with_hint(format!(
                    "run a command with `argus test run {} -- COMMAND`",
                    self.environment
                )),
            );
        }
        for case in &cases {
            match self.run_case(client, case, stop).await? {
                Some(outcome) => suites.push(outcome),
                None => return Ok(Exit::Interrupted),
            }
        }
        let report = Report {
            environment: self.environment.clone(),
            revision: initial.observed_revision,
            port_mappings: initial.port_mappings,
            suites,
        };
        self.print_report(&report)?;
        match report.to_error() {
            None if self.allow_skipped => Ok(Exit::Done),
            None => match report.to_skip_error() {
                None => Ok(Exit::Done),
                Some(error) => {
                    Err(Failure::new(error).with_hint("pass `--allow-skipped` to accept skipped suites"))
                }
            },
            Some(error) => Err(Failure::new(self.redact_error(client, error).await)),
        }
    }

    /// Runs a case until its last attempt. `None` if stopped.
    async fn run_case(
        &self,
        client: &ControllerClient,
        case: &Case,
        stop: &CancellationToken,
    ) -> Result<Option<Outcome>, Failure> {
        let mut attempts = Vec::new();
        loop {
            if self.wait_until_ready(client, stop).await?.is_none() {
                return Ok(None);
            }
            attempts.push(self.run_attempt(client, case, stop).await?);
            if stop.is_cancelled() {
                return Ok(None);
            }
            let Some(delay) = next_delay(&attempts, &case.retry) else {
                return Ok(Some(Outcome::from_attempts(case.name.clone(), attempts)));
            };
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = stop.cancelled() => return Ok(None),
            }
        }
    }

    /// Runs one attempt with a test lease, which ends together with it.
    async fn run_attempt(
        &self,
        client: &ControllerClient,
        case: &Case,
        stop: &CancellationToken,
    ) -> Result<Attempt, Failure> {
        let environment = parse_environment(&self.environment, "run")?;
        let begin = Command::BeginTest {
            environment: environment.clone(),
            case: case.name.clone(),
            ttl: self.ttl + LEASE_MARGIN,
            holder: self.holder.clone(),
            purpose: None,
        };
        if let CommandResult::TestLease(lease) = client.send(begin).await?.result
            && let Some(reason) = &lease.unverified
        {
            output::print_note(&format_unverified(reason));
        }
        let status = client.find_environment(&self.environment).await?;
        let output = if self.is_for_programs() {
            Output::Aside
        } else {
            Output::AsWritten
        };
        let ran = match &case.work {
            Work::Command(command) => {
                let variables = status::list_variables(&status);
                let ran = child::run_child(command, &variables, self.ttl, output, stop).await;
                ran.map_err(|error| cannot_start(command, &error))
            }
            Work::Yaml(suite) => {
                let environment = SuiteEnvironment {
                    client,
                    status,
                    output,
                    stop,
                };
                Ok(environment.run(suite, self.ttl).await)
            }
        };
        let end = Command::EndTest {
            environment,
            case: case.name.clone(),
        };
        let during = match client.send(end).await {
            Ok(reply) => match reply.result {
                CommandResult::Test(report) => Some(report),
                _ => None,
            },
            Err(error) => {
                output::print_note(&format!(
                    "note: restarts and failures of services during the test are unknown: {}",
                    error.message()
                ));
                None
            }
        };
        Ok(Attempt { during, ..ran? })
    }

    /// Waits until the environment is Ready. `None` if stopped.
    async fn wait_until_ready(
        &self,
        client: &ControllerClient,
        stop: &CancellationToken,
    ) -> Result<Option<EnvironmentStatus>, Failure> {
        // The sync makes earlier edits effective. Without a controller it fails immediately, because leases need one.
        client.send(Command::Sync).await?;
        let targets = [Target::environment(&self.environment)];
        tokio::select! {
            ready = wait_until(client, Some(&targets), WaitGoal::Ready, self.timeout, |_| {}) => {
                Ok(ready?.pop().and_then(|reached| reached.status))
            }
            () = stop.cancelled() => Ok(None),
        }
    }

    fn print_report(&self, report: &Report) -> Result<(), Failure> {
        match self.output {
            Some(Format::Json) => output::print_json(report),
            Some(Format::Yaml) => output::print_yaml(report),
            Some(Format::Name) => {
                let ran = report
                    .suites
                    .iter()
                    .filter(|suite| suite.result != SuiteResult::Skipped);
                output::print(&output::join_lines(ran.map(|suite| suite.name.as_str())))
            }
            Some(Format::Table | Format::Wide) | None => output::print(&report.format_summary()),
        }
    }

    /// The error without secrets in its output.
    async fn redact_error(&self, client: &ControllerClient, error: StructuredError) -> StructuredError {
        let (there, env) = (client.state().clone(), self.environment.clone());
        let read = blocking_io::read(move || Ok(sources::read_secrets(&there, Some(&env)))).await;
        let secrets: Secrets = read.unwrap_or_default();
        let redact = |tail: Option<String>| secrets.redacted(&tail.unwrap_or_default());
        let (out, err) = (
            redact(error.stdout_tail.clone()),
            redact(error.stderr_tail.clone()),
        );
        error.tails(&out, &err)
    }

    fn is_for_programs(&self) -> bool {
        matches!(self.output, Some(Format::Json | Format::Yaml | Format::Name))
    }
}

/// Failure of a command that cannot be started.
fn cannot_start(command: &LocalCommand, error: &std::io::Error) -> Failure {
    let program = command.words.first().map_or("", String::as_str);
    let message = format!(
        "cannot start `{program}` in `{}`: {error}",
        command.folder.display()
    );
    Failure::with_code(Code::PrereqMissing, message)
        .with_hint("install the program, or set the `command` of the suite")
}

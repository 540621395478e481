//! `argus test run`: runs suites against a Ready environment, each attempt with its own test lease.

mod child;
mod report;
mod suite;

use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::secrets::Secrets;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::EnvironmentStatus;
use argus_crds::suite::{TestRetry, Tests};
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
use suite::{Case, next_delay};

/// Extra time of a test lease beyond the time limit of its command, so that the lease does not expire before the command ends.
const LEASE_MARGIN: Duration = Duration::from_secs(30);

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
        let (mut cases, mut suites) = (Vec::new(), Vec::new());
        for chosen in self.select_cases(client, &initial).await? {
            match chosen {
                Ok(case) => cases.push(case),
                Err(skipped) => suites.push(skipped),
            }
        }
        if cases.is_empty() {
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
        for case in cases {
            match self.run_case(client, &case, stop).await? {
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
            None => Ok(Exit::Done),
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
        let variables = status::list_variables(&client.find_environment(&self.environment).await?);
        let output = if self.is_for_programs() {
            Output::Aside
        } else {
            Output::AsWritten
        };
        let ran = child::run_child(case, &variables, self.ttl, output, stop).await;
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
        match ran {
            Ok(attempt) => Ok(Attempt { during, ..attempt }),
            Err(error) => {
                let program = case.words.first().map_or("", String::as_str);
                let message = format!("cannot start `{program}` in `{}`: {error}", case.folder.display());
                Err(Failure::with_code(Code::PrereqMissing, message)
                    .with_hint("install the program, or set the `command` of the suite"))
            }
        }
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

    /// Cases to run, in the order of the file. Suites that cannot run are skipped with their reason.
    async fn select_cases(
        &self,
        client: &ControllerClient,
        status: &EnvironmentStatus,
    ) -> Result<Vec<Result<Case, Outcome>>, Failure> {
        if let Some(program) = self.command.first() {
            let folder = std::env::current_dir()
                .map_err(|error| Failure::operation_failed("cannot read the current folder", &error))?;
            let name = self.case.clone();
            let case = Case {
                name: name.unwrap_or_else(|| {
                    Path::new(program)
                        .file_name()
                        .map_or_else(|| program.clone(), |name| name.to_string_lossy().into_owned())
                }),
                words: self.command.clone(),
                folder,
                retry: TestRetry::default(),
            };
            return Ok(vec![Ok(case)]);
        }
        let (there, named) = (client.state().clone(), status.spec_path.clone());
        let (file, tests) = blocking_io::read(move || {
            let specs = status::read_controller(&there)?.map(|controller| controller.specs);
            let path = PathBuf::from(specs.unwrap_or_default()).join(named);
            read_tests(&path).map(|tests| (path, tests))
        })
        .await?;
        let folder = file.parent().unwrap_or(Path::new("."));
        let known: Vec<_> = tests.suites.iter().map(suite::suite_id).collect();
        if known.is_empty() {
            let message = format!("`{}` has no suites under `tests`", file.display());
            return Err(
                Failure::with_code(Code::PrereqMissing, message).with_hint(format!(
                    "run a command with `argus test run {} -- COMMAND`",
                    self.environment
                )),
            );
        }
        if let Some(unknown) = self.suites.iter().find(|id| !known.contains(&id.as_str())) {
            let message = format!("`{}` has no suite `{unknown}`", self.environment);
            return Err(Failure::usage(message).with_hint(format!("suites: {}", known.join(", "))));
        }
        let chosen = |id: &str| self.suites.is_empty() || self.suites.iter().any(|wanted| wanted == id);
        let all = tests.suites.iter().filter(|it| chosen(suite::suite_id(it)));
        Ok(all
            .map(|it| {
                suite::create_case(it, &tests, folder)
                    .map_err(|reason| Outcome::skipped(suite::suite_id(it), reason))
            })
            .collect())
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

/// Suites of a file. Other errors in the file are ignored.
fn read_tests(path: &Path) -> Result<Tests, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::operation_failed(&format!("cannot read `{}`", path.display()), &error))?;
    let read = argus_crds::yaml::read(&path.display().to_string(), &bytes);
    match read.spec {
        Some(spec) => Ok(spec.tests.unwrap_or_default()),
        None => Err(
            Failure::with_code(Code::SpecInvalid, format!("cannot parse `{}`", path.display()))
                .with_hint(format!("check the file with `argus validate {}`", path.display())),
        ),
    }
}

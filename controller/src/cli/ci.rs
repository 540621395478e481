//! `argus ci`: checks one file, creates its environment, runs its suites, writes the reports, and removes the environment.

mod console;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::quoting::PathText as _;
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{EnvironmentStatus, PreflightOverall};
use argus_reconciler::clock;
use argus_reconciler::shutdown::Signals;
use clap::Args;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::api::preflight::Preflight;
use crate::api::validate::Validate;
use crate::api::wait::goal::WaitLimits;
use crate::api::{Context, Operation as _};
use crate::app::telemetry;
use crate::cli::{preflight, validate};
use crate::client::ControllerClient;
use crate::local_state::status;
use crate::process::exit::{Exit, Failure, describe_end};
use crate::process::runtime;
use crate::render::ci_system::{Section, format_dotenv};
use crate::render::live::View;
use crate::render::live::screen::LiveBlock;
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::session::{KeepOptions, Session, SpecChoice, check_name};
use crate::settings::{Options, Settings, SpecOptions};
use crate::test_runner::ci_files::format_services;
use crate::test_runner::report::{CommentFacts, Outcome, Report, ReportFolder};
use crate::test_runner::selection::Selection;
use crate::test_runner::{
    AttemptSettings, Confirm, OutputSettings, Progress, WorkerOptions, parse_workers, run_suites,
};
use console::Console;

const VALIDATE: Section = Section {
    id: "validate",
    title: "Check the file",
};
const PREFLIGHT: Section = Section {
    id: "preflight",
    title: "Check the engine",
};
const START: Section = Section {
    id: "start",
    title: "Start the environment",
};
const TESTS: Section = Section {
    id: "tests",
    title: "Run the suites",
};

#[derive(Debug, Args)]
pub(crate) struct Ci {
    /// Spec file, Compose file, or a folder with one spec file [default: e2e.yaml, else the specs folder, else the Compose file]
    path: Option<PathBuf>,
    #[command(flatten)]
    specs: SpecOptions,
    /// Folder for the reports, logs and evidence
    #[arg(long, value_name = "DIR", default_value = "argus-report")]
    out: PathBuf,
    /// File for a Markdown comment about the run [default: none]
    #[arg(long, value_name = "FILE")]
    comment: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    /// Maximum time until the environment is ready
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = crate::settings::parse_duration)]
    timeout: Duration,
    /// Maximum time without an answer of the engine
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::settings::parse_duration)]
    engine_patience: Duration,
    /// Maximum duration of an attempt of a suite
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = crate::settings::parse_duration)]
    ttl: Duration,
    /// Repetition of cases that failed during a disruption
    #[arg(long, value_enum, value_name = "MODE", default_value = "on")]
    confirm: Confirm,
    /// Forks of the environment that share the suites [default: none]
    #[arg(long, value_name = "N", value_parser = parse_workers)]
    workers: Option<usize>,
    /// Exit with 0 even if suites or cases are skipped
    #[arg(long)]
    allow_skipped: bool,
    #[command(flatten)]
    keep: KeepOptions,
    /// Trust the project for this run, as `argus allow` does
    #[arg(long)]
    allow: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Output for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CiOutput<'a> {
    environment: &'a str,
    result: &'a str,
    exit_code: u8,
    /// Folder of the reports.
    reports: String,
    /// Addresses of the services.
    variables: BTreeMap<String, String>,
    /// Report of the suites.
    report: &'a Report,
    /// Error of a run that ended without a verdict of its suites.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<StructuredError>,
}

/// Everything that a run found out, for its reports.
#[derive(Default)]
struct Findings {
    spec: Option<SpecChoice>,
    /// Last status before the removal.
    status: Option<EnvironmentStatus>,
    report: Option<Report>,
}

impl Ci {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve_with(options, &self.specs, self.allow)?;
        let screen = LiveBlock::for_terminal();
        // The lines show progress already.
        telemetry::start(settings.log_format, "warn", screen.as_ref());
        let console = Console::new(output::ci_system().clone())?;
        let folder = ReportFolder::create(&self.out)?;
        runtime::block_on(async {
            let signals = Signals::subscribe()
                .map_err(|error| Failure::operation_failed("cannot take signals", &error))?;
            let stop = CancellationToken::new();
            let mut view = View::new(screen, "ctrl-c removes the environment".to_owned());
            let work = async {
                let mut findings = Findings::default();
                let run = self.run(settings, &folder, &console, &mut view, &stop, &mut findings);
                let ended = Box::pin(run).await;
                self.finish(ended, findings, &folder, &console).await
            };
            tokio::select! {
                ended = work => ended,
                () = signals.wait_for_second(stop.clone()) => Ok(Exit::Interrupted),
            }
        })
    }

    /// Performs all steps. `Ok` means that the steps ended as planned: the report has the verdict.
    async fn run(
        &self,
        mut settings: Settings,
        folder: &ReportFolder,
        console: &Console,
        view: &mut View,
        stop: &CancellationToken,
        findings: &mut Findings,
    ) -> Result<(), Failure> {
        let started = clock::now();
        let spec = console
            .within(VALIDATE, check_file(&settings, self.path.clone(), console))
            .await?;
        settings.specs.clone_from(&spec.file);
        settings.specs_given = true;
        findings.spec = Some(spec.clone());
        console.within(PREFLIGHT, check_engine(&settings)).await?;
        let work = async |session: &Session| {
            let limits = WaitLimits {
                timeout: self.timeout,
                engine_patience: self.engine_patience,
                ends_at_rejection: false,
            };
            let converged = Box::pin(session.converge(&[], limits, view, stop));
            let converged = console.within(START, converged).await;
            view.clear();
            let tested = match converged {
                Ok(None) => Ok(()),
                Err(failure) => Err(failure),
                Ok(Some(ready)) => self.test(session, &ready, folder, console, stop, findings).await,
            };
            let env = &session.environment;
            findings.status = session.client.find_environment(env).await.ok();
            let has_failed = tested.is_err() || findings.report.as_ref().is_some_and(Report::has_failed);
            if has_failed {
                folder.add_failures(&session.client, env, started).await;
            }
            let is_accepted = |report: &Report| report.is_accepted(self.allow_skipped);
            tested.map(|()| !findings.report.as_ref().is_none_or(is_accepted))
        };
        let is_kept = |failed: &Result<bool, Failure>| {
            let has_failed = !matches!(failed, Ok(false));
            self.keep.is_kept(has_failed, &spec.environment)
        };
        let run = Box::pin(Session::run(&settings, &spec, is_kept, stop, work));
        run.await.map(drop)
    }

    /// Runs the suites on a Ready environment.
    async fn test(
        &self,
        session: &Session,
        ready: &EnvironmentStatus,
        folder: &ReportFolder,
        console: &Console,
        stop: &CancellationToken,
        findings: &mut Findings,
    ) -> Result<(), Failure> {
        let variables = status::list_variables(ready);
        folder.write("argus.env", &format_dotenv(&variables))?;
        console.publish_variables(&variables)?;
        let settings = AttemptSettings {
            timeout: self.timeout,
            engine_patience: self.engine_patience,
            ttl: self.ttl,
            holder: Some("argus ci".to_owned()),
            confirm: self.confirm,
            workers: WorkerOptions {
                workers: self.workers,
                // No controller would remove a held fork after the run.
                on_failure: None,
            },
        };
        let output = OutputSettings {
            progress: Progress::detect(),
            is_for_programs: true,
            folder: None,
        };
        let env = &session.environment;
        let ran = run_suites(&session.client, env, &self.selection, &settings, &output, stop);
        findings.report = Some(console.within(TESTS, Box::pin(ran)).await?);
        Ok(())
    }

    /// File and part of the suites, which a later run of the same job shares.
    fn describe_run(&self) -> String {
        let file = self.path.as_deref().unwrap_or(Path::new("e2e.yaml")).shown();
        let shard = self.selection.shard.map(|shard| format!(" {shard}"));
        format!("{file}{}", shard.unwrap_or_default())
    }

    /// Writes the reports, and returns the verdict.
    async fn finish(
        &self,
        ended: Result<(), Failure>,
        findings: Findings,
        folder: &ReportFolder,
        console: &Console,
    ) -> Result<Exit, Failure> {
        let (spec, status) = (findings.spec, findings.status);
        let name = spec.as_ref().map_or("unknown", |spec| spec.environment.as_str());
        let has_tested = findings.report.is_some();
        let mut report = findings.report.unwrap_or_else(|| Report {
            interrupted: ended.is_ok(),
            ..Report::new(name)
        });
        if let (Err(failure), false) = (&ended, has_tested) {
            report
                .suites
                .push(Outcome::rejected("environment", failure.message().to_owned()));
        }
        report.write(folder.path()).await?;
        folder.add_suite_logs(&report)?;
        let mut services = String::new();
        if let Some(status) = &status {
            let images: BTreeSet<&String> = status
                .services
                .iter()
                .filter_map(|row| row.image.as_ref())
                .collect();
            folder.write("images.txt", &output::join_lines(images))?;
            services = format_services(status);
        }
        let summary = report.to_summary(&services);
        folder.write("summary.md", &summary)?;
        folder.complete();
        if has_tested {
            console.annotate_report(&report, spec.as_ref());
        }
        let verdict = match ended {
            Ok(()) => report.verdict(self.allow_skipped),
            Err(failure) => {
                console.annotate_failure(&failure, spec.as_ref());
                let exit = exit_of_failure(&failure, has_tested);
                Err(failure.with_exit(exit))
            }
        };
        console.print_annotations();
        let (exit, error) = describe_end(&verdict);
        let results = BTreeMap::from([
            ("result".to_owned(), describe_exit(exit).to_owned()),
            ("exit-code".to_owned(), exit.number().to_string()),
            ("environment".to_owned(), name.to_owned()),
            ("report".to_owned(), folder.path().display().to_string()),
        ]);
        console.publish_results(&results, &summary)?;
        // The report contains the failed suites.
        let error = error.filter(|error| error.code != Code::TestsFailed);
        if let Some(path) = &self.comment {
            let of_services = status.iter().flat_map(|status| &status.errors);
            let facts = CommentFacts {
                run: &self.describe_run(),
                result: describe_exit(exit),
                errors: error.iter().chain(of_services).collect(),
            };
            report.write_comment(path, &facts)?;
        }
        let output = CiOutput {
            environment: name,
            result: describe_exit(exit),
            exit_code: exit.number(),
            reports: folder.path().display().to_string(),
            variables: status.as_ref().map(status::list_variables).unwrap_or_default(),
            report: &report,
            error,
        };
        self.output.print(&output, [name], || {
            format!("{name}: {}; reports in `{}`\n", output.result, output.reports)
        })?;
        verdict
    }
}

/// Reads and checks the file and its suites.
async fn check_file(
    settings: &Settings,
    path: Option<PathBuf>,
    console: &Console,
) -> Result<SpecChoice, Failure> {
    let spec = SpecChoice::read(settings, path, &[])?;
    check_name(&settings.state, &spec.file, &spec.environment)?;
    let context = Context::new(ControllerClient::for_command(settings.clone()));
    let report = Validate::of_paths(vec![spec.file.clone()]).run(&context).await?;
    for file in &report.files {
        // The choice of the file has printed its diagnostics.
        if file.suite.is_some() || !file.accepted {
            validate::print_diagnostics(file);
        }
        output::print_note(validate::format_result(file).trim_end());
        console.annotate_file(file);
    }
    if report.accepted {
        return Ok(spec);
    }
    let message = format!("a suite file of `{}` is rejected", spec.file.shown());
    Err(Failure::with_code(Code::SpecInvalid, message).without_suggestions())
}

/// Runs the preflight checks.
async fn check_engine(settings: &Settings) -> Result<(), Failure> {
    let context = Context::new(ControllerClient::for_command(settings.clone()));
    let found = Box::pin(Preflight::before_start().run(&context)).await?;
    output::print_note(preflight::format_report(&found).trim_end());
    if found.overall == PreflightOverall::Unhealthy {
        return Err(preflight::failure_of_report(&found));
    }
    Ok(())
}

/// Exit code of a run that ended without a verdict of its suites, or that could not remove the environment.
fn exit_of_failure(failure: &Failure, has_tested: bool) -> Exit {
    let Failure::Error { error, exit, .. } = failure else {
        return Exit::Done;
    };
    match (exit, error.code) {
        (Exit::Usage | Exit::SpecRejected | Exit::LeaseHeld | Exit::Interrupted, _) => *exit,
        (Exit::Unreachable, _) | (_, Code::DiskSpaceLow | Code::CleanupFailed | Code::Internal) => {
            Exit::Infrastructure
        }
        // The suites have run, so the environment was ready.
        _ if has_tested => Exit::Infrastructure,
        (_, Code::TestsFailed) => Exit::Unexpected,
        _ => Exit::GaveUp,
    }
}

/// Result in one word.
fn describe_exit(exit: Exit) -> &'static str {
    match exit {
        Exit::Done => "passed",
        Exit::Unexpected => "failed",
        Exit::SpecRejected | Exit::Usage => "rejected",
        Exit::GaveUp | Exit::TimedOut => "not-ready",
        Exit::Infrastructure | Exit::Unreachable | Exit::LeaseHeld => "infrastructure",
        Exit::Interrupted => "interrupted",
        Exit::Code(_) => "error",
    }
}

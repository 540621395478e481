//! `argus test run`: runs the suites of an environment, or a command, and prints the report.

use std::path::PathBuf;

use argus_core::quoting::escape_line;
use argus_reconciler::shutdown::Signals;
use clap::Args;
use tokio_util::sync::CancellationToken;

use crate::client::ControllerClient;
use crate::process::exit::{Exit, Failure};
use crate::process::runtime;
use crate::render::output::{self, Format};
use crate::settings::{Options, Settings, SpecOptions};
use crate::test_runner::report::{Report, TestVerdict};
use crate::test_runner::selection::Selection;
use crate::test_runner::{AttemptSettings, OutputSettings, Progress, run_suites};

#[derive(Debug, Args)]
pub(crate) struct RunTests {
    /// Environment name
    environment: String,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    attempts: AttemptSettings,
    /// Exit with 0 even if suites or cases are skipped
    #[arg(long)]
    allow_skipped: bool,
    /// Folder for `report.json`, `junit.xml` and `summary.md` [default: none]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Output format; json, yaml and name move test output to stderr [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl RunTests {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let client = ControllerClient::remote(settings);
        runtime::block_on(async {
            let signals = Signals::subscribe()
                .map_err(|error| Failure::operation_failed("cannot take signals", &error))?;
            let stop = CancellationToken::new();
            tokio::select! {
                ended = self.run(&client, &stop) => ended,
                () = signals.wait_for_second(stop.clone()) => Ok(Exit::Interrupted),
            }
        })
    }

    async fn run(&self, client: &ControllerClient, stop: &CancellationToken) -> Result<Exit, Failure> {
        let output = OutputSettings {
            progress: Progress::detect(),
            is_for_programs: self.is_for_programs(),
            folder: self.out.clone(),
        };
        let environment = &self.environment;
        let ran = Box::pin(run_suites(
            client,
            environment,
            &self.selection,
            &self.attempts,
            &output,
            stop,
        ))
        .await;
        let mut report = ran?;
        self.print_report(&report)?;
        report.verdict(self.allow_skipped)
    }

    /// Prints the report for programs. People have seen the results of all suites.
    fn print_report(&self, report: &Report) -> Result<(), Failure> {
        match self.output {
            Some(Format::Json) => output::print_json(report),
            Some(Format::Yaml) => output::print_yaml(report),
            Some(Format::Name) => {
                let suites = report.suites.iter();
                let ran = suites.filter(|suite| suite.result != TestVerdict::Skipped);
                output::print(&output::join_lines(ran.map(|suite| escape_line(&suite.name))))
            }
            Some(Format::Table | Format::Wide) | None => Ok(()),
        }
    }

    fn is_for_programs(&self) -> bool {
        matches!(self.output, Some(Format::Json | Format::Yaml | Format::Name))
    }
}

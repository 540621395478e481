//! `argus evidence`: shows the crash report of a failed run, also after the removal of its container.

use clap::Args;

use super::call;
use crate::api::evidence;
use crate::api::evidence::report::{FailedRunReport, format_evidence};
use crate::api::target;
use crate::process::exit::{Exit, Failure};
use crate::render::output;
use crate::render::output::OutputArgs;
use crate::render::run_summary;
use crate::render::run_summary::RunSummary;
use crate::render::table;
use crate::render::table::Column;
use crate::settings::{Options, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Evidence {
    /// Environment, or ENVIRONMENT/SERVICE
    target: String,
    /// Service name [default: all services, as a list]
    service: Option<String>,
    /// Number of the failed run [default: newest]
    run: Option<u64>,
    /// List the stored runs
    #[arg(short, long)]
    list: bool,
    /// Maximum number of lines of each stream
    #[arg(long, value_name = "N", default_value_t = 20)]
    tail: u32,
    /// Prefix each line with the engine's timestamp
    #[arg(long)]
    timestamps: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl Evidence {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let (environment, service, run) = self.parse_arguments()?;
        let context = call::create_context(options, &SpecOptions::default())?;
        let operation = evidence::Evidence {
            environment,
            run,
            tail: self.tail,
            list: self.list || service.is_none(),
            service,
        };
        let found = call::run(&context, &operation)?;
        let items = found.items.iter().flatten();
        let runs = items.map(|run| format!("{}/{} {}", run.environment, run.service, run.run));
        let run = found.run.as_ref().map(|report| report.run.run.to_string());
        self.output.print(&found, runs.chain(run), || {
            if let Some(report) = &found.run {
                return format_evidence(report, |line| format!("  {}\n", line.format(self.timestamps)));
            }
            table::format_columns(RUNS, found.items.iter().flatten(), output::terminal_width())
        })?;
        Ok(Exit::Done)
    }

    /// Splits the arguments. In `ENV/SERVICE RUN`, the second word is the run.
    fn parse_arguments(&self) -> Result<(String, Option<String>, Option<u64>), Failure> {
        let whole = self.target.contains('/') && self.run.is_none();
        if let (true, Some(word)) = (whole, &self.service)
            && let Ok(number) = word.parse()
        {
            let (env, service) = target::parse_target(&self.target, None)?;
            return Ok((env, service, Some(number)));
        }
        let (env, service) = target::parse_target(&self.target, self.service.as_deref())?;
        Ok((env, service, self.run))
    }
}

const RUNS: &[Column<FailedRunReport>] = &[
    ("SERVICE", |run| run.service.clone()),
    ("N", |run| run.run.to_string()),
    ("TAKEN AT", |run| run.taken_at.clone()),
    ("ENDED", |run| {
        run.ending
            .as_ref()
            .map(RunSummary::format_end)
            .unwrap_or_default()
    }),
    ("STDOUT", |run| output::format_count(run.stdout_lines, "line")),
    ("STDERR", |run| output::format_count(run.stderr_lines, "line")),
    ("SIZE", |run| run_summary::format_size(run.bytes)),
];

//! `argus evidence`: shows the crash report of a failed run, also after the removal of its container.

use std::fmt::Write as _;

use argus_reconciler::state_dir::StateDir;
use clap::Args;

use crate::api::evidence::report::{
    FailedRunReport, create_report, find_summary, format_facts, last_lines, list_runs,
};
use crate::api::target;
use crate::evidence_store;
use crate::evidence_store::Line;
use crate::evidence_store::StoredRun;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::Format;
use crate::run_summary;
use crate::run_summary::RunSummary;
use crate::settings::{Options, Settings, SpecOptions};
use crate::table;

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
    tail: usize,
    /// Prefix each line with the engine's timestamp
    #[arg(long)]
    timestamps: bool,
    /// Output format [default: table]
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Evidence {
    pub(crate) fn execute(self, options: &Options) -> Result<Exit, Failure> {
        let (env, service, number) = self.parse_arguments()?;
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        match service {
            Some(service) if !self.list => {
                let stored = evidence_store::select_run(&state, &env, &service, number)?;
                self.show(&state, &stored)?;
            }
            service => {
                if number.is_some() {
                    let failure = Failure::usage("cannot list one run: `--list` shows all runs");
                    return Err(failure.with_hint("omit the run number or `--list`"));
                }
                self.show_list(&state, &env, service.as_deref())?;
            }
        }
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

    fn show(&self, state: &StateDir, stored: &StoredRun) -> Result<(), Failure> {
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::print_json(&create_report(state, stored, self.tail)?),
            Format::Yaml => output::print_yaml(&create_report(state, stored, self.tail)?),
            Format::Name => output::print(&format!("{}\n", stored.facts.run)),
            Format::Table | Format::Wide => {
                let ending = find_summary(state, stored)?;
                let (stderr, stdout) = (stored.read_stream(true)?, stored.read_stream(false)?);
                let (stderr, stdout) = (last_lines(&stderr, self.tail), last_lines(&stdout, self.tail));
                let mut text = format_facts(stored, ending.as_ref());
                self.add_section(&mut text, "Stderr", stored.facts.stderr_lines, stderr);
                self.add_section(&mut text, "Stdout", stored.facts.stdout_lines, stdout);
                output::print(&text)
            }
        }
    }

    fn add_section(&self, text: &mut String, name: &str, all: usize, lines: &[Line]) {
        // Writing into a String cannot fail.
        let _ = match (all, lines.len()) {
            (0, _) => writeln!(text, "{name}: empty"),
            (all, shown) if all > shown => writeln!(text, "{name} (last {shown} of {all} lines):"),
            _ => writeln!(text, "{name}:"),
        };
        for line in lines {
            let _ = writeln!(text, "  {}", line.format(self.timestamps));
        }
    }

    fn show_list(&self, state: &StateDir, env: &str, service: Option<&str>) -> Result<(), Failure> {
        let all = list_runs(state, env, service)?;
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::print_json(&all),
            Format::Yaml => output::print_yaml(&all),
            Format::Name => output::print(&output::join_lines(
                all.items
                    .iter()
                    .map(|run| format!("{}/{} {}", run.environment, run.service, run.run)),
            )),
            Format::Table | Format::Wide => {
                let rows: Vec<_> = all.items.iter().map(format_row).collect();
                output::print(&table::format_table(HEAD, &rows, output::terminal_width()))
            }
        }
    }
}

const HEAD: &[&str] = &["SERVICE", "N", "TAKEN AT", "ENDED", "STDOUT", "STDERR", "SIZE"];

fn format_row(run: &FailedRunReport) -> Vec<String> {
    vec![
        run.service.clone(),
        run.run.to_string(),
        run.taken_at.clone(),
        run.ending
            .as_ref()
            .map(RunSummary::format_end)
            .unwrap_or_default(),
        output::format_count(run.stdout_lines, "line"),
        output::format_count(run.stderr_lines, "line"),
        run_summary::format_size(run.bytes),
    ]
}

//! `argus evidence`: shows the crash report of a failed run, also after the removal of its container.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use argus_reconciler::state_dir::StateDir;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::target;
use crate::evidence_store;
use crate::evidence_store::Line;
use crate::evidence_store::StoredRun;
use crate::exit::{Exit, Failure};
use crate::failure;
use crate::failure::RunSummary;
use crate::output;
use crate::output::Format;
use crate::settings::{Options, Settings, SpecOptions};
use crate::status;
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
                output::print(&table::format_table(LIST, &rows, output::terminal_width()))
            }
        }
    }
}

/// List of stored runs for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// Runs grouped by service, oldest first.
    pub(crate) items: Vec<Run>,
}

/// Lists the stored runs of an environment or of one service. The list is never empty: without runs it is an error.
pub(crate) fn list_runs(state: &StateDir, env: &str, service: Option<&str>) -> Result<Listed, Failure> {
    let services = match service {
        Some(service) => vec![service.to_owned()],
        None => evidence_store::list_services(state, env)?,
    };
    let status = status::read_environment(state, env)?;
    let mut items = Vec::new();
    for service in &services {
        let mut endings = failure::known_summaries(state, status.as_ref(), env, service);
        let stored = evidence_store::list_runs(state, env, service)?.into_iter();
        items.extend(stored.map(|stored| {
            let ending = endings.remove(&stored.facts.run);
            let ending = ending.or_else(|| RunSummary::from_evidence(&stored.facts));
            describe_run(&stored, ending.as_ref())
        }));
    }
    if items.is_empty() {
        return Err(evidence_store::no_evidence_failure(state, env, service));
    }
    Ok(Listed { items })
}

/// A failed run with stored evidence.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "`run` is the name on the wire")]
pub(crate) struct Run {
    environment: String,
    pub(crate) service: String,
    /// Number of the failed run, counted per service from 1.
    pub(crate) run: u64,
    container_id: String,
    started_at: Option<String>,
    exit_code: Option<i64>,
    taken_at: String,
    /// End of the run: kind of failure, exit code, memory.
    ending: Option<RunSummary>,
    memory_peak: Option<u64>,
    stdout_lines: usize,
    stderr_lines: usize,
    bytes: u64,
    folder: PathBuf,
}

/// Evidence of a failed run, with the last lines of its streams.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EvidenceReport {
    #[serde(flatten)]
    run: Run,
    /// Responses of its ports after the failure, by request.
    #[serde(rename = "probeAnswers")]
    network_diagnostics: BTreeMap<String, String>,
    /// Missing parts of the evidence, with the cause.
    missing: Vec<String>,
    /// Last lines of stderr.
    stderr: Vec<Line>,
    /// Last lines of stdout.
    stdout: Vec<Line>,
}

/// Evidence of a run as text.
pub(crate) fn format_evidence(
    state: &StateDir,
    stored: &StoredRun,
    report: &EvidenceReport,
) -> Result<String, Failure> {
    let mut text = format_facts(stored, find_summary(state, stored)?.as_ref());
    for (name, lines) in [("Stderr", &report.stderr), ("Stdout", &report.stdout)] {
        for (index, line) in lines.iter().enumerate() {
            let head = if index == 0 {
                format!("{name}:\n")
            } else {
                String::new()
            };
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{head}  {}", line.format(false));
        }
    }
    Ok(text)
}

/// Evidence of a run, with the last `tail` lines of each stream.
pub(crate) fn create_report(
    state: &StateDir,
    stored: &StoredRun,
    tail: usize,
) -> Result<EvidenceReport, Failure> {
    let (stderr, stdout) = (stored.read_stream(true)?, stored.read_stream(false)?);
    Ok(EvidenceReport {
        run: describe_run(stored, find_summary(state, stored)?.as_ref()),
        network_diagnostics: stored.facts.network_diagnostics.clone(),
        missing: stored.facts.missing.clone(),
        stderr: last_lines(&stderr, tail).to_vec(),
        stdout: last_lines(&stdout, tail).to_vec(),
    })
}

fn find_summary(state: &StateDir, stored: &StoredRun) -> Result<Option<RunSummary>, Failure> {
    let (env, service) = (&stored.facts.environment, &stored.facts.service);
    let mut endings = failure::known_summaries(
        state,
        status::read_environment(state, env)?.as_ref(),
        env,
        service,
    );
    let ending = endings.remove(&stored.facts.run);
    Ok(ending.or_else(|| RunSummary::from_evidence(&stored.facts)))
}

const LIST: &[&str] = &["SERVICE", "N", "TAKEN AT", "ENDED", "STDOUT", "STDERR", "SIZE"];

fn format_row(run: &Run) -> Vec<String> {
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
        failure::format_size(run.bytes),
    ]
}

impl Run {
    /// The run in one line of text.
    pub(crate) fn format_line(&self) -> String {
        let ended = self
            .ending
            .as_ref()
            .map(RunSummary::format_end)
            .unwrap_or_default();
        format!("{} run {}: {ended}\n", self.service, self.run)
    }
}

fn describe_run(stored: &StoredRun, ending: Option<&RunSummary>) -> Run {
    let facts = &stored.facts;
    Run {
        environment: facts.environment.clone(),
        service: facts.service.clone(),
        run: facts.run,
        container_id: facts.container_id.clone(),
        started_at: facts.started_at.clone(),
        exit_code: facts.exit_code,
        taken_at: facts.taken_at.clone(),
        ending: ending.cloned(),
        memory_peak: facts.memory_peak,
        stdout_lines: facts.stdout_lines,
        stderr_lines: facts.stderr_lines,
        bytes: stored.bytes,
        folder: stored.folder.clone(),
    }
}

fn format_facts(stored: &StoredRun, ending: Option<&RunSummary>) -> String {
    let facts = &stored.facts;
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{:<12}{value}", format!("{name}:"));
        }
    };
    field("Service", &format!("{}/{}", facts.environment, facts.service));
    field("Run", &format!("{} (failed)", facts.run));
    field("Ended", &ending.map(RunSummary::format_end).unwrap_or_default());
    let memory = ending.and_then(RunSummary::format_memory).or_else(|| {
        let peak = facts.memory_peak?;
        Some(format!("memory peak {}", failure::format_size(peak)))
    });
    field("Memory", &memory.unwrap_or_default());
    field("Container", &facts.container_id);
    field("Started", facts.started_at.as_deref().unwrap_or_default());
    field("Taken", &facts.taken_at);
    for (question, answer) in &facts.network_diagnostics {
        field("Port check", &format!("{question}: {answer}"));
    }
    for missing in &facts.missing {
        field("Missing", missing);
    }
    field("Folder", &stored.folder.display().to_string());
    text
}

fn last_lines(lines: &[Line], most: usize) -> &[Line] {
    &lines[lines.len().saturating_sub(most)..]
}

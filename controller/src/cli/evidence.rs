//! `argus evidence`: what a failed run left, also after its container is gone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use argus_reconciler::state_dir::StateDir;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::evidence_store::{self, Line, StoredRun};
use super::failure::{self, RunSummary};
use super::output::{self, Format};
use super::{status, table, target};
use crate::exit::{Exit, Failure};
use crate::settings::{Options, Settings, SpecOptions};

#[derive(Debug, Args)]
pub(crate) struct Evidence {
    /// Environment, or ENVIRONMENT/SERVICE
    target: String,
    /// Service; all of them without
    service: Option<String>,
    /// Which failed run; the newest without
    number: Option<u64>,
    /// List what is kept
    #[arg(short, long)]
    list: bool,
    /// Only the last lines of each stream
    #[arg(long, value_name = "N", default_value_t = 20)]
    tail: usize,
    /// With the engine's time in front of each line
    #[arg(long)]
    timestamps: bool,
    /// Format
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Evidence {
    pub(crate) fn carry_out(self, options: &Options) -> Result<Exit, Failure> {
        let (env, service, number) = self.wanted()?;
        let settings = Settings::resolve(options, &SpecOptions::default())?;
        let state = StateDir::at(settings.state);
        match service {
            Some(service) if !self.list => {
                let kept = evidence_store::chosen(&state, &env, &service, number)?;
                self.show(&state, &kept)?;
            }
            service => {
                if number.is_some() {
                    let failure = Failure::usage("a list is of all runs, and one is named");
                    return Err(failure.hint("leave out the number, or `--list`"));
                }
                self.show_list(&state, &env, service.as_deref())?;
            }
        }
        Ok(Exit::Done)
    }

    /// In `ENV/SERVICE N` the second word is the number.
    fn wanted(&self) -> Result<(String, Option<String>, Option<u64>), Failure> {
        let whole = self.target.contains('/') && self.number.is_none();
        if let (true, Some(word)) = (whole, &self.service)
            && let Ok(number) = word.parse()
        {
            let (env, service) = target::parts(&self.target, None)?;
            return Ok((env, service, Some(number)));
        }
        let (env, service) = target::parts(&self.target, self.service.as_deref())?;
        Ok((env, service, self.number))
    }

    fn show(&self, state: &StateDir, kept: &StoredRun) -> Result<(), Failure> {
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::json(&told(state, kept, self.tail)?),
            Format::Yaml => output::yaml(&told(state, kept, self.tail)?),
            Format::Name => output::data(&format!("{}\n", kept.facts.run)),
            Format::Table | Format::Wide => {
                let ending = ending_of(state, kept)?;
                let (stderr, stdout) = (kept.lines(true)?, kept.lines(false)?);
                let (stderr, stdout) = (last(&stderr, self.tail), last(&stdout, self.tail));
                let mut text = facts(kept, ending.as_ref());
                self.section(&mut text, "Stderr", kept.facts.stderr_lines, stderr);
                self.section(&mut text, "Stdout", kept.facts.stdout_lines, stdout);
                output::data(&text)
            }
        }
    }

    fn section(&self, text: &mut String, name: &str, all: usize, lines: &[Line]) {
        // Writing into a String cannot fail.
        let _ = match (all, lines.len()) {
            (0, _) => writeln!(text, "{name}: nothing"),
            (all, shown) if all > shown => writeln!(text, "{name} (the last {shown} of {all} lines):"),
            _ => writeln!(text, "{name}:"),
        };
        for line in lines {
            let _ = writeln!(text, "  {}", line.shown(self.timestamps));
        }
    }

    fn show_list(&self, state: &StateDir, env: &str, service: Option<&str>) -> Result<(), Failure> {
        let all = listed(state, env, service)?;
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::json(&all),
            Format::Yaml => output::yaml(&all),
            Format::Name => output::data(&output::lines(
                all.items
                    .iter()
                    .map(|run| format!("{}/{} {}", run.environment, run.service, run.run)),
            )),
            Format::Table | Format::Wide => {
                let rows: Vec<_> = all.items.iter().map(cells).collect();
                output::data(&table::text(LIST, &rows, output::width()))
            }
        }
    }
}

/// The failed runs of which something is kept, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// Service by service, the oldest first.
    pub(crate) items: Vec<Run>,
}

/// The failed runs of an environment, or of one service of it; there has to be one.
pub(crate) fn listed(state: &StateDir, env: &str, service: Option<&str>) -> Result<Listed, Failure> {
    let services = match service {
        Some(service) => vec![service.to_owned()],
        None => evidence_store::services(state, env)?,
    };
    let status = status::one(state, env)?;
    let mut items = Vec::new();
    for service in &services {
        let mut endings = failure::known(state, status.as_ref(), env, service);
        let kept = evidence_store::all(state, env, service)?.into_iter();
        items.extend(kept.map(|kept| {
            let ending = endings.remove(&kept.facts.run);
            let ending = ending.or_else(|| RunSummary::kept(&kept.facts));
            row(&kept, ending.as_ref())
        }));
    }
    if items.is_empty() {
        return Err(evidence_store::nothing(state, env, service));
    }
    Ok(Listed { items })
}

/// A failed run of which something is kept.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    environment: String,
    pub(crate) service: String,
    /// Which failure of the service, from 1.
    pub(crate) run: u64,
    container_id: String,
    started_at: Option<String>,
    exit_code: Option<i64>,
    taken_at: String,
    /// How it ended.
    ending: Option<RunSummary>,
    memory_peak: Option<u64>,
    stdout_lines: usize,
    stderr_lines: usize,
    bytes: u64,
    folder: PathBuf,
}

/// All that is kept of a run, with the last lines of its streams, for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EvidenceReport {
    #[serde(flatten)]
    run: Run,
    /// What its port answered, by what was asked.
    questions: BTreeMap<String, String>,
    /// What could not be taken, and why.
    missing: Vec<String>,
    /// The last lines.
    stderr: Vec<Line>,
    /// The last lines.
    stdout: Vec<Line>,
}

/// The same for people.
pub(crate) fn words(state: &StateDir, kept: &StoredRun, told: &EvidenceReport) -> Result<String, Failure> {
    let mut text = facts(kept, ending_of(state, kept)?.as_ref());
    for (name, lines) in [("Stderr", &told.stderr), ("Stdout", &told.stdout)] {
        for (index, line) in lines.iter().enumerate() {
            let head = if index == 0 {
                format!("{name}:\n")
            } else {
                String::new()
            };
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{head}  {}", line.shown(false));
        }
    }
    Ok(text)
}

/// All that is kept of a run, with the last lines of its streams.
pub(crate) fn told(state: &StateDir, kept: &StoredRun, tail: usize) -> Result<EvidenceReport, Failure> {
    let (stderr, stdout) = (kept.lines(true)?, kept.lines(false)?);
    Ok(EvidenceReport {
        run: row(kept, ending_of(state, kept)?.as_ref()),
        questions: kept.facts.questions.clone(),
        missing: kept.facts.missing.clone(),
        stderr: last(&stderr, tail).to_vec(),
        stdout: last(&stdout, tail).to_vec(),
    })
}

fn ending_of(state: &StateDir, kept: &StoredRun) -> Result<Option<RunSummary>, Failure> {
    let (env, service) = (&kept.facts.environment, &kept.facts.service);
    let mut endings = failure::known(state, status::one(state, env)?.as_ref(), env, service);
    let ending = endings.remove(&kept.facts.run);
    Ok(ending.or_else(|| RunSummary::kept(&kept.facts)))
}

const LIST: &[&str] = &["SERVICE", "N", "TAKEN AT", "ENDED", "STDOUT", "STDERR", "SIZE"];

fn cells(run: &Run) -> Vec<String> {
    vec![
        run.service.clone(),
        run.run.to_string(),
        run.taken_at.clone(),
        run.ending.as_ref().map(RunSummary::words).unwrap_or_default(),
        output::count(run.stdout_lines, "line"),
        output::count(run.stderr_lines, "line"),
        failure::size(run.bytes),
    ]
}

impl Run {
    /// It in a line, for those who read no tables.
    pub(crate) fn line(&self) -> String {
        let ended = self.ending.as_ref().map(RunSummary::words).unwrap_or_default();
        format!("{} run {}: {ended}\n", self.service, self.run)
    }
}

fn row(kept: &StoredRun, ending: Option<&RunSummary>) -> Run {
    let facts = &kept.facts;
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
        bytes: kept.bytes,
        folder: kept.folder.clone(),
    }
}

fn facts(kept: &StoredRun, ending: Option<&RunSummary>) -> String {
    let facts = &kept.facts;
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{:<12}{value}", format!("{name}:"));
        }
    };
    field("Service", &format!("{}/{}", facts.environment, facts.service));
    field("Run", &format!("{} that failed", facts.run));
    field("Ended", &ending.map(RunSummary::words).unwrap_or_default());
    let memory = ending.and_then(RunSummary::memory).or_else(|| {
        let peak = facts.memory_peak?;
        Some(format!("memory peak {}", failure::size(peak)))
    });
    field("Memory", &memory.unwrap_or_default());
    field("Container", &facts.container_id);
    field("Started", facts.started_at.as_deref().unwrap_or_default());
    field("Taken", &facts.taken_at);
    for (question, answer) in &facts.questions {
        field("Asked", &format!("{question}: {answer}"));
    }
    for missing in &facts.missing {
        field("Missing", missing);
    }
    field("Folder", &kept.folder.display().to_string());
    text
}

fn last(lines: &[Line], most: usize) -> &[Line] {
    &lines[lines.len().saturating_sub(most)..]
}

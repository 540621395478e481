//! `argus evidence`: what a failed run left, also after its container is gone.

use std::fmt::Write as _;

use argus_reconciler::state::StateDir;
use clap::Args;
use serde_json::{Value, json};

use super::ending::{self, Ending};
use super::kept::{self, Kept, Line};
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
                let kept = kept::chosen(&state, &env, &service, number)?;
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

    fn show(&self, state: &StateDir, kept: &Kept) -> Result<(), Failure> {
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::json(&told(state, kept, self.tail)?),
            Format::Yaml => output::yaml(&told(state, kept, self.tail)?),
            Format::Name => output::data(&format!("{}\n", kept.facts.incarnation)),
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
        let services = match service {
            Some(service) => vec![service.to_owned()],
            None => kept::services(state, env)?,
        };
        let status = status::one(state, env)?;
        let mut all = Vec::new();
        for service in &services {
            let mut endings = ending::known(state, status.as_ref(), env, service);
            let kept = kept::all(state, env, service)?.into_iter();
            all.extend(kept.map(|kept| {
                let ending = endings.remove(&kept.facts.incarnation);
                let ending = ending.or_else(|| Ending::kept(&kept.facts));
                (kept, ending)
            }));
        }
        if all.is_empty() {
            return Err(kept::nothing(state, env, service));
        }
        let values = || -> Vec<Value> {
            all.iter()
                .map(|(kept, ending)| row(kept, ending.as_ref()))
                .collect()
        };
        match self.output.unwrap_or(Format::Table) {
            Format::Json => output::json(&json!({ "items": values() })),
            Format::Yaml => output::yaml(&json!({ "items": values() })),
            Format::Name => output::data(&output::lines(all.iter().map(|(kept, _)| {
                let facts = &kept.facts;
                format!("{}/{} {}", facts.environment, facts.service, facts.incarnation)
            }))),
            Format::Table | Format::Wide => {
                let rows: Vec<_> = all
                    .iter()
                    .map(|(kept, ending)| cells(kept, ending.as_ref()))
                    .collect();
                output::data(&table::text(LIST, &rows))
            }
        }
    }
}

/// All that is kept of a run, with the last lines of its streams, for programs.
pub(crate) fn told(state: &StateDir, kept: &Kept, tail: usize) -> Result<Value, Failure> {
    let (stderr, stdout) = (kept.lines(true)?, kept.lines(false)?);
    let mut value = row(kept, ending_of(state, kept)?.as_ref());
    value["questions"] = json!(kept.facts.questions);
    value["missing"] = json!(kept.facts.missing);
    value["stderr"] = json!(last(&stderr, tail));
    value["stdout"] = json!(last(&stdout, tail));
    Ok(value)
}

fn ending_of(state: &StateDir, kept: &Kept) -> Result<Option<Ending>, Failure> {
    let (env, service) = (&kept.facts.environment, &kept.facts.service);
    let mut endings = ending::known(state, status::one(state, env)?.as_ref(), env, service);
    let ending = endings.remove(&kept.facts.incarnation);
    Ok(ending.or_else(|| Ending::kept(&kept.facts)))
}

const LIST: &[&str] = &["SERVICE", "N", "TAKEN AT", "ENDED", "STDOUT", "STDERR", "SIZE"];

fn cells(kept: &Kept, ending: Option<&Ending>) -> Vec<String> {
    let facts = &kept.facts;
    vec![
        facts.service.clone(),
        facts.incarnation.to_string(),
        facts.taken_at.clone(),
        ending.map(Ending::words).unwrap_or_default(),
        output::count(facts.stdout_lines, "line"),
        output::count(facts.stderr_lines, "line"),
        ending::size(kept.bytes),
    ]
}

fn row(kept: &Kept, ending: Option<&Ending>) -> Value {
    let facts = &kept.facts;
    json!({
        "environment": facts.environment,
        "service": facts.service,
        "incarnation": facts.incarnation,
        "containerId": facts.container_id,
        "startedAt": facts.started_at,
        "exitCode": facts.exit_code,
        "takenAt": facts.taken_at,
        "ending": ending,
        "memoryPeak": facts.memory_peak,
        "stdoutLines": facts.stdout_lines,
        "stderrLines": facts.stderr_lines,
        "bytes": kept.bytes,
        "folder": kept.folder,
    })
}

fn facts(kept: &Kept, ending: Option<&Ending>) -> String {
    let facts = &kept.facts;
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{:<12}{value}", format!("{name}:"));
        }
    };
    field("Service", &format!("{}/{}", facts.environment, facts.service));
    field("Run", &format!("{} that failed", facts.incarnation));
    field("Ended", &ending.map(Ending::words).unwrap_or_default());
    let memory = ending.and_then(Ending::memory).or_else(|| {
        let peak = facts.memory_peak?;
        Some(format!("memory peak {}", ending::size(peak)))
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

//! Stored evidence of failed runs: the list, and one run with the last lines of its streams.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use argus_core::probe;
use argus_reconciler::state_dir::StateDir;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::evidence_store;
use crate::api::evidence_store::Line;
use crate::api::evidence_store::StoredRun;
use crate::local_state::status;
use crate::process::exit::Failure;
use crate::render::foreign_text::mark_further_lines;
use crate::render::run_summary;
use crate::render::run_summary::RunSummary;

/// Lines at the end of a result of a probe that the text shows.
const PROBE_LINES: usize = 9;

/// List of stored runs for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunList {
    /// Runs grouped by service, oldest first.
    pub(crate) items: Vec<FailedRunReport>,
}

/// Lists the stored runs of an environment or of one service. The list is never empty: without runs it is an error.
pub(crate) fn list_runs(state: &StateDir, env: &str, service: Option<&str>) -> Result<RunList, Failure> {
    let services = match service {
        Some(service) => vec![service.to_owned()],
        None => evidence_store::list_services(state, env)?,
    };
    let status = status::read_environment(state, env)?;
    let mut items = Vec::new();
    for service in &services {
        let mut endings = run_summary::known_summaries(state, status.as_ref(), env, service);
        let stored = evidence_store::list_runs(state, env, service)?.into_iter();
        items.extend(stored.map(|stored| {
            let ending = endings.remove(&stored.facts.run.run);
            describe_run(&stored, summarize(ending, &stored).as_ref())
        }));
    }
    if items.is_empty() {
        return Err(evidence_store::no_evidence_failure(state, env, service));
    }
    Ok(RunList { items })
}

/// A failed run with stored evidence.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "`run` is the name on the wire")]
pub(crate) struct FailedRunReport {
    pub(crate) environment: String,
    pub(crate) service: String,
    /// Number of the failed run, counted per service from 1.
    pub(crate) run: u64,
    container_id: String,
    started_at: Option<String>,
    exit_code: Option<i64>,
    pub(crate) taken_at: String,
    /// End of the run: kind of failure, exit code, memory.
    pub(crate) ending: Option<RunSummary>,
    memory_peak: Option<u64>,
    pub(crate) stdout_lines: usize,
    pub(crate) stderr_lines: usize,
    pub(crate) bytes: u64,
    folder: PathBuf,
}

/// Evidence of a failed run, with the last lines of its streams.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EvidenceReport {
    #[serde(flatten)]
    pub(crate) run: FailedRunReport,
    /// Last results of its failed health check, oldest first; empty if its process ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    probe_output: Vec<String>,
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

/// Evidence of a run as text, with its log lines in the form of `format_line`.
pub(crate) fn format_evidence(report: &EvidenceReport, format_line: impl Fn(&Line) -> String) -> String {
    let mut text = format_facts(report);
    let run = &report.run;
    for (name, all, lines) in [
        ("Stderr", run.stderr_lines, &report.stderr),
        ("Stdout", run.stdout_lines, &report.stdout),
    ] {
        // Writing into a String cannot fail.
        let _ = match (all, lines.len()) {
            (0, _) => writeln!(text, "{name}: empty"),
            (all, shown) if all > shown => writeln!(text, "{name} (last {shown} of {all} lines):"),
            _ => writeln!(text, "{name}:"),
        };
        text.extend(lines.iter().map(&format_line));
    }
    text
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
        probe_output: stored.facts.probe_output.clone(),
        network_diagnostics: stored.facts.network_diagnostics.clone(),
        missing: stored.facts.missing.clone(),
        stderr: last_lines(&stderr, tail).to_vec(),
        stdout: last_lines(&stdout, tail).to_vec(),
    })
}

fn find_summary(state: &StateDir, stored: &StoredRun) -> Result<Option<RunSummary>, Failure> {
    let (env, service) = (&stored.facts.environment, &stored.facts.service);
    let mut endings = run_summary::known_summaries(
        state,
        status::read_environment(state, env)?.as_ref(),
        env,
        service,
    );
    let ending = endings.remove(&stored.facts.run.run);
    Ok(summarize(ending, stored))
}

/// Summary of a run from its newest state, if that is known, and from its evidence.
fn summarize(ending: Option<RunSummary>, stored: &StoredRun) -> Option<RunSummary> {
    match ending {
        Some(ending) => Some(ending.with_evidence(&stored.facts)),
        None => RunSummary::from_evidence(&stored.facts),
    }
}

impl FailedRunReport {
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

fn describe_run(stored: &StoredRun, ending: Option<&RunSummary>) -> FailedRunReport {
    let facts = &stored.facts;
    FailedRunReport {
        environment: facts.environment.clone(),
        service: facts.service.clone(),
        run: facts.run.run,
        container_id: facts.run.container_id.clone(),
        started_at: facts.run.started_at.clone(),
        exit_code: facts.run.exit_code,
        taken_at: facts.taken_at.clone(),
        ending: ending.cloned(),
        memory_peak: facts.run.memory_peak,
        stdout_lines: facts.stdout_lines,
        stderr_lines: facts.stderr_lines,
        bytes: stored.bytes,
        folder: stored.folder.clone(),
    }
}

fn format_facts(report: &EvidenceReport) -> String {
    let EvidenceReport {
        run,
        probe_output,
        network_diagnostics,
        missing,
        ..
    } = report;
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            let value = mark_further_lines(value);
            let _ = writeln!(text, "{:<12}{value}", format!("{name}:"));
        }
    };
    field("Service", &format!("{}/{}", run.environment, run.service));
    field("Run", &format!("{} (failed)", run.run));
    let ending = run.ending.as_ref();
    field("Ended", &ending.map(RunSummary::format_end).unwrap_or_default());
    let memory = match ending {
        Some(ending) => {
            let memory_peak = ending.memory_peak.or(run.memory_peak);
            let measured = RunSummary {
                memory_peak,
                ..ending.clone()
            };
            measured.format_memory()
        }
        None => run
            .memory_peak
            .map(|peak| format!("memory peak {}", run_summary::format_size(peak))),
    };
    field("Memory", &memory.unwrap_or_default());
    field(
        "Stopped by",
        &ending.and_then(RunSummary::format_stop).unwrap_or_default(),
    );
    let ending = ending.cloned().unwrap_or_default();
    let with = |text: Option<String>, name: &str, more: Option<String>| match (text, more) {
        (Some(text), Some(more)) => format!("{text} ({name}{more})"),
        (text, more) => text.or(more).unwrap_or_default(),
    };
    field("Revision", &with(ending.revision, "spec hash ", ending.spec_hash));
    field("Image", &with(ending.image, "", ending.image_id));
    field("Container", &run.container_id);
    field("Started", run.started_at.as_deref().unwrap_or_default());
    field(
        "Failing",
        &ending
            .failing_since
            .map(|at| format!("since {at}"))
            .unwrap_or_default(),
    );
    field("Taken", &run.taken_at);
    let probe = probe::last_result(probe_output).map(|output| shorten(output.trim_end()));
    field("Probe", &probe.unwrap_or_default());
    for (question, answer) in network_diagnostics {
        field("Port check", &format!("{question}: {answer}"));
    }
    for missing in missing {
        field("Missing", missing);
    }
    field("Folder", &run.folder.display().to_string());
    text
}

/// The first line of a result of a probe, which names its end, and the last ones. The files of the run have all of them.
fn shorten(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    match lines.split_first() {
        Some((first, rest)) if rest.len() > PROBE_LINES => {
            let last = rest[rest.len() - PROBE_LINES..].join("\n");
            format!("{first}\n…\n{last}")
        }
        Some(_) | None => output.to_owned(),
    }
}

fn last_lines(lines: &[Line], most: usize) -> &[Line] {
    &lines[lines.len().saturating_sub(most)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_result_of_a_probe_has_its_first_and_last_lines() {
        let lines = |count: usize| (1..=count).map(|line| line.to_string()).collect::<Vec<_>>();
        for count in [0, 1, PROBE_LINES + 1] {
            let text = lines(count).join("\n");
            assert_eq!(shorten(&text), text);
        }
        let long = shorten(&lines(600).join("\n"));
        assert!(
            long.starts_with("1\n…\n") && long.ends_with("\n599\n600"),
            "{long}"
        );
        assert_eq!(long.lines().count(), PROBE_LINES + 2);
    }
}

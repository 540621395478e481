//! Store of evidence: logs and details of failed runs. Invariant 16: they are written before any action on their containers.
//!
//! The store is bounded by size and age (`MAX_TOTAL_BYTES`, `MAX_AGE`). The newest run of a known service always stays.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use argus_backend::host_path::folder::Folder;
use argus_core::action::{Action, Step, Subject};
use argus_core::failed_run::{FailedRun, RunFacts};
use argus_core::outcome::{ActionError, Evidence};
use argus_core::quoting::{PathText as _, start_of};
use argus_core::secrets::Secrets;
use argus_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::state_dir::StateDir;
use crate::state_file;

mod later_facts;

/// Maximum size of all evidence, in bytes.
const MAX_TOTAL_BYTES: u64 = 256 * 1024 * 1024;
/// Maximum age of evidence.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Minimum time between two sweeps. A sweep lists all evidence, and the next start waits for it. The restart budget
/// bounds the failures within this time.
const MIN_SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Lines of each stream that the planner state stores.
const MAX_STATE_LINES: usize = 100;
/// Maximum length of a line in the planner state, in bytes.
const MAX_LINE_BYTES: usize = 2 * 1024;

/// Minimum length of a line that the backend may have cut, in bytes.
const MIN_CUT_BYTES: usize = 60 * 1024;

/// File name of the details, next to `stdout.log` and `stderr.log`.
pub const FACTS_FILE: &str = "evidence.json";

/// Details of a failed run, stored next to its log lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceFacts {
    /// Name of the environment.
    pub environment: String,
    /// Name of the service.
    pub service: String,
    /// Facts of the run at the time of the collection.
    #[serde(flatten)]
    pub run: RunFacts,
    /// Time of the collection (RFC 3339).
    pub taken_at: String,
    /// Last outputs of the failed probe, oldest first; empty if no probe failed.
    #[serde(default)]
    pub probe_output: Vec<String>,
    /// True if an outage of the engine ended the run. Such an end is no failure of the service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub engine: bool,
    /// Results of the network diagnostics by check.
    #[serde(default, rename = "probeAnswers")]
    pub network_diagnostics: std::collections::BTreeMap<String, String>,
    /// Number of lines of stdout.
    pub stdout_lines: usize,
    /// Number of lines of stderr.
    pub stderr_lines: usize,
    /// Parts that could not be collected, each with its cause.
    pub missing: Vec<String>,
}

/// Writer of the evidence folder.
#[derive(Debug, Clone)]
pub struct EvidenceStore {
    state_dir: StateDir,
    clock: Clock,
    /// Time of the last sweep, in milliseconds since the epoch.
    swept: Arc<AtomicI64>,
    /// Lock of changes of stored evidence.
    changes: Arc<Mutex<()>>,
}

impl EvidenceStore {
    /// Creates a store in this state directory.
    pub fn new(state_dir: StateDir, clock: Clock) -> Self {
        Self {
            state_dir,
            clock,
            swept: Arc::default(),
            changes: Arc::default(),
        }
    }

    /// Writes the evidence of a step without the secrets. Returns it, cut to the size that the planner state
    /// stores.
    pub async fn store(&self, step: &Step, mut evidence: Box<Evidence>, secrets: &Secrets) -> Box<Evidence> {
        redact(&mut evidence, secrets);
        if let Some((folder, facts)) = self.describe(step, &evidence, secrets) {
            let (root, whole) = (self.state_dir.evidence(), evidence.clone());
            let statuses = self.state_dir.environments();
            let now = self.clock.now();
            let before = Timestamp(self.swept.load(Ordering::Relaxed));
            let is_due = now.since(before) >= MIN_SWEEP_INTERVAL;
            if is_due {
                self.swept.store(now.0, Ordering::Relaxed);
            }
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(now.0.unsigned_abs());
            let written = tokio::task::spawn_blocking(move || {
                let written = write(&folder, &facts, &whole);
                if is_due {
                    let known = |env: &str| statuses.join(format!("{env}.json")).exists();
                    sweep(&root, &folder, MAX_TOTAL_BYTES, now - MAX_AGE, &known);
                }
                written
            });
            match written.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot write evidence");
                    evidence.missing.push(format!("files: {error}"));
                }
                Err(error) => evidence.missing.push(format!("files: {error}")),
            }
        }
        evidence.stdout = tail_of(&evidence.stdout);
        evidence.stderr = tail_of(&evidence.stderr);
        evidence
    }

    /// Records that a step collected nothing, unless evidence of the same run exists.
    pub async fn note_missing(&self, step: &Step, error: &ActionError, secrets: &Secrets) {
        let nothing = Evidence {
            missing: vec![error.to_string()],
            ..Evidence::default()
        };
        if let Some((folder, facts)) = self.describe(step, &nothing, secrets)
            && !has_same_run(&folder, &facts)
        {
            self.store(step, Box::new(nothing), secrets).await;
        }
    }

    fn describe(
        &self,
        step: &Step,
        evidence: &Evidence,
        secrets: &Secrets,
    ) -> Option<(PathBuf, EvidenceFacts)> {
        let (Subject::Service { environment, service }, Action::CollectEvidence { run, by_engine, .. }) =
            (&step.subject, &step.action)
        else {
            return None;
        };
        let facts = EvidenceFacts {
            environment: environment.to_string(),
            service: service.to_string(),
            run: run_facts(run, evidence, *by_engine, secrets),
            taken_at: self.clock.now().to_string(),
            probe_output: run
                .probe_output
                .iter()
                .map(|line| secrets.redacted(line))
                .collect(),
            engine: *by_engine,
            network_diagnostics: evidence.network_diagnostics.clone(),
            stdout_lines: evidence.stdout.len(),
            stderr_lines: evidence.stderr.len(),
            missing: evidence.missing.clone(),
        };
        let folder = self
            .state_dir
            .evidence_run(environment.as_str(), service.as_str(), run.number);
        Some((folder, facts))
    }
}

/// Facts of the run without secrets, with what its evidence shows about them.
fn run_facts(run: &FailedRun, evidence: &Evidence, by_engine: bool, secrets: &Secrets) -> RunFacts {
    let decisive = Evidence {
        stderr: evidence.stderr.last().cloned().into_iter().collect(),
        memory_peak: evidence.memory_peak,
        oom_kills: evidence.oom_kills,
        ..Evidence::default()
    };
    let run = FailedRun {
        evidence: Some(decisive),
        ..run.clone()
    };
    let facts = RunFacts::from_run(&run, by_engine);
    let redacted = |text: Option<String>| text.map(|text| secrets.redacted(&text));
    RunFacts {
        image: redacted(facts.image),
        engine_error: redacted(facts.engine_error),
        ..facts
    }
}

fn redact(evidence: &mut Evidence, secrets: &Secrets) {
    for lines in [&mut evidence.stdout, &mut evidence.stderr] {
        for (index, line) in lines.iter_mut().enumerate() {
            let (stamp, text) = match stamped(line) {
                Some((stamp, text)) => (format!("{stamp} "), text),
                None => (String::new(), line.as_str()),
            };
            // The engine can return the end of a line, and the backend cuts a long one.
            let is_fragment = index == 0 || line.len() >= MIN_CUT_BYTES;
            let text = if is_fragment {
                secrets.redacted_fragment(text)
            } else {
                secrets.redacted(text)
            };
            *line = stamp + &text;
        }
    }
    for text in evidence
        .missing
        .iter_mut()
        .chain(evidence.network_diagnostics.values_mut())
    {
        *text = secrets.redacted(text);
    }
}

/// Splits a line after the engine's timestamp, if it has one.
fn stamped(line: &str) -> Option<(&str, &str)> {
    line.split_once(' ')
        .filter(|(stamp, _)| Timestamp::parse(stamp).is_some())
}

/// Reports whether the folder contains evidence of the same run.
fn has_same_run(folder: &Path, facts: &EvidenceFacts) -> bool {
    let stored = state_file::read(&folder.join(FACTS_FILE), state_file::MAX_BYTES).ok();
    let stored: Option<EvidenceFacts> = stored.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    stored.is_some_and(|stored| {
        stored.run.container_id == facts.run.container_id && stored.run.started_at == facts.run.started_at
    })
}

fn write(folder: &Path, facts: &EvidenceFacts, evidence: &Evidence) -> io::Result<()> {
    move_older_runs(folder, facts)?;
    let lines = |lines: &[String]| {
        let mut text = lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text.into_bytes()
    };
    let facts = serde_json::to_vec_pretty(facts).map_err(io::Error::other)?;
    let unfinished = folder.join(format!("{FACTS_FILE}.new"));
    let files = [
        (folder.join("stdout.log"), lines(&evidence.stdout)),
        (folder.join("stderr.log"), lines(&evidence.stderr)),
        (unfinished.clone(), facts),
    ];
    Folder::create(folder, 0o700)?;
    // Each write waits for the disk, and three parallel waits take about as long as one.
    std::thread::scope(|scope| {
        let writers: Vec<_> = files
            .iter()
            .map(|(path, bytes)| scope.spawn(move || write_synced(path, bytes)))
            .collect();
        let ended = writers.into_iter().map(|writer| {
            writer
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a write panicked")))
        });
        ended.collect::<io::Result<()>>()
    })?;
    // The details are renamed last: a folder with details is complete.
    fs::rename(unfinished, folder.join(FACTS_FILE))?;
    File::open(folder)?.sync_all()
}

/// Writes a file and syncs its content. The sync of the folder makes its name durable.
fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = state_file::open_or_create(path, 0o600)?;
    file.set_len(0)?;
    file.write_all(bytes)?;
    if bytes.is_empty() {
        return Ok(());
    }
    file.sync_all()
}

/// Moves older evidence with this number or a higher one out of the way. A removed service that returns counts its
/// failures from 1 again. The highest number then remains the newest run, and the older evidence stays until its
/// age ends.
fn move_older_runs(folder: &Path, facts: &EvidenceFacts) -> io::Result<()> {
    let (Some(service), Some(own)) = (folder.parent(), number(folder)) else {
        return Ok(());
    };
    for run in folders(service) {
        let Some(number) = number(&run).filter(|number| *number >= own) else {
            continue;
        };
        if number == own && (!run.join(FACTS_FILE).exists() || has_same_run(&run, facts)) {
            continue;
        }
        let taken: String = facts
            .taken_at
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        fs::rename(&run, service.join(format!("{number}-before-{taken}")))?;
    }
    Ok(())
}

/// Returns the last lines, cut and without the engine's timestamps, which only the files contain.
fn tail_of(lines: &[String]) -> Vec<String> {
    let from = lines.len().saturating_sub(MAX_STATE_LINES);
    let bare = |line: &String| {
        let text = match stamped(line) {
            Some((_, text)) => text,
            None if Timestamp::parse(line).is_some() => "",
            None => line.as_str(),
        };
        start_of(text, MAX_LINE_BYTES).to_owned()
    };
    lines[from..].iter().map(bare).collect()
}

/// Removes the oldest evidence beyond the size and age limits. The newest run of a service stays while its
/// environment is known, and otherwise until its age ends.
fn sweep(root: &Path, newest: &Path, most: u64, oldest: SystemTime, known: &dyn Fn(&str) -> bool) {
    let mut candidates: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    let mut total: u64 = 0;
    for environment in folders(root) {
        let name = environment.file_name().and_then(|name| name.to_str());
        let is_known = name.is_some_and(known);
        for service in folders(&environment) {
            let runs = folders(&service);
            let last = runs.iter().filter_map(|run| number(run)).max();
            for run in runs {
                let (at, bytes) = measure(&run);
                total += bytes;
                let is_last = last.is_some() && number(&run) == last;
                let stays = is_last && (is_known || at >= oldest);
                if !stays && run != newest {
                    candidates.push((at, bytes, run));
                }
            }
        }
    }
    candidates.sort();
    for (at, bytes, run) in candidates {
        if at >= oldest && total <= most {
            return;
        }
        match fs::remove_dir_all(&run) {
            Ok(()) => total = total.saturating_sub(bytes),
            Err(error) => tracing::warn!(%error, run = %run.shown(), "cannot remove old evidence"),
        }
    }
}

fn number(run: &Path) -> Option<u64> {
    run.file_name()?.to_str()?.parse().ok()
}

/// Folders in a folder. A link to one is not counted: old evidence is removed.
fn folders(of: &Path) -> Vec<PathBuf> {
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    entries.filter(is_folder).map(|entry| entry.path()).collect()
}

/// Newest modification time and total size of a run, in bytes.
fn measure(run: &Path) -> (SystemTime, u64) {
    let files = fs::read_dir(run).into_iter().flatten().flatten();
    let metas = files.filter_map(|file| file.metadata().ok());
    metas.fold((SystemTime::UNIX_EPOCH, 0), |(at, bytes), meta| {
        let written = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        (at.max(written), bytes + meta.len())
    })
}

#[cfg(test)]
#[path = "evidence_store_tests.rs"]
mod tests;

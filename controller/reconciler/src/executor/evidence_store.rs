//! What failed runs left, on disk before anything is done to their containers, and bounded.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use argus_core::outcome::{ActionError, Evidence};
use argus_core::plan::{Action, Step, Subject};
use argus_core::secrets::Secrets;
use argus_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::state_dir::StateDir;

/// Most bytes of all evidence.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// Evidence that is older goes.
const OLDEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// A look through all of it takes longer the more there is, and the next start waits for it; in this time few failures
/// can be added, because restarts are rationed.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(60);
/// Lines of each stream that the memory keeps.
const REMEMBERED: usize = 100;
/// Longest line that the memory keeps, in bytes.
const LONGEST_LINE: usize = 2 * 1024;

/// The file with the facts, beside `stdout.log` and `stderr.log`.
pub const FACTS: &str = "evidence.json";

/// What was kept of a run, beside its lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceFacts {
    /// Environment.
    pub environment: String,
    /// Service.
    pub service: String,
    /// Which failure of the service, from 1.
    pub run: u64,
    /// The engine's id of its container.
    pub container_id: String,
    /// When the run began.
    pub started_at: Option<String>,
    /// How it ended; `null` where it still ran, unhealthy.
    #[serde(default)]
    pub exit_code: Option<i64>,
    /// When this was taken.
    pub taken_at: String,
    /// The most memory it used, in bytes, as far as that was measured.
    pub memory_peak: Option<u64>,
    /// What its probe said last, oldest first, where that is how it failed.
    #[serde(default)]
    pub probe_output: Vec<String>,
    /// What its port answered and under which names it was known, by what was asked.
    #[serde(default)]
    pub questions: std::collections::BTreeMap<String, String>,
    /// Lines of stdout.
    pub stdout_lines: usize,
    /// Lines of stderr.
    pub stderr_lines: usize,
    /// What could not be taken, and why.
    pub missing: Vec<String>,
}

/// The folder of evidence.
#[derive(Debug, Clone)]
pub struct EvidenceStore {
    state: StateDir,
    clock: Clock,
    /// When all of it was looked through last, in milliseconds since the epoch.
    swept: Arc<AtomicI64>,
}

impl EvidenceStore {
    /// Below this state directory.
    pub fn new(state: StateDir, clock: Clock) -> Self {
        Self {
            state,
            clock,
            swept: Arc::default(),
        }
    }

    /// Writes down what a step found, without these secrets; what is returned is as much of it as a memory needs.
    pub async fn store(&self, step: &Step, mut found: Box<Evidence>, secrets: &Secrets) -> Box<Evidence> {
        black_out(&mut found, secrets);
        if let Some((folder, facts)) = self.place(step, &found, secrets) {
            let (root, whole) = (self.state.evidence(), found.clone());
            let statuses = self.state.environments();
            let now = self.clock.now();
            let before = Timestamp(self.swept.load(Ordering::Relaxed));
            let is_due = now.since(before) >= BETWEEN_SWEEPS;
            if is_due {
                self.swept.store(now.0, Ordering::Relaxed);
            }
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(now.0.unsigned_abs());
            let written = tokio::task::spawn_blocking(move || {
                let written = write(&folder, &facts, &whole);
                if is_due {
                    let known = |env: &str| statuses.join(format!("{env}.json")).exists();
                    sweep(&root, &folder, MOST_BYTES, now - OLDEST, &known);
                }
                written
            });
            match written.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot keep evidence");
                    found.missing.push(format!("files: {error}"));
                }
                Err(error) => found.missing.push(format!("files: {error}")),
            }
        }
        found.stdout = persisted(&found.stdout);
        found.stderr = persisted(&found.stderr);
        found
    }

    /// Writes down that a step took nothing, unless something of its run is there already.
    pub async fn note_missing(&self, step: &Step, error: &ActionError, secrets: &Secrets) {
        let nothing = Evidence {
            missing: vec![error.to_string()],
            ..Evidence::default()
        };
        if let Some((folder, facts)) = self.place(step, &nothing, secrets)
            && !holds(&folder, &facts)
        {
            self.store(step, Box::new(nothing), secrets).await;
        }
    }

    fn place(&self, step: &Step, found: &Evidence, secrets: &Secrets) -> Option<(PathBuf, EvidenceFacts)> {
        let (
            Subject::Service { environment, service },
            Action::CollectEvidence {
                id,
                number,
                since,
                exit_code,
                probe_said,
                ..
            },
        ) = (&step.subject, &step.action)
        else {
            return None;
        };
        let facts = EvidenceFacts {
            environment: environment.to_string(),
            service: service.to_string(),
            run: *number,
            container_id: id.to_string(),
            started_at: since.map(|at: Timestamp| at.to_string()),
            exit_code: *exit_code,
            taken_at: self.clock.now().to_string(),
            memory_peak: found.memory_peak,
            probe_output: probe_said.iter().map(|said| secrets.redacted(said)).collect(),
            questions: found.questions.clone(),
            stdout_lines: found.stdout.len(),
            stderr_lines: found.stderr.len(),
            missing: found.missing.clone(),
        };
        let folder = self.state.run(environment.as_str(), service.as_str(), *number);
        Some((folder, facts))
    }
}

fn black_out(found: &mut Evidence, secrets: &Secrets) {
    if secrets.is_empty() {
        return;
    }
    for line in found.stdout.iter_mut().chain(&mut found.stderr) {
        *line = match stamped(line) {
            Some((stamp, text)) => format!("{stamp} {}", secrets.redacted(text)),
            None => secrets.redacted(line),
        };
    }
}

/// A line with the engine's time in front, cut there.
fn stamped(line: &str) -> Option<(&str, &str)> {
    line.split_once(' ')
        .filter(|(stamp, _)| Timestamp::parse(stamp).is_some())
}

/// Whether evidence of the same run lies there.
fn holds(folder: &Path, facts: &EvidenceFacts) -> bool {
    let kept = fs::read(folder.join(FACTS)).ok();
    let kept: Option<EvidenceFacts> = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    kept.is_some_and(|kept| kept.container_id == facts.container_id && kept.started_at == facts.started_at)
}

fn write(folder: &Path, facts: &EvidenceFacts, found: &Evidence) -> io::Result<()> {
    set_aside(folder, facts)?;
    let lines = |lines: &[String]| {
        let mut text = lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text.into_bytes()
    };
    let facts = serde_json::to_vec_pretty(facts).map_err(io::Error::other)?;
    let unfinished = folder.join(format!("{FACTS}.new"));
    let files = [
        (folder.join("stdout.log"), lines(&found.stdout)),
        (folder.join("stderr.log"), lines(&found.stderr)),
        (unfinished.clone(), facts),
    ];
    fs::create_dir_all(folder)?;
    // Each waits for the disk, which takes hardly longer for three at once than for one.
    std::thread::scope(|scope| {
        let writers: Vec<_> = files
            .iter()
            .map(|(path, bytes)| scope.spawn(move || write_down(path, bytes)))
            .collect();
        let ended = writers.into_iter().map(|writer| {
            writer
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a write panicked")))
        });
        ended.collect::<io::Result<()>>()
    })?;
    // Last: who finds it finds the rest.
    fs::rename(unfinished, folder.join(FACTS))?;
    File::open(folder)?.sync_all()
}

/// On disk when it returns; its name is when its folder is.
fn write_down(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    if bytes.is_empty() {
        return Ok(());
    }
    file.sync_all()
}

/// A service that was forgotten counts anew: what its earlier life left under this number and those above it gives way,
/// so that the highest number is the newest. It stays on disk for its time.
fn set_aside(folder: &Path, facts: &EvidenceFacts) -> io::Result<()> {
    let (Some(service), Some(own)) = (folder.parent(), number(folder)) else {
        return Ok(());
    };
    for run in folders(service) {
        let Some(number) = number(&run).filter(|number| *number >= own) else {
            continue;
        };
        if number == own && (!run.join(FACTS).exists() || holds(&run, facts)) {
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

/// The engine's time in front of each line is for the files.
fn persisted(lines: &[String]) -> Vec<String> {
    let from = lines.len().saturating_sub(REMEMBERED);
    let bare = |line: &String| {
        let text = match stamped(line) {
            Some((_, text)) => text,
            None if Timestamp::parse(line).is_some() => "",
            None => line.as_str(),
        };
        let end = (0..=LONGEST_LINE.min(text.len()))
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text[..end].to_owned()
    };
    lines[from..].iter().map(bare).collect()
}

/// Removes the oldest evidence beyond what may be kept; of the newest of a service only what is too old, and not even
/// that where its environment is still known.
fn sweep(root: &Path, newest: &Path, most: u64, oldest: SystemTime, known: &dyn Fn(&str) -> bool) {
    let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    let mut total: u64 = 0;
    for environment in folders(root) {
        let name = environment.file_name().and_then(|name| name.to_str());
        let is_known = name.is_some_and(known);
        for service in folders(&environment) {
            let runs = folders(&service);
            let last = runs.iter().filter_map(|run| number(run)).max();
            for run in runs {
                let (at, bytes) = weigh(&run);
                total += bytes;
                let is_last = last.is_some() && number(&run) == last;
                let stays = is_last && (is_known || at >= oldest);
                if !stays && run != newest {
                    kept.push((at, bytes, run));
                }
            }
        }
    }
    kept.sort();
    for (at, bytes, run) in kept {
        if at >= oldest && total <= most {
            return;
        }
        match fs::remove_dir_all(&run) {
            Ok(()) => total = total.saturating_sub(bytes),
            Err(error) => tracing::warn!(%error, run = %run.display(), "cannot remove old evidence"),
        }
    }
}

fn number(run: &Path) -> Option<u64> {
    run.file_name()?.to_str()?.parse().ok()
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

/// When it was written, and how large it is.
fn weigh(run: &Path) -> (SystemTime, u64) {
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

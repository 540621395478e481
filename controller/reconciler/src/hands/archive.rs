//! What failed runs left, on disk before anything is done to their containers, and bounded.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use argus_core::outcome::{ActError, Evidence};
use argus_core::plan::{Act, Step, Subject};
use argus_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::state::{StateDir, write_private};

/// Most bytes of all evidence.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
/// Evidence that is older goes.
const OLDEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Lines of each stream that the memory keeps.
const REMEMBERED: usize = 100;
/// Longest line that the memory keeps, in bytes.
const LONGEST_LINE: usize = 2 * 1024;

/// The file with the facts, beside `stdout.log` and `stderr.log`.
pub const FACTS: &str = "evidence.json";

/// What was kept of a run, beside its lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Environment.
    pub environment: String,
    /// Service.
    pub service: String,
    /// Which failure of the service, from 1.
    pub incarnation: u64,
    /// The engine's id of its container.
    pub container_id: String,
    /// When the run began.
    pub started_at: Option<String>,
    /// When this was taken.
    pub taken_at: String,
    /// The most memory it used, in bytes, as far as that was measured.
    pub memory_peak: Option<u64>,
    /// What its probe said last, oldest first, where that is how it failed.
    #[serde(default)]
    pub probe_said: Vec<String>,
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
pub struct Archive {
    state: StateDir,
    clock: Clock,
}

impl Archive {
    /// Below this state directory.
    pub fn new(state: StateDir, clock: Clock) -> Self {
        Self { state, clock }
    }

    /// Writes down what a step found; what is returned is as much of it as a memory needs.
    pub async fn keep(&self, step: &Step, mut found: Box<Evidence>) -> Box<Evidence> {
        if let Some((folder, facts)) = self.place(step, &found) {
            let (root, whole) = (self.state.evidence(), found.clone());
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(self.clock.now().0.unsigned_abs());
            let written = tokio::task::spawn_blocking(move || {
                let written = write(&folder, &facts, &whole);
                sweep(&root, &folder, MOST_BYTES, now - OLDEST);
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
        found.stdout = remembered(&found.stdout);
        found.stderr = remembered(&found.stderr);
        found
    }

    /// Writes down that a step took nothing, unless something of its run is there already.
    pub async fn note_missing(&self, step: &Step, error: &ActError) {
        let nothing = Evidence {
            missing: vec![error.to_string()],
            ..Evidence::default()
        };
        if let Some((folder, facts)) = self.place(step, &nothing)
            && !holds(&folder, &facts)
        {
            self.keep(step, Box::new(nothing)).await;
        }
    }

    fn place(&self, step: &Step, found: &Evidence) -> Option<(PathBuf, Facts)> {
        let (
            Subject::Service { environment, service },
            Act::KeepEvidence {
                id,
                number,
                since,
                probe_said,
                ..
            },
        ) = (&step.subject, &step.act)
        else {
            return None;
        };
        let facts = Facts {
            environment: environment.to_string(),
            service: service.to_string(),
            incarnation: *number,
            container_id: id.to_string(),
            started_at: since.map(|at: Timestamp| at.to_string()),
            taken_at: self.clock.now().to_string(),
            memory_peak: found.memory_peak,
            probe_said: probe_said.clone(),
            questions: found.questions.clone(),
            stdout_lines: found.stdout.len(),
            stderr_lines: found.stderr.len(),
            missing: found.missing.clone(),
        };
        let folder = self
            .state
            .incarnation(environment.as_str(), service.as_str(), *number);
        Some((folder, facts))
    }
}

/// Whether evidence of the same run lies there.
fn holds(folder: &Path, facts: &Facts) -> bool {
    let kept = fs::read(folder.join(FACTS)).ok();
    let kept: Option<Facts> = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    kept.is_some_and(|kept| kept.container_id == facts.container_id && kept.started_at == facts.started_at)
}

fn write(folder: &Path, facts: &Facts, found: &Evidence) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, lines) in [("stdout.log", &found.stdout), ("stderr.log", &found.stderr)] {
        let mut text = lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        write_private(&folder.join(name), text.as_bytes())?;
    }
    let facts = serde_json::to_vec_pretty(facts).map_err(io::Error::other)?;
    // Last: who finds it finds the rest.
    write_private(&folder.join(FACTS), &facts)
}

/// The engine's time in front of each line is for the files.
fn remembered(lines: &[String]) -> Vec<String> {
    let from = lines.len().saturating_sub(REMEMBERED);
    let bare = |line: &String| {
        let text = match line.split_once(' ') {
            Some((stamp, text)) if Timestamp::parse(stamp).is_some() => text,
            Some(_) | None if Timestamp::parse(line).is_some() => "",
            Some(_) | None => line.as_str(),
        };
        let end = (0..=LONGEST_LINE.min(text.len()))
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text[..end].to_owned()
    };
    lines[from..].iter().map(bare).collect()
}

/// Removes the oldest evidence beyond what may be kept, never the newest of a service.
fn sweep(root: &Path, newest: &Path, most: u64, oldest: SystemTime) {
    let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for environment in folders(root) {
        for service in folders(&environment) {
            let mut runs: Vec<_> = folders(&service)
                .into_iter()
                .filter_map(|run| Some((number(&run)?, run)))
                .collect();
            runs.sort();
            // The last one stays whatever happens.
            runs.pop();
            kept.extend(runs.into_iter().filter(|(_, run)| run != newest).map(|(_, run)| {
                let (at, bytes) = weigh(&run);
                (at, bytes, run)
            }));
        }
    }
    kept.sort();
    let mut total: u64 = kept.iter().map(|(_, bytes, _)| bytes).sum();
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
mod tests {
    use super::*;

    fn run(root: &Path, service: &str, number: u64, bytes: usize) -> PathBuf {
        let folder = root.join("shop").join(service).join(number.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("stdout.log"), vec![b'x'; bytes]).unwrap();
        let at = second(number * 10);
        let file = fs::File::open(folder.join("stdout.log")).unwrap();
        file.set_modified(at).unwrap();
        folder
    }

    fn second(number: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(number)
    }

    #[test]
    fn the_oldest_goes_first_and_the_last_of_a_service_never() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let web: Vec<_> = (1..=10).map(|number| run(root, "web", number, 100)).collect();
        let db = run(root, "db", 1, 100_000);
        sweep(root, &web[9], 350, second(0));
        let left: Vec<_> = web.iter().map(|folder| folder.exists()).collect();
        assert_eq!(left, [&[false; 6][..], &[true; 4]].concat());
        assert!(db.exists(), "large, and the last one of its service");
        sweep(root, &web[9], 350, second(100));
        assert!(web[9].exists() && !web[8].exists() && db.exists(), "too old");
    }

    #[test]
    fn the_memory_keeps_the_last_lines_without_their_times() {
        let stamp = "2026-11-21T10:00:00.123456789Z";
        let lines: Vec<String> = (0..200).map(|n| format!("{stamp} line {n}")).collect();
        let kept = remembered(&lines);
        assert_eq!((kept.len(), kept[99].as_str()), (100, "line 199"));
        let odd = [
            format!("{stamp} "),
            stamp.to_owned(),
            "no stamp".to_owned(),
            "é".repeat(2_000),
        ];
        let kept = remembered(&odd);
        assert_eq!(&kept[..3], ["", "", "no stamp"]);
        assert_eq!(kept[3].len(), 2_048);
    }
}

//! Memory of containers, sampled from cgroup files while they run: the peak, and use near the limit.
//!
//! After the end of a container, its cgroup no longer exists, and the engine's statistics are empty. The samples come from
//! the files because a read of one file takes microseconds, and a query of the engine takes milliseconds. The files are
//! available only if the engine runs on this host.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argus_core::ident::ContainerId;
use argus_core::observed::{MemoryUse, WatchEvent};
use argus_core::time::Timestamp;

/// Time between two rounds. A round samples only the runs that are due.
pub(crate) const ROUND_INTERVAL: Duration = Duration::from_secs(2);
/// A run is sampled in each of its first rounds, and later once per this many rounds: every 10 s.
const ROUNDS_PER_SAMPLE: u32 = 5;
/// Share of the limit above which the memory use is high, in percent.
const HIGH_PERCENT: u64 = 90;
/// Share of the limit below which it is no longer high, in percent.
const NORMAL_PERCENT: u64 = 80;

/// Mount point of cgroups, version 1 and 2.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Names of the memory files of a cgroup, and of the field with the cache that the kernel can free.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    peak: &'static str,
    current: &'static str,
    inactive_cache: &'static str,
    /// File whose field `oom_kill` counts the processes that the kernel killed for a lack of memory.
    kills: &'static str,
}

const VERSION_1: Files = Files {
    peak: "memory.max_usage_in_bytes",
    current: "memory.usage_in_bytes",
    inactive_cache: "total_inactive_file",
    kills: "memory.oom_control",
};
const VERSION_2: Files = Files {
    peak: "memory.peak",
    current: "memory.current",
    inactive_cache: "inactive_file",
    kills: "memory.events",
};

/// Sampled runs by container.
#[derive(Debug, Default)]
pub(crate) struct MemoryPeaks {
    runs: Mutex<HashMap<ContainerId, Run>>,
}

#[derive(Debug)]
struct Run {
    started_at: Option<Timestamp>,
    folder: PathBuf,
    files: &'static Files,
    /// Memory limit in bytes; `None` without a limit.
    limit: Option<u64>,
    peak: Option<u64>,
    /// Highest number of processes and threads; `None` with cgroup version 1, which has it elsewhere.
    pids_peak: Option<u64>,
    /// Number of processes that the kernel killed for a lack of memory; `None` with kernels before 4.13.
    oom_kills: Option<u64>,
    is_high: bool,
    /// Number of rounds since the start of the sampling.
    rounds: u32,
}

impl MemoryPeaks {
    /// Starts to sample a run. `pid` is its main process, if the engine runs on this host.
    pub(crate) fn track(
        &self,
        id: &ContainerId,
        pid: i64,
        started_at: Option<Timestamp>,
        limit: Option<u64>,
    ) {
        let known = self
            .lock()
            .get(id)
            .is_some_and(|run| run.started_at == started_at);
        if known {
            self.sample_one(id);
            return;
        }
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/cgroup")) else {
            return;
        };
        if let Some((folder, files)) = find_folder(&text, id, Path::new(CGROUPS)) {
            let mut run = Run {
                started_at,
                folder,
                files,
                limit,
                peak: None,
                pids_peak: None,
                oom_kills: None,
                is_high: false,
                rounds: 0,
            };
            run.sample();
            self.lock().insert(id.clone(), run);
        }
    }

    /// Forgets a removed container.
    pub(crate) fn forget(&self, id: &ContainerId) {
        self.lock().remove(id);
    }

    /// True when no run is tracked.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Samples the runs that are due. Returns an event for each run whose use became high, or normal again.
    pub(crate) fn sample_due(&self, now: Timestamp) -> Vec<WatchEvent> {
        let mut runs = self.lock();
        let changed = runs.iter_mut().filter_map(|(id, run)| {
            // The last seconds before a lack of memory matter most.
            let is_due = run.rounds < ROUNDS_PER_SAMPLE || run.rounds % ROUNDS_PER_SAMPLE == 0 || run.is_high;
            run.rounds = run.rounds.wrapping_add(1);
            if !is_due {
                return None;
            }
            run.sample();
            let (used, limit) = run.changed_use()?;
            let high = run.is_high.then_some(MemoryUse { used, limit, at: now });
            Some(WatchEvent::MemoryHigh(id.clone(), high))
        });
        changed.collect()
    }

    /// Samples one run, for example when its end is near.
    pub(crate) fn sample_one(&self, id: &ContainerId) {
        if let Some(run) = self.lock().get_mut(id) {
            run.sample();
        }
    }

    /// Highest sampled memory of this run, in bytes.
    pub(crate) fn peak_of(&self, id: &ContainerId, started_at: Option<Timestamp>) -> Option<u64> {
        let runs = self.lock();
        let run = runs.get(id).filter(|run| run.started_at == started_at)?;
        run.peak
    }

    /// Highest sampled number of processes and threads of this run.
    pub(crate) fn pids_peak_of(&self, id: &ContainerId, started_at: Option<Timestamp>) -> Option<u64> {
        let runs = self.lock();
        let run = runs.get(id).filter(|run| run.started_at == started_at)?;
        run.pids_peak
    }

    /// Number of processes of this run that the kernel killed for a lack of memory.
    pub(crate) fn oom_kills_of(&self, id: &ContainerId, started_at: Option<Timestamp>) -> Option<u64> {
        let runs = self.lock();
        let run = runs.get(id).filter(|run| run.started_at == started_at)?;
        run.oom_kills
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ContainerId, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// Reads the peak. Kernels before 5.19 with cgroup version 2 do not have it, so the highest sample counts there.
    fn sample(&mut self) {
        let now = self
            .read(self.files.peak)
            .or_else(|| self.read(self.files.current));
        self.peak = self.peak.max(now);
        // Kernels before 6.1 do not have the peak.
        let pids = self.read("pids.peak").or_else(|| self.read("pids.current"));
        // A use below the limit between two samples hides that the kernel refused a process.
        let is_refused = self
            .read_field("pids.events", "max")
            .is_some_and(|count| count > 0);
        let limit = self.read("pids.max").filter(|_| is_refused);
        self.pids_peak = self.pids_peak.max(pids).max(limit);
        self.oom_kills = self.oom_kills.max(self.read_field(self.files.kills, "oom_kill"));
    }

    /// Use and limit if the use became high, or normal again.
    fn changed_use(&mut self) -> Option<(u64, u64)> {
        let limit = self.limit?;
        // The kernel frees this cache before it refuses memory.
        let used = self.read(self.files.current)?.saturating_sub(
            self.read_field("memory.stat", self.files.inactive_cache)
                .unwrap_or(0),
        );
        let percent = if self.is_high {
            NORMAL_PERCENT
        } else {
            HIGH_PERCENT
        };
        let is_high = u128::from(used) * 100 > u128::from(limit) * u128::from(percent);
        let has_changed = is_high != self.is_high;
        self.is_high = is_high;
        has_changed.then_some((used, limit))
    }

    fn read(&self, file: &str) -> Option<u64> {
        let text = std::fs::read_to_string(self.folder.join(file)).ok()?;
        text.trim().parse().ok()
    }

    /// Value of a field of a file with one `FIELD VALUE` per line.
    fn read_field(&self, file: &str, field: &str) -> Option<u64> {
        let text = std::fs::read_to_string(self.folder.join(file)).ok()?;
        let mut values = text.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = values.find(|(name, _)| *name == field)?;
        value.trim().parse().ok()
    }
}

/// The folder of a container's memory files, from the content of `/proc/PID/cgroup`.
fn find_folder(cgroup: &str, id: &ContainerId, root: &Path) -> Option<(PathBuf, &'static Files)> {
    let mut fields = cgroup.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        Some((controllers, path))
    });
    let (controllers, path) = fields.find(|(controllers, _)| {
        controllers.is_empty() || controllers.split(',').any(|name| name == "memory")
    })?;
    // A pid of another host or pid namespace belongs to another process here.
    if !path.contains(id.as_str()) {
        return None;
    }
    let path = path.trim_start_matches('/');
    Some(if controllers.is_empty() {
        (root.join(path), &VERSION_2)
    } else {
        (root.join("memory").join(path), &VERSION_1)
    })
}

#[cfg(test)]
#[path = "memory_peaks_tests.rs"]
mod tests;

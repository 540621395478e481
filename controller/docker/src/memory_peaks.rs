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
const HIGH_PERCENT: u8 = 90;
/// Share of the limit below which it is no longer high, in percent.
const NORMAL_PERCENT: u8 = 80;

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

/// Highest samples of a run; `None` for what the kernel does not report.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peaks {
    /// Memory in bytes.
    pub(crate) memory: Option<u64>,
    /// Number of processes and threads.
    pub(crate) pids: Option<u64>,
    /// Number of processes that the kernel killed for a lack of memory; `None` with kernels before 4.13.
    pub(crate) oom_kills: Option<u64>,
}

#[derive(Debug)]
struct Run {
    started_at: Option<Timestamp>,
    folder: PathBuf,
    /// Folder with the number of processes. With cgroup version 1, it is another one.
    pids: PathBuf,
    files: &'static Files,
    /// Memory limit in bytes; `None` without a limit.
    limit: Option<u64>,
    peaks: Peaks,
    /// Highest use since it is high; `None` while it is not.
    high: Option<MemoryUse>,
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
        let find = |controller| find_folder(&text, id, Path::new(CGROUPS), controller);
        if let Some((folder, files)) = find("memory") {
            let mut run = Run {
                started_at,
                pids: find("pids").map_or_else(|| folder.clone(), |(pids, _)| pids),
                folder,
                files,
                limit,
                peaks: Peaks::default(),
                high: None,
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

    /// Samples the runs that are due. Returns an event for each run whose use became high, higher by a percent, or normal again.
    pub(crate) fn sample_due(&self, now: Timestamp) -> Vec<WatchEvent> {
        let mut runs = self.lock();
        let changed = runs.iter_mut().filter_map(|(id, run)| {
            // The last seconds before a lack of memory matter most.
            let is_due =
                run.rounds < ROUNDS_PER_SAMPLE || run.rounds % ROUNDS_PER_SAMPLE == 0 || run.high.is_some();
            run.rounds = run.rounds.wrapping_add(1);
            if !is_due {
                return None;
            }
            run.sample();
            let has_changed = run.measure_use(now)?;
            has_changed.then(|| WatchEvent::MemoryHigh(id.clone(), run.high))
        });
        changed.collect()
    }

    /// Samples one run, for example when its end is near.
    pub(crate) fn sample_one(&self, id: &ContainerId) {
        if let Some(run) = self.lock().get_mut(id) {
            run.sample();
        }
    }

    /// Highest samples of this run.
    pub(crate) fn peaks_of(&self, id: &ContainerId, started_at: Option<Timestamp>) -> Peaks {
        let runs = self.lock();
        let run = runs.get(id).filter(|run| run.started_at == started_at);
        run.map(|run| run.peaks).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ContainerId, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// Reads the peak. Kernels before 5.19 with cgroup version 2 do not have it, so the highest sample counts there.
    fn sample(&mut self) {
        let read = |file| self::read(&self.folder, file);
        let now = read(self.files.peak).or_else(|| read(self.files.current));
        self.peaks.memory = self.peaks.memory.max(now);
        // Kernels before 6.1 do not have the peak.
        let read = |file| self::read(&self.pids, file);
        let pids = read("pids.peak").or_else(|| read("pids.current"));
        // A use below the limit between two samples hides that the kernel refused a process.
        let is_refused = read_field(&self.pids, "pids.events", "max").is_some_and(|count| count > 0);
        let limit = read("pids.max").filter(|_| is_refused);
        self.peaks.pids = self.peaks.pids.max(pids).max(limit);
        let kills = read_field(&self.folder, self.files.kills, "oom_kill");
        self.peaks.oom_kills = self.peaks.oom_kills.max(kills);
    }

    /// Measures the use of a run with a limit. Returns whether it became high, higher by a percent, or normal again.
    fn measure_use(&mut self, now: Timestamp) -> Option<bool> {
        let limit = self.limit?;
        // The kernel frees this cache before it refuses memory.
        let cache = read_field(&self.folder, "memory.stat", self.files.inactive_cache);
        let used = read(&self.folder, self.files.current)?.saturating_sub(cache.unwrap_or(0));
        let found = MemoryUse { used, limit, at: now };
        let percent = |used: u64| u128::from(used) * 100 / u128::from(limit.max(1));
        let high = match self.high {
            None => found.is_above(HIGH_PERCENT).then_some(found),
            Some(high) if percent(used) > percent(high.used) => Some(MemoryUse { used, ..high }),
            Some(high) => found.is_above(NORMAL_PERCENT).then_some(high),
        };
        let has_changed = high != self.high;
        self.high = high;
        Some(has_changed)
    }
}

fn read(folder: &Path, file: &str) -> Option<u64> {
    let text = std::fs::read_to_string(folder.join(file)).ok()?;
    text.trim().parse().ok()
}

/// Value of a field of a file with one `FIELD VALUE` per line.
fn read_field(folder: &Path, file: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(folder.join(file)).ok()?;
    let mut values = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = values.find(|(name, _)| *name == field)?;
    value.trim().parse().ok()
}

/// The folder of a container's files of a cgroup controller, from the content of `/proc/PID/cgroup`.
fn find_folder(
    cgroup: &str,
    id: &ContainerId,
    root: &Path,
    controller: &str,
) -> Option<(PathBuf, &'static Files)> {
    let mut fields = cgroup.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        Some((controllers, path))
    });
    let (controllers, path) = fields.find(|(controllers, _)| {
        controllers.is_empty() || controllers.split(',').any(|name| name == controller)
    })?;
    // A pid of another host or pid namespace belongs to another process here.
    if !path.contains(id.as_str()) {
        return None;
    }
    let path = path.trim_start_matches('/');
    Some(if controllers.is_empty() {
        (root.join(path), &VERSION_2)
    } else {
        (root.join(controller).join(path), &VERSION_1)
    })
}

#[cfg(test)]
#[path = "memory_peaks_tests.rs"]
mod tests;

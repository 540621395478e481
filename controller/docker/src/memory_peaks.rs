//! Peak memory of containers with a memory limit, sampled from cgroup files while they run.
//!
//! After the end of a container, its cgroup no longer exists, and the engine's statistics are empty. The samples come from
//! the files because a read of one file takes microseconds, and a query of the engine takes milliseconds. The files are
//! available only if the engine runs on this host.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argus_core::ident::ContainerId;
use argus_core::time::Timestamp;

/// Sampling interval; long enough for no visible idle CPU usage.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);

/// Mount point of cgroups, version 1 and 2.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Peaks by container.
#[derive(Debug, Default)]
pub(crate) struct MemoryPeaks {
    runs: Mutex<HashMap<ContainerId, Run>>,
}

#[derive(Debug)]
struct Run {
    started_at: Option<Timestamp>,
    file: PathBuf,
    peak: Option<u64>,
}

impl MemoryPeaks {
    /// Starts to sample a run with a memory limit. `pid` is its main process, if the engine runs on this host.
    pub(crate) fn track(&self, id: &ContainerId, pid: i64, started_at: Option<Timestamp>) {
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
        if let Some(file) = find_peak_file(&text, id, Path::new(CGROUPS)) {
            let run = Run {
                started_at,
                file,
                peak: None,
            };
            self.lock().insert(id.clone(), run);
            self.sample_one(id);
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

    /// Samples all tracked runs.
    pub(crate) fn sample_all(&self) {
        self.lock().values_mut().for_each(read);
    }

    /// Samples one run, for example when its end is near.
    pub(crate) fn sample_one(&self, id: &ContainerId) {
        if let Some(run) = self.lock().get_mut(id) {
            read(run);
        }
    }

    /// Highest sampled memory of this run, in bytes.
    pub(crate) fn peak_of(&self, id: &ContainerId, started_at: Option<Timestamp>) -> Option<u64> {
        let runs = self.lock();
        let run = runs.get(id).filter(|run| run.started_at == started_at)?;
        run.peak
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ContainerId, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(run: &mut Run) {
    let text = std::fs::read_to_string(&run.file).ok();
    let now = text.and_then(|text| text.trim().parse().ok());
    run.peak = run.peak.max(now);
}

/// The file with the peak, from the content of `/proc/PID/cgroup`.
fn find_peak_file(cgroup: &str, id: &ContainerId, root: &Path) -> Option<PathBuf> {
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
        root.join(path).join("memory.peak")
    } else {
        root.join("memory").join(path).join("memory.max_usage_in_bytes")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_file_is_found_in_both_cgroup_versions() {
        let id = ContainerId::new("abc123").unwrap();
        let root = Path::new("/cg");
        for (cgroup, file) in [
            (
                "12:cpu,cpuacct:/docker/abc123\n4:memory:/docker/abc123\n0::/x\n",
                Some("/cg/memory/docker/abc123/memory.max_usage_in_bytes"),
            ),
            (
                "0::/system.slice/docker-abc123.scope\n",
                Some("/cg/system.slice/docker-abc123.scope/memory.peak"),
            ),
            ("4:memory:/user.slice\n", None),
            ("", None),
            ("nonsense", None),
        ] {
            let found = find_peak_file(cgroup, &id, root);
            assert_eq!(found.as_deref(), file.map(Path::new), "{cgroup}");
        }
    }

    #[test]
    fn a_peak_never_decreases_and_belongs_to_one_run() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("memory.peak");
        let id = ContainerId::new("abc123").unwrap();
        let peaks = MemoryPeaks::default();
        let started_at = Some(Timestamp(1));
        let run = Run {
            started_at,
            file: file.clone(),
            peak: None,
        };
        peaks.lock().insert(id.clone(), run);
        for (text, known) in [
            ("100\n", Some(100)),
            ("50\n", Some(100)),
            ("max\n", Some(100)),
            ("200\n", Some(200)),
        ] {
            std::fs::write(&file, text).unwrap();
            peaks.sample_all();
            assert_eq!(peaks.peak_of(&id, started_at), known, "{text}");
        }
        std::fs::remove_file(&file).unwrap();
        peaks.sample_one(&id);
        assert_eq!(
            peaks.peak_of(&id, started_at),
            Some(200),
            "the peak survives its cgroup"
        );
        assert_eq!(peaks.peak_of(&id, Some(Timestamp(2))), None);
        peaks.forget(&id);
        assert!(peaks.is_empty());
    }
}

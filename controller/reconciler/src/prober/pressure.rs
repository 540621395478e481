//! Pressure of the host: the share of time in which tasks wait for CPU, memory or I/O, as the kernel measures it.

use std::path::Path;

use argus_core::time::Timestamp;

/// Folder of the kernel's files, one per resource. It is missing in kernels without this measurement.
const FOLDER: &str = "/proc/pressure";
/// Measured resources.
const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];

/// Waiting times since the start of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    at: Timestamp,
    /// Time in which at least one task waited for each resource, in microseconds.
    waited: [u64; RESOURCES.len()],
}

impl Pressure {
    /// Reads the waiting times. `None` where the kernel does not measure them.
    pub fn read(now: Timestamp) -> Option<Self> {
        Self::read_folder(Path::new(FOLDER), now)
    }

    /// Pressure with this waiting time for one resource, in microseconds.
    #[cfg(test)]
    pub(super) fn of(at: Timestamp, waited: u64) -> Self {
        Self {
            at,
            waited: [waited, 0, 0],
        }
    }

    fn read_folder(folder: &Path, now: Timestamp) -> Option<Self> {
        let total = |resource: &str| total_of_some(&std::fs::read_to_string(folder.join(resource)).ok()?);
        let waited = RESOURCES.map(total);
        let is_measured = waited.iter().any(Option::is_some);
        is_measured.then(|| Self {
            at: now,
            waited: waited.map(Option::unwrap_or_default),
        })
    }

    /// Time of the measurement.
    pub(super) fn at(&self) -> Timestamp {
        self.at
    }

    /// Share of the time since `earlier` in which tasks waited for the scarcest resource, in percent. `None` without time
    /// in between.
    pub(super) fn percent_since(&self, earlier: &Self) -> Option<u8> {
        let elapsed = u64::try_from(self.at.since(earlier.at).as_micros()).ok()?;
        let waited = self.waited.iter().zip(earlier.waited);
        let longest = waited.map(|(now, before)| now.saturating_sub(before)).max()?;
        let percent = longest.saturating_mul(100).checked_div(elapsed)?;
        Some(u8::try_from(percent).unwrap_or(u8::MAX).min(100))
    }
}

/// Value `total` of the line `some`, in microseconds.
fn total_of_some(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let mut words = line.split_whitespace();
    words.find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, resource: &str, total: u64) {
        let text = format!(
            "some avg10=91.00 avg60=8.66 avg300=5.74 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
        );
        std::fs::write(folder.join(resource), text).unwrap();
    }

    #[test]
    fn share_is_that_of_the_scarcest_resource() {
        let folder = tempfile::tempdir().unwrap();
        let read = |at| Pressure::read_folder(folder.path(), Timestamp(at));
        assert_eq!(read(0), None, "the kernel measures nothing");
        write(folder.path(), "cpu", 1_000_000);
        write(folder.path(), "io", 0);
        let before = read(10_000).unwrap();
        write(folder.path(), "cpu", 1_500_000);
        write(folder.path(), "io", 100_000);
        let after = read(11_000).unwrap();
        assert_eq!(after.percent_since(&before), Some(50));
        assert_eq!(before.percent_since(&before), None);
        write(folder.path(), "cpu", 9_000_000);
        assert_eq!(read(11_000).unwrap().percent_since(&before), Some(100));
    }
}

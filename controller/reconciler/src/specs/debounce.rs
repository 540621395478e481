//! Debounce of file contents: they take effect once they are known to be whole, or after two equal reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::time::Timestamp;

/// Minimum time between the two reads.
pub const MIN_GAP: Duration = Duration::from_millis(200);

/// Time without a change after which inputs in watched folders count as whole.
pub const QUIET_TIME: Duration = Duration::from_millis(150);
/// The same time if a command waits for the scan: the edits before it are complete.
pub const REQUESTED_QUIET_TIME: Duration = Duration::from_millis(25);

/// Read that confirms the contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// This read: the file is whole.
    ThisRead,
    /// A second read with the same contents, at least [`MIN_GAP`] later.
    SecondRead,
    /// No read: a process is writing the file.
    NoRead,
}

/// Contents that were read once and are not confirmed.
#[derive(Debug, Clone, Default)]
pub struct Debounce<H> {
    pending: BTreeMap<PathBuf, (H, Timestamp)>,
}

impl<H: PartialEq> Debounce<H> {
    /// Adds a read of a file. Returns true if its contents are confirmed by it. Contents equal to `known`, which
    /// are in effect, need no second read.
    pub fn confirm(
        &mut self,
        path: &Path,
        hash: H,
        known: Option<&H>,
        by: Confirmation,
        now: Timestamp,
    ) -> bool {
        if known == Some(&hash) {
            self.pending.remove(path);
            return false;
        }
        let first_read = self.pending.get(path).filter(|(before, _)| *before == hash);
        let is_confirmed = match by {
            Confirmation::ThisRead => true,
            Confirmation::SecondRead => first_read.is_some_and(|(_, since)| now.since(*since) >= MIN_GAP),
            Confirmation::NoRead => false,
        };
        if is_confirmed {
            self.pending.remove(path);
        } else if first_read.is_none() || by == Confirmation::NoRead {
            self.pending.insert(path.to_path_buf(), (hash, now));
        }
        is_confirmed
    }

    /// Drops files that no longer exist.
    pub fn retain_files(&mut self, exists: impl Fn(&Path) -> bool) {
        self.pending.retain(|path, _| exists(path));
    }

    /// Reports whether the file waits for its second read.
    pub fn is_pending(&self, path: &Path) -> bool {
        self.pending.contains_key(path)
    }

    /// Reports whether no file waits.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Time of the next second read.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.pending.values().map(|(_, since)| *since + MIN_GAP).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_confirmed_by_two_equal_reads() {
        let path = Path::new("e2e.yaml");
        let mut debounce = Debounce::default();
        let mut at = |ms, hash, known: Option<&u8>| {
            debounce.confirm(path, hash, known, Confirmation::SecondRead, Timestamp(ms))
        };
        assert!(!at(0, 1, None), "read once");
        assert!(!at(199, 1, None), "too soon");
        assert!(!at(250, 2, None), "another one");
        assert!(!at(460, 3, None), "and another one");
        assert!(at(660, 3, None));
        assert!(!at(900, 3, Some(&3)), "it is in effect already");
        assert!(!at(1_000, 4, Some(&3)));
        assert!(!at(1_100, 3, Some(&3)), "back to the contents in effect");
        assert!(!at(1_200, 4, Some(&3)), "the earlier read is discarded");
        assert_eq!(debounce.next_at(), Some(Timestamp(1_400)));
        debounce.retain_files(|_| false);
        assert!(debounce.is_empty());
    }

    #[test]
    fn whole_file_needs_one_read_and_an_open_one_waits() {
        let path = Path::new("e2e.yaml");
        let mut debounce = Debounce::default();
        let mut at = |ms, by| debounce.confirm(path, 1, None, by, Timestamp(ms));
        assert!(at(0, Confirmation::ThisRead));
        assert!(!at(0, Confirmation::NoRead));
        assert!(!at(900, Confirmation::NoRead), "its writer still writes");
        assert!(!at(1_000, Confirmation::SecondRead));
        assert!(at(1_100, Confirmation::SecondRead), "200 ms after the last write");
        assert!(!at(2_000, Confirmation::SecondRead));
        assert!(at(2_001, Confirmation::ThisRead));
        assert!(debounce.is_empty());
    }
}

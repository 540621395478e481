//! Debounce of file contents: they take effect after two equal reads, some time apart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::time::Timestamp;

/// Minimum time between the two reads.
pub const MIN_GAP: Duration = Duration::from_millis(200);

/// Contents that were read once and are not confirmed.
#[derive(Debug, Clone)]
pub struct Debounce<H> {
    pending: BTreeMap<PathBuf, (H, Timestamp)>,
}

impl<H> Default for Debounce<H> {
    fn default() -> Self {
        Self {
            pending: BTreeMap::new(),
        }
    }
}

impl<H: PartialEq> Debounce<H> {
    /// Adds a read of a file. Returns true if its contents are confirmed by it. Contents equal to `known`, which
    /// are in effect, need no second read.
    pub fn confirm(&mut self, path: &Path, hash: H, known: Option<&H>, now: Timestamp) -> bool {
        if known == Some(&hash) {
            self.pending.remove(path);
            return false;
        }
        match self.pending.get(path) {
            Some((before, since)) if *before == hash => {
                let is_confirmed = now.since(*since) >= MIN_GAP;
                if is_confirmed {
                    self.pending.remove(path);
                }
                is_confirmed
            }
            _ => {
                self.pending.insert(path.to_path_buf(), (hash, now));
                false
            }
        }
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
        let mut at = |ms, hash, known: Option<&u8>| debounce.confirm(path, hash, known, Timestamp(ms));
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
}

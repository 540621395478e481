//! When a file's contents count: once they read the same twice, some time apart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::time::Timestamp;

/// How far apart the two readings are.
pub const APART: Duration = Duration::from_millis(200);

/// Contents that were read once and have not been confirmed.
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
    /// Takes a reading of a file; tells whether it counts from now on.
    /// `known`: the reading that counts already, which needs no second look.
    pub fn counts(&mut self, path: &Path, hash: H, known: Option<&H>, now: Timestamp) -> bool {
        if known == Some(&hash) {
            self.pending.remove(path);
            return false;
        }
        match self.pending.get(path) {
            Some((before, since)) if *before == hash => {
                let settled = now.since(*since) >= APART;
                if settled {
                    self.pending.remove(path);
                }
                settled
            }
            _ => {
                self.pending.insert(path.to_path_buf(), (hash, now));
                false
            }
        }
    }

    /// Forgets the files that are no longer there.
    pub fn keep(&mut self, there: impl Fn(&Path) -> bool) {
        self.pending.retain(|path, _| there(path));
    }

    /// Whether this file waits for its second reading.
    pub fn waits(&self, path: &Path) -> bool {
        self.pending.contains_key(path)
    }

    /// No file waits.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// When the next file is to be read again.
    pub fn again_at(&self) -> Option<Timestamp> {
        self.pending.values().map(|(_, since)| *since + APART).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_count_when_they_read_the_same_twice() {
        let path = Path::new("e2e.yaml");
        let mut settle = Debounce::default();
        let mut at = |ms, hash, known: Option<&u8>| settle.counts(path, hash, known, Timestamp(ms));
        assert!(!at(0, 1, None), "read once");
        assert!(!at(199, 1, None), "too soon");
        assert!(!at(250, 2, None), "another one");
        assert!(!at(460, 3, None), "and another one");
        assert!(at(660, 3, None));
        assert!(!at(900, 3, Some(&3)), "it counts already");
        assert!(!at(1_000, 4, Some(&3)));
        assert!(!at(1_100, 3, Some(&3)), "back to what counts");
        assert!(!at(1_200, 4, Some(&3)), "the earlier look at it is forgotten");
        assert_eq!(settle.again_at(), Some(Timestamp(1_400)));
        settle.keep(|_| false);
        assert!(settle.is_empty());
    }
}

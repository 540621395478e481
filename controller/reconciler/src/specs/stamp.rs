//! Stamp of a file: its identity and the times of its last changes.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use argus_core::time::Timestamp;

/// Metadata of a file before its read. Equal stamps mean equal contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    dev: u64,
    ino: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    size: u64,
}

impl Stamp {
    /// Stamp of this metadata.
    pub(super) fn of(meta: &Metadata) -> Self {
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            size: meta.size(),
        }
    }

    /// Time of the last change of the file or its metadata, which no process can set.
    pub(super) fn changed_at(self) -> Timestamp {
        let (seconds, nanos) = self.changed;
        Timestamp(seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000))
    }
}

//! Writes of spec files, as notifications report them: in progress, or complete.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argus_core::time::Timestamp;
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind, RenameMode};

/// Time after the last write of an open file after which its writer counts as silent: two equal reads then suffice.
const SILENT: Duration = Duration::from_secs(5);

/// Last write of each spec file; cheap to clone. It contains only files on local file systems.
#[derive(Debug, Clone, Default)]
pub struct FileWrites(Arc<Mutex<Writes>>);

#[derive(Debug, Default)]
struct Writes {
    /// Number of the newest notification.
    last: u64,
    by_path: BTreeMap<PathBuf, Write>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Write {
    number: u64,
    at: Timestamp,
    is_complete: bool,
}

/// Effect of a notification on the file that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteEvent {
    /// A process writes the file.
    Written,
    /// The file was renamed into place, or its writer closed it.
    Completed,
    /// The file is gone.
    Removed,
}

impl WriteEvent {
    /// Effect of an event; `None` if it is no write. The creation of a file is none: a link is never closed.
    pub(super) fn of(event: EventKind) -> Option<Self> {
        match event {
            EventKind::Modify(ModifyKind::Data(_)) => Some(Self::Written),
            EventKind::Modify(ModifyKind::Name(RenameMode::To))
            | EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(Self::Completed),
            EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => {
                Some(Self::Removed)
            }
            EventKind::Any
            | EventKind::Access(_)
            | EventKind::Create(_)
            | EventKind::Modify(_)
            | EventKind::Other => None,
        }
    }
}

impl FileWrites {
    pub(super) fn record(&self, path: &Path, event: WriteEvent, now: Timestamp) {
        let mut writes = self.lock();
        writes.last += 1;
        let write = Write {
            number: writes.last,
            at: now,
            is_complete: event == WriteEvent::Completed,
        };
        match event {
            WriteEvent::Written | WriteEvent::Completed => {
                writes.by_path.insert(path.to_owned(), write);
            }
            WriteEvent::Removed => drop(writes.by_path.remove(path)),
        }
    }

    /// Files whose writes are complete, each with the number of its last notification.
    pub(super) fn completed(&self) -> BTreeMap<PathBuf, u64> {
        let writes = self.lock();
        let completed = writes.by_path.iter().filter(|(_, write)| write.is_complete);
        completed
            .map(|(path, write)| (path.clone(), write.number))
            .collect()
    }

    /// Returns true if no notification about the file came after this one.
    pub(super) fn is_last(&self, path: &Path, number: u64) -> bool {
        self.lock()
            .by_path
            .get(path)
            .is_some_and(|write| write.number == number)
    }

    /// Returns true while a process writes the file.
    pub(super) fn is_in_progress(&self, path: &Path, now: Timestamp) -> bool {
        self.lock()
            .by_path
            .get(path)
            .is_some_and(|write| !write.is_complete && now.since(write.at) < SILENT)
    }

    /// Drops completed writes after a scan has read their files.
    pub(super) fn forget(&self, completed: &BTreeMap<PathBuf, u64>) {
        let mut writes = self.lock();
        writes
            .by_path
            .retain(|path, write| completed.get(path) != Some(&write.number));
    }

    /// Drops everything, because notifications were lost.
    pub(super) fn clear(&self) {
        self.lock().by_path.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Writes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_is_complete_until_the_next_notification() {
        let (writes, path) = (FileWrites::default(), Path::new("/specs/e2e.yaml"));
        let at = |seconds: i64| Timestamp(seconds * 1_000);
        writes.record(path, WriteEvent::Written, at(0));
        assert!(writes.completed().is_empty() && writes.is_in_progress(path, at(4)));
        assert!(!writes.is_in_progress(path, at(5)), "its writer is silent");
        writes.record(path, WriteEvent::Completed, at(6));
        let completed = writes.completed();
        assert!(writes.is_last(path, completed[path]) && !writes.is_in_progress(path, at(6)));
        writes.record(path, WriteEvent::Written, at(7));
        assert!(!writes.is_last(path, completed[path]), "written after the read");
        writes.forget(&completed);
        assert!(
            writes.is_in_progress(path, at(7)),
            "a later write is not forgotten"
        );
        writes.record(path, WriteEvent::Completed, at(8));
        writes.forget(&writes.completed());
        assert!(writes.completed().is_empty());
        writes.record(path, WriteEvent::Written, at(9));
        writes.record(path, WriteEvent::Removed, at(9));
        assert!(!writes.is_in_progress(path, at(9)));
    }
}

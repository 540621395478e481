//! Writes of spec files, as notifications report them: in progress, or complete. Changes of their other inputs, such as build contexts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argus_backend::host_path::FileId;
use argus_core::time::Timestamp;
use notify::event::{AccessKind, AccessMode, CreateKind, EventKind, ModifyKind, RenameMode};

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
    inputs: InputChanges,
}

/// Changes of the other inputs of spec files.
#[derive(Debug, Default)]
struct InputChanges {
    /// Number of changes, and the time of the last one.
    last: (u64, Timestamp),
    /// Files that a process writes, with the time of their last write.
    in_progress: BTreeMap<PathBuf, Timestamp>,
    /// Local folders whose changes are all reported.
    watched: BTreeSet<FileId>,
}

/// State of the inputs at the start of a scan.
#[derive(Debug, Clone, Copy)]
pub(super) struct InputState {
    number: u64,
    is_quiet: bool,
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

    /// Records a change in a watched folder. The kernel reports a write after it, so a new file counts as being written.
    pub(super) fn record_input(&self, path: &Path, event: EventKind, now: Timestamp) {
        let inputs = &mut self.lock().inputs;
        inputs.last = (inputs.last.0 + 1, now);
        match WriteEvent::of(event) {
            Some(WriteEvent::Completed | WriteEvent::Removed) => drop(inputs.in_progress.remove(path)),
            Some(WriteEvent::Written) => drop(inputs.in_progress.insert(path.to_owned(), now)),
            None if event == EventKind::Create(CreateKind::File) => {
                inputs.in_progress.insert(path.to_owned(), now);
            }
            None => {}
        }
    }

    /// Replaces the local folders whose changes are all reported. Those of a new folder are unknown so far.
    pub(super) fn set_watched(&self, folders: BTreeSet<FileId>, now: Timestamp) {
        let inputs = &mut self.lock().inputs;
        if !folders.is_subset(&inputs.watched) {
            inputs.last = (inputs.last.0 + 1, now);
        }
        inputs.watched = folders;
    }

    /// End of a quiet time after the last change so far.
    pub(super) fn quiet_at(&self, quiet_time: Duration) -> Timestamp {
        self.lock().inputs.last.1 + quiet_time
    }

    /// State of the inputs: they are quiet if no process writes them, and none has changed for `quiet_time`.
    pub(super) fn inputs(&self, quiet_time: Duration, now: Timestamp) -> InputState {
        let inputs = &mut self.lock().inputs;
        inputs.in_progress.retain(|_, at| now.since(*at) < SILENT);
        let (number, at) = inputs.last;
        let is_quiet = inputs.in_progress.is_empty() && now.since(at) >= quiet_time;
        InputState { number, is_quiet }
    }

    /// Returns true if the inputs in these folders were quiet when the scan started, and none has changed since.
    pub(super) fn are_whole<'a>(
        &self,
        at_start: InputState,
        mut folders: impl Iterator<Item = &'a FileId>,
    ) -> bool {
        let inputs = &self.lock().inputs;
        at_start.is_quiet
            && inputs.last.0 == at_start.number
            && folders.all(|folder| inputs.watched.contains(folder))
    }

    /// Drops everything, because notifications were lost.
    pub(super) fn clear(&self, now: Timestamp) {
        let mut writes = self.lock();
        let last = (writes.inputs.last.0 + 1, now);
        *writes = Writes::default();
        writes.inputs.last = last;
    }

    fn lock(&self) -> MutexGuard<'_, Writes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use notify::event::DataChange;

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

    #[test]
    fn inputs_are_whole_after_a_quiet_time_in_watched_folders() {
        const WRITTEN: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        const CLOSED: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let (dir, quiet) = (tempfile::tempdir().unwrap(), Duration::from_millis(150));
        let folder = FileId::from(&std::fs::metadata(dir.path()).unwrap());
        let (writes, path) = (FileWrites::default(), Path::new("/app/main.py"));
        let is_whole = |at_start| writes.are_whole(at_start, [folder].iter());
        let start = |ms| writes.inputs(quiet, Timestamp(ms));
        let record = |event, ms| writes.record_input(path, event, Timestamp(ms));
        assert!(!is_whole(start(1_000)), "nothing reports a change");
        writes.set_watched([folder].into(), Timestamp(1_000));
        assert!(!is_whole(start(1_100)), "it may have changed before its watch");
        writes.set_watched([folder].into(), Timestamp(1_100));
        assert!(is_whole(start(1_150)));
        for event in [WRITTEN, EventKind::Create(CreateKind::File)] {
            record(event, 2_000);
            assert!(!is_whole(start(2_500)), "a process writes it");
            record(CLOSED, 2_600);
            assert!(!is_whole(start(2_749)), "it changed just now");
            assert!(is_whole(start(2_750)));
        }
        assert_eq!(writes.quiet_at(quiet), Timestamp(2_750));
        let at_start = start(3_000);
        record(EventKind::Create(CreateKind::Folder), 3_010);
        assert!(!is_whole(at_start), "it changed during the scan");
        record(WRITTEN, 4_000);
        assert!(is_whole(start(9_000)), "its writer is silent");
        writes.clear(Timestamp(10_000));
        writes.set_watched([folder].into(), Timestamp(10_100));
        assert!(!is_whole(start(10_200)), "notifications were lost");
    }
}

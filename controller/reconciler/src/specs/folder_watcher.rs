//! Folder watcher: file notifications, coalesced into triggers for a scan. The scan alone decides what changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use super::file_writes::{FileWrites, WriteEvent};
use super::filesystem;
use super::source::SpecSource;
use crate::clock::Clock;

/// Watched folders.
pub struct FolderWatcher {
    source: SpecSource,
    triggers: Triggers,
    writes: FileWrites,
    clock: Clock,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeMap<PathBuf, (u64, u64)>,
    complete: bool,
}

/// Permits of notifications: at most one of each kind, however many events arrived.
#[derive(Debug, Clone, Default)]
pub struct Triggers {
    /// Something changed.
    pub changed: Arc<Notify>,
    /// A spec file was written completely.
    pub written: Arc<Notify>,
}

impl FolderWatcher {
    /// Creates a watcher without folders; [`FolderWatcher::watch_folders`] adds them.
    pub fn new(source: SpecSource, clock: Clock) -> Self {
        Self {
            source,
            triggers: Triggers::default(),
            writes: FileWrites::default(),
            clock,
            watcher: None,
            watched: BTreeMap::new(),
            complete: false,
        }
    }

    /// Permits of the notifications since the last scan.
    pub fn triggers(&self) -> Triggers {
        self.triggers.clone()
    }

    /// Writes of the spec files.
    pub fn writes(&self) -> FileWrites {
        self.writes.clone()
    }

    /// Reports whether every folder is watched. Otherwise frequent scans find the changes.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Watches exactly these folders, by path relative to the root with device and inode. A folder that was
    /// replaced under its name is another folder, which the old watch does not cover.
    pub fn watch_folders(&mut self, folders: &BTreeMap<PathBuf, (u64, u64)>) {
        if self.watched == *folders && self.complete {
            return;
        }
        if self.watcher.is_none() {
            match notify::recommended_watcher(self.event_handler()) {
                Ok(watcher) => self.watcher = Some(watcher),
                Err(error) => log_failure(&self.source.folder, &error),
            }
        }
        let Some(mut watcher) = self.watcher.take() else {
            self.complete = false;
            return;
        };
        self.watched.retain(|folder, identity| {
            let stays = folders.get(folder) == Some(identity);
            if !stays {
                // An error means that the folder is gone, so nothing is watched.
                let _gone = watcher.unwatch(&self.source.folder.join(folder));
            }
            stays
        });
        let mut complete = true;
        for (folder, identity) in folders {
            if self.watched.contains_key(folder) {
                continue;
            }
            let path = self.source.folder.join(folder);
            match watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(folder.clone(), *identity);
                    // One more scan covers changes between the list and the watch.
                    self.triggers.changed.notify_one();
                }
                Err(error) => {
                    complete = false;
                    log_failure(&path, &error);
                }
            }
        }
        self.watcher = Some(watcher);
        self.complete = complete;
    }

    fn event_handler(&self) -> impl FnMut(notify::Result<notify::Event>) + Send + 'static {
        let (source, triggers) = (self.source.clone(), self.triggers.clone());
        let (writes, clock) = (self.writes.clone(), self.clock);
        move |event| {
            let Ok(event) = event else {
                writes.clear();
                triggers.changed.notify_one();
                return;
            };
            if event.need_rescan() {
                writes.clear();
            }
            match WriteEvent::of(event.kind).zip(event.paths.first()) {
                Some((write, path)) if source.is_spec(path) && is_on_local_folder(path) => {
                    writes.record(path, write, clock.now());
                    if write == WriteEvent::Completed {
                        triggers.written.notify_one();
                    }
                }
                _ => {}
            }
            if is_change(&event) {
                triggers.changed.notify_one();
            }
        }
    }

    /// Drops all watches after the folder is gone.
    pub fn unwatch_all(&mut self) {
        self.writes.clear();
        self.watcher = None;
        self.watched.clear();
        self.complete = false;
    }
}

fn is_on_local_folder(path: &Path) -> bool {
    path.parent().is_some_and(filesystem::is_local)
}

fn log_failure(path: &Path, error: &notify::Error) {
    tracing::debug!(path = %path.display(), %error, "cannot watch the folder, it is scanned every second");
}

/// Reports whether the event may change contents. A read is an event, too, and must not trigger another read.
fn is_change(event: &notify::Event) -> bool {
    match event.kind {
        // An overflow arrives without a path, as `Other` with a flag.
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write) || event.need_rescan(),
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reads_do_not_count_as_changes() {
        let event = |kind| notify::Event::new(kind);
        assert!(!is_change(&event(EventKind::Access(AccessKind::Open(
            AccessMode::Read
        )))));
        assert!(!is_change(&event(EventKind::Access(AccessKind::Close(
            AccessMode::Read
        )))));
        assert!(is_change(&event(EventKind::Access(AccessKind::Close(
            AccessMode::Write
        )))));
        assert!(is_change(&event(EventKind::Other)));
        assert!(is_change(&event(EventKind::Remove(
            notify::event::RemoveKind::Folder
        ))));
    }
}

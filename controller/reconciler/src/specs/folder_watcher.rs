//! Folder watcher: file notifications, coalesced into a trigger for a scan. The scan alone decides what changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// Watched folders.
pub struct FolderWatcher {
    root: PathBuf,
    /// Notification permit: one, however many events arrived.
    notified: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeMap<PathBuf, (u64, u64)>,
    complete: bool,
}

impl FolderWatcher {
    /// Creates a watcher without folders; [`FolderWatcher::watch_folders`] adds them.
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            notified: Arc::default(),
            watcher: None,
            watched: BTreeMap::new(),
            complete: false,
        }
    }

    /// Permit of the notifications since the last scan.
    pub fn changed(&self) -> Arc<Notify> {
        self.notified.clone()
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
            let notified = self.notified.clone();
            let on_event = move |event: notify::Result<notify::Event>| {
                if event.as_ref().map_or(true, is_change) {
                    notified.notify_one();
                }
            };
            match notify::recommended_watcher(on_event) {
                Ok(watcher) => self.watcher = Some(watcher),
                Err(error) => log_failure(&self.root, &error),
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
                let _gone = watcher.unwatch(&self.root.join(folder));
            }
            stays
        });
        let mut complete = true;
        for (folder, identity) in folders {
            if self.watched.contains_key(folder) {
                continue;
            }
            let path = self.root.join(folder);
            match watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(folder.clone(), *identity);
                    // One more scan covers changes between the list and the watch.
                    self.notified.notify_one();
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

    /// Drops all watches after the folder is gone.
    pub fn unwatch_all(&mut self) {
        self.watcher = None;
        self.watched.clear();
        self.complete = false;
    }
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

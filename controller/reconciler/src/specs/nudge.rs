//! Notifications of the file system, taken only as a nudge to look again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// The watched folders.
pub struct Nudge {
    root: PathBuf,
    /// Holds one permit, however many notifications came: that is all a nudge says.
    nudged: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    armed: BTreeMap<PathBuf, (u64, u64)>,
    complete: bool,
}

impl Nudge {
    /// Nothing is watched before the first [`Nudge::arm`].
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            nudged: Arc::default(),
            watcher: None,
            armed: BTreeMap::new(),
            complete: false,
        }
    }

    /// Waits for a notification that came since the last one was taken.
    pub fn changed(&self) -> Arc<Notify> {
        self.nudged.clone()
    }

    /// Every folder is watched; otherwise only a fast tick finds changes soon.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Watches these folders (by path relative to the root, with device and inode), and no others.
    /// A folder that was replaced under its name is another folder: the old watch stays silent for ever.
    pub fn arm(&mut self, folders: &BTreeMap<PathBuf, (u64, u64)>) {
        if self.armed == *folders && self.complete {
            return;
        }
        if self.watcher.is_none() {
            let nudged = self.nudged.clone();
            let told = move |event: notify::Result<notify::Event>| {
                if event.as_ref().map_or(true, is_change) {
                    nudged.notify_one();
                }
            };
            match notify::recommended_watcher(told) {
                Ok(watcher) => self.watcher = Some(watcher),
                Err(error) => failed(&self.root, &error),
            }
        }
        let Some(mut watcher) = self.watcher.take() else {
            self.complete = false;
            return;
        };
        self.armed.retain(|folder, identity| {
            let stays = folders.get(folder) == Some(identity);
            if !stays {
                // An error says that the folder is gone, which is what we want.
                let _gone = watcher.unwatch(&self.root.join(folder));
            }
            stays
        });
        let mut complete = true;
        for (folder, identity) in folders {
            if self.armed.contains_key(folder) {
                continue;
            }
            let path = self.root.join(folder);
            match watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.armed.insert(folder.clone(), *identity);
                    // What happened between the list and the watch is seen by one more look.
                    self.nudged.notify_one();
                }
                Err(error) => {
                    complete = false;
                    failed(&path, &error);
                }
            }
        }
        self.watcher = Some(watcher);
        self.complete = complete;
    }

    /// Watches nothing, because the folder is gone.
    pub fn disarm(&mut self) {
        self.watcher = None;
        self.armed.clear();
        self.complete = false;
    }
}

fn failed(path: &Path, error: &notify::Error) {
    tracing::debug!(path = %path.display(), %error, "cannot watch, a fast tick stands in");
}

/// Whether the event may mean other contents. Reading a file is an event, too: it must not make us read again.
fn is_change(event: &notify::Event) -> bool {
    match event.kind {
        // An overflow comes without a path, as `Other`, with a flag.
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
    fn reading_is_no_change_and_everything_else_is() {
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

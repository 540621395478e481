//! Folder watcher: file notifications, coalesced into triggers for a scan. The scan alone decides what changed.
//!
//! It watches the folders of spec files, and those of their other inputs: build contexts, `.env` files, documents and mounted files.
//! Every change in a folder of spec files triggers a scan, and elsewhere only a change that concerns an input.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argus_backend::host_path::FileId;
use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind, RenameMode};
use notify::{ErrorKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

use super::file_writes::{FileWrites, WriteEvent};
use super::filesystem;
use super::inputs::SpecInputs;
use super::source::SpecSource;
use crate::clock::Clock;

/// Maximum number of watched folders of inputs. It is the smallest limit of a system, which all programs of a user share.
const MAX_INPUT_FOLDERS: usize = 8_192;

/// Watched folders.
pub struct FolderWatcher {
    source: SpecSource,
    triggers: Triggers,
    writes: FileWrites,
    clock: Clock,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeMap<PathBuf, FileId>,
    /// Watched folders of local file systems.
    local: BTreeSet<FileId>,
    /// True if every folder of spec files is watched.
    complete: bool,
    /// Reason why a folder cannot be watched, with the remedy. The log reports it once.
    limit: Option<String>,
    interests: Interests,
}

/// Change of the system that ends an error of the watcher, as an imperative clause.
fn remedy(error: &notify::Error) -> &'static str {
    // `EMFILE`: no further instance of notifications.
    const NO_INSTANCE: i32 = 24;
    match &error.kind {
        ErrorKind::MaxFilesWatch => "raise `fs.inotify.max_user_watches` with `sudo sysctl`",
        ErrorKind::Io(error) if error.raw_os_error() == Some(NO_INSTANCE) => {
            "raise `fs.inotify.max_user_instances` with `sudo sysctl`"
        }
        _ => "see the limits with `sysctl fs.inotify`",
    }
}

/// Changes that matter, for the handler of notifications.
#[derive(Debug, Clone, Default)]
struct Interests(Arc<Mutex<Interest>>);

#[derive(Debug, Default)]
struct Interest {
    /// Folders of spec files.
    specs: BTreeSet<PathBuf>,
    inputs: SpecInputs,
    /// Removed and renamed paths. The watch of such a folder is gone, even if a new folder has the same identity.
    moved: BTreeSet<PathBuf>,
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
            local: BTreeSet::new(),
            complete: false,
            limit: None,
            interests: Interests::default(),
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

    /// Reason why a folder is not watched, with the remedy.
    pub fn limit(&self) -> Option<&str> {
        self.limit.as_deref()
    }

    /// Reports whether every folder is watched. Otherwise frequent scans find the changes.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Watches exactly these folders of spec files, by path relative to the root, and the folders of their inputs. A folder that was
    /// replaced under its name is another folder, which the old watch does not cover.
    pub fn watch_folders(&mut self, folders: &BTreeMap<PathBuf, FileId>, inputs: SpecInputs) {
        let specs = folders
            .iter()
            .map(|(folder, id)| (self.source.folder.join(folder), *id));
        let specs: Vec<(PathBuf, FileId)> = specs.collect();
        let (others, surplus) = folders_of_inputs(&inputs, &specs);
        let moved = {
            let mut interest = self.interests.lock();
            interest.specs = specs.iter().map(|(path, _)| path.clone()).collect();
            interest.inputs = inputs;
            std::mem::take(&mut interest.moved)
        };
        let wanted: Vec<_> = specs.iter().chain(&others).collect();
        let by_path: BTreeMap<_, _> = wanted.iter().map(|(path, id)| (path, id)).collect();
        if self.watcher.is_none() {
            match notify::recommended_watcher(self.event_handler()) {
                Ok(watcher) => self.watcher = Some(watcher),
                Err(error) => {
                    self.complete = false;
                    return self.report_limit(Some(&error));
                }
            }
        }
        let Some(mut watcher) = self.watcher.take() else {
            return;
        };
        self.watched.retain(|folder, identity| {
            let stays = by_path.get(folder) == Some(&&*identity) && !moved.contains(folder);
            if !stays {
                // An error means that the folder is gone, so nothing is watched.
                let _gone = watcher.unwatch(folder);
                self.local.remove(identity);
            }
            stays
        });
        let mut limit = surplus;
        for (path, identity) in wanted {
            if self.watched.contains_key(path) {
                continue;
            }
            match watcher.watch(path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(path.clone(), *identity);
                    if filesystem::is_local(path) {
                        self.local.insert(*identity);
                    }
                    // One more scan covers changes between the list and the watch.
                    self.triggers.changed.notify_one();
                }
                // The next scan finds the new folder.
                Err(error) if matches!(error.kind, ErrorKind::PathNotFound) => {}
                Err(error) => {
                    let is_full = matches!(error.kind, ErrorKind::MaxFilesWatch);
                    limit = Some(error);
                    if is_full {
                        break;
                    }
                }
            }
        }
        self.watcher = Some(watcher);
        self.writes.set_watched(self.local.clone(), self.clock.now());
        self.complete = specs.iter().all(|(path, _)| self.watched.contains_key(path));
        self.report_limit(limit.as_ref());
    }

    /// Logs the first folder that cannot be watched, and the end of this state.
    fn report_limit(&mut self, error: Option<&notify::Error>) {
        let limit = error.map(|error| {
            let remedy = remedy(error);
            format!(
                "cannot watch every folder, so an edit can take effect after up to 30 s: {error}; {remedy}, or exclude folders with a `.dockerignore`"
            )
        });
        match (&limit, &self.limit) {
            (Some(limit), None) => tracing::warn!("{limit}"),
            (None, Some(_)) => tracing::info!("every folder is watched again"),
            (Some(_), Some(_)) | (None, None) => {}
        }
        self.limit = limit;
    }

    fn event_handler(&self) -> impl FnMut(notify::Result<notify::Event>) + Send + 'static {
        let (source, triggers) = (self.source.clone(), self.triggers.clone());
        let (writes, clock) = (self.writes.clone(), self.clock);
        let interests = self.interests.clone();
        move |event| {
            let Ok(event) = event else {
                writes.clear(clock.now());
                triggers.changed.notify_one();
                return;
            };
            if !is_change(&event) {
                return;
            }
            let is_rescan = event.need_rescan();
            if is_rescan {
                writes.clear(clock.now());
            }
            let concerned = interests.of(&event);
            // An edit of the same time can make a file an input.
            for path in &event.paths {
                writes.record_input(path, event.kind, clock.now());
            }
            match WriteEvent::of(event.kind).zip(event.paths.first()) {
                Some((write, path))
                    if concerned == Concerned::Specs && source.is_spec(path) && is_on_local_folder(path) =>
                {
                    writes.record(path, write, clock.now());
                    if write == WriteEvent::Completed {
                        triggers.written.notify_one();
                    }
                }
                _ => {}
            }
            if is_rescan || concerned != Concerned::Nothing {
                triggers.changed.notify_one();
            }
        }
    }

    /// Drops all watches after the folder is gone.
    pub fn unwatch_all(&mut self) {
        self.writes.clear(self.clock.now());
        self.watcher = None;
        self.watched.clear();
        self.local.clear();
        self.limit = None;
        self.complete = false;
    }
}

fn is_on_local_folder(path: &Path) -> bool {
    path.parent().is_some_and(filesystem::is_local)
}

/// Returns the folders of inputs to watch, and the error of those above the limit. Notifications name a folder by one path only, so a
/// folder of spec files is not watched again.
fn folders_of_inputs(
    inputs: &SpecInputs,
    specs: &[(PathBuf, FileId)],
) -> (Vec<(PathBuf, FileId)>, Option<notify::Error>) {
    let known: BTreeSet<FileId> = specs.iter().map(|(_, id)| *id).collect();
    let others = inputs.folders().iter().filter(|(_, id)| !known.contains(id));
    let mut others: Vec<_> = others.map(|(path, id)| (path.clone(), *id)).collect();
    others.sort_by_key(|(path, _)| path.components().count());
    let is_over = others.len() > MAX_INPUT_FOLDERS;
    others.truncate(MAX_INPUT_FOLDERS);
    let message = || format!("more than {MAX_INPUT_FOLDERS} folders");
    (others, is_over.then(|| notify::Error::generic(&message())))
}

/// Objects that a notification concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Concerned {
    /// The folder of spec files.
    Specs,
    /// Another input of a spec file.
    Input,
    Nothing,
}

impl Interests {
    /// Returns what a change concerns. Remembers removed and renamed paths.
    fn of(&self, event: &notify::Event) -> Concerned {
        let mut interest = self.lock();
        let is_gone = matches!(
            event.kind,
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From | RenameMode::Any))
        );
        let is_write = matches!(
            event.kind,
            EventKind::Access(_) | EventKind::Modify(ModifyKind::Data(_))
        );
        let mut concerned = if event.paths.is_empty() {
            Concerned::Specs
        } else {
            Concerned::Nothing
        };
        for path in &event.paths {
            let is_spec = |folder: &Path| interest.specs.contains(folder);
            if is_spec(path) || path.parent().is_some_and(is_spec) {
                concerned = Concerned::Specs;
            } else if concerned == Concerned::Nothing && interest.inputs.concerns(path, is_write) {
                concerned = Concerned::Input;
            }
            if is_gone && (is_spec(path) || interest.inputs.folders().contains_key(path)) {
                interest.moved.insert(path.clone());
            }
        }
        concerned
    }

    fn lock(&self) -> MutexGuard<'_, Interest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    fn limit_lasts_until_every_folder_is_watched() {
        let folder = tempfile::tempdir().unwrap();
        let mut watcher = FolderWatcher::new(SpecSource::new(folder.path(), folder.path()), Clock::system());
        let no_instance = notify::Error::io(std::io::Error::from_raw_os_error(24));
        for (error, setting) in [
            (no_instance, "`fs.inotify.max_user_instances`"),
            (
                notify::Error::new(ErrorKind::MaxFilesWatch),
                "`fs.inotify.max_user_watches`",
            ),
        ] {
            watcher.report_limit(Some(&error));
            assert!(watcher.limit().unwrap().contains(setting), "{error}");
        }
        watcher.report_limit(None);
        assert_eq!(watcher.limit(), None);
    }

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

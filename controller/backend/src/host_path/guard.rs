//! Mount sources of one container, held under observation while the engine uses them by their paths.
//!
//! An engine takes a path, not an open file, and resolves it again when it mounts. [`MountGuard::watch`] watches every
//! component of every source before it resolves them; [`MountGuard::verify`] then says whether any component was created,
//! renamed or removed since, however briefly. A swap that was undone in between is found, too.

use std::collections::HashSet;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::sockets::Sockets;
use super::{FileId, PathError, Resolved, resolve_without_links};

/// Mount sources that were resolved and are observed since.
#[derive(Debug)]
pub struct MountGuard {
    sources: Vec<(PathBuf, Option<FileId>)>,
    sockets: Sockets,
    pub(super) watch: Option<Watch>,
}

/// Names of components, by the watch of the directory that holds them.
#[derive(Debug)]
pub(super) struct Watch {
    queue: OwnedFd,
    names: HashSet<(i32, OsString)>,
}

impl MountGuard {
    /// Starts to observe each source, then resolves it. Blocks for some system calls.
    ///
    /// # Errors
    /// A source has a link in it, does not exist, or is or contains an engine's socket.
    pub fn watch(sources: &[PathBuf], engine: Option<&Path>) -> Result<Self, PathError> {
        let mut guard = Self {
            sources: Vec::new(),
            sockets: Sockets::find(engine),
            watch: Watch::new(),
        };
        for path in sources {
            let first = resolve_without_links(path)?;
            // The watch covers the directories of the first walk. A swap before the watch changes the result of the
            // second walk.
            guard.watch = guard.watch.and_then(|watch| watch.of(&first));
            let source = resolve_without_links(path)?;
            guard.sockets.check(&source)?;
            if source.identity != first.identity {
                return Err(PathError::Changed(path.clone()));
            }
            guard.sources.push((path.clone(), source.identity));
        }
        Ok(guard)
    }

    /// The sources, in the order that they were given.
    pub fn sources(&self) -> Vec<PathBuf> {
        self.sources.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Identities of the sources, in the same order.
    pub fn identities(&self) -> Vec<Option<FileId>> {
        self.sources.iter().map(|(_, identity)| *identity).collect()
    }

    /// Checks that no source was replaced since the start of the observation, not even temporarily.
    ///
    /// # Errors
    /// A source was replaced, or has a link in it now.
    pub fn verify(&mut self) -> Result<(), PathError> {
        for (path, identity) in &self.sources {
            let source = resolve_without_links(path)?;
            self.sockets.check(&source)?;
            if source.identity != *identity {
                return Err(PathError::Changed(path.clone()));
            }
        }
        let changed = self.watch.as_ref().is_some_and(Watch::has_changed);
        match self.sources.first() {
            Some((path, _)) if changed => Err(PathError::Changed(path.clone())),
            _ => Ok(()),
        }
    }
}

impl Watch {
    /// `None` where the system grants no watch: the walks alone decide then.
    fn new() -> Option<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        Some(Self {
            queue,
            names: HashSet::new(),
        })
    }

    fn of(mut self, source: &Resolved) -> Option<Self> {
        let events = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        for step in &source.steps {
            // By its descriptor: a path could lead elsewhere already.
            let directory = format!("/proc/self/fd/{}", step.directory.as_raw_fd());
            match inotify::add_watch(&self.queue, directory, events) {
                Ok(watch) => drop(self.names.insert((watch, step.name.clone()))),
                // A directory that may be searched but not read: its other components are watched.
                Err(Errno::ACCESS) => {}
                Err(_) => return None,
            }
        }
        Some(self)
    }

    fn has_changed(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut events = inotify::Reader::new(&self.queue, &mut buffer);
        let mut changed = false;
        loop {
            match events.next() {
                Ok(event) => {
                    let name = event.file_name().map(std::ffi::CStr::to_bytes);
                    let name = std::ffi::OsStr::from_bytes(name.unwrap_or_default()).to_owned();
                    changed |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                        || self.names.contains(&(event.wd(), name));
                }
                Err(Errno::INTR) => {}
                Err(_) => return changed,
            }
        }
    }
}

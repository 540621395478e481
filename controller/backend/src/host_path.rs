//! Resolution of host paths, one component at a time. Every symbolic link is recorded or refused.
//!
//! A path is walked from `/` with `openat(O_PATH | O_NOFOLLOW)`. Each symbolic link that the walk meets is either
//! followed and recorded ([`resolve`]) or refused ([`resolve_without_links`]). The result is the path without any
//! link, with the device and inode of the object that it led to. Nothing is opened for reading on the way, so a pipe
//! or a device cannot block the walk. Files below a root are read and written in [`folder`], which follows no link at all.
//!
//! No library replaces this module. `cap-std` and `openat2` with `RESOLVE_BENEATH` only open a file below a root. A bind source
//! needs more: the path without links, because an engine accepts no open file, and the owner of each link on the way. Both also
//! follow links that stay below the root, and both wait for a FIFO. Older kernels and some system call filters of containers
//! refuse `openat2`. This walk would remain, and the library would be a second way.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use argus_core::desired::{MAX_COMPONENTS, MAX_PATH_BYTES};
use argus_core::quoting::PathText as _;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

pub mod folder;
pub mod own_files;
pub mod sockets;

/// Maximum number of links in one walk, as in the kernel.
const MAX_LINKS: usize = 40;

/// Reason for the refusal of a host path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path leads out of every directory that is allowed.
    #[error("`{}` leads to `{}`, outside the directories that are allowed", .path.shown(), .real.shown())]
    Outside {
        /// The path as it was requested.
        path: PathBuf,
        /// The path without links.
        real: PathBuf,
    },
    /// A component is a symbolic link where none is allowed.
    #[error("`{}` is a symbolic link now", .0.shown())]
    Link(PathBuf),
    /// The path is an engine's socket, or a directory that contains one.
    #[error("`{}` would give the container an engine's socket", .0.shown())]
    Socket(PathBuf),
    /// Nothing exists at the path.
    #[error("bind source path does not exist: {}", .0.shown())]
    Missing(PathBuf),
    /// The path is longer than any that people write, and each use of it costs time per component.
    #[error("the path has more than {MAX_PATH_BYTES} bytes or {MAX_COMPONENTS} components")]
    TooLong,
    /// The path cannot be walked.
    #[error("`{}` cannot be resolved: {why}", .path.shown())]
    Unreadable {
        /// The path as it was requested.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
}

/// Device and inode of an object: two paths with the same id lead to the same object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    dev: u64,
    ino: u64,
}

impl FileId {
    /// Returns the id in the result of a `stat`.
    #[allow(
        clippy::useless_conversion,
        reason = "the width of these fields differs between systems"
    )]
    pub fn new(stat: &Stat) -> Self {
        Self {
            dev: u64::from(stat.st_dev),
            ino: u64::from(stat.st_ino),
        }
    }
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
        }
    }
}

/// A symbolic link that a walk followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// User id of the owner of the link.
    pub owner: u32,
    /// User id of the owner of the directory that contains the link.
    pub directory_owner: u32,
    /// True when the group or all users can write to that directory.
    pub directory_shared: bool,
}

/// The end of a walk.
#[derive(Debug)]
pub struct Resolved {
    /// The path without links. Components that do not exist are appended as they were written.
    pub path: PathBuf,
    /// The object at the path; `None` where it does not exist.
    pub identity: Option<FileId>,
    /// User id of the owner of the object; `None` when it does not exist.
    pub owner: Option<u32>,
    /// Links that were followed, in order.
    pub followed: Vec<Followed>,
    is_directory: bool,
    is_regular: bool,
    /// Directories from `/` to the last one that exists, each with the component that was looked up in it.
    steps: Vec<PathComponent>,
}

/// A directory on the way and the name that was looked up in it.
#[derive(Debug)]
struct PathComponent {
    directory: OwnedFd,
    name: OsString,
}

impl Resolved {
    /// Opens the regular file at the end of the walk for reading. Does not follow a link that was put there since.
    ///
    /// # Errors
    /// The file does not exist, is not a regular file, or was replaced since the walk.
    pub fn open(&self) -> io::Result<File> {
        let (Some(step), Some(identity)) = (self.steps.last(), self.identity) else {
            return Err(Errno::NOENT.into());
        };
        if !self.is_regular {
            return Err(io::Error::other("it is not a file"));
        }
        let file = rustix::fs::openat(&step.directory, &step.name, folder::READ, Mode::empty())?;
        let stat = folder::check_regular(&file)?;
        if FileId::new(&stat) != identity {
            return Err(io::Error::other("the file was replaced while it was opened"));
        }
        Ok(File::from(file))
    }
}

/// Resolves a path, following every link. `path` is absolute; it need not exist.
///
/// # Errors
/// The path has too many links, or a directory on the way cannot be searched.
pub fn resolve(path: &Path) -> Result<Resolved, PathError> {
    walk(path, true)
}

/// Resolves a path that has no link in any component and that exists.
///
/// # Errors
/// A component is a link, or the path does not exist or cannot be walked.
pub fn resolve_without_links(path: &Path) -> Result<Resolved, PathError> {
    let resolved = walk(path, false)?;
    if resolved.identity.is_none() {
        return Err(PathError::Missing(path.to_owned()));
    }
    Ok(resolved)
}

/// The path with every link resolved; the path itself where it cannot be resolved.
pub fn real(path: &Path) -> PathBuf {
    resolve(path).map_or_else(|_| path.to_owned(), |resolved| resolved.path)
}

/// Returns the nearest folder above a path that exists, and the path of the next component below it. Of many folders, it looks up only a few,
/// because a folder exists only in one that exists.
pub fn nearest_folder(path: &Path) -> Option<(&Path, &Path)> {
    nearest(path, Path::is_dir)
}

fn nearest(path: &Path, is_folder: impl Fn(&Path) -> bool) -> Option<(&Path, &Path)> {
    let all: Vec<&Path> = path.ancestors().collect();
    let missing = all[1..].partition_point(|folder| !is_folder(folder));
    Some((*all.get(missing + 1)?, all[missing]))
}

fn walk(path: &Path, follow: bool) -> Result<Resolved, PathError> {
    let failed = |error: Errno| PathError::Unreadable {
        path: path.to_owned(),
        why: io::Error::from(error).to_string(),
    };
    let mut walk = Walk::begin(path).map_err(failed)?;
    while let Some(name) = walk.pending.pop_front() {
        match name.as_bytes() {
            b"" | b"." => {}
            b".." => walk.up(),
            _ => match walk.step(name, follow).map_err(failed)? {
                Stepped::On => {}
                Stepped::Link(link) => return Err(PathError::Link(link)),
                Stepped::Missing => break,
            },
        }
    }
    walk.end(path)
}

struct Walk {
    steps: Vec<PathComponent>,
    /// The object reached, with its `stat`.
    at: (OwnedFd, Stat),
    pending: VecDeque<OsString>,
    followed: Vec<Followed>,
    missing: bool,
}

enum Stepped {
    On,
    Link(PathBuf),
    Missing,
}

impl Walk {
    fn begin(path: &Path) -> rustix::io::Result<Self> {
        let root = top()?;
        Ok(Self {
            steps: Vec::new(),
            at: root,
            pending: split(path.as_os_str()),
            followed: Vec::new(),
            missing: false,
        })
    }

    fn up(&mut self) {
        if let Some(step) = self.steps.pop()
            && let Ok(stat) = rustix::fs::fstat(&step.directory)
        {
            self.at = (step.directory, stat);
        }
    }

    fn step(&mut self, name: OsString, follow: bool) -> rustix::io::Result<Stepped> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = match rustix::fs::openat(&self.at.0, &name, flags, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) => {
                self.pending.push_front(name);
                self.missing = true;
                return Ok(Stepped::Missing);
            }
            Err(error) => return Err(error),
        };
        let stat = rustix::fs::fstat(&next)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            let directory = std::mem::replace(&mut self.at, (next, stat)).0;
            self.steps.push(PathComponent { directory, name });
            return Ok(Stepped::On);
        }
        if !follow {
            return Ok(Stepped::Link(self.path().join(name)));
        }
        if self.followed.len() >= MAX_LINKS {
            return Err(Errno::LOOP);
        }
        self.followed.push(Followed {
            owner: stat.st_uid,
            directory_owner: self.at.1.st_uid,
            directory_shared: self.at.1.st_mode & 0o022 != 0,
        });
        let target = OsString::from_vec(rustix::fs::readlinkat(&next, "", Vec::new())?.into_bytes());
        if target.as_bytes().starts_with(b"/") {
            self.steps.clear();
            self.at = top()?;
        }
        let mut pending = split(&target);
        pending.append(&mut self.pending);
        self.pending = pending;
        Ok(Stepped::On)
    }

    fn path(&self) -> PathBuf {
        let mut path = PathBuf::from("/");
        path.extend(self.steps.iter().map(|step| &step.name));
        path
    }

    fn end(self, written: &Path) -> Result<Resolved, PathError> {
        let mut path = self.path();
        for name in &self.pending {
            match name.as_bytes() {
                b"" | b"." => {}
                b".." if self.missing => {
                    // `..` after a missing component has no fixed meaning: a link may be created there later.
                    return Err(PathError::Missing(written.to_owned()));
                }
                _ => path.push(name),
            }
        }
        let stat = (!self.missing).then_some(self.at.1);
        let is = |kind| stat.is_some_and(|stat: Stat| FileType::from_raw_mode(stat.st_mode) == kind);
        Ok(Resolved {
            path,
            identity: stat.as_ref().map(FileId::new),
            owner: stat.as_ref().map(|stat| stat.st_uid),
            followed: self.followed,
            is_directory: is(FileType::Directory),
            is_regular: is(FileType::RegularFile),
            steps: self.steps,
        })
    }
}

fn top() -> rustix::io::Result<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, "/", flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&root)?;
    Ok((root, stat))
}

fn split(path: &OsStr) -> VecDeque<OsString> {
    let parts = path.as_bytes().split(|byte| *byte == b'/');
    parts
        .filter(|part| !part.is_empty())
        .map(|part| OsStr::from_bytes(part).to_owned())
        .collect()
}

/// The `stat` of an entry, without following a link.
pub(crate) fn stat_of(path: &Path) -> Option<Stat> {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()
}

/// Directories that paths may lead into, with their links resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    /// Allows these directories. They may be named through links, because an operator names them.
    pub fn new<'a>(directories: impl IntoIterator<Item = &'a Path>) -> Self {
        Self(directories.into_iter().map(real).collect())
    }

    /// Allows a directory whose path has no links. Does not follow a link that replaced a component of it since.
    #[must_use]
    pub fn with_resolved(mut self, directory: &Path) -> Self {
        self.0.push(directory.to_owned());
        self
    }

    /// Returns whether a path without links is in one of these directories.
    pub fn contain(&self, path: &Path) -> bool {
        self.0.iter().any(|root| path.starts_with(root))
    }

    /// Resolves an absolute path and refuses one that leads out of all of these directories.
    ///
    /// # Errors
    /// The path is too long, leads out, or cannot be resolved.
    pub fn resolve(&self, path: &Path) -> Result<Resolved, PathError> {
        if path.as_os_str().len() > MAX_PATH_BYTES || path.components().skip(1).count() > MAX_COMPONENTS {
            return Err(PathError::TooLong);
        }
        let resolved = resolve(path)?;
        if self.contain(&resolved.path) {
            return Ok(resolved);
        }
        Err(PathError::Outside {
            path: path.to_owned(),
            real: resolved.path,
        })
    }

    /// Opens a regular file that an absolute path leads to, as [`Self::resolve`] and [`Resolved::open`] do.
    ///
    /// # Errors
    /// The path leads out, or the file cannot be opened.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        self.resolve(path).map_err(io::Error::other)?.open()
    }
}

#[cfg(test)]
#[path = "host_path/tests.rs"]
mod tests;

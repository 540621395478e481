//! Resolution of host paths, one component at a time. Every symbolic link is recorded or refused.
//!
//! A path is walked from `/` with `openat(O_PATH | O_NOFOLLOW)`. Each symbolic link that the walk meets is either
//! followed and recorded ([`resolve`]) or refused ([`resolve_without_links`]). The result is the path without any
//! link, with the device and inode of the object that it led to. Nothing is opened for reading on the way, so a pipe
//! or a device cannot block the walk.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

mod roots;
pub mod sockets;

pub use roots::Roots;

/// Maximum number of links in one walk, as in the kernel.
const MAX_LINKS: usize = 40;

/// Reason for the refusal of a host path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path leads out of every directory that is allowed.
    #[error("`{}` leads to `{}`, outside the directories that are allowed", .path.display(), .real.display())]
    Outside {
        /// The path as it was requested.
        path: PathBuf,
        /// The path without links.
        real: PathBuf,
    },
    /// A component is a symbolic link where none is allowed.
    #[error("`{}` is a symbolic link now", .0.display())]
    Link(PathBuf),
    /// The path is an engine's socket, or a directory that contains one.
    #[error("`{}` would give the container an engine's socket", .0.display())]
    Socket(PathBuf),
    /// Nothing exists at the path.
    #[error("bind source path does not exist: {}", .0.display())]
    Missing(PathBuf),
    /// The path cannot be walked.
    #[error("`{}` cannot be resolved: {why}", .path.display())]
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
    pub fn of(stat: &Stat) -> Self {
        Self {
            dev: u64::from(stat.st_dev),
            ino: u64::from(stat.st_ino),
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
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&step.directory, &step.name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        if FileId::of(&stat) != identity {
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

/// Opens a regular file below a directory, without following a link in any component.
///
/// # Errors
/// A component is a link or not a directory, or the file does not exist or is not a regular file.
pub fn open_below(directory: BorrowedFd<'_>, path: &Path) -> io::Result<File> {
    let (parent, name) = descend(directory, path)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent.as_fd(), name, flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("not a regular file"));
    }
    Ok(File::from(file))
}

/// Opens a directory below a directory, without following a link in any component.
///
/// # Errors
/// A component is a link or not a directory, or does not exist.
pub fn open_directory_below(directory: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let mut open = rustix::fs::openat(directory, ".", DIRECTORY, Mode::empty())?;
    for name in names(path)? {
        open = rustix::fs::openat(&open, name, DIRECTORY, Mode::empty())?;
    }
    Ok(open)
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens the directory at an absolute path that has no link in any component.
///
/// # Errors
/// A component is a link, or the path is not a directory.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let root = rustix::fs::openat(CWD, "/", DIRECTORY, Mode::empty())?;
    open_directory_below(root.as_fd(), path.strip_prefix("/").unwrap_or(path))
}

/// The parent directory of a relative path, and the last component.
fn descend<'p>(directory: BorrowedFd<'_>, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
    let all: Vec<&OsStr> = names(path)?;
    let (name, parents) = all
        .split_last()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut open = rustix::fs::openat(directory, ".", DIRECTORY, Mode::empty())?;
    for parent in parents {
        open = rustix::fs::openat(&open, *parent, DIRECTORY, Mode::empty())?;
    }
    Ok((open, name))
}

fn names(path: &Path) -> io::Result<Vec<&OsStr>> {
    let name = |part| match part {
        Component::Normal(name) => Some(Ok(name)),
        Component::CurDir => None,
        Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
            Some(Err(io::Error::from(io::ErrorKind::InvalidInput)))
        }
    };
    path.components().filter_map(name).collect()
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
        Ok(Resolved {
            path,
            identity: stat.as_ref().map(FileId::of),
            owner: stat.as_ref().map(|stat| stat.st_uid),
            followed: self.followed,
            is_directory: stat
                .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
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

#[cfg(test)]
#[path = "host_path/tests.rs"]
mod tests;

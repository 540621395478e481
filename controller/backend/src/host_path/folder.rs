//! Access to files below a root, in the one way that no repository and no container can divert.
//!
//! Every component of a path is opened relative to the folder before it and never through a link. The caller resolves the root,
//! which the operator names, once ([`real`](super::real)): whatever is created or exchanged below it later, an access does not
//! leave it. Only regular files are read, without waiting and up to a limit. A file is replaced as a whole, through a temporary
//! file with a random name that did not exist.

use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::BuildHasher as _;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use argus_core::quoting::PathText as _;
use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

mod group;
mod removal;

/// Flags of a folder on the way. It needs no permission to be listed.
const FOLDER: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Flags of a file: no link is followed, and neither a FIFO nor a device makes the open wait.
const FILE: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// Attempts to find a name for a temporary file. One is enough, unless someone predicts 64 random bits.
const ATTEMPTS: usize = 4;

/// An open folder. A `name` is one component of a path.
#[derive(Debug)]
pub struct Folder {
    directory: OwnedFd,
}

impl Folder {
    /// Opens the folder at a path without links. A relative path begins in the current folder.
    ///
    /// # Errors
    /// A component is a link, does not exist, or is not a folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::walk(path, None)
    }

    /// As [`Self::open`], and creates missing folders with this mode.
    ///
    /// # Errors
    /// Those of [`Self::open`], or a folder cannot be created.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        Self::walk(path, Some(mode))
    }

    /// Opens the folder of the last component of a path, and returns both.
    ///
    /// # Errors
    /// Those of [`Self::open`], or the path has no last component.
    pub fn parent_of(path: &Path) -> io::Result<(Self, OsString)> {
        let path = plain(path)?;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::from(ErrorKind::InvalidInput));
        };
        Ok((Self::open(folder)?, name.to_owned()))
    }

    /// Opens a folder below this one. The path is relative and contains no `..`.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn below(&self, path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::openat(&self.directory, ".", FOLDER, Mode::empty())?;
        let mut folder = Self { directory };
        for name in names(path)? {
            folder = folder.enter(name, None)?;
        }
        Ok(folder)
    }

    /// Opens a regular file below this folder for reading. The path is relative and contains no `..`.
    ///
    /// # Errors
    /// A component is a link, or the file does not exist or is not a regular file.
    pub fn open_below(&self, path: &Path) -> io::Result<File> {
        let all = names(path)?;
        let (name, parents) = all
            .split_last()
            .ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
        self.below(&parents.iter().collect::<PathBuf>())?.open_file(name)
    }

    /// Opens a regular file in this folder for reading.
    ///
    /// # Errors
    /// It is a link or another object, or cannot be opened.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        self.open_with(name, OFlags::RDONLY, 0)
    }

    /// Creates a file in this folder for writing.
    ///
    /// # Errors
    /// Something exists there, or the file cannot be created.
    pub fn create_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        self.open_with(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)
    }

    /// Replaces whatever is at a name, except a folder, by a file with this content and mode. The content is on disk before.
    ///
    /// # Errors
    /// The file cannot be written; nothing changed.
    pub fn write(&self, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
        self.write_for(None, name, bytes, mode)
    }

    /// Removes an entry that is not a folder. A link is removed itself.
    ///
    /// # Errors
    /// Nothing exists there, or it cannot be removed.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())?)
    }

    /// Creates a link in this folder.
    ///
    /// # Errors
    /// Something exists there, or the link cannot be created.
    pub fn link(&self, target: &Path, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.directory, name)?)
    }

    /// Renames an entry of this folder. A link is renamed itself.
    ///
    /// # Errors
    /// Nothing exists there, or it cannot be renamed.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.directory, from, &self.directory, to)?)
    }

    /// Returns the `stat` of an entry. A link is not followed.
    ///
    /// # Errors
    /// Nothing exists there, or it cannot be read.
    pub fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(rustix::fs::statat(
            &self.directory,
            name,
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// Sets the mode of a regular file in this folder.
    ///
    /// # Errors
    /// It is a link or another object, or the mode cannot be set.
    pub fn set_mode(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let file = rustix::fs::openat(&self.directory, name, OFlags::PATH | FILE, Mode::empty())?;
        check_regular(&file)?;
        // The kernel resolves this name to the open file itself. An open for reading would need a permission for it.
        let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(rustix::fs::chmod(itself, Mode::from_raw_mode(mode))?)
    }

    /// Sets the mode of this folder.
    ///
    /// # Errors
    /// The mode cannot be set.
    pub fn set_own_mode(&self, mode: u32) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        Ok(rustix::fs::chmodat(&self.directory, ".", mode, AtFlags::empty())?)
    }

    /// Returns the names of the entries, in no order.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn list(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>> + use<>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())?;
        let name = |entry: rustix::io::Result<DirEntry>| match entry {
            Ok(entry) => {
                let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
                (name != "." && name != "..").then_some(Ok(name))
            }
            Err(error) => Some(Err(error.into())),
        };
        Ok(Dir::new(directory)?.filter_map(name))
    }

    /// Returns the target of a link in this folder.
    ///
    /// # Errors
    /// It is not a link, or cannot be read.
    pub fn read_link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.directory, name, Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(target.to_bytes())))
    }

    fn walk(path: &Path, create: Option<u32>) -> io::Result<Self> {
        let path = plain(path)?;
        let directory = rustix::fs::openat(CWD, "/", FOLDER, Mode::empty())?;
        let mut folder = Self { directory };
        for name in names(path.strip_prefix("/").unwrap_or(&path))? {
            folder = folder.enter(name, create)?;
        }
        Ok(folder)
    }

    fn enter(&self, name: &OsStr, create: Option<u32>) -> io::Result<Self> {
        let open = || rustix::fs::openat(&self.directory, name, FOLDER, Mode::empty());
        let opened = match (open(), create) {
            (Err(Errno::NOENT), Some(mode)) => {
                match rustix::fs::mkdirat(&self.directory, name, Mode::from_raw_mode(mode)) {
                    Ok(()) | Err(Errno::EXIST) => open(),
                    Err(error) => Err(error),
                }
            }
            (opened, _) => opened,
        };
        let directory = opened.map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP => {
                let why = format!("`{}` is a link or not a folder", name.shown());
                io::Error::new(ErrorKind::NotADirectory, why)
            }
            other => other.into(),
        })?;
        Ok(Self { directory })
    }

    fn open_with(&self, name: &OsStr, access: OFlags, mode: u32) -> io::Result<File> {
        let mode = Mode::from_raw_mode(mode);
        let file =
            rustix::fs::openat(&self.directory, name, FILE | access, mode).map_err(|error| match error {
                Errno::LOOP => io::Error::other("it is a link"),
                // A socket, or a FIFO that is opened for writing.
                Errno::NXIO => not_a_file(),
                other => other.into(),
            })?;
        check_regular(&file)?;
        Ok(File::from(file))
    }

    fn create_temporary(&self, mode: u32) -> io::Result<(OsString, File)> {
        for _ in 0..ATTEMPTS {
            let random = RandomState::new().hash_one(std::process::id());
            let name = OsString::from(format!(".argus-{random:016x}.new"));
            match self.create_file(&name, mode) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created.map(|file| (name, file)),
            }
        }
        Err(io::Error::from(ErrorKind::AlreadyExists))
    }
}

/// Opens a regular file for reading.
///
/// # Errors
/// A component is a link, or the file does not exist or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let (folder, name) = Folder::parent_of(path)?;
    folder.open_file(&name)
}

/// Opens a regular file for reading and writing. Creates a missing one with this mode.
///
/// # Errors
/// Those of [`open`], or the file cannot be created.
pub fn open_or_create(path: &Path, mode: u32) -> io::Result<File> {
    let (folder, name) = Folder::parent_of(path)?;
    folder.open_with(&name, OFlags::RDWR | OFlags::CREATE, mode)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// Those of [`open`], or the file is longer.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_opened(open(path)?, limit)
}

/// Reads a text of at most `limit` bytes.
///
/// # Errors
/// Those of [`read`], or the file is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(io::Error::other)
}

/// Reads an open file of at most `limit` bytes.
///
/// # Errors
/// The file is longer, or cannot be read.
pub fn read_opened(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it has more than {limit} bytes")));
    }
    Ok(bytes)
}

/// Replaces the file at a path, as [`Folder::write`] does.
///
/// # Errors
/// A component is a link, or the file cannot be written.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let (folder, name) = Folder::parent_of(path)?;
    folder.write(&name, bytes, mode)
}

/// Removes the file at a path, as [`Folder::remove`] does. Returns whether it existed.
///
/// # Errors
/// A component is a link, or the file cannot be removed.
pub fn remove(path: &Path) -> io::Result<bool> {
    match Folder::parent_of(path).and_then(|(folder, name)| folder.remove(&name)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the names of the entries of a folder, sorted. A missing folder is empty.
///
/// # Errors
/// A component is a link, or the folder cannot be listed.
pub fn list(path: &Path) -> io::Result<Vec<OsString>> {
    let listed = Folder::open(path).and_then(|folder| folder.list()?.collect::<io::Result<Vec<_>>>());
    match listed {
        Ok(mut names) => {
            names.sort();
            Ok(names)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Checks that an open object is a regular file.
pub(super) fn check_regular(file: &OwnedFd) -> io::Result<Stat> {
    let stat = rustix::fs::fstat(file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(stat),
        FileType::Symlink => Err(io::Error::other("it is a link")),
        _ => Err(not_a_file()),
    }
}

/// Flags to open a file for reading.
pub(super) const READ: OFlags = FILE.union(OFlags::RDONLY);

fn not_a_file() -> io::Error {
    io::Error::other("it is not a file")
}

/// The path from `/`, without dots. No component is a link, so `..` is the folder before it.
fn plain(path: &Path) -> io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    for component in std::path::absolute(path)?.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            component => plain.push(component),
        }
    }
    Ok(plain)
}

/// The components of a relative path without `..`.
fn names(path: &Path) -> io::Result<Vec<&OsStr>> {
    let name = |part| match part {
        Component::Normal(name) => Some(Ok(name)),
        Component::CurDir => None,
        Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
            Some(Err(io::Error::from(ErrorKind::InvalidInput)))
        }
    };
    path.components().filter_map(name).collect()
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;

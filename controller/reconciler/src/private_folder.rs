//! Folders of private state, which only this user can have made and no other user can exchange.

use std::fs::{DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use argus_backend::host_path;
use argus_backend::host_path::folder::Folder;
use argus_core::quoting::PathText as _;

/// Reason why a folder cannot contain private state.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another user made the folder, or can exchange it.
    #[error("`{}` {why}", .folder.shown())]
    Untrusted {
        /// The folder, or a directory above it.
        folder: PathBuf,
        /// Continues a sentence that begins with the folder.
        why: &'static str,
        /// True if a folder of Argus itself is refused, and not a directory above it.
        is_own: bool,
    },
    /// Git tracks state in the folder, so the author of a repository can have written it.
    #[error("git tracks files of the state in `{}`", .0.shown())]
    Tracked(PathBuf),
    /// A folder cannot be created or read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Creates a folder with the mode 0700, and its parents. Refuses the folder unless [`check`] accepts it.
pub(crate) fn create(path: &Path) -> Result<(), FolderError> {
    check(path)?;
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
        _ => check(path)?,
    }
    // The umask may have cleared bits, and others may have set them. The owner of the parent is this user, so the path still
    // leads to the checked folder.
    std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
    Ok(())
}

/// Creates a folder with exactly this mode, which the umask does not change, and its parents. No component may be a link.
pub(crate) fn create_with_mode(path: &Path, mode: u32) -> io::Result<()> {
    Folder::create(path, mode)?.set_own_mode(mode)
}

/// Returns a path without links, because accesses to the state follow none. A path through a link that another user can exchange
/// stays as it is, so that each check and each access refuses it.
pub fn resolve_fixed(path: &Path) -> PathBuf {
    follow(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Checks that a folder and its parent belong to this user, that neither is a link, and that only this user and root can exchange
/// the directories above. Missing ones are fine.
pub(crate) fn check(path: &Path) -> Result<(), FolderError> {
    let parent = path.parent().unwrap_or(path);
    check_above(parent)?;
    let Some(meta) = check_own(parent)? else {
        return Ok(());
    };
    if is_writable_by_others(&meta) {
        return Err(untrusted(parent, "is writable for other users", false));
    }
    check_own(path).map(drop)
}

/// Checks a folder that a user named, and the folder `private` in it: the former belongs to this user or to root, the latter to
/// this user, and no other user can exchange either. Missing ones are fine. What else has the place of `private` is not followed:
/// a start moves it away.
pub(crate) fn check_given(root: &Path, private: &Path) -> Result<(), FolderError> {
    let root = follow(root)?;
    check_above(&root)?;
    let Some(meta) = read(&root)? else {
        return Ok(());
    };
    if !is_trusted(meta.uid()) {
        return Err(untrusted(&root, "belongs to another user", true));
    }
    if is_writable_by_others(&meta) {
        return Err(untrusted(&root, "is writable for other users", true));
    }
    let is_misplaced = |meta: Metadata| !meta.is_dir();
    if read(private)?.is_some_and(is_misplaced) {
        return Ok(());
    }
    check_own(private).map(drop)
}

/// Returns a path without links. Refuses a link that another user can exchange.
fn follow(path: &Path) -> Result<PathBuf, FolderError> {
    let resolved = host_path::resolve(&std::path::absolute(path)?).map_err(io::Error::other)?;
    let is_fixed = |link: &host_path::Followed| {
        is_trusted(link.owner) && is_trusted(link.directory_owner) && !link.directory_shared
    };
    if resolved.followed.iter().all(is_fixed) {
        return Ok(resolved.path);
    }
    let why = "leads through a link that another user can change";
    Err(untrusted(path, why, false))
}

/// Checks that no other user can exchange a directory above a path.
fn check_above(path: &Path) -> Result<(), FolderError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    for folder in follow(parent)?.ancestors() {
        let Some(meta) = read(folder)? else {
            continue;
        };
        if !is_trusted(meta.uid()) {
            return Err(untrusted(folder, "belongs to another user", false));
        }
        // In a sticky directory, others cannot exchange what belongs to this user.
        if is_writable_by_others(&meta) && meta.mode() & 0o1000 == 0 {
            return Err(untrusted(folder, "is writable for other users", false));
        }
    }
    Ok(())
}

/// Checks that a path is a folder of this user; `None` if it is missing.
pub(crate) fn check_own(folder: &Path) -> Result<Option<Metadata>, FolderError> {
    let Some(meta) = read(folder)? else {
        return Ok(None);
    };
    let why = if meta.is_symlink() {
        "is a link"
    } else if !meta.is_dir() {
        "is not a folder"
    } else if meta.uid() == rustix::process::geteuid().as_raw() {
        return Ok(Some(meta));
    } else {
        "belongs to another user"
    };
    Err(untrusted(folder, why, true))
}

fn untrusted(folder: &Path, why: &'static str, is_own: bool) -> FolderError {
    FolderError::Untrusted {
        folder: folder.to_path_buf(),
        why,
        is_own,
    }
}

fn read(path: &Path) -> io::Result<Option<Metadata>> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true for this user and for root. In a user namespace, root outside of it appears as a user without a number.
fn is_trusted(owner: u32) -> bool {
    let is_root_outside = || {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let is_mapped = read("/proc/self/uid_map").trim_end().ends_with("4294967295");
        !is_mapped && read("/proc/sys/kernel/overflowuid").trim().parse() == Ok(owner)
    };
    owner == 0 || owner == rustix::process::geteuid().as_raw() || is_root_outside()
}

/// Returns true if a user besides the owner and root can write to a directory. The group of one user, which many systems create with
/// the user, is not another user.
fn is_writable_by_others(meta: &Metadata) -> bool {
    let (user, group) = (meta.uid(), meta.gid());
    let name = |file: &str, id: u32| {
        let text = std::fs::read_to_string(file).ok()?;
        let mut lines = text.lines().map(|line| line.split(':'));
        lines.find_map(|mut fields| {
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
        })
    };
    let is_own_group = || {
        group == 0
            || group == user
            || name("/etc/group", group).is_some_and(|group| name("/etc/passwd", user) == Some(group))
    };
    meta.mode() & 0o002 != 0 || meta.mode() & 0o020 != 0 && !is_own_group()
}

//! Folder of private state outside of the project, which only this user can have made.

use std::fs::{DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// Creates a folder with the mode 0700, and its parents. Refuses the folder and its parent unless [`check`] accepts them.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => check(path)?,
    }
    // The umask may have cleared bits, and others may have set them. The owner of the parent is this user, so the path still
    // leads to the checked folder.
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Checks that a folder and its parent belong to this user, and that neither is a link. Missing ones are fine.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    for folder in path.parent().into_iter().chain([path]) {
        let meta = match std::fs::symlink_metadata(folder) {
            Ok(meta) => meta,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let refused = |why: &str| {
            let why = format!("`{}` {why}", folder.display());
            Err(io::Error::new(ErrorKind::PermissionDenied, why))
        };
        if meta.is_symlink() {
            return refused("is a link");
        }
        if !meta.is_dir() {
            return refused("is not a folder");
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return refused("belongs to another user");
        }
        if folder != path && meta.mode() & 0o002 != 0 {
            return refused("is writable for all users");
        }
    }
    Ok(())
}

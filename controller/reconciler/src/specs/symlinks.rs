//! Rules for links to spec files and project directories.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use argus_backend::host_path::{Followed, Resolved, real, resolve};

/// Resolves links below one specs folder.
#[derive(Debug)]
pub(super) struct SymlinkPolicy {
    folder: PathBuf,
    /// True if the folder belongs to root or to this user, and no other user can write there.
    trusted: bool,
}

impl SymlinkPolicy {
    /// Creates the rules for paths below this folder. The folder itself may be a link, because the operator named it.
    pub(super) fn below(folder: &Path) -> Self {
        let folder = real(folder);
        let meta = std::fs::metadata(&folder);
        Self {
            trusted: meta.is_ok_and(|meta| is_trusted(meta.uid()) && meta.mode() & 0o022 == 0),
            folder,
        }
    }

    /// Resolves a path below the folder.
    ///
    /// Diagnostics quote a file, so a link must not show content that its author cannot read. Either the target has the
    /// owner of the link, or only root and this user could have created the link.
    ///
    /// # Errors
    /// The text of the error: a link on the path is not allowed, or the path cannot be resolved.
    pub(super) fn resolve(&self, path: &Path) -> Result<Resolved, String> {
        let resolved = resolve(&self.folder.join(path)).map_err(|why| why.to_string())?;
        let may_follow = |link: &Followed| {
            let ours = is_trusted(link.owner) && is_trusted(link.directory_owner) && !link.directory_shared;
            resolved.owner == Some(link.owner) || (self.trusted && ours)
        };
        if resolved.owner.is_some() && !resolved.followed.iter().all(may_follow) {
            return Err("it is a link to a file of another owner".to_owned());
        }
        Ok(resolved)
    }
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

    use super::*;

    #[test]
    fn link_of_another_owner_is_not_followed() {
        // Only root can make a link in another's name.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for directory in ["specs", "specs/sub", "theirs", "ours"] {
            std::fs::create_dir(root.join(directory)).unwrap();
        }
        lchown(root.join("theirs"), Some(4321), None).unwrap();
        for (link, target, owner) in [
            ("specs/own", "../ours", 0),
            ("specs/trusted", "../theirs", 0),
            ("specs/sub/trusted", "../../theirs", 0),
            ("specs/foreign", "../ours", 4321),
            ("specs/same", "../theirs", 4321),
            ("theirs/hop", "../ours", 4321),
            ("specs/chain", "../theirs/hop", 0),
        ] {
            symlink(target, root.join(link)).unwrap();
            lchown(root.join(link), Some(owner), None).unwrap();
        }
        let followed = |name: &str| {
            SymlinkPolicy::below(&root.join("specs"))
                .resolve(Path::new(name))
                .is_ok()
        };
        let all = || ["own", "trusted", "foreign", "same", "chain", "sub/trusted"].map(followed);
        assert_eq!(all(), [true, true, false, true, false, true]);
        let shared = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(root.join("specs"), shared).unwrap();
        assert_eq!(
            all(),
            [true, false, false, true, false, false],
            "others can write there"
        );
    }
}

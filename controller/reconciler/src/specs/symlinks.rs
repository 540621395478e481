//! Rules for links to spec files and project directories.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use argus_backend::host_path::{Followed, PathError, Resolved, Roots, real, resolve};

use super::location::{HostAccess, find_worktree, worktrees_of};

/// Link to a spec file that Argus does not follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedLink {
    /// The author of the link may be unable to read its target.
    #[error("it is a link to a file of another owner")]
    OtherOwner,
    /// The repository is not trusted.
    #[error("it is a link that leads out of its git worktree")]
    LeadsOut,
}

impl RefusedLink {
    /// The remedy, as the hint of a diagnostic.
    pub fn hint(self) -> &'static str {
        match self {
            Self::OtherOwner => "POLICY_VIOLATION: replace the link with a copy of the file",
            Self::LeadsOut => {
                "POLICY_VIOLATION: replace the link with a copy of the file, or run `argus allow` and restart the controller"
            }
        }
    }
}

/// Cause why a spec file is not opened.
#[derive(Debug, thiserror::Error)]
pub enum SpecPathError {
    /// A link on the path is not followed.
    #[error(transparent)]
    Link(#[from] RefusedLink),
    /// The path cannot be resolved.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The file cannot be opened or read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Resolves links below one specs folder.
#[derive(Debug)]
pub(super) struct SymlinkPolicy {
    folder: PathBuf,
    /// True if the folder belongs to root or to this user, and no other user can write there.
    trusted: bool,
    bounds: Option<Roots>,
}

impl SymlinkPolicy {
    /// Creates the rules for paths below this folder. The folder itself may be a link, because the operator named it.
    pub(super) fn below(folder: &Path, access: &HostAccess) -> Self {
        let folder = real(folder);
        let meta = std::fs::metadata(&folder);
        Self {
            trusted: meta.is_ok_and(|meta| is_trusted(meta.uid()) && meta.mode() & 0o022 == 0),
            bounds: bounds_of(&folder, access),
            folder,
        }
    }

    /// Resolves a path below the folder.
    ///
    /// Diagnostics quote a file, so a link must not show content that its author cannot read. Either the target has the
    /// owner of the link, or only root and this user could have created the link. A checkout gives its links the owner of the
    /// checkout, so those of a worktree do not lead out of it.
    ///
    /// # Errors
    /// A link on the path is not followed, or the path cannot be resolved.
    pub(super) fn resolve(&self, path: &Path) -> Result<Resolved, SpecPathError> {
        let resolved = resolve(&self.folder.join(path))?;
        let may_follow = |link: &Followed| {
            let ours = is_trusted(link.owner) && is_trusted(link.directory_owner) && !link.directory_shared;
            resolved.owner == Some(link.owner) || (self.trusted && ours)
        };
        if resolved.owner.is_some() && !resolved.followed.iter().all(may_follow) {
            return Err(RefusedLink::OtherOwner.into());
        }
        check_bounds(&self.folder, self.bounds.as_ref(), &resolved)?;
        Ok(resolved)
    }
}

/// Directories into which the links of a folder may lead; `None` for all.
fn bounds_of(folder: &Path, access: &HostAccess) -> Option<Roots> {
    let worktree = find_worktree(folder)?;
    let mounts = access.allow_mounts.iter().map(Path::new);
    (!access.allows(folder, Some(worktree))).then(|| Roots::new(mounts).with_resolved(worktree))
}

/// Checks a path below a folder. The worktrees of one repository share a controller, so links between them stay in bounds.
fn check_bounds(folder: &Path, bounds: Option<&Roots>, resolved: &Resolved) -> Result<(), RefusedLink> {
    let is_in = |path: &Path, bounds: &Roots| {
        let is_in = |top: &PathBuf| path.starts_with(top);
        bounds.contain(path) || worktrees_of(folder).iter().any(is_in)
    };
    let leads_out = |bounds: &Roots| !resolved.followed.is_empty() && !is_in(&resolved.path, bounds);
    if bounds.is_some_and(leads_out) {
        return Err(RefusedLink::LeadsOut);
    }
    Ok(())
}

/// Opens a file that a command names. Its links have the rules of a worktree, whose default files such as `compose.yaml` a command also reads
/// without a name.
///
/// # Errors
/// The file leads out of the worktree, does not exist, or cannot be opened.
pub(super) fn open_named(path: &Path, access: &HostAccess) -> Result<File, SpecPathError> {
    let path = std::path::absolute(path)?;
    let (folder, name) = match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => (real(folder), Path::new(name)),
        _ => (PathBuf::from("/"), Path::new("")),
    };
    let resolved = resolve(&folder.join(name))?;
    check_bounds(&folder, bounds_of(&folder, access).as_ref(), &resolved)?;
    Ok(resolved.open()?)
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
            SymlinkPolicy::below(&root.join("specs"), &HostAccess::default())
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

    #[test]
    fn link_of_a_worktree_does_not_lead_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for directory in ["tree/.git", "tree/specs", "tree/shop", "other", "mounted"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in ["tree/shop/e2e.yaml", "other/e2e.yaml", "mounted/e2e.yaml"] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        for (link, target) in [
            ("tree/specs/in", "../shop/e2e.yaml"),
            ("tree/specs/out", "../../other/e2e.yaml"),
            ("tree/specs/folder", "../../other"),
            ("tree/specs/mounted", "../../mounted/e2e.yaml"),
            ("given", "tree/specs"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let links = ["in", "out", "folder/e2e.yaml", "mounted"];
        let checkout = HostAccess {
            allow_mounts: vec![root.join("mounted").to_string_lossy().into_owned()],
            ..HostAccess::default()
        };
        let allowed = HostAccess {
            allowed: Some(root.join("tree")),
            ..HostAccess::default()
        };
        for (access, followed) in [(checkout, [true, false, false, true]), (allowed, [true; 4])] {
            for specs in ["tree/specs", "given"].map(|specs| root.join(specs)) {
                let policy = SymlinkPolicy::below(&specs, &access);
                assert_eq!(
                    links.map(|link| policy.resolve(Path::new(link)).is_ok()),
                    followed
                );
                let is_opened = |link: &str| open_named(&specs.join(link), &access).is_ok();
                let named = [followed[0], followed[1], followed[3]];
                assert_eq!(["in", "out", "mounted"].map(is_opened), named);
            }
        }
        let no_worktree = SymlinkPolicy::below(&root, &HostAccess::default());
        assert!(no_worktree.resolve(Path::new("tree/specs/out")).is_ok());
    }
}

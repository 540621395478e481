//! Paths of the settings: the default state, and the source of the spec files.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use argus_backend::host_path::real;
use argus_core::hex::hex;
use argus_reconciler::private_folder::resolve_fixed;
use argus_reconciler::specs::source::SpecSource;
use argus_reconciler::state_dir::StateDir;
use rustix::fs::Access;
use sha2::{Digest as _, Sha256};

use super::{Settings, trust};

impl Settings {
    /// Returns the folder or the file that the setting `specs` names.
    pub(crate) fn spec_source(&self) -> SpecSource {
        SpecSource::new(&self.specs, self.state.root())
    }
}

/// Public state in a project.
const LOCAL: &str = ".argus";
/// Folder of public state in the private state of a project that is not writable.
const STATUS: &str = "status";
/// Parent of the private folders of root. `/var/lib/argus` belongs to the user of the systemd unit, which root does not trust.
const BASE_OF_ROOT: &str = "/var/lib/argus-root";
/// Maximum length of the readable part of a name. A path of a socket has at most 107 bytes.
const MAX_NAME: usize = 20;
/// Type of overlay file systems.
const OVERLAY: u64 = 0x794c_7630;

/// Returns the state without a setting, for the current folder. Controllers and clients that start in the same folder find the
/// same one.
pub(super) fn find_default_state() -> StateDir {
    // Without a current folder, nothing can be read from it either.
    let current = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let private = private_folder(&current);
    // A client of another user reads the status of a controller that can write here.
    let is_usable = Path::new(LOCAL).exists() || rustix::fs::access(".", Access::WRITE_OK).is_ok();
    let root = if is_usable {
        Path::new(".").join(LOCAL)
    } else {
        private.join(STATUS)
    };
    StateDir::with_private(root, private)
}

/// Returns the state of another folder of this user.
pub(super) fn state_of(folder: &Path) -> StateDir {
    StateDir::with_private(folder.join(LOCAL), private_folder(folder))
}

/// Returns the folder of the private state of a project. It is never in the project: a repository can contain any file.
fn private_folder(project: &Path) -> PathBuf {
    private_base().join(name_of(project))
}

/// Returns the parent of the private folders of this user.
pub(super) fn private_base() -> PathBuf {
    let base = find_base(env::var_os("XDG_STATE_HOME")).unwrap_or_else(base_without_home);
    // The private folder and its parent are never links. Those above belong to the operator, and later accesses follow none.
    let above = base.parent().map(resolve_fixed).unwrap_or_default();
    above.join(base.file_name().unwrap_or_default())
}

fn find_base(xdg: Option<OsString>) -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    find_private_base(is_root, xdg, env::var_os("HOME"))
}

/// Returns the parent of the private folders of a user without a home, as in containers. The owner of a folder is checked before
/// each use.
fn base_without_home() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    PathBuf::from(format!("/var/tmp/argus-{user}"))
}

/// Returns the folders that no container may have: the parents of the private folders of all controllers of this user, with and
/// without the variables of this process, and the folder of the user's settings.
pub(crate) fn private_folders() -> Vec<PathBuf> {
    let others = [find_base(None), Some(base_without_home())].into_iter().flatten();
    let existing = others.filter(|base| base.exists());
    let settings = user_settings_file().and_then(|file| Some(file.parent()?.to_path_buf()));
    existing.chain([private_base()]).chain(settings).collect()
}

/// Returns a settings file that the operator names. Its links are resolved here once, because later accesses follow none.
pub(super) fn resolve_named(path: PathBuf) -> PathBuf {
    resolve_by(real, path)
}

/// Returns a state directory that the operator names, as [`resolve_named`]. No other user can change its links.
pub(super) fn resolve_state(path: PathBuf) -> PathBuf {
    resolve_by(resolve_fixed, path)
}

fn resolve_by(resolve: fn(&Path) -> PathBuf, path: PathBuf) -> PathBuf {
    let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
    let resolved = resolve(&absolute);
    if resolved == absolute { path } else { resolved }
}

/// Returns true if this user can create a folder, or write to it.
fn is_writable(folder: &Path) -> bool {
    let existing = folder
        .ancestors()
        .find(|parent| parent.symlink_metadata().is_ok());
    existing.is_some_and(|folder| rustix::fs::access(folder, Access::WRITE_OK).is_ok())
}

/// Returns the settings file of the user, which need not exist.
pub(super) fn user_settings_file() -> Option<PathBuf> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    home.map(|home| home.join("argus").join(trust::SETTINGS_FILE))
}

/// Returns the parent of all private folders of the user, as the XDG base directory specification defines it. `None` if the user
/// cannot write there.
fn find_private_base(is_root: bool, xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |text: Option<OsString>| text.map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(state) = absolute(xdg) {
        return Some(state.join("argus"));
    }
    let base = if is_root {
        Some(PathBuf::from(BASE_OF_ROOT))
    } else {
        absolute(home).map(|home| home.join(".local/state/argus"))
    };
    base.filter(|base| is_writable(base))
}

/// Facts that differ between two folders, one of which replaced the other at its path.
#[derive(Debug, Clone, Copy, Default)]
struct Identity {
    /// Identifier of the file system. A device number can change with a restart of the host, the identifier does not.
    file_system: u64,
    inode: u64,
    /// Time of creation since 1970: a file system gives the inode of a removed folder to a new one. `None` if it has no such time.
    created: Option<Duration>,
}

impl Identity {
    fn of(folder: &Path) -> Self {
        let Ok(found) = folder.metadata() else {
            return Self::default();
        };
        let created = found.created().ok().filter(|_| !is_overlay(folder));
        Self {
            file_system: rustix::fs::statvfs(folder).map_or(0, |found| found.f_fsid),
            inode: found.ino(),
            created: created.and_then(|time| time.duration_since(UNIX_EPOCH).ok()),
        }
    }
}

/// Returns true on an overlay file system. It changes the time of creation of a folder of an image with the first write.
fn is_overlay(folder: &Path) -> bool {
    let found = rustix::fs::statfs(folder).ok();
    found.and_then(|found| u64::try_from(found.f_type).ok()) == Some(OVERLAY)
}

/// Returns a name that identifies a folder: its own name for people, and a hash of its path and its identity.
pub(super) fn name_of(folder: &Path) -> String {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    format_name(&folder, Identity::of(&folder))
}

fn format_name(folder: &Path, identity: Identity) -> String {
    let mut hasher = Sha256::new();
    hasher.update(folder.as_os_str().as_encoded_bytes());
    hasher.update([0]);
    hasher.update(identity.file_system.to_le_bytes());
    hasher.update(identity.inode.to_le_bytes());
    if let Some(created) = identity.created {
        hasher.update(created.as_nanos().to_le_bytes());
    }
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name = folder.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let mut text: String = name.chars().filter(is_plain).take(MAX_NAME).collect();
    text.push('-');
    text + &hex(&hasher.finalize()[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_state_is_in_xdg_or_below_home() {
        let found = |is_root: bool, xdg: Option<&str>, home: Option<&str>| {
            find_private_base(is_root, xdg.map(OsString::from), home.map(OsString::from))
        };
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        assert_eq!(found(false, Some("/x"), Some(home)), Some("/x/argus".into()));
        let below_home = Some(dir.path().join(".local/state/argus"));
        assert_eq!(found(false, Some("relative"), Some(home)), below_home);
        assert_eq!(found(false, None, Some(home)), below_home);
        assert_eq!(found(false, Some(""), None), None);
        let of_root = Some(PathBuf::from(BASE_OF_ROOT)).filter(|base| is_writable(base));
        assert_eq!(found(true, None, Some(home)), of_root);
        assert_eq!(found(true, Some("/x"), None), Some("/x/argus".into()));
    }

    #[test]
    fn name_depends_on_the_folder_and_not_on_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (shop, other) = (root.join("shop"), root.join("other/shop"));
        std::fs::create_dir_all(&other).unwrap();
        std::fs::create_dir(&shop).unwrap();
        std::os::unix::fs::symlink(&shop, root.join("link")).unwrap();
        let name = name_of(&shop);
        assert!(
            name.starts_with("shop-") && name.len() == "shop-".len() + 16,
            "{name}"
        );
        assert_ne!(name, name_of(&other));
        assert_eq!(
            name,
            name_of(&root.join("link")),
            "a link leads to the same folder"
        );
        std::fs::create_dir_all(shop.join(".argus/private")).unwrap();
        assert_eq!(name, name_of(&shop));
        // Another folder with the same path, while the first one still exists.
        std::fs::rename(&shop, root.join("moved")).unwrap();
        std::fs::create_dir(&shop).unwrap();
        assert_ne!(name, name_of(&shop));
        // Another folder with the same path and the inode of the first one, which is removed.
        let first = Identity {
            file_system: 7,
            inode: 8,
            created: Some(Duration::from_nanos(1)),
        };
        let second = Identity {
            created: Some(Duration::from_nanos(2)),
            ..first
        };
        let unknown = Identity {
            created: None,
            ..first
        };
        let moved = Identity { inode: 9, ..first };
        let mounted = Identity {
            file_system: 6,
            ..first
        };
        let all = [first, second, unknown, moved, mounted];
        let mut names: Vec<String> = all.map(|identity| format_name(&shop, identity)).into();
        names.push(format_name(&other, first));
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
        let identity = Identity::of(&shop);
        assert_eq!(
            identity.created.is_some(),
            shop.metadata().unwrap().created().is_ok() && !is_overlay(&shop)
        );
        let long = name_of(&root.join(format!("{}/x y\u{e9}", "p".repeat(60))));
        assert!(long.starts_with("xy-"), "{long}");
    }
}

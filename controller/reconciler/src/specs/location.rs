//! Location of a spec file on the host: its real directory, its project, and the targets of the paths that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use argus_backend::host_path::sockets::Sockets;
use argus_backend::host_path::{Roots, nearest_folder, real, resolve_without_links};
use argus_core::desired::env_file::is_env_file;
use argus_core::desired::host::HostPaths;
use argus_core::desired::nearest;
use argus_core::desired::worktree::Worktree;

use super::git_paths;
use super::scan::bounded;

/// System directories. A repository there (such as that of `etckeeper`) is not a project.
const SYSTEM_DIRS: [&str; 14] = [
    "/", "/boot", "/dev", "/etc", "/home", "/opt", "/proc", "/root", "/run", "/srv", "/sys", "/tmp", "/usr",
    "/var",
];
/// Default directories of the data of engines, and those of running processes. The volumes of other data roots have a form of their own.
const ENGINE_DATA: [&str; 5] = [
    "/proc",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/docker",
    "/var/snap/docker",
];
/// Maximum number of names that are compared with a missing one.
const MAX_ENTRIES: usize = 1_000;
/// Maximum number of bytes of a file of git that is read.
const MAX_GIT_FILE: u64 = 8_192;
/// Maximum number of bytes of a file with addresses.
const MAX_ENV_FILE: u64 = 1 << 20;
/// Default name of the state directory.
pub(crate) const DEFAULT_STATE_DIR: &str = ".argus";

/// Paths of this host that spec files may use besides their own project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostAccess {
    /// Directories that `--allow-mount` names, absolute.
    pub allow_mounts: Vec<String>,
    /// Folder that a person allowed: containers of its files may write above the bind sources of others.
    pub allowed: Option<PathBuf>,
    /// External volumes that `--allow-external` names.
    pub allow_external: Vec<String>,
    /// True if containers may write git directories.
    pub git_writable: bool,
    /// State directory of the controller.
    pub state: PathBuf,
    /// Folders that no container may have: private state of all controllers of this user, and settings of this user.
    pub private: Vec<PathBuf>,
    /// Socket of the engine; `None` for an engine behind TCP.
    pub engine: Option<PathBuf>,
}

impl HostAccess {
    /// Returns whether a person allowed a path in this worktree. A worktree below the allowed folder, such as that of a pull request, has other
    /// authors.
    pub(super) fn allows(&self, path: &Path, worktree: Option<&Path>) -> bool {
        let allows = |folder: &PathBuf| path.starts_with(folder) && find_worktree(folder) == worktree;
        self.allowed.as_ref().is_some_and(allows)
    }
}

/// A spec file with its project and its allowed directories.
#[derive(Debug, Clone)]
pub struct SpecLocation {
    /// Path of the file, without links.
    pub file: PathBuf,
    /// Input of admission about the host. `resolved` is empty until [`SpecLocation::resolve`].
    pub host: HostPaths,
    roots: Roots,
    engine: Option<PathBuf>,
}

impl SpecLocation {
    /// Locates the project of a file. `file` is absolute, has no links, and need not exist.
    ///
    /// The path is not resolved again: a link that replaces a component after the check of the file's links would lead
    /// to another owner's project.
    pub fn of(file: PathBuf, access: &HostAccess) -> Self {
        let state = real(&access.state);
        let directory = file.parent().unwrap_or(Path::new("/"));
        let worktree = find_worktree(directory);
        let tree = worktree.and_then(read_worktree);
        let allowed = access.allows(&file, worktree);
        let is_git_protected = !allowed && !access.git_writable;
        let project = match worktree {
            Some(worktree) => worktree,
            None if find_repository(directory).is_some() => directory,
            None => project_without_worktree(directory, &state),
        };
        let mut roots = Roots::new(access.allow_mounts.iter().map(Path::new));
        // A file in a system directory has no project, because other users own files there. One in the data of an engine neither,
        // because containers write there.
        if !is_system(project) && !is_engine_data(project) {
            roots = roots.with_resolved(project);
        }
        Self {
            roots,
            engine: access.engine.clone(),
            host: HostPaths {
                project: text(project).unwrap_or_default(),
                allowed,
                external_volumes: access.allow_external.iter().cloned().collect(),
                git: is_git_protected.then(|| git_paths::find(directory, worktree, tree.as_ref())),
                worktree: tree,
                state_dir: text(&state).filter(|state| state != "/").unwrap_or_default(),
                private_dirs: private_dirs(&access.private),
                ..HostPaths::default()
            },
            file,
        }
    }

    /// Reads the branch of the worktree.
    pub fn read_head(&mut self) {
        if let Some(tree) = &mut self.host.worktree {
            tree.head = read_small(&real(Path::new(&tree.git_dir)).join("HEAD"));
        }
    }

    /// Resolves each path, and records its target or the reason for its rejection.
    pub fn resolve(&mut self, named: &BTreeSet<String>) {
        if named.is_empty() {
            return;
        }
        let sockets = Sockets::find(self.engine.as_deref());
        let mut missing = BTreeMap::new();
        let mut lead = |path: &String| {
            let resolved = self
                .roots
                .resolve(Path::new(path))
                .map_err(|why| why.to_string())?;
            sockets.check(&resolved).map_err(|why| why.to_string())?;
            if resolved.identity.is_none() {
                missing.insert(path.clone(), find_similar(&resolved.path));
            }
            text(&resolved.path).ok_or_else(|| "it leads to a name that is not UTF-8".to_owned())
        };
        self.host.resolved = named.iter().map(|path| (path.clone(), lead(path))).collect();
        self.host.missing = missing;
    }

    /// Paths of [`SpecLocation::resolve`] that are permitted and are not folders.
    pub(super) fn resolved_files(&self) -> impl Iterator<Item = &Path> {
        let resolved = self.host.resolved.iter();
        let files =
            resolved.filter(|(_, target)| target.as_ref().is_ok_and(|target| !Path::new(target).is_dir()));
        files.map(|(path, _)| Path::new(path))
    }

    /// Resolves the path of the file for the addresses, and checks its present content. The file need not exist, and the facts
    /// do not depend on that.
    pub fn resolve_env_file(&mut self, path: &str) {
        let resolved = self.roots.resolve(Path::new(path)).map_err(|why| why.to_string());
        let target = resolved.and_then(|found| {
            text(&found.path).ok_or_else(|| "it leads to a name that is not UTF-8".to_owned())
        });
        self.host.resolved.insert(path.to_owned(), target);
        self.host.has_foreign_env_file = match self.read(Path::new(path), MAX_ENV_FILE) {
            Ok(content) => !content.is_some_and(|content| is_env_file(&content)),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
    }

    /// Allows only the directory of the file.
    #[must_use]
    pub fn confined_to_folder(mut self) -> Self {
        let directory = self.file.parent().unwrap_or(Path::new("/"));
        self.roots = Roots::default().with_resolved(directory);
        self
    }

    /// Reads a regular file inside the allowed directories. Returns `None` if it is longer than `limit` bytes.
    ///
    /// # Errors
    /// The file leads outside, does not exist, or cannot be read.
    pub fn read(&self, path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
        bounded(self.roots.open(path)?, limit)
    }
}

/// Returns private folders without links. One whose name is not UTF-8 still protects the directories above it.
fn private_dirs(folders: &[PathBuf]) -> Vec<String> {
    let dirs = folders
        .iter()
        .map(|path| real(path).to_string_lossy().into_owned());
    dirs.filter(|dir| dir != "/").collect()
}

/// Returns the path with a name that is similar to the first missing part of a path.
fn find_similar(path: &Path) -> Option<String> {
    let (folder, missing) = nearest_folder(path)?;
    let entries = fs::read_dir(folder).ok()?.take(MAX_ENTRIES).flatten();
    let names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let similar = nearest(missing.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    text(&missing.with_file_name(similar))
}

/// Returns the git worktree of a directory. A nearer repository that is not trusted hides it: a container can change the owner of a directory.
pub(super) fn find_worktree(directory: &Path) -> Option<&Path> {
    let own = fs::symlink_metadata(directory).ok()?;
    find_repository(directory).filter(|path| is_worktree(path, &own))
}

/// Returns the nearest directory with an entry `.git` of any owner.
fn find_repository(directory: &Path) -> Option<&Path> {
    let has_git = |path: &&Path| path.join(git_paths::GIT).symlink_metadata().is_ok();
    let mut found = directory
        .ancestors()
        .filter(|path| !is_system(path))
        .filter(has_git);
    // Some people keep their home folder in git.
    found.find(|path| !contains_home(path))
}

/// Returns the top directory of the git worktree of a directory, then those of the other worktrees of its repository, the main
/// one first. Empty without a worktree. A checkout can contain a `.git` that names any repository, and a repository that names any
/// folder, so the repository must know this worktree, and the others must name the repository.
pub fn worktrees_of(directory: &Path) -> Vec<PathBuf> {
    let Some((top, tree)) = find_worktree(directory).and_then(|top| Some((top, read_worktree(top)?))) else {
        return Vec::new();
    };
    let repository = real(Path::new(tree.repository()));
    let main = repository.parent().filter(|_| repository.ends_with(".git"));
    let entries = fs::read_dir(repository.join("worktrees"));
    let linked = entries
        .into_iter()
        .flatten()
        .flatten()
        .take(MAX_ENTRIES)
        .filter_map(|entry| {
            let git_file = read_small(&entry.path().join("gitdir"))?;
            let git_file = real(&entry.path().join(git_file.trim()));
            git_file.parent().map(Path::to_path_buf)
        });
    let mut linked: Vec<PathBuf> = linked.collect();
    linked.sort_unstable();
    if main != Some(top) && !linked.iter().any(|known| known == top) {
        return vec![top.to_path_buf()];
    }
    let names_it = |other: &PathBuf| {
        read_worktree(other).is_some_and(|tree| real(Path::new(tree.repository())) == repository)
    };
    let others = main
        .map(Path::to_path_buf)
        .into_iter()
        .chain(linked)
        .filter(|other| other != top && names_it(other));
    std::iter::once(top.to_path_buf()).chain(others).collect()
}

/// Returns the project of a directory without a worktree: the directory that contains `.argus`, else the directory itself.
fn project_without_worktree<'a>(directory: &'a Path, state: &'a Path) -> &'a Path {
    let parent = state.parent().filter(|_| state.ends_with(DEFAULT_STATE_DIR));
    let contains = |parent: &&Path| {
        !is_system(parent) && !contains_home(parent) && directory.exists() && directory.starts_with(parent)
    };
    parent.filter(contains).unwrap_or(directory)
}

/// Returns true for the home folder and those around it, which are no project of the other folders in them. `directory` has no links.
pub fn contains_home(directory: &Path) -> bool {
    // Without `HOME`, this is the folder of the user's account.
    std::env::home_dir().is_some_and(|home| leads_into(&home, directory))
}

/// Returns whether a home folder, which can have links in its path, is in a directory.
fn leads_into(home: &Path, directory: &Path) -> bool {
    home.is_absolute() && real(home).starts_with(directory)
}

/// Reads the facts about a worktree that decide its name.
pub(super) fn read_worktree(path: &Path) -> Option<Worktree> {
    let git = path.join(".git");
    let is_file = fs::symlink_metadata(&git).ok()?.is_file();
    let link = if is_file { Some(read_small(&git)?) } else { None };
    Worktree::new(text(path)?, link.as_deref())
}

/// Reads a small file of git without following links.
pub(super) fn read_small(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = resolve_without_links(path).ok()?.open().ok()?;
    file.take(MAX_GIT_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns true for a system directory, which is never a project.
pub fn is_system(directory: &Path) -> bool {
    SYSTEM_DIRS.iter().any(|system| Path::new(system) == directory)
}

/// Returns true for a directory in which an engine stores its volumes and containers.
fn is_engine_data(directory: &Path) -> bool {
    let parts: Vec<&OsStr> = directory.iter().collect();
    let is_volume = |parts: &[&OsStr]| parts[0] == "volumes" && parts[2] == "_data";
    let mut roots = ENGINE_DATA.into_iter().map(Path::new);
    roots.any(|root| directory.starts_with(root)) || parts.windows(3).any(is_volume)
}

/// Returns true if a directory is a git worktree, and a trusted user owns both the worktree and its `.git`.
///
/// The owner of the spec file's directory, root and the controller's user are trusted. The two owners must be equal:
/// otherwise a user who can create files in a shared directory could make it a worktree.
fn is_worktree(directory: &Path, own: &Metadata) -> bool {
    let trusted = [own.uid(), 0, rustix::process::geteuid().as_raw()];
    let owner = |path: &Path, kind: fn(&Metadata) -> bool| {
        let meta = fs::symlink_metadata(path).ok().filter(kind)?;
        Some(meta.uid()).filter(|owner| trusted.contains(owner))
    };
    let worktree = owner(directory, Metadata::is_dir);
    let git = owner(&directory.join(".git"), |meta| meta.is_dir() || meta.is_file());
    worktree.is_some() && worktree == git
}

fn text(path: &Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}

#[cfg(test)]
#[path = "location_tests.rs"]
mod tests;

//! Paths of git in a project that no container may change.
//!
//! They come only from files that git and its user write, so that no container can remove the protection of another one: `.git`
//! of the worktree, and the lists of submodules in the git directory and in the index. [`super::nested_git`] adds the repositories that no
//! list names.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufReader, Read as _};
use std::path::{Component, Path, PathBuf};

use argus_backend::host_path::resolve_without_links;
use argus_core::desired::host::GitPaths;
use argus_core::desired::worktree::Worktree;

use super::git_index::{GITLINK, read_entries};
use super::location::{find_worktree, is_system, read_small, read_worktree};

pub(super) const GIT: &str = ".git";
/// Maximum number of entries of the lists of submodules that are read.
const MAX_ENTRIES: usize = 1_000;
/// Maximum number of submodules, because each one adds mounts to a container.
pub(super) const MAX_SUBMODULES: usize = 64;
/// Maximum number of bytes of an index that are read.
const MAX_INDEX: u64 = 256 << 20;

/// Finds the paths of git in the project of a directory. `top` is its worktree without links.
pub(super) fn find(directory: &Path, top: Option<&Path>, tree: Option<&Worktree>) -> GitPaths {
    let below_top = directory.ancestors().take_while(|path| Some(*path) != top);
    let mut links = below_top
        .filter(|path| !is_system(path))
        .map(|path| path.join(GIT));
    let link = links.find(|git| git.is_symlink());
    let mut found = Found::default();
    found.paths.extend(top.map(|top| top.join(GIT)));
    if let Some(tree) = tree {
        found
            .paths
            .extend(Some(repository(tree)).filter(|path| exists(path)));
        found.add_submodules(tree);
    }
    GitPaths {
        paths: outermost(&found.paths),
        link: link.or(found.link).as_ref().and_then(text),
        excess: found.excess.as_ref().and_then(text),
    }
}

/// Returns the paths that no other one contains.
pub(super) fn outermost(paths: &BTreeSet<PathBuf>) -> BTreeSet<String> {
    let is_outermost = |path: &&PathBuf| {
        let mut parents = path.ancestors().skip(1);
        !parents.any(|parent| paths.contains(parent))
    };
    paths.iter().filter(is_outermost).filter_map(text).collect()
}

/// Returns true if the index of its worktree lists one of these names in a folder, or a file below one. Then the author of the repository
/// can have written it. The path of the folder has no links.
pub fn is_tracked(folder: &Path, names: &[&str]) -> bool {
    let Some(tree) = find_worktree(folder).and_then(read_worktree) else {
        return false;
    };
    let Ok(relative) = folder.strip_prefix(&tree.path) else {
        return false;
    };
    let is_named = |path: &Path| names.iter().any(|name| path.starts_with(relative.join(name)));
    indexes(&tree).any(|index| {
        let mut is_tracked = false;
        // Only git and its user write the index, so a damaged one is not an attack.
        let _ = read_entries(
            BufReader::new(index.take(MAX_INDEX)),
            hash_length(&tree),
            |_, path| {
                is_tracked = is_named(path);
                !is_tracked
            },
        );
        is_tracked
    })
}

/// Paths of git in a worktree.
#[derive(Default)]
struct Found {
    /// Protected paths.
    paths: BTreeSet<PathBuf>,
    submodules: BTreeSet<PathBuf>,
    /// Link `.git` of a submodule.
    link: Option<PathBuf>,
    /// The first submodule after the maximum number.
    excess: Option<PathBuf>,
}

impl Found {
    /// Adds the submodules of a worktree, and theirs.
    fn add_submodules(&mut self, tree: &Worktree) {
        let project = Path::new(&tree.path);
        let mut trees = Vec::new();
        for git in submodules(Path::new(&tree.git_dir)) {
            trees.extend(self.add(git, project));
        }
        trees.push(tree.clone());
        while let Some(tree) = trees.pop() {
            for index in indexes(&tree) {
                let index = BufReader::new(index.take(MAX_INDEX));
                // A damaged index protects the submodules before the damage.
                let _ = read_entries(index, hash_length(&tree), |mode, path| {
                    if mode == GITLINK {
                        trees.extend(self.add(Path::new(&tree.path).join(path).join(GIT), project));
                    }
                    self.excess.is_none()
                });
            }
        }
    }

    /// Adds `.git` of a submodule if it exists, and the git directory in the project that it names. Returns the submodule if it is new.
    fn add(&mut self, git: PathBuf, project: &Path) -> Option<Worktree> {
        let top = git.parent().filter(|top| exists(top))?;
        if git.is_symlink() {
            self.link.get_or_insert(git);
            return None;
        }
        if self.submodules.contains(&git) || !exists(&git) {
            return None;
        }
        if self.submodules.len() == MAX_SUBMODULES {
            self.excess.get_or_insert(git);
            return None;
        }
        let tree = read_worktree(top);
        let named = tree.as_ref().map(repository).filter(|named| {
            named.starts_with(project) && !top.starts_with(named) && exists(&named.join("HEAD"))
        });
        self.paths.extend(named);
        self.paths.insert(git.clone());
        self.submodules.insert(git);
        tree
    }
}

/// Opens the index of a worktree, and the files that a split index shares with earlier ones.
fn indexes(tree: &Worktree) -> impl Iterator<Item = fs::File> {
    let git_dir = PathBuf::from(&tree.git_dir);
    let entries = fs::read_dir(&git_dir).into_iter().flatten();
    let names = entries.take(MAX_ENTRIES).flatten().map(|entry| entry.file_name());
    let shared = names.filter(|name| name.as_encoded_bytes().starts_with(b"sharedindex."));
    let all = [OsString::from("index")].into_iter().chain(shared);
    all.filter_map(move |name| resolve_without_links(&git_dir.join(name)).ok()?.open().ok())
}

/// Length of a hash of the repository in bytes.
fn hash_length(tree: &Worktree) -> usize {
    let format = setting(&Path::new(tree.repository()).join("config"), "objectformat");
    if format.is_some_and(|format| format.eq_ignore_ascii_case("sha256")) {
        32
    } else {
        20
    }
}

/// Git directory of the repository. For a worktree in a submodule, that of the repository around it.
fn repository(tree: &Worktree) -> PathBuf {
    let path = Path::new(tree.repository());
    let named = path.ancestors().filter(|path| path.ends_with(GIT)).last();
    named.unwrap_or(path).to_path_buf()
}

/// Files `.git` of the submodules that a git directory lists. Each exists without a link.
fn submodules(git_dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut left = MAX_ENTRIES;
    let mut folders = vec![git_dir.join("modules")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().take(left).flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            left = left.saturating_sub(1);
            let module = entry.path();
            if module.join("HEAD").exists() {
                let git = read_worktree_of(&module).map(|worktree| worktree.join(GIT));
                found.extend(git.filter(|git| exists(git)));
                folders.push(module.join("modules"));
            } else {
                // The name of a submodule can contain slashes.
                folders.push(module);
            }
        }
    }
    found
}

/// Reads the directory of a submodule from its settings.
fn read_worktree_of(module: &Path) -> Option<PathBuf> {
    let worktree = setting(&module.join("config"), "worktree")?;
    let mut path = module.to_path_buf();
    for part in Path::new(&worktree).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::RootDir | Component::Normal(_) => path.push(part),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(path)
}

/// Reads a setting of git. Its name is unique in all sections.
fn setting(config: &Path, name: &str) -> Option<String> {
    let config = read_small(config)?;
    let mut values = config.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    });
    Some(values.next()?.trim_matches('"').to_owned())
}

pub(super) fn exists(path: &Path) -> bool {
    resolve_without_links(path).is_ok()
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    path.as_ref().to_str().map(str::to_owned)
}

#[cfg(test)]
#[path = "git_paths_tests.rs"]
mod tests;

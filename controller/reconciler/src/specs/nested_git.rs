//! Repositories below the writable mounts of spec files, whatever made them: a checkout in a project, a linked worktree, a bare repository.
//!
//! A search costs time, and containers make repositories too, such as tests of git. So a search takes place for new contents of a spec
//! file only. It then counts for all files, because a container with fewer covers than another one could exchange the paths of the other one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use argus_backend::host_path::real;
use argus_core::desired::host::{GitPaths, HostPaths};
use argus_core::time::Timestamp;

use super::git_paths::{GIT, MAX_SUBMODULES, exists, outermost};
use super::location::{DEFAULT_STATE_DIR, read_small, read_worktree};

/// Maximum number of files and folders below a source.
const MAX_ENTRIES: usize = 1_000_000;
/// Maximum depth of a folder below a source.
const MAX_DEPTH: usize = 64;
/// File of a git directory that names its branch.
const HEAD: &str = "HEAD";
/// File of a git directory that names another one, which it shares.
const COMMON: &str = "commondir";

/// Searches of the sources of writable mounts.
#[derive(Debug, Default)]
pub(super) struct NestedGit {
    by_source: BTreeMap<PathBuf, Found>,
    /// Time of the last new contents of a spec file.
    changed_at: Option<Timestamp>,
}

/// Paths of git below a source.
#[derive(Debug, Default)]
struct Found {
    paths: Vec<PathBuf>,
    /// Link `.git`.
    link: Option<PathBuf>,
    /// The first path that is not protected.
    excess: Option<PathBuf>,
}

impl NestedGit {
    /// Adds the repositories below the writable mounts of a file to its protected paths. `writable` are the paths of these mounts as the file
    /// names them, and `since` is the time at which its contents were new.
    pub(super) fn protect(
        &mut self,
        host: &mut HostPaths,
        writable: &BTreeSet<String>,
        (since, now): (Timestamp, Timestamp),
    ) {
        let Some(git) = host.git.as_mut().filter(|_| !writable.is_empty()) else {
            return;
        };
        if since == now && self.changed_at != Some(now) {
            self.by_source.clear();
            self.changed_at = Some(now);
        }
        let sources = writable.iter().filter_map(|path| host.resolved.get(path));
        for source in sources.flatten().map(PathBuf::from) {
            let found = self.by_source.entry(source);
            let found = found.or_insert_with_key(|source| search(source, MAX_ENTRIES));
            found.add_to(git);
        }
        // A folder hides that of this controller.
        git.paths.remove(&host.state_dir);
        let mut paths: Vec<PathBuf> = git.paths.iter().map(PathBuf::from).collect();
        let shared: Vec<PathBuf> = paths.iter().filter_map(|path| shared_by(path)).collect();
        paths.extend(shared);
        git.paths = outermost(&paths.into_iter().collect());
    }
}

impl Found {
    fn add_to(&self, git: &mut GitPaths) {
        let lossy = |path: &PathBuf| path.to_string_lossy().into_owned();
        // One that is gone needs no cover.
        let present = || self.paths.iter().filter(|path| exists(path));
        let named = present().filter_map(|path| path.to_str());
        git.paths.extend(named.map(str::to_owned));
        let mut excess = self.excess.iter().filter(|path| exists(path));
        let excess = excess
            .next()
            .or_else(|| present().find(|path| path.to_str().is_none()));
        let link = self.link.as_ref().filter(|path| path.is_symlink());
        // Those of the project can be outside of each writable mount.
        git.excess = excess.map(lossy).or(git.excess.take());
        git.link = link.map(lossy).or(git.link.take());
    }

    fn add(&mut self, path: PathBuf) {
        if self.paths.contains(&path) {
            return;
        }
        // The project has one besides its submodules.
        if self.paths.len() > MAX_SUBMODULES {
            self.excess.get_or_insert(path);
            return;
        }
        self.paths.push(path);
    }

    /// Adds a git directory, or a file `.git` and the git directory that it names.
    fn add_git(&mut self, git: PathBuf) {
        let named = git.parent().filter(|_| git.is_file()).and_then(read_worktree);
        let named = named.map(|tree| real(Path::new(&tree.git_dir)));
        let named = named.filter(|named| named.join(HEAD).exists());
        let shared = shared_by(named.as_ref().unwrap_or(&git));
        // A part of a directory `.git` is protected with it.
        let others = named.into_iter().chain(shared);
        for other in others.filter(|path| path.iter().all(|part| part != GIT)) {
            self.add(other);
        }
        self.add(git);
    }
}

/// Searches a source: the folders in it without links, and those around it, which can be a repository without a worktree.
fn search(source: &Path, max_entries: usize) -> Found {
    let mut found = Found::default();
    if let Some(around) = source.ancestors().find(|folder| is_repository(folder)) {
        found.add_git(around.to_path_buf());
        return found;
    }
    let (mut left, mut folders) = (max_entries, vec![(source.to_path_buf(), 0)]);
    while let Some((folder, depth)) = folders.pop() {
        // No person works in a folder that this user cannot read.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if left == 0 || depth == MAX_DEPTH {
                found.excess.get_or_insert(folder);
                return found;
            }
            left -= 1;
            let path = entry.path();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            // Git reads no other kinds, and a mount of a socket would give access to it.
            let can_be_git = kind.is_dir() || kind.is_file();
            // Shells read its files of addresses.
            if kind.is_dir() && entry.file_name() == DEFAULT_STATE_DIR {
                found.add(path);
                continue;
            }
            if entry.file_name() == GIT && kind.is_symlink() {
                found.link.get_or_insert(path);
            } else if can_be_git && (entry.file_name() == GIT || kind.is_dir() && is_repository(&path)) {
                found.add_git(path);
            } else if kind.is_dir() {
                folders.push((path, depth + 1));
            }
        }
    }
    found
}

/// Returns whether a folder is a git directory: of any name, also one that uses the objects of another one.
fn is_repository(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    has(HEAD) && (has(COMMON) || has("objects") && has("refs"))
}

/// Returns the git directory whose settings and hooks count for a git directory.
fn shared_by(git: &Path) -> Option<PathBuf> {
    let shared = read_small(&git.join(COMMON))?;
    let shared = real(&git.join(shared.trim()));
    shared.join("objects").exists().then_some(shared)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, content) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    /// Facts of a file with one writable mount.
    fn host(source: &Path) -> HostPaths {
        let source = source.to_str().unwrap().to_owned();
        HostPaths {
            git: Some(GitPaths::default()),
            resolved: [(source.clone(), Ok(source))].into(),
            ..HostPaths::default()
        }
    }

    fn protect(nested: &mut NestedGit, source: &Path, times: (i64, i64)) -> GitPaths {
        let mut host = host(source);
        let writable: BTreeSet<String> = host.resolved.keys().cloned().collect();
        nested.protect(&mut host, &writable, (Timestamp(times.0), Timestamp(times.1)));
        host.git.unwrap()
    }

    #[test]
    fn repository_of_each_layout_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        write(
            &root,
            &[
                ("p/src/a.git/readme", ""),
                ("p/a/b/c/nested/.git/HEAD", ""),
                ("p/wts/w1/.git", "gitdir: ../../main/.git/worktrees/w1\n"),
                ("p/wts/w1/sub/code", ""),
                ("p/main/.git/worktrees/w1/HEAD", ""),
                ("p/main/.git/worktrees/w1/commondir", "../..\n"),
                ("p/main/.git/objects/x", ""),
                ("p/bw/.bare/HEAD", ""),
                ("p/bw/.bare/objects/x", ""),
                ("p/bw/.bare/refs/x", ""),
                ("p/bw/.bare/worktrees/one/HEAD", ""),
                ("p/bw/.bare/worktrees/one/commondir", "../..\n"),
                ("p/bw/one/.git", "gitdir: ../.bare/worktrees/one\n"),
                ("p/other/.git", "gitdir: ../own\n"),
                ("p/own/HEAD", ""),
                ("p/own/commondir", "../shared\n"),
                ("p/shared/objects/x", ""),
                ("p/shared/hooks/x", ""),
                ("p/src/.argus/x", ""),
                ("p/no/HEAD", ""),
                ("p/no/.gitignore", ""),
            ],
        );
        let all = [
            "a/b/c/nested/.git",
            "bw/.bare",
            "bw/one/.git",
            "main/.git",
            "other/.git",
            "own",
            "shared",
            "src/.argus",
            "wts/w1/.git",
        ];
        for (source, expected) in [
            ("p", &all[..]),
            ("p/a/b/c/nested", &["a/b/c/nested/.git"]),
            ("p/wts/w1", &["wts/w1/.git"]),
            ("p/bw", &["bw/.bare", "bw/one/.git"]),
            ("p/bw/.bare/worktrees", &["bw/.bare"]),
            ("p/shared", &[]),
            ("p/own", &["own", "shared"]),
            ("p/src", &["src/.argus"]),
            ("p/no/HEAD", &[]),
        ] {
            let found = protect(&mut NestedGit::default(), &root.join(source), (1, 1));
            let expected = expected.iter().map(|path| format!("{}/p/{path}", root.display()));
            assert_eq!(found.paths, expected.collect::<BTreeSet<_>>(), "{source}");
            assert_eq!((found.link, found.excess), (None, None), "{source}");
        }
    }

    #[test]
    fn link_and_too_large_source_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        write(&root, &[("p/a/b/x", ""), ("q/r/x", "")]);
        symlink("../a", root.join("p/a/.git")).unwrap();
        let found = protect(&mut NestedGit::default(), &root.join("p"), (1, 1));
        assert_eq!(found.link.as_deref(), root.join("p/a/.git").to_str());
        assert_eq!(search(&root.join("q"), 2).excess, None);
        assert_eq!(search(&root.join("q"), 1).excess, Some(root.join("q/r")));
        let deep = format!("deep{}", "/d".repeat(MAX_DEPTH));
        write(&root, &[(format!("{deep}/x").as_str(), "")]);
        assert_eq!(
            search(&root.join("deep"), MAX_ENTRIES).excess,
            Some(root.join(deep))
        );
        for index in 0..=MAX_SUBMODULES + 1 {
            fs::create_dir_all(root.join(format!("many/{index}/.git"))).unwrap();
        }
        let found = protect(&mut NestedGit::default(), &root.join("many"), (1, 1));
        assert_eq!(found.paths.len(), MAX_SUBMODULES + 1);
        assert!(found.excess.is_some());
    }

    #[test]
    fn search_takes_place_for_new_contents_of_any_file() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/.git")).unwrap();
        fs::create_dir_all(root.join("b")).unwrap();
        let mut nested = NestedGit::default();
        let mut count = |source: &str, times| protect(&mut nested, &root.join(source), times).paths.len();
        assert_eq!(count("", (1, 1)), 1);
        // A container made this one.
        fs::create_dir_all(root.join("made/.git")).unwrap();
        assert_eq!(count("", (1, 2)), 1);
        // Another file has new contents.
        assert_eq!(count("b", (3, 3)), 0);
        assert_eq!(count("", (1, 4)), 2);
        // A person removed it.
        fs::remove_dir(root.join("a/.git")).unwrap();
        assert_eq!(count("", (1, 5)), 1);
    }

    #[test]
    fn project_without_protection_is_not_searched() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/.git")).unwrap();
        let mut host = host(dir.path());
        host.git = None;
        let mut nested = NestedGit::default();
        let writable: BTreeSet<String> = host.resolved.keys().cloned().collect();
        nested.protect(&mut host, &writable, (Timestamp(1), Timestamp(1)));
        assert!(host.git.is_none() && nested.by_source.is_empty());
    }
}

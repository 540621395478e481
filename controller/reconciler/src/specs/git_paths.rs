//! Paths of git in a project that no container may change.
//!
//! They come only from files that git and its user write, so that no container can remove the protection of another one: `.git`
//! of the worktree, and the list of submodules in the git directory.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use argus_backend::host_path::resolve_without_links;
use argus_core::desired::host::GitPaths;
use argus_core::desired::worktree::Worktree;

use super::location::{is_system, read_small};

const GIT: &str = ".git";
/// Maximum number of entries of the lists of submodules that are read.
const MAX_ENTRIES: usize = 1_000;
/// Maximum number of submodules, because each one adds mounts to a container.
const MAX_SUBMODULES: usize = 64;

/// Finds the paths of git in the project of a directory. `top` is its worktree without links.
pub(super) fn find(directory: &Path, top: Option<&Path>, tree: Option<&Worktree>) -> GitPaths {
    let below_top = directory.ancestors().take_while(|path| Some(*path) != top);
    let mut links = below_top
        .filter(|path| !is_system(path))
        .map(|path| path.join(GIT));
    let link = links.find(|git| git.is_symlink());
    let mut paths = BTreeSet::new();
    paths.extend(top.map(|top| top.join(GIT)));
    if let Some(tree) = tree {
        paths.extend(Some(repository(tree)).filter(|path| exists(path)));
        paths.extend(
            submodules(Path::new(&tree.git_dir))
                .into_iter()
                .take(MAX_SUBMODULES),
        );
    }
    let is_outermost = |path: &&PathBuf| {
        let mut parents = path.ancestors().skip(1);
        !parents.any(|parent| paths.contains(parent))
    };
    GitPaths {
        paths: paths.iter().filter(is_outermost).filter_map(text).collect(),
        link: link.as_ref().and_then(text),
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
    let config = read_small(&module.join("config"))?;
    let mut values = config.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        key.trim().eq_ignore_ascii_case("worktree").then(|| value.trim())
    });
    let mut path = module.to_path_buf();
    for part in Path::new(values.next()?.trim_matches('"')).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::RootDir | Component::Normal(_) => path.push(part),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(path)
}

fn exists(path: &Path) -> bool {
    resolve_without_links(path).is_ok()
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    path.as_ref().to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::specs::location::{HostAccess, SpecLocation};

    fn find_in(root: &Path, file: &str) -> (Vec<String>, Option<String>) {
        let git = SpecLocation::of(root.join(file), &HostAccess::default())
            .host
            .git
            .unwrap();
        let prefix = format!("{}/", root.display());
        let relative = |path: &String| path.strip_prefix(&prefix).unwrap().to_owned();
        (
            git.paths.iter().map(relative).collect(),
            git.link.as_ref().map(relative),
        )
    }

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (path, content) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn git_of_each_form_of_a_worktree_is_found() {
        let (_dir, root) = tree(&[
            ("main/.git/HEAD", ""),
            ("main/deploy/e2e.yaml", ""),
            ("linked/.git", "gitdir: ../main/.git/worktrees/linked\n"),
            ("broken/.git", "not of git"),
            ("around/.bare/HEAD", ""),
            ("around/.git", "gitdir: ./.bare\n"),
            ("around/.bare/worktrees/one/HEAD", ""),
            ("around/one/.git", "gitdir: ../.bare/worktrees/one\n"),
            ("plain/e2e.yaml", ""),
        ]);
        for (file, expected) in [
            ("main/deploy/e2e.yaml", &["main/.git"][..]),
            ("linked/e2e.yaml", &["linked/.git", "main/.git"]),
            ("broken/e2e.yaml", &["broken/.git"]),
            ("around/e2e.yaml", &["around/.bare", "around/.git"]),
            ("around/one/e2e.yaml", &["around/.bare", "around/one/.git"]),
            ("plain/e2e.yaml", &[]),
        ] {
            assert_eq!(
                find_in(&root, file),
                (expected.iter().map(|it| (*it).to_owned()).collect(), None),
                "{file}"
            );
        }
    }

    #[test]
    fn submodules_are_found_in_the_git_directory_only() {
        let (_dir, root) = tree(&[
            (".git/HEAD", ""),
            (".git/modules/lib/HEAD", ""),
            (
                ".git/modules/lib/config",
                "[core]\n\tbare = false\n\tworktree = ../../../lib\n",
            ),
            (".git/modules/lib/modules/in/HEAD", ""),
            (
                ".git/modules/lib/modules/in/config",
                "[core]\n\tworktree = ../../../../../lib/in\n",
            ),
            (".git/modules/libs/two/HEAD", ""),
            (
                ".git/modules/libs/two/config",
                "[core]\n\tworktree = \"../../../../libs/two\"\n",
            ),
            (".git/modules/gone/HEAD", ""),
            (".git/modules/gone/config", "[core]\n\tworktree = ../../../gone\n"),
            (".git/modules/linked/HEAD", ""),
            (
                ".git/modules/linked/config",
                "[core]\n\tworktree = ../../../linked\n",
            ),
            ("lib/.git", "gitdir: ../.git/modules/lib\n"),
            ("lib/in/.git", "gitdir: ../../.git/modules/lib/modules/in\n"),
            ("libs/two/.git", "gitdir: ../../.git/modules/libs/two\n"),
            // A container could have made this one.
            ("data/.git/HEAD", ""),
        ]);
        symlink(root.join("lib"), root.join("linked")).unwrap();
        let found = [".git", "lib/.git", "lib/in/.git", "libs/two/.git"];
        assert_eq!(
            find_in(&root, "e2e.yaml"),
            (found.map(str::to_owned).into(), None)
        );
        // A spec file in a submodule protects the repository around it.
        let found = [".git", "lib/.git", "lib/in/.git"];
        assert_eq!(
            find_in(&root, "lib/e2e.yaml"),
            (found.map(str::to_owned).into(), None)
        );
    }

    #[test]
    fn linked_git_is_reported_and_not_followed() {
        let (_dir, root) = tree(&[("elsewhere/HEAD", ""), ("p/env/e2e.yaml", "")]);
        symlink(root.join("elsewhere"), root.join("p/.git")).unwrap();
        assert_eq!(
            find_in(&root, "p/env/e2e.yaml"),
            (Vec::new(), Some("p/.git".to_owned()))
        );
    }
}

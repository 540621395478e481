//! Paths of git in a project that no container may change.
//!
//! They come only from files that git and its user write, so that no container can remove the protection of another one: `.git`
//! of the worktree, and the lists of submodules in the git directory and in the index.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufReader, Read as _};
use std::path::{Component, Path, PathBuf};

use argus_backend::host_path::resolve_without_links;
use argus_core::desired::host::GitPaths;
use argus_core::desired::worktree::Worktree;

use super::git_index::read_submodules;
use super::location::{is_system, read_small, read_worktree};

const GIT: &str = ".git";
/// Maximum number of entries of the lists of submodules that are read.
const MAX_ENTRIES: usize = 1_000;
/// Maximum number of submodules, because each one adds mounts to a container.
const MAX_SUBMODULES: usize = 64;
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
    let paths = &found.paths;
    let is_outermost = |path: &&PathBuf| {
        let mut parents = path.ancestors().skip(1);
        !parents.any(|parent| paths.contains(parent))
    };
    GitPaths {
        paths: paths.iter().filter(is_outermost).filter_map(text).collect(),
        link: link.or(found.link).as_ref().and_then(text),
        excess: found.excess.as_ref().and_then(text),
    }
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
                let _ = read_submodules(index, hash_length(&tree), |path| {
                    trees.extend(self.add(Path::new(&tree.path).join(path).join(GIT), project));
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

    fn git(directory: &Path, words: &str) {
        let settings = "-c protocol.file.allow=always -c user.name=a -c user.email=a@example.com";
        let output = std::process::Command::new("git")
            .current_dir(directory)
            .args(settings.split(' ').chain(words.split(' ')))
            .output()
            .unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
    }

    #[test]
    fn submodules_of_the_index_are_found() {
        for (format, more) in [
            ("sha1", "config index.version 4"),
            ("sha1", "update-index --split-index"),
            ("sha256", "status"),
        ] {
            let (_dir, root) = tree(&[]);
            git(&root, &format!("init -q --object-format={format} src"));
            git(&root.join("src"), "commit -q --allow-empty -m first");
            git(&root, &format!("init -q --object-format={format} w"));
            let top = root.join("w");
            git(&top, "clone -q ../src old");
            git(&top, "clone -q --separate-git-dir=gd2 ../src named");
            git(&top.join("old"), "clone -q ../../src inner");
            git(&top.join("old"), "add inner");
            git(&top, "clone -q ../src data");
            git(&top, more);
            git(&top, "add old named");
            git(&top, more);
            let found = [
                "w/.git",
                "w/gd2",
                "w/named/.git",
                "w/old/.git",
                "w/old/inner/.git",
            ];
            assert_eq!(
                find_in(&root, "w/e2e.yaml"),
                (found.map(str::to_owned).into(), None),
                "{format} {more}"
            );
            // A damaged index protects the rest.
            fs::write(top.join(".git/index"), "DIRC").unwrap();
            let (found, _) = find_in(&root, "w/e2e.yaml");
            assert!(found.contains(&"w/.git".to_owned()), "{found:?}");
        }
    }

    #[test]
    fn links_and_too_many_submodules_are_reported() {
        let (_dir, root) = tree(&[("src/HEAD", "")]);
        git(&root, "init -q w");
        let top = root.join("w");
        let add = |name: &str| {
            let entry = format!("160000,{},{name}", "1".repeat(40));
            git(&top, &format!("update-index --add --cacheinfo {entry}"));
        };
        for index in 0..=MAX_SUBMODULES {
            add(&format!("m{index:02}"));
            fs::create_dir_all(top.join(format!("m{index:02}/.git"))).unwrap();
        }
        let facts = || {
            SpecLocation::of(top.join("e2e.yaml"), &HostAccess::default())
                .host
                .git
                .unwrap()
        };
        let found = facts();
        assert_eq!(found.paths.len(), 1 + MAX_SUBMODULES);
        assert_eq!(found.excess.as_deref(), top.join("m64/.git").to_str());
        fs::remove_dir(top.join("m03/.git")).unwrap();
        assert_eq!(facts().excess, None);
        symlink(root.join("src"), top.join("m03/.git")).unwrap();
        assert_eq!(facts().link.as_deref(), top.join("m03/.git").to_str());
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

//! Paths of git in worktrees of all forms.

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
fn tracked_files_of_a_folder_are_found() {
    let (_dir, root) = tree(&[
        ("w/state/private/token", "known"),
        ("w/state/environments/shop.json", "{}"),
        ("w/stated/private/token", ""),
        ("w/own/private/token", "random"),
        ("w/own/.gitkeep", ""),
        ("plain/private/token", ""),
    ]);
    git(&root, "init -q w");
    git(&root.join("w"), "add state stated own/.gitkeep");
    let names = ["private", "controller.json"];
    for (folder, expected) in [("w/state", true), ("w/own", false), ("plain", false)] {
        assert_eq!(is_tracked(&root.join(folder), &names), expected, "{folder}");
    }
    git(&root.join("w"), "rm -q -r --cached state/private");
    assert!(!is_tracked(&root.join("w/state"), &names));
    assert!(is_tracked(&root.join("w/state"), &["environments"]));
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

//! Git worktree of a spec file, and the name that it gives to an environment.

use crate::desired::hash::hash_of;
use crate::desired::paths;
use crate::ident::EnvName;

/// Beginning of a file `.git`, before the path of the git directory.
const GIT_FILE: &str = "gitdir:";
/// Length of the hash in the name of a worktree, in hexadecimal digits.
const HASH_DIGITS: usize = 6;
/// Length of a short commit.
const COMMIT_DIGITS: usize = 7;
/// Maximum length of a name before that hash, so that both fit into an environment name.
const MAX_STEM: usize = 63 - 1 - HASH_DIGITS;

/// Git worktree that contains a spec file. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Worktree {
    /// Its top directory, without links.
    pub path: String,
    /// Its git directory, which contains `HEAD`. For a linked worktree, it is part of the git directory of the repository.
    pub git_dir: String,
    /// Content of `HEAD` in the git directory; `None` if it is not read.
    pub head: Option<String>,
}

impl Worktree {
    /// Returns the worktree with this top directory. `git_file` is the content of its `.git` if that is a file.
    ///
    /// `None` if the file names no git directory.
    pub fn new(path: String, git_file: Option<&str>) -> Option<Self> {
        let git_dir = match git_file {
            None => paths::to_absolute(&path, ".git"),
            Some(text) => {
                let target = text.strip_prefix(GIT_FILE)?.trim();
                paths::is_sane(target).then(|| paths::to_absolute(&path, target))?
            }
        };
        Some(Self {
            path,
            git_dir,
            head: None,
        })
    }

    /// Returns the environment name of the worktree. `None` if its directory contains no letter and no digit.
    ///
    /// The name of the main worktree is the slug of its directory. The name of a linked worktree is git's name for it, which is
    /// unique in the repository. Where it is not a valid name, or is the name of the main worktree, a hash of the path follows.
    pub(super) fn name(&self) -> Option<EnvName> {
        let Some((repository, own)) = self.linked() else {
            return EnvName::slug(last_part(&self.path)).ok();
        };
        let main = repository.strip_suffix("/.git").map(last_part);
        let is_main = |name: &EnvName| main.and_then(|main| EnvName::slug(main).ok()).as_ref() == Some(name);
        if let Some(exact) = EnvName::new(own).ok().filter(|name| !is_main(name)) {
            return Some(exact);
        }
        let slug = EnvName::slug(own).ok()?;
        let stem: String = slug.as_str().chars().take(MAX_STEM).collect();
        let hash = hash_of(&self.path);
        EnvName::slug(&format!("{stem}-{}", &hash.as_str()[..HASH_DIGITS])).ok()
    }

    /// Returns the slug of the branch, or the short commit without a branch. `None` if `HEAD` has neither.
    pub(super) fn branch(&self) -> Option<EnvName> {
        let head = self.head.as_deref()?.trim();
        if let Some(reference) = head.strip_prefix("ref:") {
            let reference = reference.trim();
            return EnvName::slug(reference.strip_prefix("refs/heads/").unwrap_or(reference)).ok();
        }
        let is_commit = head.len() >= COMMIT_DIGITS && head.chars().all(|c| c.is_ascii_hexdigit());
        EnvName::slug(head.get(..COMMIT_DIGITS).filter(|_| is_commit)?).ok()
    }

    /// Git directory of the repository, which its worktrees share.
    pub fn repository(&self) -> &str {
        self.linked().map_or(&self.git_dir, |(repository, _)| repository)
    }

    /// Git directory of the repository, and git's name of this worktree. `None` for the main worktree and for a submodule.
    fn linked(&self) -> Option<(&str, &str)> {
        let (parent, own) = self.git_dir.rsplit_once('/')?;
        Some((parent.strip_suffix("/worktrees")?, own))
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &str, git_file: Option<&str>) -> String {
        let found = Worktree::new(path.to_owned(), git_file).and_then(|tree| tree.name());
        found.map(String::from).unwrap_or_default()
    }

    #[test]
    fn worktree_has_the_name_that_git_gives_it() {
        assert_eq!(name("/src/My Shop", None), "my-shop");
        assert_eq!(
            name("/src/fix", Some("gitdir: /src/shop/.git/worktrees/fix\n")),
            "fix"
        );
        assert_eq!(
            name("/src/fix", Some("gitdir: ../shop/.git/worktrees/fix")),
            "fix"
        );
        // Git numbers a second directory of the same name.
        assert_eq!(
            name("/tmp/fix", Some("gitdir: /src/shop/.git/worktrees/fix1")),
            "fix1"
        );
        assert_eq!(
            name("/src/fix", Some("gitdir: /bare/shop.git/worktrees/fix")),
            "fix"
        );
        // A submodule is not linked to another worktree.
        assert_eq!(name("/src/shop/lib", Some("gitdir: ../.git/modules/lib")), "lib");
        for not_git in ["", "gitdir:", "gitdir: a\0b", "other"] {
            assert_eq!(Worktree::new("/src/fix".to_owned(), Some(not_git)), None);
        }
        assert_eq!(name("/src/!", None), "");
    }

    #[test]
    fn branch_is_a_slug_or_a_short_commit() {
        let branch = |head: &str| {
            let tree = Worktree {
                head: Some(head.to_owned()),
                ..Worktree::default()
            };
            tree.branch().map(String::from).unwrap_or_default()
        };
        assert_eq!(branch("ref: refs/heads/Topic/new_cart\n"), "topic-new-cart");
        assert_eq!(branch("8f14e45fceea167a5a36dedd4bea2543a1b2c3d4\n"), "8f14e45");
        for other in ["", "ref:", "ref: refs/heads/-", "main", "8f14e4"] {
            assert_eq!(branch(other), "", "{other}");
        }
        assert_eq!(Worktree::default().branch(), None);
    }

    #[test]
    fn equal_slugs_of_worktrees_differ_by_a_hash() {
        let linked =
            |path: &str, own: &str| name(path, Some(&format!("gitdir: /a/shop/.git/worktrees/{own}")));
        let second = linked("/b/shop", "shop");
        assert!(
            second.starts_with("shop-") && second.len() == "shop-".len() + 6,
            "{second}"
        );
        assert_eq!(second, linked("/b/shop", "shop"), "the name is stable");
        assert_ne!(second, linked("/c/shop", "shop"));
        let names = ["feature-x", "feature_x", "Feature-X"].map(|own| linked(&format!("/b/{own}"), own));
        assert_eq!(names[0], "feature-x");
        assert!(
            names[1] != names[2] && names[1..].iter().all(|it| it.starts_with("feature-x-")),
            "{names:?}"
        );
        let long = "x_".repeat(60);
        assert!(linked("/b/long", &long).len() <= 63);
    }
}

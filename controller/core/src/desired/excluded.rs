//! Exclusions from every build context, with or without a `.dockerignore`.
//!
//! A context never contains the state directory, private folders, spec files, `.git`, or paths that containers of the environment can
//! write.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::desired::paths;

/// Maximum number of entries of a context.
pub const MAX_CONTEXT_ENTRIES: usize = 50_000;
/// Maximum size of the files of a context, in bytes.
pub const MAX_CONTEXT_BYTES: u64 = 2 << 30;
/// Error of a context that exceeds a maximum.
pub const CONTEXT_TOO_LARGE: &str =
    "build context exceeds 50,000 entries or 2 GiB; exclude files with a `.dockerignore`";

/// Maximum number of rules in a `.dockerignore`.
const MAX_RULES: usize = 4_000;
/// Maximum sizes of one rule and of all rules, in bytes.
const MAX_RULE_BYTES: (usize, usize) = (4_096, 65_536);
/// Maximum numbers of wildcards in one rule and in all rules. Each needs hundreds of bytes as a part of an automaton.
const MAX_WILDCARDS: (usize, usize) = (200, 8_192);

/// Name of a git directory, which is excluded at every depth.
pub(super) const GIT: &str = ".git";
/// Name of the default state directory, which is excluded at every depth.
pub(super) const STATE: &str = ".argus";

/// Excluded paths of one build context, relative to the context.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Excluded {
    /// State directory of the controller, if the context contains it.
    #[serde(rename = "state", skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<String>,
    /// Paths that containers of the environment can write, which are mounted at run time, and private folders of the user.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub writable: BTreeSet<String>,
}

/// Decision about one entry of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextEntry {
    /// The entry is part of the context unless `.dockerignore` excludes it.
    Included,
    /// A directory stays in the context, but its entries are excluded. A file is excluded.
    DirectoryOnly,
    /// The entry and everything below it are excluded.
    Excluded,
}

impl Excluded {
    /// Returns the exclusions of `context` for the state directory and for other paths, such as those that are mounted writable. All
    /// paths are absolute.
    pub fn new<'a>(context: &str, state_dir: &str, writable: impl IntoIterator<Item = &'a str>) -> Self {
        let inside = |path: &str| {
            let below = paths::relative_to(path, context).filter(|below| !below.is_empty());
            below.map(str::to_owned)
        };
        Self {
            state_dir: inside(state_dir),
            writable: writable.into_iter().filter_map(inside).collect(),
        }
    }

    /// Returns the decision about the entry at this path, relative to the context.
    pub fn classify(&self, path: &Path) -> ContextEntry {
        let name = path.file_name().and_then(|name| name.to_str());
        let named = name.is_some_and(|name| [GIT, STATE].contains(&name) || is_spec_name(name));
        if named
            || self
                .state_dir
                .as_deref()
                .is_some_and(|state_dir| Path::new(state_dir) == path)
        {
            ContextEntry::Excluded
        } else if self.writable.iter().any(|writable| Path::new(writable) == path) {
            ContextEntry::DirectoryOnly
        } else {
            ContextEntry::Included
        }
    }
}

/// Refuses a `.dockerignore` whose rules need much memory when they are compiled. `name` is that of the file.
///
/// # Errors
/// The first line with an excess.
pub fn check_rules(name: &str, text: &str) -> Result<(), String> {
    let (mut rules, mut bytes, mut wildcards) = (0, 0, 0);
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let own = line.matches(['*', '?', '[', '{']).count();
        (rules, bytes, wildcards) = (rules + 1, bytes + line.len(), wildcards + own);
        let limits = [
            (line.len(), MAX_RULE_BYTES.0, "bytes in one rule"),
            (own, MAX_WILDCARDS.0, "wildcards in one rule"),
            (rules, MAX_RULES, "rules"),
            (bytes, MAX_RULE_BYTES.1, "bytes in all rules"),
            (wildcards, MAX_WILDCARDS.1, "wildcards in all rules"),
        ];
        if let Some((_, most, what)) = limits.into_iter().find(|(found, most, _)| found > most) {
            return Err(format!("`{name}`, line {number}: more than {most} {what}"));
        }
    }
    Ok(())
}

/// Returns true if a file of this name is a spec file.
pub fn is_spec_name(name: &str) -> bool {
    let stem = name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml"));
    let stem = stem.and_then(|stem| stem.strip_suffix("e2e"));
    !name.starts_with('.') && stem.is_some_and(|stem| stem.is_empty() || stem.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_specs_and_history_are_left_out() {
        let excluded = Excluded::new("/p", "/p/var/state", ["/p/data", "/p", "/", "/other", "/pp/x"]);
        for (path, verdict) in [
            ("var/state", ContextEntry::Excluded),
            ("var", ContextEntry::Included),
            (".git", ContextEntry::Excluded),
            ("vendor/lib/.git", ContextEntry::Excluded),
            ("sub/.argus", ContextEntry::Excluded),
            ("e2e.yaml", ContextEntry::Excluded),
            ("environments/shop.e2e.yml", ContextEntry::Excluded),
            ("data", ContextEntry::DirectoryOnly),
            ("sub/data", ContextEntry::Included),
            (".gitignore", ContextEntry::Included),
            ("note2e.yaml", ContextEntry::Included),
        ] {
            assert_eq!(excluded.classify(Path::new(path)), verdict, "{path}");
        }
        assert_eq!(
            excluded.writable.len(),
            1,
            "a context that is itself mounted is not emptied"
        );
    }

    #[test]
    fn rules_that_need_much_memory_are_refused_at_their_line() {
        let check = |text: &str| check_rules("x", text).err();
        let error = |line: u32, what: &str| Some(format!("`x`, line {line}: more than {what}"));
        let (all, one) = ("a".repeat(4_096), "*".repeat(200));
        for accepted in [
            format!("# {}\n\n{all}\n  {one}  ", all.repeat(20)),
            "a\n".repeat(4_000),
            format!("{one}\n").repeat(40),
            format!("{all}\n").repeat(16),
        ] {
            assert_eq!(check(&accepted), None, "{}", accepted.len());
        }
        for (text, expected) in [
            (format!("b\n{all}a"), error(2, "4096 bytes in one rule")),
            (format!("# x\n\n{one}?"), error(3, "200 wildcards in one rule")),
            ("{".repeat(201), error(1, "200 wildcards in one rule")),
            ("a\n".repeat(4_001), error(4_001, "4000 rules")),
            (
                format!("{all}\n").repeat(17),
                error(17, "65536 bytes in all rules"),
            ),
            (
                format!("{one}\n").repeat(41),
                error(41, "8192 wildcards in all rules"),
            ),
            ("*?".repeat(200) + "\n", error(1, "200 wildcards in one rule")),
        ] {
            assert_eq!(check(&text), expected, "{}", text.len());
        }
    }

    #[test]
    fn context_inside_the_state_directory_excludes_nothing_of_it() {
        assert_eq!(
            Excluded::new("/state/private/own-image", "/state", []),
            Excluded::default()
        );
        assert_eq!(Excluded::new("/p", "", []), Excluded::default());
    }
}

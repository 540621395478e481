//! Rules of a `.dockerignore`. Patterns start at the root of the context, the last match decides, and a match of a parent
//! folder applies to its content.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

struct Rule {
    matcher: Gitignore,
    keep: bool,
    /// Line of the file, from 1.
    line: usize,
}

/// The rules that exclude files from a build context.
pub(super) struct DockerIgnore {
    rules: Vec<Rule>,
}

impl DockerIgnore {
    /// Parses the text of a `.dockerignore`. An invalid pattern is skipped, which can only add files to the context.
    pub(super) fn read(text: &str) -> Self {
        let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let lines = (1..).zip(lines);
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        Self {
            rules: lines.filter_map(|(number, line)| rule(number, line)).collect(),
        }
    }

    /// True when the rules exclude this path, which is relative to the context.
    pub(super) fn is_excluded(&self, path: &Path, is_folder: bool) -> bool {
        self.excluding_line(path, is_folder).is_some()
    }

    /// Line of the rule that excludes this path, which is relative to the context.
    pub(super) fn excluding_line(&self, path: &Path, is_folder: bool) -> Option<usize> {
        let matching = |rule: &&Rule| {
            rule.matcher
                .matched_path_or_any_parents(path, is_folder)
                .is_ignore()
        };
        let last = self.rules.iter().rev().find(matching)?;
        (!last.keep).then_some(last.line)
    }

    /// True when a file below an excluded folder may still be included.
    pub(super) fn has_exceptions(&self) -> bool {
        self.rules.iter().any(|rule| rule.keep)
    }
}

/// Parses one line. Unlike in a `.gitignore`, a plain name matches only at the root, so each pattern is anchored.
fn rule(line: usize, text: &str) -> Option<Rule> {
    let (keep, pattern) = match text.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (false, text),
    };
    let pattern = clean(pattern);
    if pattern.is_empty() {
        return None;
    }
    let mut builder = GitignoreBuilder::new("");
    builder.add_line(None, &format!("/{pattern}")).ok()?;
    Some(Rule {
        matcher: builder.build().ok()?,
        keep,
        line,
    })
}

/// Cleans a pattern as Go's `filepath.Clean` does: no `.`, no `..`, no empty parts, no slash at either end.
fn clean(pattern: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in pattern.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    // The pattern `.` matches everything.
    if parts.is_empty() && pattern.contains('.') && !pattern.contains("..") {
        return "**".to_owned();
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, left_out: &[&str], kept: &[&str]) {
        let ignored = DockerIgnore::read(text);
        for path in left_out {
            assert!(
                ignored.is_excluded(Path::new(path), false),
                "{text:?} leaves out {path}"
            );
        }
        for path in kept {
            assert!(
                !ignored.is_excluded(Path::new(path), false),
                "{text:?} keeps {path}"
            );
        }
    }

    #[test]
    fn patterns_match_as_in_docker() {
        check("", &[], &["a"]);
        check(
            "# a comment\n\n  node_modules  \n",
            &["node_modules", "node_modules/a/b"],
            &["x/node_modules", "a"],
        );
        check("node_modules/", &["node_modules/a"], &["x/node_modules/a"]);
        check("/target", &["target/x"], &["a/target"]);
        check("./a/../b", &["b"], &["a"]);
        check("*.log", &["x.log"], &["a/x.log"]);
        check("**/*.log", &["x.log", "a/b/x.log"], &["x.txt"]);
        check("*/temp*", &["a/temporary", "a/temp/x"], &["a/b/temp", "temp"]);
        check("temp?", &["tempa"], &["temp"]);
        check("a/**", &["a/x", "a/b/c"], &["b/a"]);
    }

    #[test]
    fn the_last_matching_pattern_decides() {
        check("*.md\n!README.md", &["x.md"], &["README.md"]);
        check(
            "*.md\n!README*.md\nREADME-secret.md",
            &["README-secret.md"],
            &["README.md"],
        );
        check(
            "*\n!src\n!Cargo.toml",
            &["a", "b/c"],
            &["src", "src/main.rs", "Cargo.toml"],
        );
        check("docs\n!docs/keep.md", &["docs/a.md"], &["docs/keep.md"]);
    }
}

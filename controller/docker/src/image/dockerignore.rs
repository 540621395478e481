//! `.dockerignore`: patterns from the root of the context, the last that matches decides, parents count.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

struct Rule {
    matcher: Gitignore,
    keep: bool,
}

/// What a build context leaves out.
pub(super) struct DockerIgnore {
    rules: Vec<Rule>,
}

impl DockerIgnore {
    /// Reads the text of a `.dockerignore`. A pattern that is not understood is left out, as nothing then goes missing.
    pub(super) fn read(text: &str) -> Self {
        let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self {
            rules: lines.filter_map(rule).collect(),
        }
    }

    /// Whether this path, relative to the context, is left out.
    pub(super) fn leaves_out(&self, path: &Path, is_folder: bool) -> bool {
        let matching = |rule: &&Rule| {
            rule.matcher
                .matched_path_or_any_parents(path, is_folder)
                .is_ignore()
        };
        self.rules
            .iter()
            .rev()
            .find(matching)
            .is_some_and(|rule| !rule.keep)
    }

    /// Whether something below a folder that is left out may still be kept.
    pub(super) fn has_exceptions(&self) -> bool {
        self.rules.iter().any(|rule| rule.keep)
    }
}

/// One line. Unlike in a `.gitignore`, a bare name stands for the root's entry only, so each pattern is anchored.
fn rule(line: &str) -> Option<Rule> {
    let (keep, pattern) = match line.strip_prefix('!') {
        Some(rest) => (true, rest.trim()),
        None => (false, line),
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
    })
}

/// As Go's `filepath.Clean` does: no `.`, no `..`, no empty parts, no slash at either end.
fn clean(pattern: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in pattern.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    // A pattern of only `.` means everything.
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
                ignored.leaves_out(Path::new(path), false),
                "{text:?} leaves out {path}"
            );
        }
        for path in kept {
            assert!(
                !ignored.leaves_out(Path::new(path), false),
                "{text:?} keeps {path}"
            );
        }
    }

    #[test]
    fn patterns_mean_what_docker_means_by_them() {
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
    fn the_last_pattern_that_matches_decides() {
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

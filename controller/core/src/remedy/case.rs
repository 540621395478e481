//! Facts of one failed run, as the rules read them.

use argus_crds::error::SpecEdit;

use super::EditContext;
use crate::desired::Mount;
use crate::failed_run::FailedRun;

/// Lines at the end of each stream that a rule reads.
const LINES: usize = 20;

/// Characters of a line that a rule reads.
const LONGEST: usize = 2_000;

/// Maximum length of a word of a container that an edit repeats, in bytes.
const LONGEST_WORD: usize = 200;

/// A failed run of a service.
pub(super) struct Case<'a> {
    pub(super) context: EditContext<'a>,
    pub(super) run: &'a FailedRun,
    /// Last lines of both streams, newest first, and the error of the engine; each also in lower case.
    lines: Vec<(&'a str, String)>,
}

impl<'a> Case<'a> {
    pub(super) fn of(context: EditContext<'a>, run: &'a FailedRun) -> Self {
        let evidence = run.evidence.as_ref();
        let (stderr, stdout) = evidence.map_or((&[][..], &[][..]), |evidence| {
            (&evidence.stderr[..], &evidence.stdout[..])
        });
        let last = |lines: &'a [String]| lines.iter().rev().take(LINES).map(String::as_str);
        let lines = last(stderr).chain(last(stdout)).chain([run.error.as_str()]);
        let start = |line: &'a str| match line.char_indices().nth(LONGEST) {
            Some((end, _)) => &line[..end],
            None => line,
        };
        let lines = lines.map(start).map(|line| (line, line.to_lowercase())).collect();
        Self { context, run, lines }
    }

    /// Lines, newest first.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'a str> {
        self.lines.iter().map(|(line, _)| *line)
    }

    /// Newest line that contains one of these parts, which are in lower case.
    pub(super) fn line_with(&self, parts: &[&str]) -> Option<&'a str> {
        let is_named = |lower: &String| parts.iter().any(|part| lower.contains(part));
        let found = self.lines.iter().find(|(_, lower)| is_named(lower));
        found.map(|(line, _)| *line)
    }

    /// File on the host below a bind mount of this path in the container.
    pub(super) fn host_file(&self, path: &str) -> Option<String> {
        host_file(&self.context, path)
    }

    /// Change of a file of the host, which the spec file mounts.
    pub(super) fn host_edit(file: String, reason: impl Into<String>, hint: impl Into<String>) -> SpecEdit {
        SpecEdit::new(file, "", reason).hint(hint)
    }
}

/// Returns whether a line contains one of these parts, which are in lower case.
pub(super) fn contains(line: &str, parts: &[&str]) -> bool {
    let lower = line.to_lowercase();
    parts.iter().any(|part| lower.contains(part))
}

/// File on the host of a path in the container, as the spec file writes its mount.
pub(super) fn host_file(context: &EditContext<'_>, path: &str) -> Option<String> {
    let (index, mount) = mount_of(context, path)?;
    let Mount::Bind { source, target, .. } = mount else {
        return None;
    };
    let written = context
        .edit(&format!("container.volumes[{index}]"), String::new())
        .now;
    let written = written.as_deref().and_then(|now| now.split(':').next());
    let base = match written.and_then(|written| written.strip_prefix("./")) {
        Some(relative) => match context.accepted.spec_path.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{relative}"),
            None => relative.to_owned(),
        },
        None => source.clone(),
    };
    Some(format!(
        "{}{}",
        base.trim_end_matches('/'),
        &path[target.trim_end_matches('/').len()..]
    ))
}

/// Innermost mount that contains a path, with its index in the file.
pub(super) fn mount_of<'a>(context: &EditContext<'a>, path: &str) -> Option<(usize, &'a Mount)> {
    let mounts = context.service.mounts.iter().enumerate();
    mounts
        .filter(|(_, mount)| is_below(path, mount.target()))
        .max_by_key(|(_, mount)| mount.target().len())
}

/// Returns whether a path is a folder, or below it.
pub(super) fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Absolute paths in a line, without those that an edit cannot repeat.
pub(super) fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || "\"'`:,;()[]<>=‘’“”".contains(c))
        .filter(|word| word.len() > 1 && word.starts_with('/') && !word.starts_with("//"))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| is_plain(word) && !word.split('/').any(|name| name == ".."))
}

/// Returns whether a word of a container is harmless in an edit, which can be part of a command: short, and without characters that a
/// shell interprets.
pub(super) fn is_plain(word: &str) -> bool {
    let is_harmless = |c: char| c.is_alphanumeric() || "/._-+@%:".contains(c);
    word.len() <= LONGEST_WORD && !word.starts_with('-') && word.chars().all(is_harmless)
}

/// Ports in a line, such as `:80` and `port 80`; other numbers after a colon are among them.
pub(super) fn ports_in(line: &str) -> impl Iterator<Item = u16> {
    line.split(':')
        .chain(line.split("port "))
        .skip(1)
        .filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().ok().filter(|port| *port > 0)
        })
}

/// Text between the first pair of quotes after this part of a line.
pub(super) fn quoted_after<'a>(line: &'a str, part: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(part)?;
    let quote = rest.find(['"', '\'', '`'])?;
    let mark = rest[quote..].chars().next()?;
    rest[quote + 1..]
        .split(mark)
        .next()
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_contain_no_text_for_a_shell() {
        for (line, found) in [
            ("sh: /app/run.sh: Permission denied", &["/app/run.sh"][..]),
            ("open '/data/a b'", &["/data/a"]),
            ("exec /app/$(id)/x failed", &["/x"]),
            ("exec /app/x&touch${IFS}y failed", &[]),
            ("open /app/../../etc/shadow", &[]),
            ("open /app/é.conf.", &["/app/é.conf"]),
        ] {
            assert_eq!(paths(line).collect::<Vec<_>>(), found, "{line}");
        }
        assert_eq!(paths(&format!("/{}", "x".repeat(LONGEST_WORD))).count(), 0);
    }
}

//! Facts of one failed run, as the rules read them.

use std::borrow::Cow;

use argus_crds::error::SpecEdit;

use super::EditContext;
use super::classes::{REFUSED, UNRESOLVED};
use super::headline::{after_success, is_noise, is_warning, neighbourhood};
use super::rule::Scope;
use crate::desired::Mount;
use crate::failed_run::{FailedRun, FailureCause};
use crate::outcome::HostFile;
use crate::quoting::escape_line;

pub(super) use crate::failed_run::host_view::{is_below, is_plain, paths};

/// Lines at the end of each stream in the scope of the last lines.
const LAST: usize = 20;
/// Lines at the end of each stream in the widest scope.
const ALL: usize = 200;

/// Characters of a line that a rule reads.
const LONGEST: usize = 2_000;

/// A failed run of a service, with the lines of one scope.
pub(super) struct Case<'a> {
    pub(super) context: EditContext<'a>,
    pub(super) run: &'a FailedRun,
    pub(super) scope: Scope,
    /// Lines of the scope, and the error of the engine; each also in lower case.
    lines: Vec<(&'a str, String)>,
}

impl<'a> Case<'a> {
    pub(super) fn new(context: EditContext<'a>, run: &'a FailedRun, scope: Scope) -> Self {
        let lines: Vec<&'a str> = match (&run.evidence, scope) {
            (None, _) | (_, Scope::Facts) => Vec::new(),
            (Some(evidence), Scope::Cause) => neighbourhood(evidence),
            (Some(evidence), Scope::Last | Scope::All | Scope::Warned) => {
                let count = if scope == Scope::Last { LAST } else { ALL };
                let last = |lines: &'a [String]| after_success(lines).iter().rev().take(count);
                let lines = last(&evidence.stderr).chain(last(&evidence.stdout));
                lines.map(String::as_str).collect()
            }
        };
        let start = |line: &'a str| match line.char_indices().nth(LONGEST) {
            Some((end, _)) => &line[..end],
            None => line,
        };
        let engine = Some(run.error.as_str()).filter(|_| scope != Scope::Facts);
        let is_error = |line: &&'a str| !is_noise(line) && !is_warning(line);
        // Some programs report the cause of their end as a warning.
        let is_only_warned =
            run.exit_code != 0 && !lines.iter().any(|line| is_error(line) && !line.trim().is_empty());
        // A proxy logs a failed connection to its server as the request of a client.
        let is_of_server = |line: &&'a str| {
            let is_kept = run.cause == FailureCause::Unhealthy || !is_noise(line);
            let is_connection = is_kept && (contains(line, &REFUSED) || contains(line, &UNRESOLVED));
            // Some clients report a refused login without a level.
            scope == Scope::Warned && (is_connection || contains(line, &["authenticationfailureexception"]))
        };
        let lines = lines
            .into_iter()
            .filter(|line| is_error(line) || (is_only_warned && !is_noise(line)) || is_of_server(line))
            .flat_map(|line| std::iter::once(line).chain(texts(line)))
            .chain(engine);
        let lines = lines.map(start).map(|line| (line, line.to_lowercase())).collect();
        Self {
            context,
            run,
            scope,
            lines,
        }
    }

    /// Facts of a path of the container on the host.
    pub(super) fn host_facts(&self, path: &str) -> Option<&'a HostFile> {
        self.run.evidence.as_ref()?.host_files.get(path)
    }

    /// Words of the entry point and of the command.
    pub(super) fn words(&self) -> impl Iterator<Item = &'a String> {
        let service = self.context.service;
        [&service.entrypoint, &service.command]
            .into_iter()
            .flatten()
            .flatten()
    }

    /// Words of the command.
    pub(super) fn command_words(&self) -> Vec<&'a str> {
        let words = self.context.service.command.iter().flatten();
        words.map(String::as_str).collect()
    }

    /// Program of the command, without its folder; `None` if the image names it.
    pub(super) fn program(&self) -> Option<&'a str> {
        let service = self.context.service;
        let words = service.entrypoint.as_ref().filter(|words| !words.is_empty());
        let first = words.or(service.command.as_ref())?.first()?;
        first.rsplit('/').next()
    }

    /// Key of the command that contains a text, or that of the program if none does.
    pub(super) fn command_key(&self, text: &str) -> &'static str {
        let names = |words: &Option<Vec<String>>| words.iter().flatten().any(|word| word.contains(text));
        let service = self.context.service;
        if names(&service.entrypoint) && !names(&service.command) {
            "entrypoint"
        } else {
            "command"
        }
    }

    /// Lines of the scope, nearest first.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'a str> {
        self.lines.iter().map(|(line, _)| *line)
    }

    /// Nearest line that contains one of these parts, which are in lower case.
    pub(super) fn line_with(&self, parts: &[&str]) -> Option<&'a str> {
        let is_named = |lower: &String| parts.iter().any(|part| lower.contains(part));
        let found = self.lines.iter().find(|(_, lower)| is_named(lower));
        found.map(|(line, _)| *line)
    }

    /// File on the host below a bind mount of this path in the container.
    pub(super) fn host_file(&self, path: &str) -> Option<String> {
        host_file(&self.context, path)
    }

    /// Change of a variable of the service.
    pub(super) fn variable(&self, name: &str, reason: impl Into<String>) -> SpecEdit {
        self.context
            .edit(&format!("container.environment.{name}"), reason.into())
    }

    /// Change of a file of the host, which the spec file mounts.
    pub(super) fn host_edit(file: String, reason: impl Into<String>, hint: impl Into<String>) -> SpecEdit {
        let shown = match escape_line(&file) {
            Cow::Owned(shown) => Some(shown),
            Cow::Borrowed(_) => None,
        };
        SpecEdit::new(shown.unwrap_or(file), "", reason).hint(hint)
    }
}

/// Texts of the messages in a line of JSON, as it writes them.
fn texts(line: &str) -> impl Iterator<Item = &str> {
    parts! {
        KEYS: "msg" "message" "error" "err" "reason" "detail" "exception" "cause" "errmsg" "stack_trace"
            "event";
    }
    let is_json = line.trim_start().starts_with('{');
    KEYS.iter().filter(move |_| is_json).filter_map(move |key| {
        let (_, rest) = line.split_once(&format!("\"{key}\":"))?;
        let text = rest.trim_start().strip_prefix('"')?;
        let mut ends = text
            .match_indices('"')
            .filter(|(at, _)| !text[..*at].ends_with('\\'));
        let (end, _) = ends.next()?;
        Some(&text[..end]).filter(|text| text.contains(' '))
    })
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

/// The mounts with another one.
pub(super) fn add_volume(context: &EditContext<'_>, entry: &str, reason: String) -> SpecEdit {
    let written = |index| {
        let edit = context.edit(&format!("container.volumes[{index}]"), String::new());
        context.accepted.lines.as_written(edit).now
    };
    let all: Option<Vec<String>> = (0..context.service.mounts.len()).map(written).collect();
    let edit = context.edit("container.volumes", reason);
    match all {
        Some(mut all) => {
            all.push(entry.to_owned());
            edit.suggest(serde_json::to_string(&all).unwrap_or_default())
        }
        None => edit.hint(format!("add `{entry}`")),
    }
}

/// The temporary folders with another one, in the place of one for the same folder.
pub(super) fn add_tmpfs(context: &EditContext<'_>, entry: &str, reason: String) -> SpecEdit {
    let mut entries = context.service.tmpfs.clone();
    let folder = |entry: &str| entry.split(':').next().unwrap_or_default().to_owned();
    entries.retain(|known| folder(known) != folder(entry));
    entries.push(entry.to_owned());
    let written = serde_json::to_string(&entries).unwrap_or_default();
    context.edit("tmpfs", reason).suggest(written)
}

/// A part of a value and its replacement, with a character next to it if the part occurs more than once.
pub(super) fn unambiguous(value: &str, part: &str, meant: &str) -> (String, String) {
    const AROUND: [(&str, &str); 3] = [("//", ""), ("@", ""), ("", ":")];
    let is_single = |text: &str| value.matches(text).count() == 1;
    let mut around = AROUND.iter().filter(|_| !is_single(part));
    let found = around.find(|(before, after)| is_single(&format!("{before}{part}{after}")));
    let (before, after) = found.unwrap_or(&("", ""));
    (
        format!("{before}{part}{after}"),
        format!("{before}{meant}{after}"),
    )
}

/// Texts between quotes in a line.
pub(super) fn quoted(line: &str) -> impl Iterator<Item = &str> {
    ['"', '\'', '`']
        .into_iter()
        .flat_map(|mark| line.split(mark).skip(1).step_by(2))
        .map(unescaped)
        .filter(|text| !text.is_empty())
}

/// Ports in a line, such as `:80` and `port 80`; other numbers after a colon are among them.
pub(super) fn ports_in(line: &str) -> impl Iterator<Item = u16> {
    line.split(':')
        .chain(line.split("port "))
        .skip(1)
        .filter_map(|rest| {
            let rest = rest.trim_start_matches(['`', '"', '\'']);
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
        .map(unescaped)
        .filter(|text| !text.is_empty())
}

/// A text without the sign that hides its quote in the log of another program.
fn unescaped(text: &str) -> &str {
    text.trim_end_matches('\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failed_run::host_view::LONGEST_WORD;

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

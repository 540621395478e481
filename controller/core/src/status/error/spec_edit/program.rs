//! Changes of the spec file that a failed program requests by its output: missing variables.

use std::collections::BTreeMap;

use crate::outcome::Evidence;

/// Lines at the end of the output that can contain the cause.
const LINES: usize = 20;
/// Parts of a message about a missing variable, in lower case.
const MISSING: [&str; 10] = [
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
];
/// Words that mark any word in capitals as a variable, in lower case.
const VARIABLE_WORDS: [&str; 5] = ["variable", "env", "parameter", "keyerror", "setting"];
/// Words in capitals that are no variables.
const LEVELS: [&str; 10] = [
    "ERROR", "FATAL", "PANIC", "WARN", "WARNING", "INFO", "DEBUG", "TRACE", "CRITICAL", "HTTP",
];

/// Variable that the program reported as missing, and that the file does not set.
pub(super) fn missing_variable(evidence: &Evidence, set: &BTreeMap<String, String>) -> Option<String> {
    let last = |lines: &'_ [String]| lines.iter().rev().take(LINES).cloned().collect::<Vec<_>>();
    let lines = last(&evidence.stderr).into_iter().chain(last(&evidence.stdout));
    lines.into_iter().find_map(|line| variable_in(&line, set))
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
    (!is_set).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("started with DATABASE_URL", None),
        ] {
            assert_eq!(variable_in(line, &set).as_deref(), name, "{line}");
        }
    }
}

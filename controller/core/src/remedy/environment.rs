//! Variables that a program requires, and values that it rejects.

use std::collections::BTreeMap;

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_plain, quoted, quoted_after};
use crate::desired::{Desired, Mount, Service};
use crate::failed_run::host_view::differs_by_one_error;
use crate::secrets::is_secret;

/// Parts of a message about a missing variable, in lower case.
const MISSING: [&str; 21] = [
    "not set",
    "unset",
    "not defined",
    "undefined",
    "required",
    "must be set",
    "must be provided",
    "must be defined",
    "must specify",
    "missing",
    "not provided",
    "not specified",
    "keyerror",
    "no value for",
    "must name",
    "unbound variable",
    "is empty",
    "cannot be empty",
    "must not be empty",
    "environment variables not found",
    "key not found",
];
/// Words that mark any word in capitals as a variable, in lower case.
const VARIABLE_WORDS: [&str; 6] = ["variable", "env", "parameter", "keyerror", "setting", "unbound"];
/// Words in capitals of levels, statuses and formats, which name no variable.
const CAPITALS: [&str; 33] = [
    "ERROR",
    "FATAL",
    "PANIC",
    "WARN",
    "WARNING",
    "INFO",
    "DEBUG",
    "TRACE",
    "CRITICAL",
    "HTTP",
    "EMERG",
    "HINT",
    "DETAIL",
    "NOTE",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "FAILED_PRECONDITION",
    "PERMISSION_DENIED",
    "UNAVAILABLE",
    "INTERNAL",
    "JSON",
    "YAML",
    "NULL",
    "SQL",
    "URL",
    "API",
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
];
/// Parts of messages of compilers, linkers and runtimes about other names, in lower case.
const OTHER_NAMES: [&str; 16] = [
    "properties of undefined",
    "property of undefined",
    "undefined symbol",
    "undefined reference",
    "undefined method",
    "undefined function",
    "column",
    "header",
    "module",
    "nameerror",
    "referenceerror",
    "typeerror",
    "undefined constant",
    "certificate verify",
    "ssl:",
    "version `glibc",
];
/// Parts of a message about a value that a program rejects, in lower case.
const INVALID: [&str; 22] = [
    "invalid",
    "not a valid",
    "not valid",
    "is not a number",
    "must be a",
    "must be one of",
    "must be an",
    "must be between",
    "should be one of",
    "cannot parse",
    "could not parse",
    "couldn't parse",
    "failed to parse",
    "unable to parse",
    "parsing",
    "parse \"",
    "for input string",
    "correct format",
    "unsupported",
    "err_socket_bad_port",
    "unknown level",
    "not supported",
];

/// Variable that the program reports as missing.
pub(super) fn missing_variable(case: &Case<'_>) -> Option<SpecEdit> {
    let service = case.context.service;
    let name = missing_name(case)?;
    if service.env_vars.keys().any(|other| is_misspelled(other, &name)) {
        return None;
    }
    let reason = format!("the process reports that `{name}` is missing");
    let edit = case
        .context
        .edit(&format!("container.environment.{name}"), reason);
    Some(match value_of(&name, service, &case.context.accepted.desired) {
        Some(value) => edit.suggest(value),
        None => match owner_of(case, &name) {
            Some(sibling) => edit.hint(format!("write the value of `{name}` of `{sibling}`")),
            None => edit,
        },
    })
}

/// Variable whose name differs from a missing one by a typing error.
pub(super) fn misspelled_variable(case: &Case<'_>) -> Option<SpecEdit> {
    let name = missing_name(case)?;
    let set = &case.context.service.env_vars;
    let wrong = set.keys().find(|other| is_misspelled(other, &name))?;
    let reason = format!("the process reads `{name}`");
    let edit = case
        .context
        .edit(&format!("container.environment.{wrong}"), reason);
    Some(edit.now(wrong.as_str()).suggest(name))
}

/// Variable whose value the program rejects: the message contains its name, or its value in quotes.
pub(super) fn invalid_variable(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&INVALID)?;
    // A log line in JSON has every text in quotes, and a path has an error of its own.
    if line.trim_start().starts_with('{')
        || contains(line, &["invalid argument", "invalid api key", "invalid option"])
    {
        return None;
    }
    let set = || {
        case.context
            .service
            .env_vars
            .iter()
            .filter(|(_, value)| !value.is_empty())
    };
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named = words.find_map(|word| set().find(|(name, _)| *name == word && word.len() >= 3));
    let by_value = || {
        // Databases and servers quote the values of their clients.
        if contains(line, &["input syntax", "media type"]) {
            return None;
        }
        let is_quoted = |value: &str| value.len() >= 2 && quoted(line).any(|text| text == value);
        let mut found = set().filter(|(_, value)| is_quoted(value));
        found.next().filter(|_| found.next().is_none())
    };
    // Without its value, the message can only mean a port that is not a number.
    let by_port = || {
        let is_port = |name: &str| name.rsplit('_').next() == Some("PORT");
        let mut found = set().filter(|(name, value)| is_port(name) && value.parse::<u16>().is_err());
        contains(line, &["bad_port", "invalid port"])
            .then(|| found.next().filter(|_| found.next().is_none()))?
    };
    let (name, value) = named.or_else(by_value).or_else(by_port)?;
    let reason = format!("the process rejects the value of `{name}`");
    let edit = case
        .context
        .edit(&format!("container.environment.{name}"), reason);
    let edit = if is_secret(name) {
        edit
    } else {
        edit.now(value.as_str())
    };
    Some(edit.hint("write a value that the message permits"))
}

/// Name of the variable that a line of the scope reports as missing, and that the file does not set.
fn missing_name(case: &Case<'_>) -> Option<String> {
    let set = &case.context.service.env_vars;
    let mut lines = case.lines().peekable();
    // Other mappings have the same error as the environment.
    let is_of_environment = || case.line_with(&["environ", "<frozen os>", "/os.py"]).is_some();
    while let Some(line) = lines.next() {
        if contains(line, &["keyerror: "]) && !is_of_environment() {
            continue;
        }
        let found = variable_in(line, set)
            .or_else(|| property_in(line, set))
            .or_else(|| {
                // Some libraries list the names in the lines after the message.
                let next = lines.peek()?;
                let is_list = contains(line, &["environment variable", "env var", "required environment"]);
                (is_list && contains(line, &MISSING))
                    .then(|| listed_in(next, set))
                    .flatten()
            });
        if found.is_some() {
            return found;
        }
        // A settings class names the field in the line before.
        if let Some(next) = lines.peek()
            && contains(
                next,
                &[
                    "field required [type=missing",
                    "field required (type=value_error.missing)",
                ],
            )
            && !line.is_empty()
            && line.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            let name = line.to_uppercase();
            if set.keys().all(|known| !known.eq_ignore_ascii_case(&name)) {
                return Some(name);
            }
        }
    }
    None
}

/// Name at the start of a line of a list.
fn listed_in(line: &str, set: &BTreeMap<String, String>) -> Option<String> {
    let text = line.trim_start_matches(|c: char| c.is_whitespace() || "-*•".contains(c));
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let name = &text[..end];
    let is_name = name.len() >= 3 && name.contains('_') && name.chars().all(|c| !c.is_ascii_lowercase());
    (is_name && !set.contains_key(name)).then(|| name.to_owned())
}

/// Variable of a property that a placeholder of Spring names, such as `spring.datasource.url`.
fn property_in(line: &str, set: &BTreeMap<String, String>) -> Option<String> {
    let property = quoted_after(line, "Could not resolve placeholder")?;
    let name = property.replace('.', "_").replace('-', "").to_uppercase();
    let is_name = name.len() >= 3 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !set.contains_key(&name)).then_some(name)
}

/// Sibling with the same variable.
fn owner_of<'a>(case: &Case<'a>, name: &str) -> Option<&'a str> {
    let services = case.context.accepted.desired.services.values();
    let mut owners = services.filter(|sibling| sibling.env_vars.contains_key(name));
    owners.next().map(|sibling| sibling.name.as_str())
}

/// Returns whether one part between underscores differs by one letter, or by two letters in another order.
fn is_misspelled(name: &str, meant: &str) -> bool {
    let (parts, others): (Vec<_>, Vec<_>) = (name.split('_').collect(), meant.split('_').collect());
    let joined = name.replace('_', "") == meant.replace('_', "");
    if parts.len() != others.len() {
        return joined;
    }
    let mut differing = parts.iter().zip(&others).filter(|(one, other)| one != other);
    let (Some((one, other)), None) = (differing.next(), differing.next()) else {
        return false;
    };
    let is_scheme = |part: &str| part == "HTTP" || part == "HTTPS";
    // A short first part names another owner.
    let is_of_other = parts[0] != others[0] && parts[0].len().min(others[0].len()) <= 3;
    let is_long = one.len().min(other.len()) >= 3;
    let is_other = is_of_other || (is_scheme(one) && is_scheme(other));
    is_long && !is_other && differs_by_one_error(one, other)
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
    if contains(line, &OTHER_NAMES) {
        return None;
    }
    let is_about_variables = VARIABLE_WORDS.iter().any(|word| lower.contains(word));
    // A code in brackets at the start names the kind of the error.
    let text = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map_or(line, |(_, rest)| rest);
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let word = words.find(|word| {
        let is_name = word.len() >= 3
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && word
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        is_name
            && (word.contains('_') || is_about_variables)
            && !CAPITALS.contains(word)
            && !word.starts_with("ERR_")
    })?;
    // The name itself can contain such a part.
    let around = lower.replace(&word.to_lowercase(), " ");
    let is_missing = MISSING.iter().any(|part| around.contains(part));
    let is_set = set.get(word).is_some_and(|value| !value.is_empty());
    (is_missing && !is_set && is_plain(word)).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_names_differ_by_one_error() {
        for (name, meant, expected) in [
            ("DATABSE_URL", "DATABASE_URL", true),
            ("DATABASE_ULR", "DATABASE_URL", true),
            ("DB_USERS", "DB_USER", true),
            ("DBURL_MAIN", "DB_URL_MAIN", true),
            ("REDIS_HOST", "REDIS_PORT", false),
            ("DB1_URL", "DB2_URL", false),
            ("DB_URL", "DB_URL", false),
            ("HTTP_PROXY", "HTTPS_PROXY", false),
            ("APP_TOKEN", "APX_TOKEN", false),
            ("PORT", "HOST", false),
        ] {
            assert_eq!(is_misspelled(name, meant), expected, "{name}");
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
            ("NameError: name 'API_KEY' is not defined", None),
            ("ReferenceError: API_KEY is not defined", None),
            ("ssl: CERTIFICATE_VERIFY_FAILED: missing issuer", None),
        ] {
            assert_eq!(variable_in(line, &set).as_deref(), name, "{line}");
        }
    }
}

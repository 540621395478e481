//! Variables that a program requires, and values that it rejects.

use std::collections::BTreeMap;

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_plain, quoted, quoted_after};
use super::network::ports;
use crate::desired::{Desired, Mount, Service};
use crate::failed_run::host_view::differs_by_one_error;
use crate::secrets::is_secret;

parts! {
    /// Parts of a message about a missing variable, in lower case.
    MISSING: "not set" "unset" "not defined" "undefined" "required" "must be set" "must be provided"
        "must be defined" "must specify" "missing" "not provided" "not specified" "keyerror" "no value for"
        "must name" "unbound variable" "is empty" "cannot be empty" "must not be empty"
        "environment variables not found" "key not found" "please set" "please provide" "make sure to";
    /// Words that mark any word in capitals as a variable, in lower case.
    VARIABLE_WORDS: "variable" "env" "parameter" "keyerror" "setting" "unbound";
    /// Words in capitals of levels, statuses and formats, which name no variable.
    CAPITALS: "ERROR" "FATAL" "PANIC" "WARN" "WARNING" "INFO" "DEBUG" "TRACE" "CRITICAL" "HTTP" "EMERG"
        "HINT" "DETAIL" "NOTE" "INVALID_ARGUMENT" "NOT_FOUND" "FAILED_PRECONDITION" "PERMISSION_DENIED"
        "UNAVAILABLE" "INTERNAL" "JSON" "YAML" "NULL" "SQL" "URL" "API" "GET" "HEAD" "POST" "PUT" "PATCH"
        "DELETE" "OPTIONS";
    /// Parts of messages of compilers, linkers and runtimes about other names, in lower case.
    OTHER_NAMES: "properties of undefined" "property of undefined" "undefined symbol" "undefined reference"
        "undefined method" "undefined function" "column" "header" "module" "nameerror" "referenceerror"
        "typeerror" "undefined constant" "certificate verify" "ssl:" "version `glibc";
    /// Parts of a message about a value that a program rejects, in lower case.
    INVALID: "invalid" "not a valid" "not valid" "is not a number" "must be a" "must be one of" "must be an"
        "must be between" "should be one of" "cannot parse" "could not parse" "couldn't parse"
        "failed to parse" "unable to parse" "parsing" "parse \"" "for input string" "correct format"
        "unsupported" "err_socket_bad_port" "unknown level" "not supported" "cannot be used";
}

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
    // A log line in JSON has every text in quotes, and a path has an error of its own.
    let is_meant = |line: &&str| {
        !line.trim_start().starts_with('{')
            && !contains(line, &["invalid argument", "invalid api key", "invalid option"])
    };
    let line = case.line_with(INVALID).filter(is_meant);
    let rejected = line.and_then(|line| rejected_value(case, line));
    let (name, value) = rejected.or_else(|| unresolved(case))?;
    let reason = format!("the process rejects the value of `{name}`");
    let edit = case
        .context
        .edit(&format!("container.environment.{name}"), reason);
    if is_secret(name) {
        return Some(edit.hint("write a value that the message permits"));
    }
    let edit = edit.now(value);
    Some(match &ports(case.context.service)[..] {
        [port] if is_port(name) => edit.suggest(port.to_string()),
        // Every image has these two.
        _ if name == "TZ" => edit.suggest("UTC"),
        _ if line.is_some_and(|line| contains(line, &["locale"])) => edit.suggest("C.UTF-8"),
        _ => edit.hint("write a value that the message permits"),
    })
}

/// Variable that a message about an invalid value means, with its value or the rejected part of it.
fn rejected_value<'a>(case: &Case<'a>, line: &'a str) -> Option<(&'a String, &'a str)> {
    let variables = case.context.service.env_vars.iter();
    let set = || variables.clone().filter(|(_, value)| !value.is_empty());
    let only = |fits: &dyn Fn(&str, &str) -> bool| {
        let mut found = set().filter(|(name, value)| fits(name, value));
        found.next().filter(|_| found.next().is_none())
    };
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named = words.find_map(|word| set().find(|(name, _)| *name == word && word.len() >= 3));
    let by_value = || {
        // Databases and servers quote the values of their clients.
        if contains(line, &["input syntax", "media type"]) {
            return None;
        }
        only(&|_, value| value.len() >= 2 && quoted(line).any(|text| text == value))
    };
    // Without its value, the message can only mean a port that is not a number.
    let by_port = || {
        only(&|name, value| is_port(name) && value.parse::<u16>().is_err())
            .filter(|_| contains(line, &["bad_port", "invalid port"]))
    };
    let by_word = || {
        let mut parts = quoted(line).filter(|text| text.len() >= 4 && is_plain(text));
        parts.find_map(|text| {
            let (name, _) = only(&|_, value| value.split([' ', '=']).any(|part| part == text))?;
            Some((name, text))
        })
    };
    let whole = named.or_else(by_value).or_else(by_port);
    whole.map(|(name, value)| (name, value.as_str())).or_else(by_word)
}

fn is_port(name: &str) -> bool {
    name.rsplit('_').next() == Some("PORT")
}

/// Variable with a template that nothing replaced, and that a line repeats.
fn unresolved<'a>(case: &Case<'a>) -> Option<(&'a String, &'a str)> {
    let mut variables = case.context.service.env_vars.iter();
    let is_repeated = |value: &str| case.lines().any(|line| line.contains(value));
    let is_template = |value: &str| value.contains("{{") || value.contains("${");
    let (name, value) = variables.find(|(_, value)| is_template(value) && is_repeated(value))?;
    Some((name, value.as_str()))
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
                (is_list && contains(line, MISSING))
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
            && case.line_with(&["settings", "config", "env"]).is_some()
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

/// Returns whether one part between underscores differs by one letter, or by two letters in another order, or is shortened.
pub(super) fn is_misspelled(name: &str, meant: &str) -> bool {
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
    // Such as `PASS` or `PASSWD` of `PASSWORD`.
    let is_short = |part: &str, long: &str| {
        let mut letters = long.chars();
        part.chars().next() == long.chars().next()
            && part.chars().all(|letter| letters.any(|other| other == letter))
    };
    // A short first part names another owner.
    let is_of_other = parts[0] != others[0] && parts[0].len().min(others[0].len()) <= 3;
    let is_long = one.len().min(other.len()) >= 3;
    let is_other = is_of_other || (is_scheme(one) && is_scheme(other));
    let is_shortened = parts.len() > 1 && (is_short(one, other) || is_short(other, one));
    is_long && !is_other && (is_shortened || differs_by_one_error(one, other))
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
    if contains(line, OTHER_NAMES) {
        return None;
    }
    let is_about_variables = VARIABLE_WORDS.iter().any(|word| lower.contains(word));
    // A code in brackets at the start names the kind of the error.
    let text = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map_or(line, |(_, rest)| rest);
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    // The name itself can contain a part of the message.
    let is_set = |word: &str| set.get(word).is_some_and(|value| !value.is_empty());
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
            && !is_set(word)
    })?;
    let around = lower.replace(&word.to_lowercase(), " ");
    let is_missing = MISSING.iter().any(|part| around.contains(part));
    (is_missing && is_plain(word)).then(|| word.to_owned())
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
            ("MYSQL_ROOT_PASSWD", "MYSQL_ROOT_PASSWORD", true),
            ("POSTGRES_PASS", "POSTGRES_PASSWORD", true),
            ("DB_USERNAME", "DB_USER", true),
            ("HOST", "HOSTNAME", false),
            ("DB_PORT", "DB_PASSWORD", false),
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

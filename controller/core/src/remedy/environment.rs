//! Variables that a program requires, and values that it rejects.

use std::collections::BTreeMap;

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_plain, quoted, quoted_after};
use super::network::ports;
use super::values::{self, Value, written_as};
use crate::failed_run::host_view::differs_by_one_error;
use crate::secrets::is_secret;

parts! {
    /// Parts of a message about a missing variable, in lower case.
    MISSING: "not set" "unset" "not defined" "undefined" "required" "must be set" "must be provided"
        "must be defined" "must specify" "missing" "not provided" "not specified" "keyerror" "no value for"
        "must name" "unbound variable" "is empty" "cannot be empty" "must not be empty"
        "environment variables not found" "key not found" "please set" "please provide" "make sure to" "need to set"
        "have to set" "needs to be set" "mandatory" "set the" "must be present" "is missing" "not found in env";
    /// The same, if the message contains the word environment.
    OF_ENVIRONMENT: "could not find" "cannot find" "not found" "expected" "no such" "not present" "absent" "empty"
        "does not exist" "unable to read" "failed to read" "notpresent" "undefined";
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
        "unsupported" "err_socket_bad_port" "unknown level" "not supported" "cannot be used" "valid email" "forbidden"
        "unknown log level" "unknown value" "unknown setting" "not recognized" "out of range" "bad value" "cannot convert" "addrparseerror" "missing unit"
        "strconv." "could not convert" "failed to convert" "failed to bind" "was configured as" "illegal" "unrecognized" "not known" "isn't a valid" "expected";
}

/// Variable that the program reports as missing.
pub(super) fn missing_variable(case: &Case<'_>) -> Option<SpecEdit> {
    let service = case.context.service;
    let name = missing_name(case)?;
    if service.env_vars.keys().any(|other| is_misspelled(other, &name)) {
        return None;
    }
    let reason = format!("the process reports that `{name}` is missing");
    let edit = case.variable(&name, reason);
    Some(match values::missing(case, &name) {
        Some(Value::Text(value)) => edit.suggest(value),
        Some(Value::Any(value)) => edit.suggest(value).likely(),
        Some(Value::Of(other, owner)) => edit.hint(format!("write the value of `{other}` of `{owner}`")),
        None => edit,
    })
}

/// Variable whose name differs from a missing one by a typing error.
pub(super) fn misspelled_variable(case: &Case<'_>) -> Option<SpecEdit> {
    let set = &case.context.service.env_vars;
    let similar = |name: String| Some((set.keys().find(|other| is_misspelled(other, &name))?, name));
    let (wrong, name) = missing_name(case)
        .and_then(similar)
        .or_else(|| other_name(case))?;
    let reason = format!("the process reads `{name}`");
    let edit = case.variable(wrong, reason);
    Some(edit.now(wrong.as_str()).suggest(name))
}

/// Variable that the output does not contain, and a similar name that it contains instead.
fn other_name<'a>(case: &Case<'a>) -> Option<(&'a String, String)> {
    let set = &case.context.service.env_vars;
    let is_reported = |name: &str| case.lines().any(|line| words(line).any(|word| word == name));
    let is_about =
        |line: &&str| contains(line, MISSING) || contains(line, &["must", "please", "specify", "-e "]);
    // A message can have several lines.
    case.lines().find(is_about)?;
    case.lines().flat_map(words).find_map(|word| {
        let is_name =
            word.len() >= 6 && word.contains('_') && !word.contains(|c: char| c.is_ascii_lowercase());
        let wrong = set
            .keys()
            .find(|other| is_name && !set.contains_key(word) && is_misspelled(other, word))?;
        (!is_reported(wrong)).then(|| (wrong, word.to_owned()))
    })
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Variable that this version of the program refuses.
pub(super) fn removed_variable(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        REMOVED: "is set but deprecated" "deprecated environment variable" "is no longer supported" "has been removed"
            "is not supported anymore" "no longer be used" "is no longer valid" "must not be set" "should not be set"
            "cannot be set" "cannot both be set" "mutually exclusive" "is obsolete" "was removed" "please remove" "unset ";
    }
    let set = &case.context.service.env_vars;
    let mut lines = case.lines().filter(|line| contains(line, REMOVED));
    let name = lines.find_map(|line| words(line).find(|word| set.contains_key(*word)))?;
    let reason = format!("this version of the program refuses `{name}`");
    let edit = case.variable(name, reason);
    Some(edit.suggest("\"\"").hint("or remove it"))
}

/// Variable whose value the program rejects: the message contains its name, or its value in quotes.
pub(super) fn invalid_variable(case: &Case<'_>) -> Option<SpecEdit> {
    // A log line in JSON has every text in quotes, and a path has an error of its own.
    let is_meant = |line: &&str| {
        !line.trim_start().starts_with('{')
            && !contains(line, &["invalid argument", "invalid api key", "invalid option"])
    };
    let line = case
        .lines()
        .find(|line| contains(line, INVALID) && is_meant(line));
    let rejected = line.and_then(|line| rejected_value(case, line));
    let (name, value) = rejected.or_else(|| unresolved(case))?;
    let reason = format!("the process rejects the value of `{name}`");
    let edit = case.variable(name, reason);
    // The name itself is the mistake.
    if let Some(meant) = line.and_then(|line| other_setting(name, line)) {
        // A key with dots is a path in the file.
        let start = name.rfind('.').map_or(0, |dot| dot + 1);
        let last = meant.strip_prefix(&name[..start]);
        let (now, meant) = last.map_or((name.as_str(), meant), |last| (&name[start..], last));
        return Some(edit.now(now).suggest(meant));
    }
    if is_secret(name) {
        return Some(edit.hint("write a value that the message permits"));
    }
    let edit = edit.now(value);
    if let Some(meant) = line.and_then(|line| values::permitted(case, name, value, line)) {
        return Some(edit.suggest(meant));
    }
    Some(match &ports(case.context.service)[..] {
        [port] if is_port(name) => edit.suggest(port.to_string()),
        // Every image has these two.
        _ if name == "TZ" => edit.suggest("UTC"),
        _ if line.is_some_and(|line| contains(line, &["locale"])) => edit.suggest("C.UTF-8"),
        _ => edit.hint("write a value that the message permits"),
    })
}

/// Name that the program proposes instead of the one that it does not know.
fn other_setting<'a>(name: &str, line: &'a str) -> Option<&'a str> {
    let (before, rest) = line.split_once("did you mean")?;
    let is_about_name =
        before.contains(name) && contains(before, &["setting", "option", "property", "key", "variable"]);
    let mut words = rest.split(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c));
    let meant = words.find(|word| word.len() >= 3 && *word != "any" && *word != "one")?;
    (is_about_name && meant != name).then_some(meant)
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
    let by_writing = || {
        let mut words = line.split(|c: char| c.is_whitespace() || "\"'`,;:=()[]".contains(c));
        let name =
            words.find_map(|word| written_as(word.trim_end_matches('.'), &case.context.service.env_vars))?;
        set().find(|(known, _)| *known == name)
    };
    let by_last = || {
        let last = line.split_whitespace().next_back()?.trim_end_matches('.');
        only(&|_, value| {
            value == last && last.len() >= 3 && last.parse::<f64>().is_err() && last.parse::<bool>().is_err()
        })
    };
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
    let by_address = || {
        only(&|name, value| contains(name, &["bind", "listen"]) && value.contains(':'))
            .filter(|_| contains(line, &["addrparse", "socket address", "ip address"]))
    };
    // The names of some settings contain dots.
    let by_text = || set().find(|(name, _)| name.contains('.') && line.contains(name.as_str()));
    let named = named.or_else(by_text);
    let whole = named
        .or_else(by_value)
        .or_else(by_writing)
        .or_else(by_port)
        .or_else(by_address)
        .or_else(by_last);
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
    // .NET writes its sections with colons.
    let section = quoted(line).find(|text| {
        let mut parts = text.split(':');
        let is_name = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_uppercase()) && part.chars().all(char::is_alphanumeric)
        };
        text.contains(':') && parts.all(is_name) && contains(line, MISSING)
    });
    if let Some(section) = section {
        return Some(section.replace(':', "__")).filter(|name| !set.contains_key(name));
    }
    let connection = || {
        Some(format!(
            "ConnectionStrings__{}",
            quoted_after(line, "onnection string")?
        ))
    };
    if contains(line, &["connection string"]) && contains(line, &["not found", "named", "missing"]) {
        return connection().filter(|name| is_plain(name) && !set.contains_key(name));
    }
    let quarkus = || {
        let (_, rest) = line.split_once("config property ")?;
        rest.split(' ')
            .next()
            .filter(|name| is_plain(name) && name.contains('.'))
    };
    let property = quoted_after(line, "Could not resolve placeholder").or_else(quarkus)?;
    let name = property.replace('.', "_").replace('-', "").to_uppercase();
    let is_name = name.len() >= 3 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !set.contains_key(&name)).then_some(name)
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
    let is_of_environment = ["environment", "env var", "envvar", "environ["]
        .iter()
        .any(|part| lower.contains(part));
    let is_missing = MISSING.iter().any(|part| around.contains(part))
        || (is_of_environment && OF_ENVIRONMENT.iter().any(|part| around.contains(part)));
    (is_missing && is_plain(word)).then(|| word.to_owned())
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;

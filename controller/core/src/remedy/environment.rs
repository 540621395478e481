//! Variables that a program requires, and those that it no longer reads.

use std::collections::BTreeMap;

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_plain, quoted, quoted_after};
use super::classes::{CAPITALS, MISSING_VARIABLE, OF_ENVIRONMENT, OTHER_NAMES, REMOVED_VARIABLE};
use super::cures::known_value;
use super::images::rows;
use super::rejected::names_writing;
use super::values::{self, Value};
use crate::desired::Mount;
use crate::failed_run::host_view::differs_by_one_error;

parts! {
    /// Words that mark any word in capitals as a variable, in lower case.
    VARIABLE_WORDS: "variable" "env" "parameter" "keyerror" "setting" "unbound";
    /// Words after a name in capitals that make it a variable, in lower case.
    AFTER_NAME: "is not set" "not set" "is unset" "must be set" "must be provided" "must be specified" "is required" "is missing";
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
        Some(Value::Text(value)) => match values::with_password(case, &value) {
            Some(hint)
                if case
                    .context
                    .public(edit.clone().suggest(&value))
                    .suggest
                    .is_none() =>
            {
                edit.hint(hint)
            }
            _ => edit.suggest(value),
        },
        Some(Value::Of(other, owner)) => edit.hint(format!("write the value of `{other}` of `{owner}`")),
        None if values::is_path(&name) => {
            edit.hint("write a path in the container, such as that of a mounted file")
        }
        found => match (known_value(case, &name), found) {
            (Some(value), _) => edit.suggest(value),
            (None, Some(Value::Any(value))) => edit.suggest(value).likely(),
            (None, _) => edit,
        },
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
    let is_about = |line: &&str| {
        contains(line, &MISSING_VARIABLE) || contains(line, &["must", "please", "specify", "-e "])
    };
    // A message can have several lines.
    case.lines().find(is_about)?;
    // A program can read the setting `app.keys` from the variable `APP_KEYS`.
    let of_setting = |word: &str| {
        let is_setting =
            word.contains('.') && word.chars().all(|c| c.is_ascii_lowercase() || "._-".contains(c));
        is_setting.then(|| word.replace(['.', '-'], "_").to_uppercase())
    };
    let settings = case.lines().filter(is_about).flat_map(str::split_whitespace);
    let settings =
        settings.filter_map(|word| of_setting(word.trim_matches(|c: char| "\"'`,.:;()".contains(c))));
    let named = case.lines().flat_map(words).map(str::to_owned);
    named.chain(settings).find_map(|word| {
        let is_name =
            word.len() >= 6 && word.contains('_') && !word.contains(|c: char| c.is_ascii_lowercase());
        let wrong = set
            .keys()
            .find(|other| is_name && !set.contains_key(&word) && is_misspelled(other, &word))?;
        (!is_reported(wrong)).then_some((wrong, word))
    })
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Variable that this version of the program refuses.
pub(super) fn removed_variable(case: &Case<'_>) -> Option<SpecEdit> {
    let set = &case.context.service.env_vars;
    let is_meant = |line: &&str| contains(line, &REMOVED_VARIABLE) && !contains(line, &["did you mean"]);
    let mut lines = case.lines().filter(is_meant);
    // The name of a setting with dots is no word.
    let in_line = |line: &str| {
        let is_named = |name: &&String| {
            words(line).any(|word| word == *name)
                || (name.contains('.') && line.contains(name.as_str()))
                || (contains(line, &["unknown configuration key"]) && names_writing(line, name))
        };
        let named = set.keys().filter(is_named);
        named.min_by_key(|name| line.find(name.as_str()).unwrap_or(line.len()))
    };
    let name = lines.find_map(in_line)?;
    let reason = format!("this version of the program refuses `{name}`");
    let edit = case.variable(name, reason);
    Some(edit.suggest("\"\"").hint("or remove it"))
}

/// Name of the variable that a line of the scope reports as missing, and that the file does not set.
fn missing_name(case: &Case<'_>) -> Option<String> {
    let set = &case.context.service.env_vars;
    let mut lines = case.lines().peekable();
    // Other mappings have the same error as the environment.
    let is_of_environment = || case.line_with(&["environ", "<frozen os>", "/os.py"]).is_some();
    // Nothing replaces a part of a template. The command itself can contain it, and other lines repeat the code of the program.
    let is_template = |line: &&str| {
        contains(line, &["not found", "invalid", "unknown", "could not"])
            && !line.contains('`')
            && !contains(line, &["placeholder"])
    };
    let template = case.lines().filter(is_template).find_map(|line| {
        let (name, _) = line.split_once("${")?.1.split_once('}')?;
        let is_used = case.words().any(|word| word.contains(name)) || set.contains_key(name);
        (is_variable(name) && !is_used && values::missing(case, name).is_some()).then(|| name.to_owned())
    });
    let named = nginx_variable(case).or(template);
    if named.is_some() {
        return named;
    }
    while let Some(line) = lines.next() {
        if contains(line, &["keyerror: "]) && !contains(line, &["has no default"]) && !is_of_environment() {
            continue;
        }
        let found = variable_in(line, set).or_else(|| property_in(line, set));
        if found.is_some() {
            return found;
        }
        // A settings class names the field in the line before.
        if let Some(next) = lines.peek()
            && contains(
                next,
                &["field required [type=missing", "field required (type=value_error"],
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
    listed(case)
}

/// Variable of a template of nginx that no variable replaces. Its error repeats the name in lower case.
fn nginx_variable(case: &Case<'_>) -> Option<String> {
    let service = case.context.service;
    let mut targets = service.mounts.iter().map(Mount::target);
    let has_templates = targets.any(|target| target.contains("/nginx/templates"));
    let in_line = |line: &str| {
        let written = || Some(line.split_once("${")?.1.split_once('}')?.0);
        let reported = || quoted_after(line, "unknown ").filter(|_| line.contains("\" variable"));
        let name = written().or_else(reported)?;
        // Variables of nginx itself.
        let is_own = name.starts_with("proxy_") || name.starts_with("http_");
        let name = name.to_uppercase();
        (!is_own && is_variable(&name) && !service.env_vars.contains_key(&name)).then_some(name)
    };
    let mut lines = case.lines().filter(|line| line.contains("[emerg]"));
    has_templates.then(|| lines.find_map(in_line)).flatten()
}

/// Returns whether a word can be the name of a variable.
fn is_variable(word: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.len() >= 3 && word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(is_letter)
}

/// Variable that is missing in a list, in the lines after the message of a validator.
fn listed(case: &Case<'_>) -> Option<String> {
    parts! {
        LISTS: "environment variable" "env var" "required environment" "zoderror" "environment validation" "env validation"
            "invalid env" "validation error";
        STATES: "required" "path" "property" "undefined" "missing" "must be" "should not be" "not set" "empty"
            "expected string";
    }
    const LONGEST: usize = 30;
    let set = &case.context.service.env_vars;
    let is_meant = |word: &&str| is_variable(word) && !CAPITALS.contains(word) && !word.starts_with("ERR_");
    let mut lines = case
        .lines()
        .skip_while(|line| !contains(line, LISTS))
        .take(LONGEST);
    let first = lines.next()?;
    let is_missing = contains(first, &MISSING_VARIABLE);
    // Classes of data report their fields in the same way.
    if contains(first, &["validation error for ", "validation errors for "])
        && !contains(first, &["settings", "config", "env"])
    {
        return None;
    }
    lines.find_map(|line| {
        let mut names = words(line).filter(is_meant);
        let name = names.next().filter(|_| names.next().is_none())?;
        let (before, after) = line.split_once(name)?;
        let is_entry = is_missing && name.contains('_');
        let is_first = !before.contains(char::is_alphanumeric);
        let is_alone = is_first && (is_entry || !after.contains(char::is_alphanumeric));
        let is_name = name.contains('_') || line.contains(['"', '\'', '[']);
        let is_absent = is_name && set.get(name).is_none_or(String::is_empty);
        (is_absent && (is_alone || contains(&line.replace(name, ""), STATES))).then(|| name.to_owned())
    })
}

/// Variable of a property that a placeholder of Spring names, such as `spring.datasource.url`.
fn property_in(line: &str, set: &BTreeMap<String, String>) -> Option<String> {
    // .NET writes its sections with colons.
    let section = quoted(line).find(|text| {
        let mut parts = text.split(':');
        let is_name = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_uppercase()) && part.chars().all(char::is_alphanumeric)
        };
        text.contains(':') && parts.all(is_name) && contains(line, &MISSING_VARIABLE)
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
    let envy = || {
        let (_, rest) = line.split_once("missing value for field ")?;
        rest.split(' ').next().filter(|name| is_plain(name))
    };
    let property = quoted_after(line, "Could not resolve placeholder")
        .or_else(quarkus)
        .or_else(envy)?;
    // Spring reads names without dashes, and Quarkus replaces them.
    let dash = if line.contains("config property ") {
        "_"
    } else {
        ""
    };
    let name = property.replace('.', "_").replace('-', dash).to_uppercase();
    let is_name = name.len() >= 3 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !set.contains_key(&name)).then_some(name)
}

/// Returns whether two names have the same words, or synonyms of them.
fn is_synonym(name: &str, meant: &str) -> bool {
    let usual = |name: &str| -> Vec<String> {
        let word = |part: &str| {
            let mut known = rows(include_str!("facts/synonyms.txt"));
            let found = known.find(|[other, _]: &[&str; 2]| *other == part);
            found.map_or(part, |[_, word]| word).to_owned()
        };
        name.split('_').map(word).collect()
    };
    name != meant && name.contains('_') && usual(name) == usual(meant)
}

/// Returns whether one part between underscores differs by one letter, or by two letters in another order, or is shortened.
pub(super) fn is_misspelled(name: &str, meant: &str) -> bool {
    let (parts, others): (Vec<_>, Vec<_>) = (name.split('_').collect(), meant.split('_').collect());
    let joined = name.replace('_', "") == meant.replace('_', "");
    if parts.len() != others.len() || is_synonym(name, meant) {
        return joined || is_synonym(name, meant);
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
    if contains(line, &OTHER_NAMES) {
        return None;
    }
    let is_about_variables = VARIABLE_WORDS.iter().any(|word| lower.contains(word));
    // A code in brackets at the start names the kind of the error.
    let text = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .map_or(line, |(_, rest)| rest);
    let lower_text = text.to_ascii_lowercase();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    // The name itself can contain a part of the message.
    let is_set = |word: &str| set.get(word).is_some_and(|value| !value.is_empty());
    let is_subject = |word: &str| {
        let mut places = text.match_indices(word);
        places.any(|(at, _)| {
            let rest = lower_text[at + word.len()..].trim_start_matches(|c: char| " \"'`)".contains(c));
            AFTER_NAME.iter().any(|part| rest.starts_with(part))
        })
    };
    let word = words.find(|word| {
        is_variable(word)
            && (word.contains('_') || is_about_variables || is_subject(word))
            && !CAPITALS.contains(word)
            && !word.starts_with("ERR_")
            && !is_set(word)
    })?;
    let around = lower.replace(&word.to_lowercase(), " ");
    let is_of_environment = ["environment", "env var", "envvar", "environ["]
        .iter()
        .any(|part| lower.contains(part))
        || lower.split_whitespace().any(|word| word == "env");
    let is_missing = MISSING_VARIABLE.iter().any(|part| around.contains(part))
        || (is_of_environment && OF_ENVIRONMENT.iter().any(|part| around.contains(part)));
    (is_missing && is_plain(word)).then(|| word.to_owned())
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;

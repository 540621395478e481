//! Values of variables: for one that is missing, from the services that it means; for one that the program rejects, from the message.

use std::collections::BTreeMap;

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_plain};
use super::images::{all_ports, database_variables, facts_of, main_port, password_variables, user_variables};
use super::network::{meant_service, ports, siblings};
use crate::desired::suggest::closest;
use crate::desired::{Mount, Service};
use crate::secrets::is_secret;

/// Text for a secret that only has to exist.
pub(super) const ANY_SECRET: &str =
    "only-for-tests-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

parts! {
    /// Ends of names of secrets.
    SECRETS: "SALT" "PEPPER" "KEY" "BASE" "PASS" "PASSPHRASE";
    /// Ends of names of other texts that only have to exist.
    TEXTS: "USER" "USERNAME" "ORG" "BUCKET" "REALM" "NAMESPACE" "DB" "DATABASE" "ENV" "ENVIRONMENT" "MODE";
}

/// Value of a variable, or the place that has it.
pub(super) enum Value {
    Text(String),
    /// Any value of its form, because the program only requires one.
    Any(&'static str),
    /// Value of this variable of this service, which is a secret.
    Of(String, String),
}

/// Value of a missing variable: that of the siblings, of a similar variable, of the server that its name means, of the only mounted file
/// that fits, or any text for a secret.
pub(super) fn missing(case: &Case<'_>, name: &str) -> Option<Value> {
    let service = case.context.service;
    let any = |value: &'static str| Some(Value::Any(value));
    if let Some(value) = of_siblings(case, name) {
        return Some(value);
    }
    if let Some(target) = file_for(name, service) {
        return Some(Value::Text(target));
    }
    if let Some((other, value)) = service
        .env_vars
        .iter()
        .find(|(other, _)| is_part_more(other, name))
    {
        return Some(if is_secret(other) || value.contains('@') {
            Value::Of(other.clone(), service.name.to_string())
        } else {
            Value::Text(value.clone())
        });
    }
    if let Some(value) = of_server(case, name) {
        return Some(value);
    }
    let last = name.rsplit('_').next().unwrap_or(name);
    // The address that a server sends to its clients.
    if name.contains("ADVERTISED") {
        let port = main_port(service)?;
        return Some(Value::Text(match last {
            "LISTENERS" => format!("PLAINTEXT://{}:{port}", service.name),
            _ => service.name.to_string(),
        }));
    }
    match name {
        "PORT" => return ports(service).first().map(|port| Value::Text(port.to_string())),
        "HOST" => return any("0.0.0.0"),
        "TZ" => return any("UTC"),
        "AWS_REGION" | "AWS_DEFAULT_REGION" => return any("us-east-1"),
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => return any("test"),
        // Another system issued it.
        _ if name.ends_with("API_KEY") => return None,
        _ => {}
    }
    match last {
        "PORT" => match ports(service)[..] {
            [only] => Some(Value::Text(only.to_string())),
            _ => None,
        },
        _ if TEXTS.contains(&last) => any("test"),
        "EMAIL" => any("admin@example.com"),
        "LEVEL" if name.contains("LOG") => any("info"),
        _ if is_secret(name) || SECRETS.contains(&last) => any(ANY_SECRET),
        _ => None,
    }
}

/// The same variable of the siblings.
fn of_siblings(case: &Case<'_>, name: &str) -> Option<Value> {
    let mut owners = siblings(case).filter_map(|sibling| Some((sibling, sibling.env_vars.get(name)?)));
    let (owner, value) = owners.next()?;
    // A value with `@` is an address with a password.
    if is_secret(name) || value.contains('@') {
        return Some(Value::Of(name.to_owned(), owner.name.to_string()));
    }
    owners
        .all(|(_, other)| other == value)
        .then(|| Value::Text(value.clone()))
}

/// The only mounted file that fits a name such as `SEED_FILE`.
fn file_for(name: &str, service: &Service) -> Option<String> {
    let stem = name
        .strip_suffix("_FILE")
        .or_else(|| name.strip_suffix("_PATH"))?;
    let stem = stem.to_lowercase();
    let mut fitting = service.mounts.iter().map(Mount::target).filter(|target| {
        let file = target.rsplit('/').next().unwrap_or_default();
        file.to_lowercase().contains(&stem)
    });
    fitting
        .next()
        .filter(|_| fitting.next().is_none())
        .map(str::to_owned)
}

/// Returns whether one of two names has one part more than the other, such as `STRIPE_KEY` and `STRIPE_API_KEY`.
fn is_part_more(name: &str, other: &str) -> bool {
    let (long, short) = if name.len() > other.len() {
        (name, other)
    } else {
        (other, name)
    };
    let mut parts = long.split('_');
    let is_within = short.split('_').all(|part| parts.any(|other| other == part));
    let count = short.matches('_').count();
    let is_same_end = long.rsplit('_').next() == short.rsplit('_').next();
    is_within && is_same_end && count >= 1 && long.matches('_').count() == count + 1
}

/// Part of the contract of the server that the name of a variable means, such as its port for `REDIS_PORT`.
fn of_server(case: &Case<'_>, name: &str) -> Option<Value> {
    let upper = name.to_uppercase().replace("__", "_");
    let (prefix, last) = match upper.strip_prefix("PG") {
        Some(last) if ["HOST", "PORT", "USER", "PASSWORD", "DATABASE"].contains(&last) => ("POSTGRES", last),
        _ => upper.rsplit_once('_')?,
    };
    let mut words = prefix.split('_').filter(|part| part.len() >= 2);
    let named = words.find_map(|part| meant_service(case, &part.to_lowercase(), None));
    let is_database = |sibling: &&Service| facts_of(sibling).is_some_and(|facts| facts.is_meant_by("db"));
    let by_kind = || {
        let is_of_database = ["DATABASE", "DATASOURCE", "JDBC", "SQL", "DSN"]
            .iter()
            .any(|part| upper.contains(part));
        let mut found = siblings(case).filter(is_database).filter(|_| is_of_database);
        found.next().filter(|_| found.next().is_none())
    };
    let sibling = named.or_else(by_kind)?;
    let set = |variables: Vec<&'static str>| {
        variables
            .into_iter()
            .find_map(|name| Some((name, sibling.env_vars.get(name)?)))
    };
    let text = |value: String| Some(Value::Text(value));
    match last {
        "HOST" | "HOSTNAME" | "SERVER" => text(sibling.name.to_string()),
        "PORT" => text(main_port(sibling)?.to_string()),
        "ADDR" | "ADDRESS" | "SERVERS" | "BROKERS" | "HOSTS" | "ENDPOINTS" | "CONNECT" => {
            text(format!("{}:{}", sibling.name, main_port(sibling)?))
        }
        "USER" | "USERNAME" => text(set(user_variables())?.1.clone()),
        "PASSWORD" | "PASS" | "PASSWD" | "PWD" => Some(Value::Of(
            set(password_variables())?.0.to_owned(),
            sibling.name.to_string(),
        )),
        "NAME" | "DATABASE" | "DB" => text(set(database_variables())?.1.clone()),
        "URL" | "URI" | "ENDPOINT" | "DSN" | "CONN" => text(address(sibling)?),
        _ => None,
    }
}

/// Address of a server for a client, with its login if it requires one.
fn address(sibling: &Service) -> Option<String> {
    let scheme = facts_of(sibling).map_or("", |facts| facts.scheme);
    let scheme = if scheme.is_empty() { "http" } else { scheme };
    let set = |names: Vec<&'static str>| names.into_iter().find_map(|name| sibling.env_vars.get(name));
    let port = main_port(sibling)?;
    let login = match (set(user_variables()), set(password_variables())) {
        (Some(user), Some(password)) => format!("{user}:{password}@"),
        (None, Some(password)) if scheme == "postgresql" => format!("postgres:{password}@"),
        (None, Some(password)) if scheme == "mysql" => format!("root:{password}@"),
        _ => String::new(),
    };
    let database = set(database_variables()).map_or_else(String::new, |name| format!("/{name}"));
    Some(format!("{scheme}://{login}{}:{port}{database}", sibling.name))
}

parts! {
    /// Words before the values that a program accepts, in lower case.
    PERMITTED: "must be one of" "should be one of" "must be either" "expected to be either" "valid values are"
        "valid values:" "valid options are" "valid options:" "expected one of" "allowed values are" "allowed values:"
        "allowed:" "possible values:" "possible values are" "supported values are" "supported values:" "supported:"
        "available:" "only found" "choose from" "did you mean" "one of" "must be" "expected" "permitted values"
        "accepted values" "use " "available ";
    /// Parts of a message about a number, and about an address, in lower case.
    NUMBERS: "integer" "number" "atoi" "parseint" "parseuint" "for input string" "for int" "numeric" "digit" " int";
    ADDRESSES: "scheme" "://" "invalid url" "invalid uri" "protocol" "relative";
    /// Words between such values.
    BETWEEN: "or" "and" "one" "of" "the" "a" "an" "values" "are" "is" "in" "be" "to" "instead" "following" "either" "hosts"
        "data" "centers" "options" "value" "but" "got" "found" "with" "levels";
    /// Names of kinds of values, which are no values.
    KINDS: "integer" "number" "numeric" "boolean" "bool" "string" "duration" "url" "uri" "valid" "int" "float" "positive"
        "non-empty" "port" "address" "path" "at" "between" "less" "greater" "set" "not" "specified" "json" "absolute"
        "base64" "uuid" "email" "literal" "from" "only" "type" "list" "digit" "unit" "more" "longer" "shorter";
}

/// Value that a program accepts instead of a rejected one: from the values or the type in its message.
pub(super) fn permitted(case: &Case<'_>, name: &str, value: &str, line: &str) -> Option<String> {
    listed(value, line)
        .or_else(|| {
            case.lines()
                .skip_while(|other| *other != line)
                .skip(1)
                .take(2)
                .find_map(|next| listed(value, next))
        })
        .or_else(|| typed(case, name, value, &line.to_lowercase()))
}

/// The listed value that is similar to a rejected one, or else the first.
fn listed(value: &str, line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    let (start, part) = PERMITTED
        .iter()
        .find_map(|part| Some((lower.find(part)?, part)))?;
    let rest = line.get(start + part.len()..)?.trim_start_matches([':', ' ']);
    let rest = rest.split(". ").next()?;
    let words = rest.split(|c: char| c.is_whitespace() || "\"'`,;|[](){}<>".contains(c));
    let known: Vec<&str> = words
        .map(|word| word.trim_matches(['.', ':', '?']))
        .filter(|word| !word.is_empty() && is_plain(word) && !BETWEEN.contains(&word.to_lowercase().as_str()))
        .collect();
    let first = known
        .first()
        .filter(|first| !KINDS.contains(&first.to_lowercase().as_str()))?;
    let is_list =
        known.len() > 1 || line.contains(&format!("'{first}'")) || line.contains(&format!("[{first}]"));
    let same = known.iter().find(|known| known.eq_ignore_ascii_case(value));
    let start = known.iter().find(|known| known.starts_with(value));
    let meant = same
        .or(start)
        .copied()
        .or_else(|| closest(value, known.iter().copied()));
    let meant = meant.or_else(|| Some(*first).filter(|_| is_list))?;
    (meant != value).then(|| meant.to_owned())
}

/// The value in the form of its type.
fn typed(case: &Case<'_>, name: &str, value: &str, line: &str) -> Option<String> {
    let is_about = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
    let number: String = value
        .chars()
        .filter(|c| *c != ',' && *c != '_')
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    let has_scheme = value.contains("://");
    let changed = if is_about(&["duration", "missing unit"]) && !number.is_empty() {
        let unit = value
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ')
            .to_lowercase();
        match unit.get(..1) {
            Some("d") => format!("{}h", number.parse::<u64>().ok()? * 24),
            Some("m") if unit.starts_with("ms") || unit.starts_with("milli") => format!("{number}ms"),
            Some("m") => format!("{number}m"),
            Some("h") => format!("{number}h"),
            _ => format!("{number}s"),
        }
    } else if is_about(&["bool", "true or false", "truthy"]) {
        let is_true =
            ["yes", "on", "1", "enabled", "y", "t", "true"].contains(&value.to_lowercase().as_str());
        is_true.to_string()
    } else if is_about(&["email"]) {
        "admin@example.com".to_owned()
    } else if is_about(&["level"]) && name.to_uppercase().contains("LEVEL") {
        let known = ["debug", "info", "warn", "error", "trace"];
        let lower = value.to_lowercase();
        let meant = known.into_iter().find(|known| lower.starts_with(known));
        meant.unwrap_or("info").to_owned()
    } else if is_about(&["addrparse", "socket address", "ip address"]) {
        format!("0.0.0.0:{}", value.rsplit_once(':')?.1)
    } else if is_about(NUMBERS) {
        number
    } else if !has_scheme && is_about(ADDRESSES) {
        let (before, _) = line.split_once("://").unwrap_or(("http", ""));
        let scheme = before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next()?;
        format!("{}://{value}", if scheme.is_empty() { "http" } else { scheme })
    } else {
        return None;
    };
    let services = || case.context.accepted.desired.services.values();
    let is_known = |port: &str| {
        port.parse()
            .is_ok_and(|port| services().any(|service| all_ports(service).contains(&port)))
    };
    let is_useful = !changed.is_empty() && changed != value;
    // A port of the service is better than any other number.
    let has_own = ports(case.context.service).len() == 1;
    let is_port = name.ends_with("PORT") && has_own && !is_known(&changed);
    (is_useful && !is_port).then_some(changed)
}

/// Address with quotes inside, or with signs in its password that it must encode.
pub(super) fn address_form(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        ADDRESS: "url" "uri" "dsn" "malformed" "protocol" "scheme" "invalid port" "connection string" "parse";
    }
    const SIGNS: [(&str, &str); 4] = [("?", "%3F"), ("#", "%23"), ("@", "%40"), ("[", "%5B")];
    case.line_with(ADDRESS)?;
    case.context.service.env_vars.iter().find_map(|(name, value)| {
        let bare = value.trim_matches(['"', '\'']);
        if bare.len() + 2 == value.len() && bare.contains("://") {
            let edit = case.variable(name, "its value contains quotes");
            return Some(edit.now(value.as_str()).suggest(bare));
        }
        let (_, rest) = value.split_once("://")?;
        let (login, _) = rest.rsplit_once('@')?;
        let (_, password) = login.split_once(':')?;
        // The first such sign of the value is in the password.
        let (sign, code) = SIGNS.into_iter().find(|(sign, _)| password.contains(sign))?;
        let reason = format!("its password contains `{sign}`, which an address must encode");
        Some(case.variable(name, reason).now(sign).suggest(code))
    })
}

/// Variable of a template that nothing replaced.
pub(super) fn template_variable(case: &Case<'_>) -> Option<SpecEdit> {
    let set = &case.context.service.env_vars;
    // Other lines repeat the code of the program.
    let is_cause = |line: &&str| {
        !line.contains('`')
            && !contains(line, &["placeholder"])
            && contains(line, &["not found", "invalid", "unknown", "could not"])
    };
    let name = case.lines().filter(is_cause).find_map(|line| {
        let (_, rest) = line.split_once("${")?;
        let (name, _) = rest.split_once('}')?;
        let is_name = name.len() >= 3
            && name
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        (is_name && !set.contains_key(name)).then_some(name)
    })?;
    // The command itself can contain it.
    if case.words().any(|word| word.contains(name)) {
        return None;
    }
    let reason = format!("nothing replaces `{name}` in a template");
    let edit = case.variable(name, reason);
    let Some(Value::Text(value)) = missing(case, name) else {
        return None;
    };
    Some(edit.suggest(value))
}

/// Variables whose names differ from a name of the output only in their writing, such as `server.port` and `SERVER_PORT`.
pub(super) fn written_as<'a>(word: &str, set: &'a BTreeMap<String, String>) -> Option<&'a String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if word.len() < 6 || !word.chars().all(is_name) || !word.contains(['.', '-', '_']) {
        return None;
    }
    let name = word.replace(['.', '-'], "_").to_uppercase();
    let bare = name.replace('_', "");
    let whole = set
        .keys()
        .find(|known| known.to_uppercase().replace('_', "") == bare);
    whole.or_else(|| {
        let mut ends = set
            .keys()
            .filter(|known| known.to_uppercase().ends_with(&format!("_{name}")));
        ends.next().filter(|_| ends.next().is_none())
    })
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;

//! Values of missing variables, from the services that they mean, and the form of addresses.

use argus_crds::error::SpecEdit;

use super::case::Case;
use super::defaults::client_value;
use super::images::{database_variables, facts_of, main_port, password_variables, user_variables};
use super::network::{meant_service, ports, siblings};
use crate::desired::{Mount, Role, Service};
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
    if let Some(value) = client_value(case, name)
        .map(Value::Text)
        .or_else(|| of_server(case, name))
    {
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
        // Another system issued it, or its value is no text.
        _ if name.ends_with("API_KEY") || is_path(name) => return None,
        _ => {}
    }
    match last {
        "PORT" => match ports(service)[..] {
            [only] => Some(Value::Text(only.to_string())),
            _ => None,
        },
        _ if TEXTS.contains(&last) => any("test"),
        "HOST" | "HOSTNAME" => {
            let mut others = siblings(case).filter(|sibling| sibling.role == Role::Service);
            let only = others.next().filter(|_| others.next().is_none())?;
            Some(Value::Text(only.name.to_string()))
        }
        "EMAIL" => any("admin@example.com"),
        "LEVEL" if name.contains("LOG") => any("info"),
        _ if is_secret(name) || SECRETS.contains(&last) => any(ANY_SECRET),
        _ => None,
    }
}

/// Returns whether a variable has the path of a file or folder, such as `TOKEN_FILE`.
pub(super) fn is_path(name: &str) -> bool {
    ["_FILE", "_PATH", "_DIR"].iter().any(|end| name.ends_with(end))
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

/// Text for an address with the password of a sibling, which names its variable.
pub(super) fn with_password(case: &Case<'_>, address: &str) -> Option<String> {
    let (_, login) = address.split_once("://")?;
    let (_, password) = login.rsplit_once('@')?.0.split_once(':')?;
    let (name, owner) = siblings(case).find_map(|sibling| {
        let mut names = password_variables().into_iter();
        let is_meant = |name: &&str| sibling.env_vars.get(*name).is_some_and(|value| value == password);
        Some((names.find(is_meant)?, &sibling.name))
    })?;
    let bare = address.replacen(&format!(":{password}@"), "@", 1);
    Some(format!(
        "write `{bare}` with a password: the value of `{name}` of `{owner}`"
    ))
}

/// Returns whether a line in lower case reports a value that is not JSON.
pub(super) fn is_about_json(line: &str) -> bool {
    parts! {
        /// Parts of messages of pydantic, aeson, Go, JavaScript and Python.
        NOT_JSON: "settingserror" "error in $" "looking for beginning of" "in json at position" "not valid json"
            "invalid json" "jsondecodeerror";
    }
    NOT_JSON.iter().any(|part| line.contains(part))
}

/// The value as JSON, if a line in lower case requires it: a list or an object with its quotes, or a list of its parts.
pub(super) fn json_of(value: &str, line: &str) -> Option<String> {
    let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
    if !is_about_json(line) || is_json(value) {
        return None;
    }
    let quoted = value.replace('\'', "\"");
    let is_list = value.starts_with('[') || line.contains("settingserror");
    if value.starts_with(['[', '{']) && is_json(&quoted) {
        return Some(quoted);
    }
    let is_map = value.starts_with('{') || value.replace("://", "").contains(':');
    if is_map || !is_list || value.is_empty() {
        return None;
    }
    let parts = value.trim_matches(['[', ']']).split(',');
    let parts: Vec<&str> = parts.map(|part| part.trim().trim_matches(['"', '\''])).collect();
    serde_json::to_string(&parts).ok()
}

/// Address with quotes inside, or with signs in its password that it must encode.
pub(super) fn address_form(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        ADDRESS: "url" "uri" "dsn" "malformed" "protocol" "scheme" "invalid port" "connection string" "parse";
    }
    const SIGNS: [(&str, &str); 4] = [("?", "%3F"), ("#", "%23"), ("@", "%40"), ("[", "%5B")];
    let about = case.line_with(ADDRESS);
    let is_repeated = |value: &str| case.lines().any(|line| line.contains(value));
    case.context.service.env_vars.iter().find_map(|(name, value)| {
        let bare = value.trim_matches(['"', '\'']);
        let is_address = about.is_some() && bare.contains("://");
        if bare.len() + 2 == value.len() && bare.len() >= 3 && (is_address || is_repeated(value)) {
            let edit = case.variable(name, "its value contains quotes");
            return Some(edit.now(value.as_str()).suggest(bare));
        }
        about?;
        let (_, rest) = value.split_once("://")?;
        let (login, _) = rest.rsplit_once('@')?;
        let (_, password) = login.split_once(':')?;
        // The first such sign of the value is in the password.
        let (sign, code) = SIGNS.into_iter().find(|(sign, _)| password.contains(sign))?;
        let reason = format!("its password contains `{sign}`, which an address must encode");
        Some(case.variable(name, reason).now(sign).suggest(code))
    })
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;

//! Settings that a program names in its own words: variables of well-known programs, the length of a value, and keys of a mounted file.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_plain, paths, quoted};
use super::environment::is_misspelled;
use super::network::siblings;
use crate::desired::Mount;
use crate::secrets::{REDACTED, is_secret};

const PASSWORD: &str = "write any password for tests, and the same one at its clients";
const TEXT: &str = "write any long random text for tests";
const DATABASE: &str = "write the address of its database";
const LOCALHOST: &str = "localhost";

/// Messages about a missing setting, with the variable that sets it and a hint for its value.
macro_rules! known {
    ($($($part:literal)+ => $name:literal $hint:expr;)+) => {
        const KNOWN: &[(&[&str], &str, &str)] = &[$((&[$($part),+], $name, $hint)),+];
    };
}

// In lower case: a message has all parts.
known! {
    "superuser password is not specified" => "POSTGRES_PASSWORD" PASSWORD;
    "mariadb_root_password" "not specified" => "MARIADB_ROOT_PASSWORD" PASSWORD;
    "password option is not specified" => "MYSQL_ROOT_PASSWORD" PASSWORD;
    "mysql_root_password not set" => "MYSQL_ROOT_PASSWORD" PASSWORD;
    "missing `secret_key_base`" => "SECRET_KEY_BASE" TEXT;
    "no application encryption key has been specified" => "APP_KEY" "write `base64:` with 32 random bytes";
    "'url' attribute is not specified" => "SPRING_DATASOURCE_URL" DATABASE;
    "url is not defined for datasource" => "QUARKUS_DATASOURCE_JDBC_URL" DATABASE;
    "no hostname setting provided" => "KC_HOSTNAME" LOCALHOST;
    "hostname is not configured" => "KC_HOSTNAME" LOCALHOST;
    "license agreement" "must be accepted" => "ACCEPT_EULA" "write `Y` to accept the license";
}

parts! {
    /// Parts of a message about a configuration that the program cannot read, in lower case.
    CONFIGURATION: "error decoding" "cannot unmarshal" "failed to get config" "failed to load config"
        "error loading config" "error reading config" "invalid configuration" "could not load config";
}

/// Variable of a well-known program for the setting that a message names in other words.
pub(super) fn known_variable(case: &Case<'_>) -> Option<SpecEdit> {
    let is_reported = |parts: &[&str]| parts.iter().all(|part| case.line_with(&[*part]).is_some());
    let (_, name, hint) = KNOWN.iter().find(|(parts, ..)| is_reported(parts))?;
    let set = &case.context.service.env_vars;
    if set.get(*name).is_some_and(|value| !value.is_empty()) {
        return None;
    }
    let reason = "its program requires this setting";
    let edit = |name: &str| {
        let key = format!("container.environment.{name}");
        case.context.edit(&key, reason.to_owned())
    };
    if let Some(wrong) = set.keys().find(|other| is_misspelled(other, name)) {
        return Some(edit(wrong).now(wrong.as_str()).suggest(*name));
    }
    Some(match jdbc_address(case).filter(|_| *hint == DATABASE) {
        Some(address) => edit(name).suggest(address),
        None if *hint == LOCALHOST => edit(name).suggest(LOCALHOST),
        None => edit(name).hint(*hint),
    })
}

/// Address of the only database of the environment for a client in Java.
fn jdbc_address(case: &Case<'_>) -> Option<String> {
    type Kind = (&'static str, u16, [&'static str; 2], &'static str);
    const POSTGRES: Kind = (
        "postgresql",
        5432,
        ["POSTGRES_DB", "POSTGRES_USER"],
        "POSTGRES_PASSWORD",
    );
    const MYSQL: Kind = ("mysql", 3306, ["MYSQL_DATABASE"; 2], "MYSQL_ROOT_PASSWORD");
    const MARIADB: Kind = (
        "mariadb",
        3306,
        ["MARIADB_DATABASE", "MYSQL_DATABASE"],
        "MARIADB_ROOT_PASSWORD",
    );
    const KINDS: [Kind; 3] = [POSTGRES, MYSQL, MARIADB];
    let mut found = siblings(case).filter_map(|sibling| {
        let set = |name: &str| sibling.env_vars.get(name).map(String::as_str);
        let (kind, port, names, _) = KINDS.iter().find(|(.., password)| set(password).is_some())?;
        let default = (*kind == "postgresql").then_some("postgres");
        let database = names.iter().find_map(|name| set(name)).or(default)?;
        Some(format!("jdbc:{kind}://{}:{port}/{database}", sibling.name))
    });
    found.next().filter(|_| found.next().is_none())
}

/// Secret that is shorter than the number of characters in the message.
pub(super) fn short_value(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&["at least "])?;
    let words: Vec<&str> = line
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let is_unit = |word: &str| {
        ["char", "byte"]
            .iter()
            .any(|unit| word.to_lowercase().starts_with(unit))
    };
    let mut numbers = words.windows(2).rev().filter(|pair| is_unit(pair[1]));
    let needed: usize = numbers.find_map(|pair| pair[0].parse().ok())?;
    let variables = case.context.service.env_vars.iter();
    let mut short =
        variables.filter(|(name, value)| is_secret(name) && !value.is_empty() && value.len() < needed);
    let named = short.clone().find(|(name, _)| words.contains(&name.as_str()));
    let only = || short.next().filter(|_| short.next().is_none());
    let (name, _) = named.or_else(only)?;
    let reason = format!("its value is shorter than the {needed} characters that the program requires");
    let edit = case
        .context
        .edit(&format!("container.environment.{name}"), reason);
    Some(edit.now(REDACTED).hint("write a longer value"))
}

/// Setting of the configuration that the command or the only mounted file of the service contains.
pub(super) fn named_setting(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        PLACES: "configuration option" "configuration file" "config file" "in the configuration";
    }
    let mut lines = case.lines().filter(|line| {
        let is_request = contains(&format!(" {line}"), &[" set the ", " set `", " set '", " set \""]);
        is_request && contains(line, PLACES)
    });
    let is_name = |name: &&str| is_plain(name) && name.len() >= 3 && !name.contains('/');
    let name = lines.find_map(|line| quoted(line).find(is_name))?;
    let reason = format!("its program requires the setting `{name}`");
    let hint = format!("set `{name}` as the output describes, then `argus_retry`");
    Some(Case::host_edit(configuration_file(case)?, reason, hint))
}

/// Configuration that the program cannot read, without the path of its file.
pub(super) fn configuration(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(CONFIGURATION)
        .filter(|line| !line.trim_start().starts_with('{') && paths(line).next().is_none())?;
    let hint = "correct it as the output describes, then `argus_retry`";
    let reason = "its program cannot read this configuration";
    Some(Case::host_edit(configuration_file(case)?, reason, hint))
}

/// Mounted file that the command names, or the only one with an ending.
fn configuration_file(case: &Case<'_>) -> Option<String> {
    let is_file = |path: &str| path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let in_command = case
        .words()
        .flat_map(|word| paths(word))
        .find_map(|path| case.host_file(path));
    let mounted = || {
        let mounts = case.context.service.mounts.iter();
        let mut files = mounts.filter(|mount| matches!(mount, Mount::Bind { .. }) && is_file(mount.target()));
        let only = files.next().filter(|_| files.next().is_none())?;
        case.host_file(only.target())
    };
    in_command.or_else(mounted)
}

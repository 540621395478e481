//! Databases: a role, a password or a database that differs from the variables of the sibling.

use argus_crds::error::SpecEdit;

use super::case::{Case, quoted_after};
use crate::desired::Service;
use crate::desired::hosts::{dns_names, hosts};

/// Variables of database images for the user, the password and the database.
const USERS: [&str; 4] = [
    "POSTGRES_USER",
    "MYSQL_USER",
    "MARIADB_USER",
    "RABBITMQ_DEFAULT_USER",
];
const PASSWORDS: [&str; 6] = [
    "POSTGRES_PASSWORD",
    "MYSQL_PASSWORD",
    "MARIADB_PASSWORD",
    "MYSQL_ROOT_PASSWORD",
    "RABBITMQ_DEFAULT_PASS",
    "MONGO_INITDB_ROOT_PASSWORD",
];
const DATABASES: [&str; 3] = ["POSTGRES_DB", "MYSQL_DATABASE", "MARIADB_DATABASE"];

/// Database that the sibling does not create.
pub(super) fn unknown_database(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case
        .line_with(&["database"])
        .filter(|line| line.contains("does not exist") || line.to_lowercase().contains("unknown database"))?;
    let name = quoted_after(line, "atabase")?;
    differing(case, name, &DATABASES, "database")
}

/// Role that the sibling does not create.
pub(super) fn unknown_role(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case
        .line_with(&["role \""])
        .filter(|line| line.contains("does not exist"))?;
    differing(case, quoted_after(line, "role")?, &USERS, "role")
}

/// Password that the sibling refuses. Its value is a secret, so the change names the two places only.
pub(super) fn password(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(&[
        "password authentication failed",
        "access denied for user",
        "access_refused",
        "authentication failed",
        "wrongpass",
    ])?;
    let (sibling, theirs, expected) = only_sibling(case, &PASSWORDS)?;
    let (name, _) = case.context.service.env_vars.iter().find(|(name, value)| {
        let upper = name.to_uppercase();
        let is_password = upper.contains("PASS") && *value != expected;
        let is_url = value.contains("://")
            && value.contains('@')
            && names_sibling(value, sibling)
            && !value.contains(&format!(":{expected}@"));
        is_password || is_url
    })?;
    let reason = format!("its password differs from `{theirs}` of `{}`", sibling.name);
    let edit = case
        .context
        .edit(&format!("container.environment.{name}"), reason);
    Some(edit.hint(format!("write the value of `{theirs}` of `{}`", sibling.name)))
}

/// Variable with this value, which a variable of the sibling replaces.
fn differing(case: &Case<'_>, name: &str, theirs: &[&'static str], kind: &str) -> Option<SpecEdit> {
    let (sibling, variable, value) = only_sibling(case, theirs)?;
    let is_used = |value: &str| {
        let mut words = value.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c));
        words.any(|word| word == name)
    };
    let (key, _) = case
        .context
        .service
        .env_vars
        .iter()
        .find(|(_, value)| is_used(value))?;
    let reason = format!("`{variable}` of `{}` is another {kind}", sibling.name);
    let edit = case.context.edit(&format!("container.environment.{key}"), reason);
    (value != name).then(|| edit.now(name).suggest(value.as_str()))
}

/// The only sibling that a variable of the service names and that has one of these variables, with that variable and its value.
fn only_sibling<'a>(
    case: &Case<'a>,
    variables: &[&'static str],
) -> Option<(&'a Service, &'static str, &'a String)> {
    let own = case.context.service;
    let services = case.context.accepted.desired.services.values();
    let mut found = services
        .filter(|sibling| sibling.name != own.name)
        .filter(|sibling| own.env_vars.values().any(|value| names_sibling(value, sibling)))
        .filter_map(|sibling| {
            let value = |name: &&'static str| Some((*name, sibling.env_vars.get(*name)?));
            let (name, value) = variables.iter().find_map(value)?;
            Some((sibling, name, value))
        });
    found.next().filter(|_| found.next().is_none())
}

fn names_sibling(value: &str, sibling: &Service) -> bool {
    let names = dns_names([sibling].into_iter());
    names.contains(value) || hosts(value).iter().any(|(host, _)| names.contains(host))
}

//! Databases: a role, a password or a database that differs from the variables of the sibling.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, quoted_after};
use super::network::siblings;
use super::next_name;
use crate::desired::hosts::{dns_names, hosts};
use crate::desired::{Mount, Service};
use crate::ident::ResourceName;
use crate::secrets::REDACTED;

parts! {
    /// Parts of a message about a password that a server refuses, in lower case.
    REFUSED_PASSWORD: "password authentication failed" "access denied for user" "access_refused"
        "authentication failed" "wrongpass";
    /// Words in front of a version, in lower case.
    BEFORE_VERSION: "version" "from" "to" "with" "by" "program" "server" "postgresql" "mongodb" "mysql"
        "found" "expected";
    /// Variables of database images for the user, the password and the database.
    USERS: "POSTGRES_USER" "MYSQL_USER" "MARIADB_USER" "RABBITMQ_DEFAULT_USER";
    PASSWORDS: "POSTGRES_PASSWORD" "MYSQL_PASSWORD" "MARIADB_PASSWORD" "MYSQL_ROOT_PASSWORD"
        "RABBITMQ_DEFAULT_PASS" "MONGO_INITDB_ROOT_PASSWORD";
    /// Parts of names of variables for a database.
    OF_DATABASE: "DB" "DATABASE" "PG" "POSTGRES" "SQL" "MARIADB" "RABBIT" "MONGO";
}
const DATABASES: [&str; 3] = ["POSTGRES_DB", "MYSQL_DATABASE", "MARIADB_DATABASE"];

parts! {
    /// Parts of a message about data that this version of the program cannot read, in lower case.
    UNFIT_DATA: "incompatible" "not compatible" "initialized by" "cannot downgrade" "cannot upgrade"
        "downgrade from" "upgrade from" "corrupt" "format version" "created by a newer"
        "existing data files" "featurecompatibilityversion" "unsupported redo log format";
    /// Parts of a message about stored data, in lower case.
    DATA: "data" "storage" "index" "wal" "redo" "rdb" "aof" "snapshot" "tablespace" "schema"
        "format version" "featurecompatibilityversion";
}

/// Database that the sibling does not create.
pub(super) fn unknown_database(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case
        .line_with(&["database"])
        .filter(|line| line.contains("does not exist") || line.to_lowercase().contains("unknown database"))?;
    let name = quoted_after(line, "atabase")?;
    differing(case, name, &DATABASES, "database").or_else(|| absent_database(case, name))
}

/// Variable of the sibling that creates the database, if none of its variables creates another one.
fn absent_database(case: &Case<'_>, name: &str) -> Option<SpecEdit> {
    const BY_PASSWORD: [(&str, &str); 3] = [
        ("POSTGRES_PASSWORD", "POSTGRES_DB"),
        ("MYSQL_ROOT_PASSWORD", "MYSQL_DATABASE"),
        ("MARIADB_ROOT_PASSWORD", "MARIADB_DATABASE"),
    ];
    let mut variables = case.context.service.env_vars.values();
    if !variables.any(|value| uses(value, name)) || only_sibling(case, &DATABASES).is_some() {
        return None;
    }
    BY_PASSWORD.iter().find_map(|(password, variable)| {
        let (sibling, ..) = only_sibling(case, &[*password])?;
        // The variable has an effect only on an empty folder.
        let mut mounts = sibling.mounts.iter();
        if mounts.any(|mount| mount.target().starts_with("/var/lib/")) {
            return None;
        }
        let reason = format!("no variable of `{}` creates the database `{name}`", sibling.name);
        let key = format!("container.environment.{variable}");
        let edit = case.context.with_service(sibling).edit(&key, reason);
        Some(edit.suggest(name))
    })
}

/// Role that the sibling does not create.
pub(super) fn unknown_role(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case
        .line_with(&["role \""])
        .filter(|line| line.contains("does not exist"))?;
    differing(case, quoted_after(line, "role")?, USERS, "role")
}

/// Password that the sibling refuses. Its value is a secret, so the change names the two places only.
pub(super) fn password(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(REFUSED_PASSWORD)?;
    let (sibling, theirs, expected) = only_sibling(case, PASSWORDS)?;
    let set = || case.context.service.env_vars.iter();
    let is_url = |value: &String| {
        value.contains("://")
            && value.contains('@')
            && names_sibling(value, sibling)
            && !value.contains(&format!(":{expected}@"))
    };
    // Other services have passwords too.
    let is_password = |name: &str| {
        let upper = name.to_uppercase();
        upper.contains("PASS") && OF_DATABASE.iter().any(|part| upper.contains(part))
    };
    let (name, value) = set()
        .find(|(_, value)| is_url(value))
        .or_else(|| set().find(|(name, value)| is_password(name) && *value != expected))?;
    let reason = format!("its password differs from `{theirs}` of `{}`", sibling.name);
    let edit = case
        .context
        .edit(&format!("container.environment.{name}"), reason);
    let mut hint = format!("write the value of `{theirs}` of `{}`", sibling.name);
    let user = USERS.iter().find_map(|name| sibling.env_vars.get(*name));
    if let Some(user) = user.filter(|user| value.contains("://") && !value.contains(&format!("//{user}:"))) {
        hint = format!(
            "write the user `{user}`, and as its password the value of `{theirs}` of `{}`",
            sibling.name
        );
    }
    Some(edit.now(REDACTED).hint(hint))
}

/// Address without a password of a sibling that requires one.
pub(super) fn no_password(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(&[
        "noauth authentication required",
        "noauth hello",
        "authentication required",
    ])?;
    let own = case.context.service;
    let is_protected = |sibling: &&Service| {
        let mut words = sibling.command.iter().flatten();
        words.any(|word| word.contains("--requirepass"))
    };
    let sibling = siblings(case)
        .filter(is_protected)
        .find(|sibling| own.env_vars.values().any(|value| names_sibling(value, sibling)))?;
    let mut variables = own.env_vars.iter();
    let (name, _) = variables.find(|(_, value)| names_sibling(value, sibling) && !value.contains('@'))?;
    let reason = format!("`{}` requires the password of its `--requirepass`", sibling.name);
    let edit = case
        .context
        .edit(&format!("container.environment.{name}"), reason);
    Some(edit.hint("add the password, such as `redis://:PASSWORD@HOST:PORT`"))
}

/// Address of a database of `MongoDB` whose user is in the database `admin`.
pub(super) fn auth_source(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(&["authentication failed", "auth failed"])?;
    let (sibling, _, password) = only_sibling(case, &["MONGO_INITDB_ROOT_PASSWORD"])?;
    let (name, rest) = case.context.service.env_vars.iter().find_map(|(name, value)| {
        let (_, address) = value.strip_prefix("mongodb")?.split_once("://")?;
        let rest = &address[address.find('/')?..];
        let database = rest[1..].split('?').next()?;
        let is_root = address.contains(&format!(":{password}@"));
        let is_other = !["", "admin"].contains(&database) && !rest.contains("authSource=");
        (is_root && is_other).then_some((name, rest))
    })?;
    let mark = if rest.contains('?') { '&' } else { '?' };
    let reason = format!("the user of `{}` is in the database `admin`", sibling.name);
    let edit = case
        .context
        .edit(&format!("container.environment.{name}"), reason);
    Some(edit.now(rest).suggest(format!("{rest}{mark}authSource=admin")))
}

/// Data of another version, which the output names together with the version of the program.
pub(super) fn data_version(case: &Case<'_>) -> Option<SpecEdit> {
    let mut lines = case.lines().filter(|line| contains(line, UNFIT_DATA));
    let (line, data, program) = lines.find_map(|line| match &versions(line)[..] {
        [data, program, ..] => Some((line, data.clone(), program.clone())),
        _ => None,
    })?;
    if let Some((name, edit)) = old_volume(case, line) {
        let reason = format!(
            "the process cannot use the earlier data in the volume `{name}`: it is of version {data}, the program of {program}"
        );
        return Some(SpecEdit { reason, ..edit });
    }
    let mut mounts = case.context.service.mounts.iter();
    let is_folder = |mount: &&Mount| matches!(mount, Mount::Bind { read_only: false, .. });
    let folder = mounts.find(|mount| is_folder(mount) && line.contains(mount.target()))?;
    let reason = format!(
        "the data below `{}` is of version {data}, the program of {program}",
        folder.target()
    );
    let edit = case.context.edit("image", reason);
    let (repository, tag) = edit
        .now
        .as_deref()?
        .rsplit_once(':')
        .filter(|(_, tag)| !tag.contains('/'))?;
    let version = tag.split('-').next().unwrap_or(tag);
    let is_of_program = program
        .strip_prefix(version)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    if version.is_empty() || !is_of_program {
        return None;
    }
    // The tag keeps its number of parts and its variant, so that it exists.
    let parts = version.split('.').count();
    let kept: Vec<&str> = data.split('.').take(parts).collect();
    let suggested = format!("{repository}:{}{}", kept.join("."), &tag[version.len()..]);
    Some(edit.suggest(suggested))
}

/// Versions in a line, in order and without repetition. Numbers such as 80036 are written with dots.
fn versions(line: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    for word in words.map(|word| word.trim_matches('.')) {
        let is_version = word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || c == '.')
            && word.len() <= 12;
        let version = match word.parse::<u32>() {
            Ok(number) if (50_000..200_000).contains(&number) => {
                format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
            }
            Ok(number) if number >= 1_000 => continue,
            _ => word.to_owned(),
        };
        let is_after_word = {
            let before = line.split(word).next().unwrap_or_default().to_lowercase();
            let before = before.trim_end_matches(|c: char| " [(\"'`=:v".contains(c));
            BEFORE_VERSION.iter().any(|end| before.ends_with(end))
        };
        if is_version && is_after_word && !all.contains(&version) {
            all.push(version);
        }
    }
    all
}

/// Volume with data from before this revision that the program cannot read. Its data stays in the old volume.
pub(super) fn unfit_volume(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case
        .line_with(UNFIT_DATA)
        .filter(|_| data_version(case).is_none())?;
    let mut mounts = case.context.service.mounts.iter();
    let is_about_data = contains(line, DATA) || mounts.any(|mount| line.contains(mount.target()));
    if !is_about_data {
        return None;
    }
    old_volume(case, line).map(|(_, edit)| edit)
}

/// The volume from before this revision that a line means, and the change to a new one.
fn old_volume(case: &Case<'_>, line: &str) -> Option<(String, SpecEdit)> {
    let context = &case.context;
    let is_old = |name: &ResourceName| {
        let exists = |name: &ResourceName| context.volumes.contains_key(name.as_str());
        let present = context.accepted.desired.present_volume(name, exists);
        let volume = context.volumes.get(present.as_str());
        let created = volume.and_then(|volume| volume.created_at());
        created.is_some_and(|at| at < context.accepted.accepted_at)
    };
    let mut old = context
        .service
        .mounts
        .iter()
        .enumerate()
        .filter_map(|(index, mount)| match mount {
            Mount::Volume {
                name,
                target,
                read_only: false,
            } if is_old(name) => Some((index, name, target)),
            Mount::Volume { .. } | Mount::Bind { .. } => None,
        });
    let named = old.clone().find(|(_, _, target)| line.contains(target.as_str()));
    // Without a path in the message, the only volume is meant.
    let only = || old.next().filter(|_| old.next().is_none());
    let (index, name, _) = named.or_else(only)?;
    let reason = format!("the process cannot use the earlier data in the volume `{name}`");
    let edit = context.edit(&format!("container.volumes[{index}]"), reason);
    let (source, rest) = edit.now.as_ref()?.split_once(':')?;
    let fresh = format!("{}:{rest}", next_name(source));
    Some((name.to_string(), edit.suggest(fresh)))
}

/// Variable with this value, which a variable of the sibling replaces.
fn differing(case: &Case<'_>, name: &str, theirs: &[&'static str], kind: &str) -> Option<SpecEdit> {
    let (sibling, variable, value) = only_sibling(case, theirs)?;
    let mut variables = case.context.service.env_vars.iter();
    let (key, _) = variables.find(|(_, value)| uses(value, name))?;
    let reason = format!("`{variable}` of `{}` is another {kind}", sibling.name);
    let edit = case.context.edit(&format!("container.environment.{key}"), reason);
    (value != name).then(|| edit.now(name).suggest(value.as_str()))
}

/// Returns whether a value contains a name as a whole word.
fn uses(value: &str, name: &str) -> bool {
    let mut words = value.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c));
    words.any(|word| word == name)
}

/// The only sibling that a variable of the service names and that has one of these variables, with that variable and its value.
pub(super) fn only_sibling<'a>(
    case: &Case<'a>,
    variables: &[&'static str],
) -> Option<(&'a Service, &'static str, &'a String)> {
    let own = case.context.service;
    let mut found = siblings(case)
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

//! Databases: a role or a database that differs from the variables of the sibling, and data of another version.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, paths, quoted_after};
use super::classes::{BEFORE_VERSION, STORED_DATA, UNFIT_DATA};
use super::images::{database_variables, user_variables, version_and_variant};
use super::logins::absent_part;
use super::network::{names_service, siblings};
use super::next_name;
use crate::desired::{Mount, Service};
use crate::ident::ResourceName;

/// Database that the sibling does not create.
pub(super) fn unknown_database(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        ABSENT: "does not exist" "unknown database" "could not find your database" "cannot open database";
    }
    let line = case
        .line_with(&["database"])
        .filter(|line| contains(line, ABSENT))?;
    let bare = || {
        line.split_once("find your database: ")?
            .1
            .split(['.', ' '])
            .next()
    };
    let name = quoted_after(line, "atabase").or_else(bare)?;
    differing(case, name, &database_variables(), "database")
        .or_else(|| absent_database(case, name))
        .or_else(|| absent_part(case, &database_variables(), ["PGDATABASE", "_NAME"]))
}

/// Variable of the sibling that creates the database, if none of its variables creates another one.
fn absent_database(case: &Case<'_>, name: &str) -> Option<SpecEdit> {
    const BY_PASSWORD: [(&str, &str); 3] = [
        ("POSTGRES_PASSWORD", "POSTGRES_DB"),
        ("MYSQL_ROOT_PASSWORD", "MYSQL_DATABASE"),
        ("MARIADB_ROOT_PASSWORD", "MARIADB_DATABASE"),
    ];
    let mut variables = case.context.service.env_vars.values();
    if !variables.any(|value| uses(value, name)) || only_sibling(case, &database_variables()).is_some() {
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
    let name = quoted_after(line, "role")?;
    differing(case, name, &user_variables(), "role")
        .or_else(|| absent_part(case, &user_variables(), ["PGUSER", "_USER"]))
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
    let edit = case.variable(name, reason);
    Some(edit.now(rest).suggest(format!("{rest}{mark}authSource=admin")))
}

/// Data of another version, which the output names together with the version of the program.
pub(super) fn data_version(case: &Case<'_>) -> Option<SpecEdit> {
    let mut lines = case.lines().filter(|line| contains(line, &UNFIT_DATA));
    let (line, data, program) = lines.find_map(|line| match &versions(line)[..] {
        // MySQL names the version of its program first.
        [program, data, ..] if contains(line, &["on data directory built by"]) => {
            Some((line, data.clone(), program.clone()))
        }
        [data, program, ..] => Some((line, data.clone(), program.clone())),
        // MongoDB often names only the version that wrote the data.
        [data] if contains(line, &["featurecompatibilityversion", "too recent to start up"]) => {
            let (program, _) = version_and_variant(case.context.service);
            (!program.is_empty()).then(|| (line, data.clone(), program.to_owned()))
        }
        _ => None,
    })?;
    let tag = tag_for(case, &data, &program);
    if let Some((name, edit)) = old_volume(case, line) {
        let reason = format!(
            "the process cannot use the earlier data in the volume `{name}`: it is of version {data}, the program of {program}"
        );
        // The image that wrote the data keeps it.
        return Some(match (tag, &edit.suggest) {
            (Some(tag), Some(entry)) => {
                let hint = format!("or mount the new volume `{entry}`");
                case.context.edit("image", reason).suggest(tag).hint(hint)
            }
            _ => SpecEdit { reason, ..edit },
        });
    }
    let mut mounts = case.context.service.mounts.iter();
    let is_folder = |mount: &&Mount| matches!(mount, Mount::Bind { read_only: false, .. });
    let folder = mounts.find(|mount| is_folder(mount) && line.contains(mount.target()))?;
    let reason = format!(
        "the data below `{}` is of version {data}, the program of {program}",
        folder.target()
    );
    Some(case.context.edit("image", reason).suggest(tag?))
}

/// Image with the version of the data, if its tag is that of the program.
fn tag_for(case: &Case<'_>, data: &str, program: &str) -> Option<String> {
    let edit = case.context.edit("image", String::new());
    let (repository, tag) = edit
        .now
        .as_deref()?
        .rsplit_once(':')
        .filter(|(_, tag)| !tag.contains('/'))?;
    let bare = tag.trim_start_matches('v');
    let version = bare.split('-').next().unwrap_or(bare);
    let is_of_tag = |text: &str| {
        let rest = text.strip_prefix(version).filter(|_| !version.is_empty());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if !is_of_tag(program) || is_of_tag(data) {
        return None;
    }
    // The tag keeps its number of parts and its variant, so that it exists.
    let parts = version.split('.').count();
    let kept: Vec<&str> = data.split('.').take(parts).collect();
    Some(format!(
        "{repository}:{}{}{}",
        &tag[..tag.len() - bare.len()],
        kept.join("."),
        &bare[version.len()..]
    ))
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
            let before = before.trim_end_matches(|c: char| " [(\"'`=:v\\".contains(c));
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
        .line_with(&UNFIT_DATA)
        .filter(|_| data_version(case).is_none())?;
    // A program guesses about its data after an error of its own.
    if case.line_with(&["assertion fail"]).is_some() {
        return None;
    }
    let mut mounts = case.context.service.mounts.iter();
    let is_about_data = contains(line, &STORED_DATA) || mounts.any(|mount| line.contains(mount.target()));
    if !is_about_data {
        return None;
    }
    let of_volume = old_volume(case, line).map(|(_, edit)| edit);
    of_volume.or_else(|| {
        let named = paths(line).find_map(|path| case.host_file(path));
        let mut mounts = case.context.service.mounts.iter();
        let is_folder = |mount: &&Mount| matches!(mount, Mount::Bind { read_only: false, .. });
        let only = || {
            let only = mounts
                .next()
                .filter(|_| mounts.next().is_none())
                .filter(is_folder)?;
            case.host_file(only.target())
        };
        let reason = "the process cannot use this earlier data";
        let hint = "move it away, or use the version or key that wrote it";
        Some(Case::host_edit(named.or_else(only)?, reason, hint))
    })
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
    let edit = case.variable(key, reason);
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
    sibling_with(case, variables, &|_| true)
}

pub(super) fn sibling_with<'a>(
    case: &Case<'a>,
    variables: &[&'static str],
    fits: &dyn Fn(&Service) -> bool,
) -> Option<(&'a Service, &'static str, &'a String)> {
    let own = case.context.service;
    let mut found = siblings(case)
        .filter(|sibling| fits(sibling) && own.env_vars.values().any(|value| names_sibling(value, sibling)))
        .filter_map(|sibling| {
            let value = |name: &&'static str| Some((*name, sibling.env_vars.get(*name)?));
            let (name, value) = variables.iter().find_map(value)?;
            Some((sibling, name, value))
        });
    found.next().filter(|_| found.next().is_none())
}

pub(super) fn names_sibling(value: &str, sibling: &Service) -> bool {
    // Such as `Server=db,1433;Database=shop`.
    let is_in_list = || value.contains('=') && uses(value, sibling.name.as_str());
    names_service(value, sibling) || is_in_list()
}

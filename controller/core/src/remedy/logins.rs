//! Logins: passwords and users that a sibling refuses, and parts of a login that no variable has.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, is_plain, quoted};
use super::classes::REFUSED_PASSWORD;
use super::database::{names_sibling, only_sibling, sibling_with};
use super::images::{facts_of, is_named, password_variables, user_variables, variable_of};
use super::network::{is_name_of, siblings, uses};
use crate::desired::hosts::hosts;
use crate::desired::{Mount, Service};
use crate::ident::ResourceName;
use crate::secrets::REDACTED;

parts! {
    /// Parts of names of variables for a database.
    OF_DATABASE: "DB" "DATABASE" "PG" "POSTGRES" "SQL" "MARIADB" "RABBIT" "MONGO"
        "DATASOURCE" "JDBC";
}

/// Messages of one kind of server about a refused login, in lower case.
const SERVERS: [(&str, &str); 5] = [
    ("password authentication failed", "postgres"),
    ("access denied for user", "mysql"),
    ("access_refused", "rabbitmq"),
    ("login failed for user", "mssql/server"),
    ("wrongpass", "redis"),
];

/// Options for a password in a list of options, in lower case.
const PASSWORD_OPTIONS: [&str; 2] = ["password=", "pwd="];

/// Password that the sibling refuses. Its value is a secret, so the change names the two places only.
pub(super) fn password(case: &Case<'_>) -> Option<SpecEdit> {
    let line = case.line_with(&REFUSED_PASSWORD)?;
    let kind = SERVERS.iter().find(|(part, _)| contains(line, &[*part]));
    let is_kind = |sibling: &Service| {
        kind.is_none_or(|(_, kind)| facts_of(sibling).is_none_or(|facts| facts.speaks(kind)))
    };
    let (sibling, theirs, expected) = sibling_with(case, &password_variables(), &is_kind)
        .or_else(|| only_sibling(case, &password_variables()))?;
    let set = || case.context.service.env_vars.iter();
    let is_url = |value: &String| {
        let is_address = value.contains("://") && !has_password(value, expected);
        let is_list = contains(value, &PASSWORD_OPTIONS) && !has_password(value, expected);
        let has_login = value.contains('@') || !set().any(|(name, _)| contains(name, &["pass", "pwd"]));
        names_sibling(value, sibling) && ((is_address && has_login) || is_list)
    };
    // Other services have passwords too.
    let facts = facts_of(sibling);
    let prefix = |name: &'_ String| -> Option<String> {
        let start = name
            .strip_suffix("HOST")
            .or_else(|| name.rfind('_').map(|end| &name[..=end]));
        start.map(str::to_owned)
    };
    let of_sibling = set().filter(|(_, value)| names_sibling(value, sibling));
    let prefixes: Vec<String> = of_sibling.filter_map(|(name, _)| prefix(name)).collect();
    let is_password = |name: &str| {
        let upper = name.to_uppercase();
        let is_of_server = OF_DATABASE.iter().any(|part| upper.contains(part))
            || upper
                .split('_')
                .any(|part| part.len() >= 2 && facts.is_some_and(|facts| facts.is_meant_by(part)))
            || prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()));
        let is_token = theirs.contains("TOKEN") && upper.contains("TOKEN");
        (upper.contains("PASS") || upper.contains("PWD") || is_token) && is_of_server
    };
    let in_set = set()
        .find(|(_, value)| is_url(value) && !theirs.contains("TOKEN"))
        .or_else(|| set().find(|(name, value)| is_password(name) && *value != expected));
    let Some((name, value)) = in_set else {
        return other_user(case, sibling).or_else(|| absent_password(case, sibling, theirs, &prefixes));
    };
    let reason = format!("its password differs from `{theirs}` of `{}`", sibling.name);
    let edit = case.variable(name, reason);
    let mut hint = match variable_in_file(case, sibling, theirs) {
        Some(written) => format!(
            "write `{written}` as its password, as `{theirs}` of `{}`",
            sibling.name
        ),
        None => format!("write the value of `{theirs}` of `{}`", sibling.name),
    };
    let user = user_variables()
        .into_iter()
        .find_map(|name| sibling.env_vars.get(name));
    if let Some(user) = user.filter(|user| value.contains("://") && !value.contains(&format!("//{user}:"))) {
        hint = format!(
            "write the user `{user}`, and as its password the value of `{theirs}` of `{}`",
            sibling.name
        );
    }
    Some(edit.now(REDACTED).hint(hint))
}

/// Returns whether an address or a list of options, such as `Host=db;Password=x`, has this password.
fn has_password(value: &str, password: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let mut options = PASSWORD_OPTIONS.iter().flat_map(|name| lower.match_indices(name));
    let is_same = |(at, name): (usize, &str)| {
        let rest = value[at + name.len()..]
            .trim_start_matches(['"', '\''])
            .strip_prefix(password);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([';', ',', '&', ' ', '"', '\'']))
    };
    value.contains(&format!(":{password}@")) || options.any(is_same)
}

/// Variable of a Compose file, such as `${PASSWORD}`, that a service has as the whole value of one of its own.
fn variable_in_file(case: &Case<'_>, service: &Service, name: &str) -> Option<String> {
    let lines = Some(&case.context.accepted.lines).filter(|lines| lines.is_compose())?;
    let key = format!("services.{}.container.environment.{name}", service.name);
    let template = lines.values().get(&key)?;
    let variable = template.strip_prefix("{{env.")?.strip_suffix("}}")?;
    is_plain(variable).then(|| format!("${{{variable}}}"))
}

/// Password of a server that has another one in its volume, because it sets its password only at its first start.
pub(super) fn stored_password(case: &Case<'_>) -> Option<SpecEdit> {
    case.line_with(&REFUSED_PASSWORD)?;
    let (sibling, theirs, expected) = only_sibling(case, &password_variables())?;
    let context = case.context.with_service(sibling);
    let mut variables = case.context.service.env_vars.iter();
    let sends = |(name, value): (&String, &String)| {
        let is_whole = value == expected && contains(name, &["pass", "pwd"]);
        is_whole || has_password(value, expected)
    };
    if expected.is_empty() || !variables.any(sends) {
        return None;
    }
    let accepted = context.accepted;
    let mut volumes = sibling.mounts.iter().filter_map(|mount| match mount {
        Mount::Volume {
            name,
            read_only: false,
            ..
        } => Some(name),
        Mount::Volume { .. } | Mount::Bind { .. } => None,
    });
    let exists = |name: &ResourceName| context.volumes.contains_key(name.as_str());
    let volume = volumes.find_map(|name| {
        let present = accepted.desired.present_volume(name, exists);
        context.volumes.get(present.as_str())
    })?;
    // A new volume has the password of this revision.
    if volume.created_at().is_none_or(|at| at >= accepted.accepted_at) {
        return None;
    }
    let reason = format!(
        "`{}` keeps the password of its first start in the volume `{}`, which is older than this revision",
        sibling.name, volume.name
    );
    let hint = format!(
        "restore its former value, or remove all volumes of the environment and their data with `argus down {} --volumes`",
        accepted.desired.env
    );
    let edit = context.edit(&format!("container.environment.{theirs}"), reason);
    Some(edit.now(REDACTED).hint(hint))
}

/// User that differs from the one of the sibling, if the passwords are the same.
fn other_user(case: &Case<'_>, sibling: &Service) -> Option<SpecEdit> {
    let (theirs, expected) = user_variables()
        .into_iter()
        .find_map(|name| Some((name, sibling.env_vars.get(name)?)))?;
    let line = case.line_with(&REFUSED_PASSWORD)?;
    let mut variables = case.context.service.env_vars.iter();
    let is_meant = |value: &str| quoted(line).next().is_none() || quoted(line).any(|text| text == value);
    let (name, value) =
        variables.find(|(name, value)| contains(name, &["user"]) && *value != expected && is_meant(value))?;
    let reason = format!("it differs from `{theirs}` of `{}`", sibling.name);
    Some(
        case.variable(name, reason)
            .now(value.as_str())
            .suggest(expected.as_str()),
    )
}

/// Variable for the password next to those for the host and the user of a server.
fn absent_password(
    case: &Case<'_>,
    sibling: &Service,
    theirs: &str,
    prefixes: &[String],
) -> Option<SpecEdit> {
    let set = &case.context.service.env_vars;
    let has_password = |prefix: &str| {
        let is_one = |name: &String| name.starts_with(prefix) && name.to_uppercase().contains("PASS");
        set.keys().any(is_one)
    };
    // An address has its own.
    let has_address = set
        .values()
        .any(|value| value.contains("://") && names_sibling(value, sibling));
    let prefix = prefixes
        .iter()
        .find(|prefix| !has_address && !has_password(prefix))?;
    let reason = format!("`{}` requires a password, and no variable has one", sibling.name);
    let edit = case.variable(&format!("{prefix}PASSWORD"), reason);
    Some(edit.hint(format!("write the value of `{theirs}` of `{}`", sibling.name)))
}

/// Address without a password of a sibling that requires one.
pub(super) fn no_password(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        REQUIRED: "noauth authentication required" "noauth hello" "authentication required" "wrongpass"
            "invalid username-password pair";
    }
    case.line_with(REQUIRED)?;
    let is_wrong = case.line_with(&["wrongpass", "username-password pair"]).is_some();
    let own = case.context.service;
    let is_protected = |sibling: &&Service| {
        let mut words = sibling.command.iter().flatten();
        words.any(|word| word.contains("--requirepass"))
    };
    let sibling = siblings(case)
        .filter(is_protected)
        .find(|sibling| own.env_vars.values().any(|value| names_sibling(value, sibling)))?;
    let mut variables = own.env_vars.iter();
    let (name, value) =
        variables.find(|(_, value)| names_sibling(value, sibling) && (is_wrong || !value.contains('@')))?;
    let apart = name.strip_suffix("HOST").filter(|_| !value.contains("://"));
    let apart = apart.map(|start| format!("{start}PASSWORD"));
    let name = apart.as_ref().unwrap_or(name);
    let reason = format!("`{}` requires the password of its `--requirepass`", sibling.name);
    let edit = case.variable(name, reason);
    let edit = edit.hint(format!(
        "write the value of `--requirepass` of `{}` as its password",
        sibling.name
    ));
    let mut words = sibling
        .command
        .iter()
        .flatten()
        .skip_while(|word| *word != "--requirepass");
    let host = hosts(value).first().map(|(host, _)| *host);
    Some(match (words.nth(1), host) {
        (Some(password), Some(host)) if value.contains("://") && !value.contains('@') => edit
            .now(format!("//{host}"))
            .suggest(format!("//:{password}@{host}")),
        _ => edit,
    })
}

/// Login of the client for a server that has no variable for it, and so knows only its default user.
pub(super) fn absent_login(case: &Case<'_>) -> Option<SpecEdit> {
    parts! {
        /// Users that servers have without a variable.
        USUAL: "root" "default" "guest" "admin" "postgres" "sa" "elastic" "neo4j";
        /// Parts of names of variables and options of a password, in lower case.
        PASSWORDS: "password" "passwd" "pass" "pwd";
    }
    let line = case.line_with(&REFUSED_PASSWORD)?;
    let own = case.context.service;
    let mut found = siblings(case).filter_map(|sibling| {
        let [mut passwords, mut users] = facts_of(sibling)?.login();
        let is_set = |name: &str| sibling.env_vars.contains_key(&variable_of(sibling, name));
        // An option of the command can set it, and some images have no such variable.
        let is_usual = is_named(
            sibling,
            "redis valkey keydb dragonfly redis-stack redis-stack-server",
        );
        let has_none = !is_usual && !passwords.clone().any(is_set) && !users.clone().any(is_set);
        (has_none && uses(case, sibling, line)).then_some((sibling, passwords.next()?, users.next()))
    });
    let (sibling, password, user) = found.next().filter(|_| found.next().is_none())?;
    let context = case.context.with_service(sibling);
    let reason = format!("`{}` has no variable for this login", sibling.name);
    let edit = |name: &str| {
        context.edit(
            &format!("container.environment.{}", variable_of(sibling, name)),
            reason.clone(),
        )
    };
    let login = own.env_vars.values().find_map(|value| {
        let (_, rest) = value
            .split_once("://")
            .filter(|_| names_sibling(value, sibling))?;
        rest.split_once('@')?.0.split_once(':')
    });
    let named = || {
        own.env_vars
            .iter()
            .find(|(name, _)| contains(name, &["user"]))
            .map(|(_, value)| value.as_str())
    };
    let own_user = login.map(|(user, _)| user).or_else(named);
    if let (Some(variable), Some(own_user)) = (user, own_user.filter(|user| !USUAL.contains(user))) {
        return Some(edit(variable).suggest(own_user));
    }
    let in_variable = own.env_vars.iter().find(|(name, _)| contains(name, PASSWORDS));
    let in_command = || {
        let words = case.words().filter_map(|word| word.split_once('='));
        let mut options = words.filter(|(option, _)| option.starts_with('-') && contains(option, PASSWORDS));
        options.next().map(|(_, value)| value)
    };
    match (in_variable, login) {
        (Some((name, _)), _) => {
            Some(edit(password).hint(format!("write the value of `{name}` of `{}`", own.name)))
        }
        (None, Some((_, value))) => Some(edit(password).suggest(value)),
        (None, None) => match in_command() {
            Some(value) => Some(edit(password).suggest(value)),
            // Without a password, its user may connect only from its own container.
            None if is_named(sibling, "clickhouse-server") => {
                Some(edit("CLICKHOUSE_SKIP_USER_SETUP").suggest("1"))
            }
            None => None,
        },
    }
}

/// Variable for a part of the login next to the one for the host, if the client uses its default.
pub(super) fn absent_part(case: &Case<'_>, theirs: &[&'static str], names: [&str; 2]) -> Option<SpecEdit> {
    let (sibling, variable, value) = only_sibling(case, theirs)?;
    let set = &case.context.service.env_vars;
    let host = set
        .iter()
        .find(|(_, value)| is_name_of(sibling, value))
        .map(|(name, _)| name)?;
    let name = match host.strip_suffix("_HOST") {
        Some(prefix) => format!("{prefix}{}", names[1]),
        None => names[0].to_owned(),
    };
    let reason = format!(
        "its client uses a default, and `{variable}` of `{}` is `{value}`",
        sibling.name
    );
    let edit = case.variable(&name, reason);
    (!set.contains_key(&name)).then(|| edit.suggest(value.as_str()))
}

#[cfg(test)]
#[path = "logins_tests.rs"]
mod tests;

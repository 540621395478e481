//! Health checks by a command without the login of its server.

use argus_crds::error::SpecEdit;

use super::Check;
use crate::remedy::case::Case;
use crate::remedy::images::{facts_of, is_named};
use crate::remedy::probe_client::{client_of, words};

parts! {
    /// Parts of a result of a server that refuses a login, in lower case.
    REFUSED_LOGIN: "noauth" "wrongpass" "authentication failed" "access denied for user";
}

/// Request without a login to a server that has a password.
pub(super) fn without_login(check: &Check<'_>) -> Option<SpecEdit> {
    /// Users that servers have without a variable.
    const USERS: [(&str, &str); 4] = [
        ("elasticsearch", "elastic"),
        ("opensearch", "admin"),
        ("rabbitmq", "guest"),
        ("couchdb", "admin"),
    ];
    let service = check.context.service;
    let set = |name: &'static str| service.env_vars.get(name);
    let [mut passwords, mut users] = facts_of(service)?.login();
    let password = passwords.find(|name| set(name).is_some())?;
    let usual = || USERS.iter().find(|(image, _)| is_named(service, image));
    let user = users.find_map(set).map(String::as_str);
    let user = user.or_else(|| Some(usual()?.1))?;
    words(check.command).find(|word| *word == "curl")?;
    let edit = check.edit("the server requires a login".to_owned());
    Some(edit.hint(format!(
        "add `-u {user}:` with the value of `{password}` of `{}`",
        service.name
    )))
}

/// Role, database or password that the server of the container does not have.
pub(in crate::remedy) fn login(case: &Case<'_>) -> Option<SpecEdit> {
    let check = Check::new(case).filter(|check| check.other_hosts().is_empty())?;
    if check.has(REFUSED_LOGIN) {
        let words = case.command_words();
        let pair = words.windows(2).find(|pair| pair[0] == "--requirepass");
        let client = client_of(check.command).filter(|(client, ..)| client.contains("redis"));
        if let (Some(pair), Some((client, ..))) = (pair, client) {
            return check.insert(
                client,
                &["-a", pair[1]],
                "the server requires this password".to_owned(),
            );
        }
        let edit = check.edit("the server refuses its login".to_owned());
        return Some(edit.hint("write the user and the password of this service"));
    }
    let service = check.context.service;
    let set = |name: &str| service.env_vars.get(name).map(String::as_str);
    if set("POSTGRES_PASSWORD").is_none() && !service.image.reference().contains("postg") {
        return None;
    }
    let unknown = |kind: &str| {
        let (_, rest) = check.output.split_once(&format!("{kind} \""))?;
        let (name, rest) = rest.split_once('"')?;
        rest.starts_with(" does not exist").then_some(name)
    };
    let user = set("POSTGRES_USER").unwrap_or("postgres");
    let (kind, option, name, meant) = match (unknown("role"), unknown("database")) {
        (Some(name), _) => ("role", "-U", name, user),
        (None, Some(name)) => ("database", "-d", name, set("POSTGRES_DB").unwrap_or(user)),
        (None, None) => return None,
    };
    let reason = format!("the server has no {kind} `{name}`, its {kind} is `{meant}`");
    let all: Vec<&str> = words(check.command).collect();
    if !all.windows(2).any(|pair| pair == [option, name]) {
        let (client, ..) = client_of(check.command).filter(|_| name != meant)?;
        return check.insert(client, &[option, meant], reason);
    }
    let in_shell = |name: &str| format!("{option} {name}");
    Some(if check.is_shell() {
        check.replace(&in_shell(name), &in_shell(meant), reason)
    } else {
        check.replace(name, meant, reason)
    })
}

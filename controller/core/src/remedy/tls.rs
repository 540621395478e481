//! TLS between a service and its siblings: schemes, and options of addresses, that do not fit the server.

use argus_crds::error::SpecEdit;

use super::case::{Case, contains, ports_in};
use super::classes::{NO_TLS, PLAIN_SERVER};
use super::network::{is_name_of, siblings};
use crate::desired::hosts::hosts;
use crate::secrets::is_secret;

parts! {
    /// Parts of a message about a request without TLS to a server that requires it, in lower case.
    TLS_SERVER: "client sent an http request to an https server" "plain http request was sent to https port";
}

/// Address of a sibling whose scheme does not fit the server.
pub(super) fn scheme(case: &Case<'_>) -> Option<SpecEdit> {
    const SCHEMES: [(&str, &str); 4] = [
        ("https://", "http://"),
        ("wss://", "ws://"),
        ("rediss://", "redis://"),
        ("amqps://", "amqp://"),
    ];
    // The client of a server wrote nonsense.
    let of_server = |line: &str| contains(line, &["tls handshake error from"]);
    let line_with = |parts: &[&str]| {
        let mut lines = case.lines();
        lines.find(|line| contains(line, parts) && !of_server(line))
    };
    let plain = line_with(&PLAIN_SERVER);
    let is_plain = plain.is_some();
    let line = plain.or_else(|| line_with(TLS_SERVER))?;
    let own = case.context.service;
    let of_sibling = |value: &str| {
        let found = hosts(value);
        siblings(case).find(|sibling| found.iter().any(|(host, _)| is_name_of(sibling, host)))
    };
    let change = |value: &str| {
        let mut pairs = SCHEMES
            .into_iter()
            .map(|(tls, plain)| if is_plain { (tls, plain) } else { (plain, tls) });
        pairs.find(|(now, _)| value.starts_with(now))
    };
    let is_only = own
        .env_vars
        .values()
        .filter(|value| change(value).is_some())
        .count()
        == 1;
    let is_named = |value: &str| {
        hosts(value).into_iter().any(|(host, port)| {
            let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
            words.any(|word| word == host)
                || port.is_some_and(|port| ports_in(line).any(|named| named == port))
        })
    };
    // Some clients have a switch next to an address without a scheme.
    let switch = || {
        let (now, needed) = if is_plain {
            ("true", "false")
        } else {
            ("false", "true")
        };
        let is_switch = |name: &str| contains(name, &["ssl", "tls", "https", "secure"]);
        let mut found = own
            .env_vars
            .iter()
            .filter(|(name, value)| is_switch(name) && *value == now);
        let (name, _) = found.next().filter(|_| found.next().is_none())?;
        let reason = if is_plain {
            "its server does not use TLS"
        } else {
            "its server accepts only TLS"
        };
        Some(case.variable(name, reason).now(now).suggest(needed))
    };
    let in_address = own
        .env_vars
        .iter()
        .filter(|(name, value)| !is_secret(name) && (is_only || is_named(value)))
        .find_map(|(name, value)| {
            let (now, needed) = change(value)?;
            let sibling = of_sibling(value)?;
            let spoken = if is_plain {
                "does not use TLS"
            } else {
                "accepts only TLS"
            };
            let reason = format!("`{}` {spoken}", sibling.name);
            let key = format!("container.environment.{name}");
            Some(case.context.edit(&key, reason).now(now).suggest(needed))
        });
    in_address.or_else(switch)
}

/// TLS that a database does not have.
pub(super) fn database_tls(case: &Case<'_>) -> Option<SpecEdit> {
    const MODES: [&str; 4] = ["verify-full", "verify-ca", "require", "prefer"];
    case.line_with(&NO_TLS)?;
    let variables = case.context.service.env_vars.iter();
    variables
        .filter(|(name, _)| !is_secret(name))
        .find_map(|(name, value)| {
            let key = format!("container.environment.{name}");
            let edit = case
                .context
                .edit(&key, "its database does not use TLS".to_owned());
            if let Some((_, rest)) = value.split_once("sslmode=") {
                let mode = MODES.into_iter().find(|mode| rest.starts_with(mode))?;
                return Some(edit.now(format!("sslmode={mode}")).suggest("sslmode=disable"));
            }
            let name = name.to_uppercase();
            let is_mode = name.ends_with("SSLMODE") && MODES.contains(&value.as_str());
            let is_switch =
                contains(&name, &["ssl", "tls"]) && ["true", "1", "yes"].contains(&value.as_str());
            let off = if is_mode { "disable" } else { "false" };
            (is_mode || is_switch).then(|| edit.now(value.as_str()).suggest(off))
        })
}

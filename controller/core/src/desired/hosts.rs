//! Host names in environment variables, and their typing errors.

use std::collections::BTreeSet;
use std::net::IpAddr;

use argus_crds::Diagnostic;
use argus_crds::suggestion::nearest;

use crate::desired::{Role, Service};
use crate::secrets::{Secrets, is_secret};

/// Words in the name of a variable whose bare value is a host.
const HOST_WORDS: [&str; 5] = ["HOST", "ADDR", "SERVER", "ENDPOINT", "URL"];

/// Host in a variable that is probably a typing error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MisspelledHost {
    /// Name of the variable.
    pub(crate) variable: String,
    /// Host in the file.
    pub(crate) host: String,
    /// Similar name of the environment.
    pub(crate) meant: String,
}

/// Returns the hosts that a value names, each with its port.
///
/// A bare name counts only if it is the whole value; in a list a host needs a port or a scheme.
pub(crate) fn hosts(value: &str) -> Vec<(&str, Option<u16>)> {
    let parts: Vec<&str> = value
        .split([',', ';', ' ', '\n', '\t'])
        .filter(|part| !part.is_empty())
        .collect();
    let alone = parts.len() == 1;
    parts
        .into_iter()
        .filter_map(|part| {
            let (authority, scheme) = match part.split_once("://") {
                Some((_, rest)) => (rest.split(['/', '?', '#']).next().unwrap_or_default(), true),
                None => (part, false),
            };
            let host = authority
                .rsplit('@')
                .next()
                .filter(|_| scheme)
                .unwrap_or(authority);
            match host.split_once(':') {
                Some((name, port)) => Some((name, Some(port.parse().ok().filter(|port| *port > 0)?))),
                None => (alone || scheme).then_some((host, None)),
            }
        })
        .collect()
}

/// Returns the DNS names of the services of an environment.
pub(crate) fn dns_names<'a>(services: impl Iterator<Item = &'a Service>) -> BTreeSet<&'a str> {
    let names_of = |service: &'a Service| {
        let aliases = service.all_aliases().map(String::as_str);
        aliases.chain([service.name.as_str(), service.container_name.as_str()])
    };
    services.flat_map(names_of).collect()
}

/// Returns the hosts in the variables of a service that are similar to a DNS name of the environment, but equal to none.
/// A part of a secret is not redacted, so hosts in secrets are left out.
pub(crate) fn misspelled_hosts(
    service: &Service,
    names: &BTreeSet<&str>,
    secrets: &Secrets,
) -> Vec<MisspelledHost> {
    let others = || {
        names
            .iter()
            .copied()
            .filter(|name| *name != service.name.as_str())
    };
    let extra: BTreeSet<&str> = service
        .extra_hosts
        .iter()
        .filter_map(|entry| Some(entry.split_once(':')?.0))
        .collect();
    let is_known = |host: &str| names.contains(host) || extra.contains(host) || host == "localhost";
    let mut found = Vec::new();
    for (variable, value) in &service.env_vars {
        if is_secret(variable) {
            continue;
        }
        let public = secrets.redacted(value);
        let is_host_variable = HOST_WORDS
            .iter()
            .any(|word| variable.to_ascii_uppercase().contains(word));
        for (host, port) in hosts(&public) {
            let is_address = port.is_some() || value.contains("://") || is_host_variable;
            if is_address
                && is_single_name(host)
                && !is_known(host)
                && let Some(meant) = nearest(host, others())
            {
                found.push(MisspelledHost {
                    variable: variable.clone(),
                    host: host.to_owned(),
                    meant: meant.to_owned(),
                });
            }
        }
    }
    found
}

/// True for one DNS label. Argus cannot know the names of other domains.
fn is_single_name(host: &str) -> bool {
    host.len() >= 2
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        && host.chars().any(|c| c.is_ascii_alphabetic())
        && host.parse::<IpAddr>().is_err()
}

/// Warns about misspelled hosts in the variables of all services.
pub(super) fn report_misspelled(
    services: &[(String, Service)],
    secrets: &Secrets,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let names = dns_names(services.iter().map(|(_, service)| service));
    for (path, service) in services
        .iter()
        .filter(|(_, service)| service.role == Role::Service)
    {
        for found in misspelled_hosts(service, &names, secrets) {
            let message = format!(
                "`{}` contains the host `{}`, which is not a name of this environment",
                found.variable, found.host
            );
            let path = format!("{path}.container.environment.{}", found.variable);
            diagnostics.push(
                Diagnostic::warning(path, message)
                    .hint(format!("did you mean `{}`?", found.meant))
                    .replace(found.host, found.meant),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{SpecContext, admit};

    #[test]
    fn hosts_finds_bare_names_ports_and_urls() {
        assert_eq!(hosts("db"), [("db", None)]);
        assert_eq!(hosts("db:5432"), [("db", Some(5432))]);
        assert_eq!(hosts("postgres://u:p@db:5432/x?a=b"), [("db", Some(5432))]);
        assert_eq!(hosts("http://api/v1"), [("api", None)]);
        assert_eq!(hosts("jdbc:postgresql://db:1/x"), [("db", Some(1))]);
        assert_eq!(hosts("k1:9092,k2:9092"), [("k1", Some(9092)), ("k2", Some(9092))]);
        assert_eq!(hosts("run db now"), []);
        assert_eq!(hosts("db:none"), []);
        assert_eq!(hosts("db:0"), []);
        assert_eq!(hosts(""), []);
    }

    #[test]
    fn misspelled_host_is_a_warning_with_its_line() {
        let file = |value: &str| {
            format!(
                "project: {{ name: shop }}\nservices:\n  database: {{ image: a, container: {{ name: shop-database }} }}\n  \
                 web:\n    image: a\n    container:\n      name: shop-web\n      environment:\n        {value}\n"
            )
        };
        for (value, meant) in [
            ("DB: postgres://u:p@databse:5432/x", Some("database")),
            ("DB_HOST: databse", Some("database")),
            ("DB: databse:5432", Some("database")),
            ("API_TOKEN: databse:5432", None),
            ("DB: database:5432", None),
            ("DB: shop-database:5432", None),
            ("GREETING: databse", None),
            ("DB_HOST: localhost", None),
            ("DB_HOST: db.example.com", None),
            ("DB_URL: http://10.0.0.1:80", None),
        ] {
            let read = argus_crds::yaml::read("e2e.yaml", file(value).as_bytes());
            let admission = admit(&read.spec.unwrap(), &SpecContext::default());
            assert!(admission.desired.is_some(), "{value}");
            let warning = admission
                .diagnostics
                .into_iter()
                .next()
                .map(|found| read.source.with_location(found));
            let found = warning.as_ref().map(|found| {
                let correction = found.correction.as_ref().unwrap();
                (correction.suggest.as_deref(), found.location.unwrap().line)
            });
            assert_eq!(found, meant.map(|meant| (Some(meant), 9)), "{value}: {warning:?}");
        }
    }
}

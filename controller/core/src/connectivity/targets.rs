//! What each service wants to reach: whom it depends on, and whom its environment names.

use std::collections::{BTreeMap, BTreeSet};

use super::Target;
use crate::desired::{Desired, ProbeKind, Role, Service};
use crate::ident::{Protocol, ServiceName};

/// By service that wants something. Mocks want nothing, and what runs to its end is neither asked nor asks.
pub fn targets(desired: &Desired) -> BTreeMap<ServiceName, Vec<Target>> {
    let names = names(desired);
    let sources = desired.services.values().filter(|service| match service.role {
        Role::Service => !service.one_shot,
        Role::Mock => false,
    });
    let all = sources.map(|source| (source.name.clone(), of(source, desired, &names)));
    all.filter(|(_, targets)| !targets.is_empty()).collect()
}

/// Every name that a service is known by on the network.
fn names(desired: &Desired) -> BTreeMap<&str, &Service> {
    let mut names = BTreeMap::new();
    for service in desired.services.values().filter(|service| !service.one_shot) {
        let aliases = service.aliases.iter().map(String::as_str);
        for name in aliases.chain([service.container_name.as_str()]) {
            names.entry(name).or_insert(service);
        }
    }
    // Its own name goes before another's alias.
    for service in desired.services.values().filter(|service| !service.one_shot) {
        names.insert(service.name.as_str(), service);
    }
    names
}

fn of(source: &Service, desired: &Desired, names: &BTreeMap<&str, &Service>) -> Vec<Target> {
    let mut wanted: BTreeSet<Target> = BTreeSet::new();
    for need in &source.depends_on {
        let target = desired.services.get(&need.service);
        if let Some(target) = target.filter(|target| !target.one_shot) {
            wanted.insert(target_of(target, target.name.as_str(), None));
        }
    }
    for value in source.environment.values() {
        for (host, port) in hosts(value) {
            if let Some(target) = names.get(host) {
                wanted.insert(target_of(target, host, port));
            }
        }
    }
    wanted.retain(|aim| aim.to != source.name);
    // Who is asked by a port need not be asked whether its name is known.
    let asked: BTreeSet<String> = wanted
        .iter()
        .filter(|aim| aim.port.is_some())
        .map(|aim| aim.host.clone())
        .collect();
    wanted.retain(|aim| aim.port.is_some() || !asked.contains(&aim.host));
    wanted.into_iter().collect()
}

fn target_of(target: &Service, host: &str, written: Option<u16>) -> Target {
    let udp = |number: u16| {
        let has = |protocol| {
            let mut ports = target.ports.iter();
            ports.any(|port| port.container == number && port.protocol == protocol)
        };
        has(Protocol::Udp) && !has(Protocol::Tcp)
    };
    let port = match written {
        // What answers no connection cannot be asked by one.
        Some(number) if udp(number) => None,
        Some(number) => Some(number),
        None => own_port(target),
    };
    Target {
        to: target.name.clone(),
        host: host.to_owned(),
        port,
    }
}

/// The first TCP port that it publishes, else the one that its probe asks.
fn own_port(target: &Service) -> Option<u16> {
    let mut ports = target.ports.iter();
    let published = ports.find(|port| port.protocol == Protocol::Tcp);
    let probed = || match target.probe.as_ref()?.kind {
        ProbeKind::Http { port, .. } | ProbeKind::Tcp { port } => Some(port),
        ProbeKind::Exec { .. } | ProbeKind::Docker => None,
    };
    published.map(|port| port.container).or_else(probed)
}

/// The hosts that a value names, each with the port beside it: a bare name is one when it is all there is, in a list
/// it needs a port or a scheme.
fn hosts(value: &str) -> Vec<(&str, Option<u16>)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{SpecContext, admit};

    fn check(text: &str) -> Vec<String> {
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let desired = admit(&spec, &SpecContext::default()).desired.unwrap();
        let words = |(from, all): (ServiceName, Vec<Target>)| {
            let one = move |target: Target| match target.port {
                Some(port) => format!("{from} -> {} as {}:{port}", target.to, target.host),
                None => format!("{from} -> {} as {}", target.to, target.host),
            };
            all.into_iter().map(one).collect::<Vec<_>>()
        };
        targets(&desired).into_iter().flat_map(words).collect()
    }

    #[test]
    fn a_value_names_a_host_alone_with_a_port_or_behind_a_scheme() {
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
    fn every_service_wants_what_it_depends_on_and_what_its_environment_names() {
        let found = check(
            "project: { name: shop }\nservices:\n  \
             migrate: { image: a, oneShot: true, dependsOn: [db], container: { name: shop-migrate } }\n  \
             db: { image: a, container: { name: shop-db, ports: ['0:5432', '0:53/udp'] } }\n  \
             cache: { image: a, container: { name: shop-cache } }\n  \
             web:\n    image: a\n    dependsOn: [db, cache, { service: migrate, condition: completed }]\n    container:\n      \
             name: shop-web\n      environment: { CACHE: 'shop-cache:6379', NAMES: 'db:53', PAY: 'http://pay/v1', OWN: 'web:80', AT: 'localhost:5432' }\n\
             mocks:\n  pay: { port: 9001, routes: [] }\n",
        );
        assert_eq!(
            found,
            [
                "web -> cache as cache",
                "web -> cache as shop-cache:6379",
                "web -> db as db:5432",
                "web -> pay as pay:9001",
            ]
        );
    }
}

//! Connection targets of each service: its dependencies, the mocks, and the hosts that its environment variables name.

use std::collections::{BTreeMap, BTreeSet};

use super::Target;
use crate::desired::hosts::hosts;
use crate::desired::{Desired, Role, Service};
use crate::ident::{Protocol, ServiceName};

/// Returns the targets by source service. Mocks have no targets; one-shot services are neither sources nor targets.
pub fn targets(desired: &Desired) -> BTreeMap<ServiceName, Vec<Target>> {
    let sources = desired.services.values().filter(|service| match service.role {
        Role::Service => !service.one_shot,
        Role::Mock => false,
    });
    let all = sources.map(|source| (source.name.clone(), targets_of(source, desired)));
    all.filter(|(_, targets)| !targets.is_empty()).collect()
}

/// Returns the targets for the diagnosis of a failed health check: the service itself, and what it needs.
pub fn targets_of_failure(desired: &Desired, service: &Service) -> Vec<Target> {
    let own = target_of(service, service.name.as_str(), probed_port(service));
    let needed = targets_of(service, desired);
    [own].into_iter().chain(needed).collect()
}

/// Returns every DNS name of the environment with the service that it means for `source`.
///
/// Services on a network of the source come first. The name of a service overrides an alias of another one.
fn names<'a>(desired: &'a Desired, source: &Service) -> BTreeMap<&'a str, &'a Service> {
    let services = || desired.services.values().filter(|service| !service.one_shot);
    let near = || services().filter(|service| service.shares_network(source));
    let mut names = BTreeMap::new();
    for service in near() {
        names.insert(service.name.as_str(), service);
    }
    for service in near() {
        names.entry(service.container_name.as_str()).or_insert(service);
        let common = desired.networks_of(service);
        for network in common.filter(|network| source.is_on(network)) {
            for alias in service.aliases_on(&network) {
                names.entry(alias.as_str()).or_insert(service);
            }
        }
    }
    // The check of such a name shows that the source cannot resolve it.
    for service in services() {
        names.entry(service.name.as_str()).or_insert(service);
    }
    for service in services() {
        let aliases = service.all_aliases().map(String::as_str);
        for name in aliases.chain([service.container_name.as_str()]) {
            names.entry(name).or_insert(service);
        }
    }
    names
}

fn targets_of(source: &Service, desired: &Desired) -> Vec<Target> {
    let names = names(desired, source);
    let mut targets: BTreeSet<Target> = BTreeSet::new();
    for dependency in &source.depends_on {
        let target = desired.services.get(&dependency.service);
        if let Some(target) = target.filter(|target| !target.one_shot && target.shares_network(source)) {
            targets.insert(target_of(target, target.name.as_str(), None));
        }
    }
    let mocks = desired
        .services
        .values()
        .filter(|target| target.role == Role::Mock && target.shares_network(source));
    targets.extend(mocks.map(|mock| target_of(mock, mock.name.as_str(), None)));
    for value in source.env_vars.values() {
        for (host, port) in hosts(value) {
            if let Some(target) = names.get(host) {
                targets.insert(target_of(target, host, port));
            }
        }
    }
    targets.retain(|target| target.to != source.name);
    // A connection to a port includes the name resolution.
    let with_port: BTreeSet<String> = targets
        .iter()
        .filter(|target| target.port.is_some())
        .map(|target| target.host.clone())
        .collect();
    targets.retain(|target| target.port.is_some() || !with_port.contains(&target.host));
    targets.into_iter().collect()
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
        // A TCP connection cannot check a UDP port.
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

/// Returns the first published TCP port, else the port of the probe.
fn own_port(target: &Service) -> Option<u16> {
    let mut ports = target.ports.iter();
    let published = ports.find(|port| port.protocol == Protocol::Tcp);
    published
        .map(|port| port.container)
        .or_else(|| probed_port(target))
}

/// Returns the port of the probe.
fn probed_port(service: &Service) -> Option<u16> {
    service.probe.as_ref()?.kind.port()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectivity::{LinkError, TargetResult, describe_results};
    use crate::desired::admit::{SpecContext, admit};

    fn check(text: &str) -> Vec<String> {
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let desired = admit(&spec, &SpecContext::default()).desired.unwrap();
        let lines = |(from, all): (ServiceName, Vec<Target>)| {
            let one = move |target: Target| match target.port {
                Some(port) => format!("{from} -> {} as {}:{port}", target.to, target.host),
                None => format!("{from} -> {} as {}", target.to, target.host),
            };
            all.into_iter().map(one).collect::<Vec<_>>()
        };
        targets(&desired).into_iter().flat_map(lines).collect()
    }

    #[test]
    fn targets_come_from_dependencies_mocks_and_variables() {
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
                "cache -> pay as pay:9001",
                "db -> pay as pay:9001",
                "web -> cache as cache",
                "web -> cache as shop-cache:6379",
                "web -> db as db:5432",
                "web -> pay as pay:9001",
            ]
        );
    }

    #[test]
    fn alias_means_a_service_on_a_network_of_the_source() {
        let found = check(
            "project: { name: shop }\nnetworks: { back: {}, front: {} }\nservices:\n  \
             a: { image: a, container: { name: a, networks: { front: { aliases: [db] } } } }\n  \
             b: { image: a, container: { name: b, networks: { back: { aliases: [db] }, front: {} } } }\n  \
             c: { image: a, container: { name: c, networks: { back: { aliases: [a] } } } }\n  \
             inner: { image: a, container: { name: i, networks: [back], environment: { DB: 'db:1', A: 'a:1' } } }\n  \
             outer: { image: a, container: { name: o, networks: [front], environment: { DB: 'db:1', A: 'a:1' } } }\n",
        );
        let expected = [
            "inner -> b as db:1",
            "inner -> c as a:1",
            "outer -> a as a:1",
            "outer -> a as db:1",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn failed_service_is_checked_with_what_it_needs() {
        let text = "project: { name: shop }\nservices:\n  \
             db: { image: a, container: { name: shop-db, ports: ['0:5432'] } }\n  \
             web: { image: a, dependsOn: [db], container: { name: shop-web, healthcheck: { path: /, port: 80 } } }\n";
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let desired = admit(&spec, &SpecContext::default()).desired.unwrap();
        let web = &desired.services[&ServiceName::new("web").unwrap()];
        let targets = targets_of_failure(&desired, web);
        let places: Vec<_> = targets
            .iter()
            .map(|target| (target.host.as_str(), target.port))
            .collect();
        assert_eq!(places, [("web", Some(80)), ("db", Some(5432))]);
        let refused = TargetResult {
            addresses: vec!["10.0.0.2".parse().unwrap()],
            error: Some(LinkError::Refused("os error 111".to_owned())),
            ..TargetResult::default()
        };
        let unknown = TargetResult {
            error: Some(LinkError::NoSuchName("no such host".to_owned())),
            ..TargetResult::default()
        };
        let described = describe_results(&targets, &[refused, unknown]);
        let described: Vec<_> = described
            .iter()
            .map(|(check, result)| format!("{check}: {result}"))
            .collect();
        assert_eq!(
            described,
            [
                "dns db: NXDOMAIN: no such host",
                "dns web: 10.0.0.2",
                "tcp web:80: connection refused",
            ]
        );
    }
}

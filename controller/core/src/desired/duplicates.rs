//! What two services of one file cannot both have.

use std::collections::BTreeMap;

use argus_crds::Diagnostic;

use crate::desired::{Port, PortStrategy, Role, Service};

/// Complains about names that are taken twice in one file, and about host ports where they may not move.
///
/// Each service comes with its path in the file; the first in the file keeps what it has.
pub(super) fn check(services: &[(String, Service)], strategy: PortStrategy, to: &mut Vec<Diagnostic>) {
    let mut containers: BTreeMap<&str, &Service> = BTreeMap::new();
    for (path, service) in services {
        match containers.get(service.container_name.as_str()) {
            None => {
                containers.insert(service.container_name.as_str(), service);
            }
            Some(holder) => {
                let message = format!(
                    "`{}` and `{}` both want the container name `{}`",
                    holder.name, service.name, service.container_name
                );
                to.push(
                    Diagnostic::error(place(path, service, "container.name"), message)
                        .hint("give each container a name of its own"),
                );
            }
        }
    }
    for (path, service) in services {
        for alias in &service.aliases {
            let other = services.iter().find(|(_, other)| {
                other.name != service.name && other.name.as_str().eq_ignore_ascii_case(alias)
            });
            if let Some((_, other)) = other {
                let message = format!(
                    "`{alias}` is both a container of `{}` and the name of `{}`",
                    service.name, other.name
                );
                to.push(
                    Diagnostic::warning(place(path, service, "container.name"), message)
                        .hint("rename the container: DNS would answer with either of them"),
                );
            }
        }
    }
    match strategy {
        PortStrategy::Auto => {}
        PortStrategy::Fail => ports(services, to),
    }
}

fn ports(services: &[(String, Service)], to: &mut Vec<Diagnostic>) {
    let mut held: Vec<(&Port, &Service)> = Vec::new();
    for (path, service) in services {
        for port in &service.ports {
            match held.iter().find(|(other, _)| collide(other, port)) {
                None => held.push((port, service)),
                Some((_, holder)) => {
                    let wanted = port.wanted.unwrap_or_default();
                    let message = format!(
                        "`{}` and `{}` both want the host port {wanted}/{}",
                        holder.name, service.name, port.protocol
                    );
                    to.push(
                        Diagnostic::error(place(path, service, "container.ports"), message).hint(
                            "change one of them, or write `resilience.network.portConflictStrategy: auto`",
                        ),
                    );
                }
            }
        }
    }
}

/// Where a claim stands: a mock has its port, and no container of its own in the file.
fn place(path: &str, service: &Service, below: &str) -> String {
    match service.role {
        Role::Service => format!("{path}.{below}"),
        Role::Mock => path.to_owned(),
    }
}

fn collide(one: &Port, other: &Port) -> bool {
    let same = one.wanted.is_some() && one.wanted == other.wanted && one.protocol == other.protocol;
    let apart = match (one.address, other.address) {
        (Some(one), Some(other)) => one != other && !one.is_unspecified() && !other.is_unspecified(),
        _ => false,
    };
    same && !apart
}

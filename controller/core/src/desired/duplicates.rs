//! Duplicate names and host ports within one spec file.

use std::collections::BTreeMap;

use argus_crds::Diagnostic;

use crate::desired::{Port, PortStrategy, Role, Service};

/// Reports duplicate container names, ambiguous aliases, and duplicate host ports under the strategy `fail`.
///
/// Each service comes with its path in the file; the first one in the file keeps a name or port.
pub(super) fn check(
    services: &[(String, Service)],
    strategy: PortStrategy,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut containers: BTreeMap<&str, &Service> = BTreeMap::new();
    for (path, service) in services {
        match containers.get(service.container_name.as_str()) {
            None => {
                containers.insert(service.container_name.as_str(), service);
            }
            Some(first) => {
                let message = format!(
                    "`{}` and `{}` both use the container name `{}`",
                    first.name, service.name, service.container_name
                );
                diagnostics.push(
                    Diagnostic::error(setting_path(path, service, "container.name"), message)
                        .hint("give each container a unique name"),
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
                diagnostics.push(
                    Diagnostic::warning(setting_path(path, service, "container.name"), message)
                        .hint("rename the container, because DNS would return either of them"),
                );
            }
        }
    }
    match strategy {
        PortStrategy::Auto => {}
        PortStrategy::Fail => check_host_ports(services, diagnostics),
    }
}

fn check_host_ports(services: &[(String, Service)], diagnostics: &mut Vec<Diagnostic>) {
    let mut held: Vec<(&Port, &Service)> = Vec::new();
    for (path, service) in services {
        for port in &service.ports {
            match held.iter().find(|(other, _)| collide(other, port)) {
                None => held.push((port, service)),
                Some((_, first)) => {
                    let number = port.requested.unwrap_or_default();
                    let message = format!(
                        "`{}` and `{}` both request the host port {number}/{}",
                        first.name, service.name, port.protocol
                    );
                    diagnostics.push(
                        Diagnostic::error(setting_path(path, service, "container.ports"), message).hint(
                            "change one of them, or set `resilience.network.portConflictStrategy: auto`",
                        ),
                    );
                }
            }
        }
    }
}

/// Returns the path of a setting in the file; a mock has no `container` section.
fn setting_path(path: &str, service: &Service, below: &str) -> String {
    match service.role {
        Role::Service => format!("{path}.{below}"),
        Role::Mock => path.to_owned(),
    }
}

fn collide(one: &Port, other: &Port) -> bool {
    let same = one.requested.is_some() && one.requested == other.requested && one.protocol == other.protocol;
    let apart = match (one.address, other.address) {
        (Some(one), Some(other)) => one != other && !one.is_unspecified() && !other.is_unspecified(),
        _ => false,
    };
    same && !apart
}

//! Conflicts between the services of one spec file: names, host ports and internal networks.

use std::collections::BTreeMap;

use argus_crds::{Diagnostic, E2eSpec};

use crate::desired::{Port, PortStrategy, Role, Service, networks};
use crate::published::overlap;

/// Reports duplicate container names, ambiguous aliases, and duplicate host ports under the strategy `fail`.
///
/// Each service comes with its path in the file; the first one in the file keeps a name or port.
pub(super) fn check(
    spec: &E2eSpec,
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
    check_dns_names(spec, services, diagnostics);
    check_internal(spec, services, diagnostics);
    match strategy {
        PortStrategy::Auto => {}
        PortStrategy::Fail => check_host_ports(services, diagnostics),
    }
}

/// Reports each alias that is also a DNS name of another service.
fn check_dns_names(spec: &E2eSpec, services: &[(String, Service)], diagnostics: &mut Vec<Diagnostic>) {
    let declared = spec.declared_services();
    let mut owners: BTreeMap<String, Vec<(&Service, &str, &str)>> = BTreeMap::new();
    for (path, service) in services {
        let name = service.name.as_str().to_ascii_lowercase();
        owners
            .entry(name)
            .or_default()
            .push((service, "the name", path.as_str()));
    }
    for (path, service) in services {
        let declared = declared.iter().find(|declared| declared.path == *path);
        let container = declared.and_then(|declared| declared.service.container.as_ref());
        for alias in service.all_aliases() {
            let index = container.and_then(|it| it.aliases.iter().position(|other| other == alias));
            let (own, below) = match index {
                Some(index) => ("an alias", format!("container.aliases[{index}]")),
                None if !service.aliases.contains(alias) => ("an alias", "container.networks".to_owned()),
                None => ("a container", "container.name".to_owned()),
            };
            let owners = owners.entry(alias.to_ascii_lowercase()).or_default();
            // Two containers of one name are an error already.
            // Replicas have one path and share their names.
            let mut others = owners.iter().filter(|(owner, kind, other)| {
                owner.name != service.name && other != path && (own, *kind) != ("a container", "a container")
            });
            if let Some((owner, kind, _)) = others.find(|(owner, ..)| owner.shares_network(service)) {
                let message = format!(
                    "`{alias}` is both {own} of `{}` and {kind} of `{}`",
                    service.name, owner.name
                );
                diagnostics.push(
                    Diagnostic::warning(setting_path(path, service, &below), message)
                        .hint("choose another name, because DNS would return either of them"),
                );
            }
            owners.push((service, own, path.as_str()));
        }
    }
}

fn check_host_ports(services: &[(String, Service)], diagnostics: &mut Vec<Diagnostic>) {
    let mut held: Vec<(&Port, &Service)> = Vec::new();
    for (path, service) in services {
        for port in &service.ports {
            let is_other = |holder: &Service, other: &Port| {
                holder.name != service.name || other.container != port.container
            };
            let taken = held
                .iter()
                .find(|(other, holder)| collide(other, port) && is_other(holder, other));
            match taken {
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

/// Reports published ports of services that have only internal networks, because the engine does not publish them.
fn check_internal(spec: &E2eSpec, services: &[(String, Service)], diagnostics: &mut Vec<Diagnostic>) {
    let is_internal = |name: &str| {
        let network = match name {
            networks::DEFAULT => Some(&spec.network),
            name => spec.networks.get(name),
        };
        network.is_some_and(|network| network.internal && !network.external)
    };
    for (path, service) in services.iter().filter(|(_, service)| !service.ports.is_empty()) {
        let mut listed = service.networks.keys();
        let (message, hint) = if service.networks.is_empty() && is_internal(networks::DEFAULT) {
            let hint = match service.role {
                Role::Service => {
                    "remove the port, because other services reach it without, or remove `network.internal`"
                }
                Role::Mock => "remove `network.internal`, because a mock always publishes its port",
            };
            let message = "publishes a port, but `network.internal` is true";
            (message, hint)
        } else if !service.networks.is_empty() && listed.all(|name| is_internal(name.as_str())) {
            let message = "publishes a port, but all its networks are internal";
            (message, "remove the port, or list a network that is not internal")
        } else {
            continue;
        };
        let message = format!("`{}` {message}", service.name);
        diagnostics
            .push(Diagnostic::error(setting_path(path, service, "container.ports"), message).hint(hint));
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
        (Some(one), Some(other)) => !overlap(one, other),
        _ => false,
    };
    same && !apart
}

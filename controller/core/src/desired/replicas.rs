//! Replicas: `replicas: 3` runs the services `web`, `web-2` and `web-3`, which all have the DNS name `web`.
//!
//! Each one is a service with its own container, ports, probe and restarts. A dependent of `web` waits for all of them.

use std::collections::BTreeMap;

use argus_crds::{DeclaredService, Diagnostic};

use crate::desired::referenced_services::ReferencedServices;
use crate::desired::{Dependency, Service};
use crate::ident::{ResourceName, ServiceName};

/// Maximum number of containers of a service.
const MAX_REPLICAS: u32 = 50;
/// Cause and hint of the error about replicas with too many texts.
const REPLICAS: [&str; 2] = [
    "with the texts of all replicas",
    "shorten the texts of the service, or write fewer replicas",
];

/// Returns the number of containers of a service, and reports an invalid one.
pub(super) fn count(declared: &DeclaredService<'_>, diagnostics: &mut Vec<Diagnostic>) -> u32 {
    let written = declared.service.replicas.unwrap_or(1);
    if !(1..=MAX_REPLICAS).contains(&written) {
        let message = format!("`replicas` is {written}, but a service has 1 to {MAX_REPLICAS} containers");
        let hint = "write a number in this range, or remove the service";
        diagnostics.push(Diagnostic::error(format!("{}.replicas", declared.path), message).hint(hint));
    }
    written.clamp(1, MAX_REPLICAS)
}

/// Adds the further replicas of the services by the numbers of their containers, and the dependencies on them. Each replica has a copy of
/// all texts, which counts in `resolved`.
pub(super) fn add(
    services: &mut Vec<(String, Service)>,
    counts: &BTreeMap<ServiceName, u32>,
    resolved: &ReferencedServices,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if counts.values().all(|count| *count == 1) {
        return;
    }
    let mut added: BTreeMap<ServiceName, Vec<ServiceName>> = BTreeMap::new();
    for (path, first) in services.clone() {
        let count = counts.get(&first.name).copied().unwrap_or(1);
        let size = || serde_json::to_vec(&first).map_or(usize::MAX, |json| json.len());
        let at = format!("{path}.replicas");
        if count > 1 && !resolved.add_resolved(size().saturating_mul(count as usize - 1), &at, REPLICAS) {
            break;
        }
        for number in 2..=count {
            let (name, container) = (
                format!("{}-{number}", first.name),
                format!("{}-{number}", first.container_name),
            );
            let (Ok(name), Ok(container_name)) = (ServiceName::new(name), ResourceName::new(container))
            else {
                let message = format!("the name `{}` is too long for a number", first.name);
                let error = Diagnostic::error(format!("{path}.replicas"), message);
                diagnostics.push(error.hint("shorten the names of the service and of its container"));
                break;
            };
            if services.iter().any(|(_, other)| other.name == name) {
                let message = format!("`{name}` is both a service and a replica of `{}`", first.name);
                let error = Diagnostic::error(format!("{path}.replicas"), message);
                diagnostics.push(error.hint("rename one of them"));
                break;
            }
            let mut replica = first.clone();
            // The container name is that of the first one alone.
            replica
                .aliases
                .retain(|alias| alias != first.container_name.as_str());
            replica.aliases.push(first.name.to_string());
            (replica.name, replica.container_name) = (name.clone(), container_name);
            services.push((path.clone(), replica));
            added.entry(first.name.clone()).or_default().push(name);
        }
    }
    for (_, service) in services {
        let further = service.depends_on.iter().flat_map(|dependency| {
            let replicas = added.get(&dependency.service).into_iter().flatten();
            replicas.map(move |replica| Dependency {
                service: replica.clone(),
                ..dependency.clone()
            })
        });
        let further: Vec<Dependency> = further.collect();
        service.depends_on.extend(further);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{Admission, SpecContext, admit};

    fn admitted(services: &str) -> Admission {
        let text = format!("project: {{ name: shop }}\nservices:\n{services}");
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        admit(&spec, &SpecContext::default())
    }

    #[test]
    fn replicas_are_services_with_the_same_dns_name() {
        let found = admitted(
            "  web: { image: a, replicas: 3, container: { name: shop-web, ports: ['80'] } }\n  \
             proxy: { image: a, dependsOn: [web], container: { name: shop-proxy } }\n",
        );
        assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
        let services = found.desired.unwrap().services;
        let names: Vec<_> = services.keys().map(ServiceName::as_str).collect();
        assert_eq!(names, ["proxy", "web", "web-2", "web-3"]);
        let third = &services["web-3"];
        assert_eq!(third.container_name.as_str(), "shop-web-3");
        assert_eq!(third.aliases, ["web"]);
        assert_eq!(third.ports, services["web"].ports);
        assert_eq!(third.criticality, services["web"].criticality);
        let on = services["proxy"].depends_on.iter();
        let on: Vec<_> = on.map(|dependency| dependency.service.as_str()).collect();
        assert_eq!(on, ["web", "web-2", "web-3"]);
    }

    #[test]
    fn number_of_replicas_has_bounds_and_free_names() {
        for (services, error) in [
            (
                "  web: { image: a, replicas: 0, container: { name: w } }\n",
                "`replicas` is 0",
            ),
            (
                "  web: { image: a, replicas: 51, container: { name: w } }\n",
                "`replicas` is 51",
            ),
            (
                "  web: { image: a, replicas: 2, container: { name: w } }\n  web-2: { image: a, container: { name: x } }\n",
                "`web-2` is both a service and a replica of `web`",
            ),
            (
                "  web: { image: a, replicas: 2, container: { name: w } }\n  db: { image: a, container: { name: w-2 } }\n",
                "both use the container name `w-2`",
            ),
        ] {
            let found = admitted(services);
            let [diagnostic] = &found.diagnostics[..] else {
                panic!("{:?}", found.diagnostics)
            };
            assert!(
                found.desired.is_none() && diagnostic.message.contains(error),
                "{diagnostic:?}"
            );
        }
    }

    #[test]
    fn texts_and_ports_of_all_replicas_are_bounded() {
        let long = "x".repeat(90_000);
        let texts = |services: usize| {
            let service = |number| {
                format!(
                    "  s{number}: {{ image: a, replicas: 50, command: ['{long}'], container: {{ name: c{number} }} }}\n"
                )
            };
            admitted(&(0..services).map(service).collect::<Vec<_>>().concat())
        };
        assert!(texts(3).desired.is_some());
        let ports = |last: u16| {
            admitted(&format!(
                "  web: {{ image: a, replicas: 50, container: {{ name: w, ports: ['1000-{last}:1000-{last}'] }} }}\n"
            ))
        };
        assert!(ports(1199).desired.is_some());
        for (found, path, error) in [
            (
                texts(4),
                "[3].replicas",
                "the file exceeds 16 MiB with the texts of all replicas",
            ),
            (
                ports(1200),
                "services",
                "the services publish 10050 ports, more than the maximum of 10000",
            ),
        ] {
            let [diagnostic] = &found.diagnostics[..] else {
                panic!("{:?}", found.diagnostics)
            };
            assert!(
                found.desired.is_none() && diagnostic.path.ends_with(path) && diagnostic.message == error,
                "{diagnostic:?}"
            );
        }
    }
}

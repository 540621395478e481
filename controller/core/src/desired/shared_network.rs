//! Shared networks: `networkMode: service:NAME` starts a container in the network namespace of another service's container.
//!
//! Both containers have one address, one set of ports and one `localhost`. The engine joins the namespace at the start and identifies
//! it by the id of the other container. The service is therefore created again with the other container, and restarted after it.

use argus_crds::{DeclaredService, Diagnostic};
use serde::{Deserialize, Serialize};

use crate::desired::identity::shown;
use crate::desired::referenced_services::ReferencedServices;
use crate::desired::suggest::did_you_mean;
use crate::desired::{Condition, Dependency, Service};
use crate::ident::{ContainerId, ServiceName};

/// Prefix of a network mode that names a service.
pub(super) const SERVICE: &str = "service:";

/// Network namespace that a container shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedNetwork {
    /// Service that has the addresses and ports.
    pub owner: ServiceName,
    /// Current container of the owner. Only a rendered configuration has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerId>,
}

/// Returns the shared network of a service, and reports an invalid one. The owner becomes a dependency.
pub(super) fn resolve(
    declared: &DeclaredService<'_>,
    name: &ServiceName,
    known: &ReferencedServices,
    depends_on: &mut Vec<Dependency>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<SharedNetwork> {
    let DeclaredService {
        path, service: spec, ..
    } = declared;
    let container = spec.container.as_ref()?;
    let written = spec.network_mode.as_deref()?.strip_prefix(SERVICE)?;
    let mut report = |key: &str, message: String, hint: &str| {
        diagnostics.push(Diagnostic::error(format!("{path}.{key}"), message).hint(hint));
    };
    let referenced = known.get(written).filter(|_| written != name.as_str());
    let (Some(referenced), Ok(owner)) = (referenced, ServiceName::new(written)) else {
        let others = known.names().filter(|other| *other != name.as_str());
        let message = format!("`{}` is no other service of this file", shown(written));
        report("networkMode", message, &did_you_mean(written, others));
        return None;
    };
    if referenced.one_shot {
        let message = format!("the network of `{owner}` ends with it, because it is a one-shot service");
        report("networkMode", message, "name a service that keeps running");
    }
    for (key, is_empty) in [
        ("container.ports", container.ports.is_empty()),
        ("container.networks", container.networks.is_empty()),
        ("container.aliases", container.aliases.is_empty()),
        ("hostname", spec.hostname.is_none()),
        ("extraHosts", spec.extra_hosts.is_empty()),
    ] {
        if !is_empty {
            let message = format!("`{name}` has the network of `{owner}`, so it has no own addresses");
            report(key, message, &format!("move it to `{owner}`"));
        }
    }
    match depends_on.iter_mut().find(|it| it.service == owner) {
        Some(dependency) => dependency.restart = true,
        None => depends_on.push(Dependency {
            service: owner.clone(),
            condition: Condition::Started,
            optional: false,
            restart: true,
        }),
    }
    Some(SharedNetwork {
        owner,
        container: None,
    })
}

/// Reports each service that shares the network of a service which shares another one.
pub(super) fn check_owners(services: &[(String, Service)], diagnostics: &mut Vec<Diagnostic>) {
    for (path, service) in services {
        let owner = service.network_owner();
        let owner = owner.and_then(|owner| services.iter().find(|(_, other)| other.name == *owner));
        if let Some((_, owner)) = owner
            && let Some(first) = owner.network_owner()
        {
            let message = format!(
                "`{}` has no network of its own, but that of `{first}`",
                owner.name
            );
            let hint = format!("write `{SERVICE}{first}`");
            diagnostics.push(Diagnostic::error(format!("{path}.networkMode"), message).hint(hint));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::admit::{Admission, SpecContext, admit};

    fn admitted(services: &str) -> Admission {
        let text = format!(
            "project: {{ name: shop }}\nservices:\n  vpn: {{ image: a, container: {{ name: v, ports: ['80'] }} }}\n{services}"
        );
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        admit(&spec, &SpecContext::default())
    }

    #[test]
    fn service_starts_in_the_network_of_another() {
        let found = admitted("  web: { image: a, networkMode: 'service:vpn', container: { name: w } }\n");
        assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
        let desired = found.desired.unwrap();
        let web = &desired.services["web"];
        assert_eq!(web.network_owner().map(ServiceName::as_str), Some("vpn"));
        let [dependency] = web.depends_on.as_slice() else {
            panic!("{:?}", web.depends_on)
        };
        assert_eq!((dependency.service.as_str(), dependency.restart), ("vpn", true));
        assert_eq!(dependency.condition, Condition::Started);
        assert_eq!(desired.networks_of(web).count(), 0);
        assert!(!web.shares_network(&desired.services["vpn"]));
    }

    #[test]
    fn shared_network_permits_no_own_addresses() {
        for (keys, error) in [
            (
                "networkMode: 'service:vpm'",
                "`vpm` is no other service of this file",
            ),
            (
                "networkMode: 'service:web'",
                "`web` is no other service of this file",
            ),
            (
                "networkMode: 'container:vpn'",
                "`container:vpn` is not an allowed network",
            ),
            (
                "networkMode: 'service:vpn', hostname: h",
                "so it has no own addresses",
            ),
            (
                "networkMode: 'service:vpn', extraHosts: ['a:1.2.3.4']",
                "so it has no own addresses",
            ),
        ] {
            let found = admitted(&format!(
                "  web: {{ image: a, {keys}, container: {{ name: w }} }}\n"
            ));
            let errors: Vec<_> = found.diagnostics.iter().map(|error| &error.message).collect();
            assert!(found.desired.is_none() && errors.len() == 1, "{keys}: {errors:?}");
            assert!(errors[0].contains(error), "{errors:?}");
        }
        let own = "container: { name: w, ports: ['81'], networks: [default], aliases: [x] }";
        let found = admitted(&format!(
            "  web: {{ image: a, networkMode: 'service:vpn', {own} }}\n"
        ));
        assert_eq!(found.diagnostics.len(), 3, "{:?}", found.diagnostics);
    }

    #[test]
    fn owner_of_a_shared_network_has_its_own() {
        let found = admitted(
            "  web: { image: a, networkMode: 'service:vpn', container: { name: w } }\n  \
             job: { image: a, networkMode: 'service:web', container: { name: j } }\n",
        );
        let errors: Vec<_> = found
            .diagnostics
            .iter()
            .filter_map(|error| error.hint.as_deref())
            .collect();
        assert_eq!(errors, ["write `service:vpn`"]);
    }
}

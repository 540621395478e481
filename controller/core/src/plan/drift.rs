//! What differs between a container as it was asked for and as it is.

use std::collections::BTreeSet;

use super::ContainerSpec;
use crate::ident::HostPort;
use crate::observed::Container;

/// The first difference that only a replacement mends; `None` while nothing is known or nothing differs.
pub(super) fn configuration(spec: &ContainerSpec, container: &Container) -> Option<String> {
    let config = &container.facts.as_ref()?.config;
    if config.memory != spec.memory.unwrap_or(0) {
        return Some(format!("memory limit is {}", config.memory));
    }
    if config.nano_cpus != spec.nano_cpus.unwrap_or(0) {
        return Some(format!("cpu limit is {}", config.nano_cpus));
    }
    if !matches!(config.restart_policy.as_str(), "" | "no") {
        return Some(format!("restart policy is {}", config.restart_policy));
    }
    let present: BTreeSet<&str> = config.environment.iter().map(String::as_str).collect();
    let missing = spec
        .environment
        .iter()
        .find(|(key, value)| !present.contains(format!("{key}={value}").as_str()));
    if let Some((key, _)) = missing {
        return Some(format!("environment variable {key} differs"));
    }
    let wanted: BTreeSet<(HostPort, HostPort)> = spec
        .bindings
        .iter()
        .map(|binding| {
            let port = |number| HostPort {
                number,
                protocol: binding.protocol,
            };
            (port(binding.container), port(binding.host))
        })
        .collect();
    let bound: BTreeSet<(HostPort, HostPort)> = config.bindings.iter().copied().collect();
    (wanted != bound).then(|| "published ports differ".to_owned())
}

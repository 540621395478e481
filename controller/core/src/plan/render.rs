//! Rendering: turns a desired service with its ports into the configuration of its container.

use std::collections::BTreeMap;

use crate::action::{Binding, ContainerSpec};
use crate::desired::hash::hash_of;
use crate::desired::{Desired, Image, Role, Service};
use crate::ident::{ContainerSpecHash, ServiceName};
use crate::ident::{PortMap, ResourceName};
use crate::labels;
use crate::observed::{ContainerState, Observed};
use crate::plan::ControllerIdentity;
use crate::plan::port_references;
use crate::plan::stop_order;
use crate::published::overlap;
use crate::time::Timestamp;

/// Rendered services of an environment, each with the hash that its container must carry.
pub type Rendered = BTreeMap<ServiceName, (ContainerSpec, ContainerSpecHash)>;

/// Renders all services with one port map.
pub fn render_all(desired: &Desired, ports: &PortMap, identity: &ControllerIdentity) -> Rendered {
    desired
        .services
        .values()
        .map(|service| {
            let spec = container(desired, service, ports, identity);
            let hash = hash_of(&spec);
            (service.name.clone(), (spec, hash))
        })
        .collect()
}

/// Sets the containers whose networks others share. The hash contains the id, so that a new container of the owner replaces theirs.
pub fn join_networks(rendered: &mut Rendered, desired: &Desired, observed: &Observed) {
    for service in desired.services.values() {
        let Some(owner) = service.network_owner() else {
            continue;
        };
        let hash = rendered.get(owner).map(|(_, hash)| hash);
        let containers = observed.containers.of(owner).filter(|container| {
            let is_ending = matches!(container.state, ContainerState::Removing | ContainerState::Dead);
            !is_ending && hash.is_some_and(|hash| container.carries(hash))
        });
        let current = containers.min_by_key(|it| (!it.state.is_up(), it.created_at, it.id.clone()));
        let current = current.map(|container| container.id.clone());
        if let Some((spec, hash)) = rendered.get_mut(&service.name)
            && let Some(shared) = &mut spec.process.shared_network
            && shared.container != current
        {
            shared.container = current;
            *hash = hash_of(spec);
        }
    }
}

/// Adds the labels that are not part of the hash: those that differ at every creation, and the dependencies, because another
/// order does not replace a container.
pub fn stamped(
    spec: &ContainerSpec,
    hash: &ContainerSpecHash,
    desired: &Desired,
    identity: &ControllerIdentity,
    now: Timestamp,
) -> ContainerSpec {
    let mut spec = spec.clone();
    spec.labels.extend(volatile_labels(desired, identity, now));
    spec.labels.extend(folder_label(desired));
    spec.labels.insert(labels::SPEC_HASH.into(), hash.to_string());
    let service = spec.labels.get(labels::SERVICE).map(String::as_str);
    let dependencies = stop_order::dependencies_label(desired, service.unwrap_or_default());
    spec.labels.insert(labels::DEPENDS_ON.into(), dependencies);
    // A container inherits a label of its image that its creation does not set.
    spec.labels.entry(labels::PORTS.into()).or_default();
    spec
}

/// Labels of a network or volume.
pub fn labels_of(
    desired: &Desired,
    role: &str,
    identity: &ControllerIdentity,
    now: Timestamp,
) -> BTreeMap<String, String> {
    let mut all = stable_labels(desired, role);
    all.extend(volatile_labels(desired, identity, now));
    all.extend(folder_label(desired));
    if role == "volume" && desired.delete_volumes {
        all.insert(labels::DELETION.into(), "Delete".into());
    }
    all
}

fn stable_labels(desired: &Desired, role: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::MANAGED.into(), "true".into()),
        (labels::PROJECT.into(), desired.project.clone()),
        (labels::ENVIRONMENT.into(), desired.env.to_string()),
        (labels::ROLE.into(), role.into()),
    ])
}

fn folder_label(desired: &Desired) -> Option<(String, String)> {
    Some((labels::FOLDER.into(), desired.folder.clone()?))
}

fn volatile_labels(
    desired: &Desired,
    identity: &ControllerIdentity,
    now: Timestamp,
) -> [(String, String); 4] {
    [
        (labels::REVISION.into(), desired.revision.to_string()),
        (labels::CONTROLLER.into(), identity.controller.clone()),
        (labels::RUN_ID.into(), identity.run.clone()),
        (labels::CREATED_AT.into(), now.to_string()),
    ]
}

fn container(
    desired: &Desired,
    service: &Service,
    ports: &PortMap,
    identity: &ControllerIdentity,
) -> ContainerSpec {
    let variable = |text: &str| {
        port_references::rewrite_variable(&resolve(text, desired, ports), desired, service, ports)
    };
    let word = |text: &String| {
        port_references::rewrite_word(&resolve(text, desired, ports), desired, service, ports)
    };
    let words = |text: &Option<Vec<String>>| Some(text.as_ref()?.iter().map(word).collect());
    let role = match service.role {
        Role::Service => "service",
        Role::Mock => "mock",
    };
    let bindings = bindings(service, ports, identity);
    let mut all_labels = service.labels.clone();
    for value in all_labels.values_mut() {
        *value = resolve(value, desired, ports);
    }
    all_labels.extend(stable_labels(desired, role));
    all_labels.insert(labels::SERVICE.into(), service.name.to_string());
    if let Some(owner) = service.network_owner() {
        all_labels.insert(labels::NETWORK_OWNER.into(), owner.to_string());
    }
    if !bindings.is_empty() {
        all_labels.insert(labels::PORTS.into(), ports_label(service, ports));
    }
    let mut process = service.process.clone();
    for file in &mut process.files {
        file.text = resolve(&file.text, desired, ports);
    }
    let mut attachments: BTreeMap<ResourceName, Vec<String>> = BTreeMap::new();
    for network in desired.networks_of(service) {
        let further = service.aliases_on(&network);
        let further = further.filter(|alias| **alias != service.name.as_str()).cloned();
        let aliases = [service.name.to_string()].into_iter().chain(further);
        attachments.insert(network.name.clone(), aliases.collect());
    }
    // Only a service that shares a network has none of its own.
    let (network, aliases) = attachments
        .pop_first()
        .unwrap_or_else(|| (desired.network.clone(), vec![service.name.to_string()]));
    ContainerSpec {
        image: service.image.reference().to_owned(),
        build: match &service.image {
            Image::Named(_) => String::new(),
            Image::Built(build) => build.digest.to_string(),
        },
        entrypoint: words(&service.entrypoint),
        command: words(&service.command),
        env_vars: service
            .env_vars
            .iter()
            .map(|(key, value)| (key.clone(), variable(value)))
            .collect(),
        labels: all_labels,
        network,
        aliases,
        further_networks: attachments,
        bindings,
        mounts: service.all_mounts().cloned().collect(),
        tmpfs: service.tmpfs.clone(),
        extra_hosts: service.extra_hosts.clone(),
        user: service.user.clone(),
        working_dir: service.working_dir.clone(),
        process,
        memory: service.memory,
        nano_cpus: service.nano_cpus,
        stop_grace: service.stop_grace,
        container_limits: desired.container_limits.of_container(&service.process),
    }
}

fn bindings(service: &Service, ports: &PortMap, identity: &ControllerIdentity) -> Vec<Binding> {
    let mut all: Vec<Binding> = Vec::new();
    for port in &service.ports {
        let Some(host) = ports.get(&port.key(&service.name)).copied() else {
            continue;
        };
        let binding = Binding {
            address: port.address.unwrap_or(identity.publish_address),
            host,
            container: port.container,
            protocol: port.protocol,
        };
        // The default address can be one that another publication of the port names.
        let is_bound = |other: &Binding| {
            let place = |it: &Binding| (it.host, it.container, it.protocol);
            place(other) == place(&binding) && overlap(other.address, binding.address)
        };
        if !all.iter().any(is_bound) {
            all.push(binding);
        }
    }
    all
}

/// Ports label of one container: `80/tcp=9001@8080` means that 9001 is assigned and 8080 is requested.
fn ports_label(service: &Service, ports: &PortMap) -> String {
    let entries: Vec<String> = service
        .ports
        .iter()
        .filter_map(|port| {
            let key = port.key(&service.name);
            let (container, host) = (key.container, ports.get(&key)?);
            Some(format!("{container}={host}@{}", port.requested.unwrap_or(0)))
        })
        .collect();
    entries.join(",")
}

/// Replaces the references of one text.
fn resolve(template: &str, desired: &Desired, ports: &PortMap) -> String {
    let mut text = template.to_owned();
    if text.contains("{{") {
        for other in desired.services.values() {
            for port in &other.ports {
                if let Some(host) = ports.get(&port.key(&other.name)) {
                    let reference = format!("{{{{ports.{}.{}}}}}", other.name, port.container);
                    text = text.replace(&reference, &host.to_string());
                }
            }
            let url = format!("{{{{services.{}.url}}}}", other.name);
            if let Some(port) = other.ports.first().map(|port| port.container) {
                // Traffic between services stays on their network and uses the container's port.
                text = text.replace(&url, &format!("http://{}:{port}", other.name));
            }
        }
    }
    text
}

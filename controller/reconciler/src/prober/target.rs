//! Which containers are probed, and where.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use argus_core::desired::{Accepted, Probe, ProbeKind, Service};
use argus_core::ident::{ContainerId, EnvName, Protocol, ServiceName};
use argus_core::observed::{Container, ContainerState, Store};
use argus_core::plan::{PortKey, PortMap, port_references};
use argus_core::time::Timestamp;

/// Where published ports are found from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Where ports are published when the file names no address.
    pub publish_address: IpAddr,
    /// The engine's host as seen from here, when that is not this host.
    pub engine_host: Option<IpAddr>,
}

/// A container that is probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) probe: Probe,
    pub(super) started_at: Option<Timestamp>,
    /// `None` for a probe that needs none, and where none is known.
    pub(super) address: Option<SocketAddr>,
    /// When the newest run of what it depends on began: after that it is asked at once.
    pub(super) upstream: Option<Timestamp>,
}

/// The running containers of accepted environments whose service is probed from outside.
pub(super) fn wanted(
    specs: &BTreeMap<EnvName, Arc<Accepted>>,
    store: &Store,
    places: Addresses,
) -> BTreeMap<ContainerId, Target> {
    let runs = runs(store);
    let mut ports = BTreeMap::new();
    let target = |container: &Arc<Container>| {
        let owner = container.owner()?;
        let desired = &specs.get(&owner.environment)?.desired;
        let service = desired.services.get(owner.service.as_ref()?)?;
        let mut probe = service.probe.clone()?;
        let port = match &mut probe.kind {
            ProbeKind::Http { port, .. } | ProbeKind::Tcp { port } => Some(*port),
            ProbeKind::Exec { command } => {
                let ports = ports
                    .entry(owner.environment.clone())
                    .or_insert_with_key(|env| published(store, env));
                *command = port_references::probe(command, desired, service, ports);
                None
            }
            ProbeKind::Docker => return None,
        };
        let facts = container.inspect.as_ref()?;
        if container.state != ContainerState::Running {
            return None;
        }
        let address = port.and_then(|port| address(container, service, port, places));
        Some((
            container.id.clone(),
            Target {
                probe,
                started_at: facts.started_at,
                address,
                upstream: service
                    .depends_on
                    .iter()
                    .filter_map(|need| {
                        runs.get(&(owner.environment.clone(), need.service.clone()))
                            .copied()
                    })
                    .max(),
            },
        ))
    };
    store.containers().filter_map(target).collect()
}

/// Where the ports of an environment's running containers are on the host.
fn published(store: &Store, env: &EnvName) -> PortMap {
    let mut ports = PortMap::new();
    let containers = store
        .of(env)
        .into_iter()
        .flat_map(|seen| seen.containers.values());
    for container in containers.filter(|container| container.state == ContainerState::Running) {
        let (Some(owner), Some(facts)) = (container.owner(), &container.inspect) else {
            continue;
        };
        let Some(service) = owner.service else { continue };
        ports.extend(facts.config.bindings.iter().map(|(inside, host)| {
            let key = PortKey {
                service: service.clone(),
                container: *inside,
            };
            (key, host.number)
        }));
    }
    ports
}

/// When the newest run of each service began.
fn runs(store: &Store) -> BTreeMap<(EnvName, ServiceName), Timestamp> {
    let mut runs = BTreeMap::new();
    for container in store.containers() {
        let started = container.inspect.as_ref().and_then(|facts| facts.started_at);
        if let (Some(owner), Some(started)) = (container.owner(), started)
            && let Some(service) = owner.service
        {
            let newest = runs.entry((owner.environment, service)).or_insert(started);
            *newest = started.max(*newest);
        }
    }
    runs
}

/// The published port where there is one, else the container's own address.
fn address(container: &Container, service: &Service, port: u16, places: Addresses) -> Option<SocketAddr> {
    let bindings = container.inspect.iter().flat_map(|facts| &facts.config.bindings);
    let published = bindings
        .filter(|(inside, _)| inside.number == port && inside.protocol == Protocol::Tcp)
        .map(|(_, host)| host.number)
        .find(|host| *host != 0);
    if let Some(host) = published {
        let named = service
            .ports
            .iter()
            .filter(|own| own.container == port)
            .find_map(|own| own.address);
        let bound = named.unwrap_or(places.publish_address);
        let near = match bound {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            IpAddr::V4(_) | IpAddr::V6(_) => bound,
        };
        return Some(SocketAddr::new(places.engine_host.unwrap_or(near), host));
    }
    let own = |text: &String| text.split('/').next().and_then(|text| text.parse().ok());
    let address = container
        .networks
        .values()
        .filter_map(|attachment| attachment.address.as_ref())
        .find_map(own);
    address.map(|ip| SocketAddr::new(ip, port))
}

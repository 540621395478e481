//! Selection of the containers to probe, with their addresses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use argus_core::desired::{Accepted, Probe, ProbeHandler, Service};
use argus_core::failed_run::first_line_of;
use argus_core::ident::{ContainerId, Protocol, ServiceName};
use argus_core::ident::{PortKey, PortMap};
use argus_core::observed::{Attachment, Container, ContainerState, Observed};
use argus_core::plan::port_references;
use argus_core::published::{Addresses, connectable};
use argus_core::status::UNREACHABLE_HINT;
use argus_core::time::Timestamp;

/// Container to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) probe: Probe,
    pub(super) started_at: Option<Timestamp>,
    /// Address of the probe; `None` if the probe needs none, or none is known.
    pub(super) address: Option<SocketAddr>,
    /// Reason for a probe without an address.
    pub(super) obstacle: String,
    /// Own address of the container behind a published port; `None` if it is not reachable from here.
    pub(super) own_address: Option<SocketAddr>,
    /// Time of the first line of the run; `None` where it is unknown.
    pub(super) first_line_at: Option<Timestamp>,
    /// Start of the newest run among its dependencies. A change triggers a probe immediately.
    pub(super) dependencies_started_at: Option<Timestamp>,
}

/// Running containers of an environment with a probe that the controller runs.
pub(super) fn wanted(
    accepted: &Accepted,
    observed: &Observed,
    addresses: Addresses,
) -> BTreeMap<ContainerId, Target> {
    let desired = &accepted.desired;
    let start_times = start_times(observed);
    let mut ports = None;
    let target = |container: &Arc<Container>| {
        let service = desired.services.get(container.owner()?.service.as_ref()?)?;
        let mut probe = service.probe.clone()?;
        let port = match &mut probe.kind {
            ProbeHandler::Http { port, .. } | ProbeHandler::Tcp { port } => Some(*port),
            ProbeHandler::Exec { command } => {
                let ports = ports.get_or_insert_with(|| published(observed));
                *command = port_references::rewrite_probe_command(command, desired, service, ports);
                None
            }
            ProbeHandler::Log { .. } => None,
            ProbeHandler::DockerOrTcp { port } if !container.has_health_check() => Some(*port),
            ProbeHandler::DockerOrTcp { .. } | ProbeHandler::Docker => return None,
        };
        let info = container.inspect.as_ref()?;
        // Without its networks, the container cannot answer. Its probe starts again after the repair.
        let mut networks = desired.networks_of(service);
        let is_attached = networks.all(|network| is_attached(container, network.name.as_str(), observed));
        if container.state != ContainerState::Running || !is_attached {
            return None;
        }
        // The ports of a shared network are those of its owner.
        let (at, listener) = match service.network_owner() {
            Some(owner) => (running(observed, owner)?, desired.services.get(owner)?),
            None => (container.as_ref(), service),
        };
        let is_local = addresses.engine_host.is_none();
        // An address on a network of the engine belongs to another container here, or to none.
        let own_address = port
            .and_then(|port| own_address(at, port, observed))
            .filter(|_| is_local);
        let published = port.map(|port| published_address(at, listener, port, addresses));
        let (address, obstacle) = match published {
            Some(Ok(address)) => (Some(address), String::new()),
            Some(Err(obstacle)) => (own_address, obstacle),
            None => (None, String::new()),
        };
        Some((
            container.id.clone(),
            Target {
                probe,
                started_at: info.started_at,
                address,
                obstacle,
                own_address: own_address.filter(|own| Some(*own) != address),
                first_line_at: info
                    .started_at
                    .map(|started| first_line_of(started, info.finished_at)),
                dependencies_started_at: service
                    .depends_on
                    .iter()
                    .filter_map(|need| start_times.get(&need.service).copied())
                    .max(),
            },
        ))
    };
    observed.containers.values().filter_map(target).collect()
}

/// Running container of a service.
fn running<'a>(observed: &'a Observed, service: &ServiceName) -> Option<&'a Container> {
    let mut containers = observed.containers.of(service).map(AsRef::as_ref);
    containers.find(|container: &&Container| container.state == ContainerState::Running)
}

/// True if the container is on this network, and the bridge of the network exists.
fn is_attached(container: &Container, network: &str, observed: &Observed) -> bool {
    let Some(attachment) = container.networks.get(network) else {
        return false;
    };
    let network = attachment
        .network
        .as_ref()
        .and_then(|id| observed.networks.get(id));
    network.is_none_or(|network| !network.is_broken)
}

/// Host ports of an environment's running containers.
fn published(observed: &Observed) -> PortMap {
    let mut ports = PortMap::new();
    let containers = observed.containers.values();
    for container in containers.filter(|container| container.state == ContainerState::Running) {
        let (Some(owner), Some(info)) = (container.owner(), &container.inspect) else {
            continue;
        };
        let Some(service) = owner.service else { continue };
        ports.extend(info.config.bindings.iter().map(|(inside, host)| {
            let key = PortKey {
                service: service.clone(),
                container: *inside,
            };
            (key, host.number)
        }));
    }
    ports
}

/// Start of the newest run of each service.
fn start_times(observed: &Observed) -> BTreeMap<ServiceName, Timestamp> {
    let mut runs = BTreeMap::new();
    for container in observed.containers.values() {
        let started = container.inspect.as_ref().and_then(|info| info.started_at);
        if let (Some(owner), Some(started)) = (container.owner(), started)
            && let Some(service) = owner.service
        {
            let newest = runs.entry(service).or_insert(started);
            *newest = started.max(*newest);
        }
    }
    runs
}

/// Published port of the container, as reachable from the controller.
///
/// # Errors
/// Text: the controller cannot reach the port.
fn published_address(
    container: &Container,
    service: &Service,
    port: u16,
    addresses: Addresses,
) -> Result<SocketAddr, String> {
    let bindings = container.inspect.iter().flat_map(|info| &info.config.bindings);
    let actual = bindings
        .filter(|(inside, _)| inside.number == port && inside.protocol == Protocol::Tcp)
        .map(|(_, host)| host.number)
        .find(|host| *host != 0);
    let Some(actual) = actual else {
        return Err(if addresses.engine_host.is_none() {
            format!("port {port} is not published and the container has no address")
        } else {
            format!("port {port} is not published, and the engine runs on another host")
        });
    };
    let named = service
        .ports
        .iter()
        .filter(|own| own.container == port)
        .find_map(|own| own.address);
    let host = addresses.client_host(named).ok_or_else(|| {
        let bound = addresses.bound(named);
        format!("the engine runs on another host, and publishes port {port} on its address {bound}; {UNREACHABLE_HINT}")
    })?;
    Ok(SocketAddr::new(connectable(host), actual))
}

/// Address of the container on one of its networks. An external one comes last: the host cannot reach every kind of network.
fn own_address(container: &Container, port: u16, observed: &Observed) -> Option<SocketAddr> {
    let attachments = || container.networks.values();
    let is_own = |attachment: &&Attachment| {
        let id = attachment.network.as_ref();
        id.is_some_and(|id| observed.networks.contains_key(id))
    };
    let own = attachments().filter(is_own).find_map(Attachment::ip);
    let address = own.or_else(|| attachments().find_map(Attachment::ip));
    address.map(|ip| SocketAddr::new(ip, port))
}

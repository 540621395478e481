//! Host ports in use in the engine's network namespace, and their owners.

mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use argus_core::ident::{ContainerId, Protocol, ProtocolPort};
use argus_core::labels::{ObjectLabels, compose_project};
use argus_core::outcome::PortOwner;
use argus_core::preflight::{Fact, ListenerFact, ListenersFact};
use bollard::models::{ContainerSummary, PortSummaryTypeEnum};
use bollard::query_parameters::ListContainersOptionsBuilder;

use crate::Shared;
use crate::call;
use crate::error::Op;
use crate::inspect;
use sockets::{Socket, SocketOwner, Sockets};

/// Programs that hold ports on behalf of containers.
const PROXIES: [&str; 10] = [
    "docker-proxy",
    "dockerd",
    "rootlesskit",
    "rootlessport",
    "conmon",
    "pasta",
    "slirp4netns",
    "com.docker.backend",
    "vpnkit",
    "gvproxy",
];

/// The ports in use at one moment.
#[derive(Debug, Default)]
pub(crate) struct ListenerSnapshot {
    /// Ports that running containers publish.
    published: BTreeMap<ProtocolPort, PortOwner>,
    /// Sockets of the engine's network namespace; `None` when they are not visible from here.
    sockets: Option<BTreeMap<ProtocolPort, SocketOwner>>,
    /// Connected sockets of the same namespace, such as those of outgoing connections. Not every one prevents a listener.
    connected: BTreeMap<ProtocolPort, SocketOwner>,
}

impl ListenerSnapshot {
    /// Every port in use.
    pub(crate) fn busy(&self) -> BTreeSet<ProtocolPort> {
        let sockets = self.sockets.iter().flat_map(BTreeMap::keys);
        self.published.keys().chain(sockets).copied().collect()
    }

    /// Owner of every port in use or connected: of a port that the engine refused.
    pub(crate) fn owners(&self) -> BTreeMap<ProtocolPort, PortOwner> {
        let owned = |port| Some((port, self.owner(port)?));
        let ports = self.connected.keys().copied().chain(self.busy());
        ports.filter_map(owned).collect()
    }

    /// True when every port that is not in [`Self::busy`] is free.
    pub(crate) fn is_complete(&self) -> bool {
        self.sockets.is_some()
    }

    /// Owner of a port; `None` when the port is not known to be in use.
    pub(crate) fn owner(&self, port: ProtocolPort) -> Option<PortOwner> {
        if let Some(owner) = self.published.get(&port) {
            return Some(owner.clone());
        }
        let listening = self.sockets.as_ref()?.get(&port);
        let socket = listening.or_else(|| self.connected.get(&port))?;
        Some(owner_of_socket(socket))
    }
}

fn owner_of_socket(socket: &SocketOwner) -> PortOwner {
    match socket {
        // A proxy of a container that no longer publishes the port, or the engine itself.
        SocketOwner::Process { command, .. } if is_proxy(command) => PortOwner::StaleAllocation,
        SocketOwner::Process { .. } | SocketOwner::Hidden => process_of_socket(socket),
    }
}

fn process_of_socket(socket: &SocketOwner) -> PortOwner {
    match socket {
        SocketOwner::Process { pid, command } => PortOwner::Process {
            pid: *pid,
            command: command.clone(),
        },
        SocketOwner::Hidden => PortOwner::Unknown,
    }
}

/// Owner of the TCP socket that prevents this process from binding an address. Can read the files of all processes.
#[must_use]
pub fn port_holder(wanted: SocketAddr) -> PortOwner {
    let is_same = |socket: &Socket| {
        let address = socket.address;
        let overlaps = address == wanted.ip() || address.is_unspecified() || wanted.ip().is_unspecified();
        socket.port.protocol == Protocol::Tcp && socket.port.number == wanted.port() && overlaps
    };
    let sockets = sockets::find_own().unwrap_or_default();
    let mut sockets = sockets.listening.iter().chain(&sockets.connected);
    let found = sockets.find(|socket| is_same(socket));
    found.map_or(PortOwner::Unknown, |socket| process_of_socket(&socket.owner))
}

/// First and last port that this host gives to outgoing connections.
#[must_use]
pub fn outgoing_ports() -> Option<(u16, u16)> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut numbers = text.split_whitespace().map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

/// Sockets in the engine's network namespace, without a call of the engine.
pub(crate) async fn read_sockets(shared: &Shared) -> Fact<ListenersFact> {
    if shared.connection.endpoint().socket().is_none() {
        return Fact::NotApplicable("the engine is on another host".to_owned());
    }
    match find_sockets(shared).await {
        Some(sockets) => Fact::Known(listeners_of(&sockets.listening)),
        None => Fact::unknown("the sockets of the engine's host are not visible from here"),
    }
}

/// Reports only processes that are certainly not a proxy: a proxy may end with its container.
fn listeners_of(sockets: &[Socket]) -> ListenersFact {
    let held = |socket: &Socket| {
        matches!(&socket.owner, SocketOwner::Process { command, .. } if !is_proxy(command)).then(|| {
            ListenerFact {
                address: socket.address,
                port: socket.port,
                owner: process_of_socket(&socket.owner),
            }
        })
    };
    ListenersFact {
        sockets: sockets.iter().filter_map(held).collect(),
        busy: sockets
            .iter()
            .map(|socket| (socket.port, process_of_socket(&socket.owner)))
            .collect(),
    }
}

/// Lists published ports and sockets. `excluded` is a container that is known to hold no port.
pub(crate) async fn take_snapshot(shared: &Shared, excluded: Option<&ContainerId>) -> ListenerSnapshot {
    let published = list_published(shared, excluded).await;
    let found = find_sockets(shared).await;
    let owners = |sockets: Vec<Socket>| {
        sockets
            .into_iter()
            .map(|socket| (socket.port, socket.owner))
            .collect()
    };
    let (sockets, connected) = match found {
        Some(found) => (Some(owners(found.listening)), owners(found.connected)),
        None => (None, BTreeMap::new()),
    };
    ListenerSnapshot {
        published,
        sockets,
        connected,
    }
}

async fn find_sockets(shared: &Shared) -> Option<Sockets> {
    let path = shared.connection.endpoint().socket()?.to_owned();
    // Reading /proc of every process takes milliseconds, which must not block an async worker.
    tokio::task::spawn_blocking(move || sockets::find(&path))
        .await
        .ok()
        .flatten()
}

async fn list_published(
    shared: &Shared,
    excluded: Option<&ContainerId>,
) -> BTreeMap<ProtocolPort, PortOwner> {
    let Ok(client) = shared.connection.client() else {
        return BTreeMap::new();
    };
    let options = ListContainersOptionsBuilder::default().all(true).build();
    let Ok(list) = call::run(Op::List, shared.times.read, client.list_containers(Some(options))).await else {
        return BTreeMap::new();
    };
    let others = list
        .into_iter()
        .filter(|summary| summary.id.as_deref() != excluded.map(ContainerId::as_str));
    others.flat_map(ports_of).collect()
}

fn ports_of(summary: ContainerSummary) -> Vec<(ProtocolPort, PortOwner)> {
    let published: Vec<ProtocolPort> = summary
        .ports
        .iter()
        .flatten()
        .filter_map(|port| {
            let protocol = match port.typ {
                Some(PortSummaryTypeEnum::UDP) => Protocol::Udp,
                Some(PortSummaryTypeEnum::SCTP) => return None,
                _ => Protocol::Tcp,
            };
            port.public_port
                .filter(|number| *number > 0)
                .map(|number| ProtocolPort::new(number, protocol))
        })
        .collect();
    let Some(found) = inspect::convert_summary(summary) else {
        return Vec::new();
    };
    let container = found.container;
    let owner = match ObjectLabels::read(&container.labels) {
        Some(owner) => PortOwner::Environment {
            environment: owner.environment.to_string(),
            service: owner
                .service
                .map_or_else(String::new, |service| service.to_string()),
        },
        None => PortOwner::Container {
            project: compose_project(&container.labels).cloned(),
            name: container.name,
            id: container.id.to_string(),
        },
    };
    published.into_iter().map(|port| (port, owner.clone())).collect()
}

/// True for a process of an engine or of its proxies.
fn is_proxy(command: &str) -> bool {
    let program = command.split(' ').next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    PROXIES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(number: u16) -> ProtocolPort {
        ProtocolPort::new(number, Protocol::Tcp)
    }

    #[test]
    fn the_owner_of_a_port_is_found_by_container_or_socket() {
        let process = |command: &str| SocketOwner::Process {
            pid: 7,
            command: command.to_owned(),
        };
        let container = PortOwner::Container {
            name: "db".into(),
            id: "abc".into(),
            project: None,
        };
        let snapshot = ListenerSnapshot {
            published: BTreeMap::from([(tcp(1), container.clone())]),
            sockets: Some(BTreeMap::from([
                (tcp(1), process("/usr/bin/docker-proxy -proto tcp")),
                (tcp(2), process("/usr/sbin/docker-proxy -proto tcp")),
                (tcp(3), process("python3 -m http.server")),
                (tcp(4), SocketOwner::Hidden),
            ])),
            connected: BTreeMap::from([(tcp(6), process("curl"))]),
        };
        assert_eq!(snapshot.owner(tcp(1)), Some(container));
        assert_eq!(snapshot.owner(tcp(2)), Some(PortOwner::StaleAllocation));
        let python = PortOwner::Process {
            pid: 7,
            command: "python3 -m http.server".into(),
        };
        assert_eq!(snapshot.owner(tcp(3)), Some(python));
        assert_eq!(snapshot.owner(tcp(4)), Some(PortOwner::Unknown));
        assert_eq!(snapshot.owner(tcp(5)), None);
        let curl = PortOwner::Process {
            pid: 7,
            command: "curl".into(),
        };
        assert_eq!(
            snapshot.owners().get(&tcp(6)),
            Some(&curl),
            "it can explain a refusal"
        );
        assert_eq!(snapshot.busy(), (1..=4).map(tcp).collect());
    }

    #[test]
    fn only_visible_processes_hold_ports_in_advance() {
        let socket = |number, address: &str, owner| Socket {
            address: address.parse().unwrap(),
            port: tcp(number),
            owner,
        };
        let process = |command: &str| SocketOwner::Process {
            pid: 7,
            command: command.to_owned(),
        };
        let facts = listeners_of(&[
            socket(1, "0.0.0.0", process("nginx")),
            socket(2, "127.0.0.1", process("/usr/bin/docker-proxy -proto tcp")),
            socket(3, "127.0.0.1", SocketOwner::Hidden),
            socket(4, "::1", process("nginx")),
            socket(5, "10.0.0.1", process("nginx")),
            socket(6, "::", process("nginx")),
        ]);
        for (address, expected) in [
            ("127.0.0.1", vec![1, 4, 6]),
            ("0.0.0.0", vec![1, 4, 5, 6]),
            ("::1", vec![4, 6]),
            ("::", vec![4, 6]),
        ] {
            let address = address.parse().unwrap();
            let held = (1..=6).filter(|number| facts.owner_of(tcp(*number), address).is_some());
            assert_eq!(held.collect::<Vec<_>>(), expected, "{address}");
        }
        assert!(facts.busy.keys().copied().eq((1..=6).map(tcp)));
    }

    #[test]
    fn a_published_port_names_its_compose_project() {
        let summary = serde_json::from_value(serde_json::json!({
            "Id": "abc", "Names": ["/shop-web-1"], "Labels": {"com.docker.compose.project": "shop"},
            "Ports": [{"PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"}],
        }));
        let owners = ports_of(summary.unwrap());
        let text = owners[0].1.to_string();
        assert!(
            text.starts_with("container `shop-web-1` of the Compose project `shop`"),
            "{text}"
        );
        assert!(text.contains("`docker compose -p shop down` ends it"), "{text}");
    }

    #[test]
    fn a_published_port_names_its_environment() {
        let summary = serde_json::from_value(serde_json::json!({
            "Id": "abc", "Names": ["/web"],
            "Labels": {"argusai.managed": "true", "argusai.environment": "e", "argusai.service": "web"},
            "Ports": [{"PrivatePort": 80, "PublicPort": 8080, "Type": "tcp", "IP": "127.0.0.1"},
                {"PrivatePort": 53, "PublicPort": 53, "Type": "udp"}, {"PrivatePort": 81, "Type": "tcp"}],
        }));
        let owner = PortOwner::Environment {
            environment: "e".into(),
            service: "web".into(),
        };
        let udp = ProtocolPort::new(53, Protocol::Udp);
        assert_eq!(
            ports_of(summary.unwrap()),
            [(tcp(8080), owner.clone()), (udp, owner)]
        );
    }
}

//! Host ports in use in the engine's network namespace, and their owners.

mod sockets;

use std::collections::{BTreeMap, BTreeSet};

use argus_core::ident::{ContainerId, Protocol, ProtocolPort};
use argus_core::labels::ObjectLabels;
use argus_core::outcome::PortOwner;
use bollard::models::{ContainerSummary, PortSummaryTypeEnum};
use bollard::query_parameters::ListContainersOptionsBuilder;

use crate::Shared;
use crate::call::{self, READ_TIMEOUT};
use crate::connect::Endpoint;
use crate::error::Op;
use crate::inspect;
use sockets::SocketOwner;

/// The ports in use at one moment.
#[derive(Debug, Default)]
pub(crate) struct ListenerSnapshot {
    /// Ports that running containers publish.
    published: BTreeMap<ProtocolPort, PortOwner>,
    /// Sockets of the engine's network namespace; `None` when they are not visible from here.
    sockets: Option<BTreeMap<ProtocolPort, SocketOwner>>,
}

impl ListenerSnapshot {
    /// Every port in use.
    pub(crate) fn busy(&self) -> BTreeSet<ProtocolPort> {
        let sockets = self.sockets.iter().flat_map(BTreeMap::keys);
        self.published.keys().chain(sockets).copied().collect()
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
        Some(match self.sockets.as_ref()?.get(&port)? {
            // A proxy of a container that no longer publishes the port, or the engine itself.
            SocketOwner::Process { command, .. } if is_proxy(command) => PortOwner::StaleAllocation,
            SocketOwner::Process { pid, command } => PortOwner::Process {
                pid: *pid,
                command: command.clone(),
            },
            SocketOwner::Hidden => PortOwner::Unknown,
        })
    }
}

/// Lists published ports and sockets. `excluded` is a container that is known to hold no port.
pub(crate) async fn take_snapshot(shared: &Shared, excluded: Option<&ContainerId>) -> ListenerSnapshot {
    let published = list_published(shared, excluded).await;
    let socket = match shared.connection.endpoint() {
        Endpoint::Unix(path) => Some(path.clone()),
        Endpoint::Tcp(_) => None,
    };
    let sockets = match socket {
        // Reading /proc of every process takes milliseconds, which must not block an async worker.
        Some(path) => tokio::task::spawn_blocking(move || sockets::find_listeners(&path))
            .await
            .ok()
            .flatten(),
        None => None,
    };
    ListenerSnapshot { published, sockets }
}

async fn list_published(
    shared: &Shared,
    excluded: Option<&ContainerId>,
) -> BTreeMap<ProtocolPort, PortOwner> {
    let Ok(client) = shared.connection.client() else {
        return BTreeMap::new();
    };
    let options = ListContainersOptionsBuilder::default().all(true).build();
    let Ok(list) = call::run(Op::List, READ_TIMEOUT, client.list_containers(Some(options))).await else {
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
                .map(|number| ProtocolPort { number, protocol })
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
            name: container.name,
            id: container.id.to_string(),
        },
    };
    published.into_iter().map(|port| (port, owner.clone())).collect()
}

/// True for a process that holds ports on behalf of containers.
fn is_proxy(command: &str) -> bool {
    let program = command.split(' ').next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    ["docker-proxy", "dockerd", "rootlesskit", "rootlessport", "conmon"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(number: u16) -> ProtocolPort {
        ProtocolPort {
            number,
            protocol: Protocol::Tcp,
        }
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
        };
        let snapshot = ListenerSnapshot {
            published: BTreeMap::from([(tcp(1), container.clone())]),
            sockets: Some(BTreeMap::from([
                (tcp(1), process("/usr/bin/docker-proxy -proto tcp")),
                (tcp(2), process("/usr/sbin/docker-proxy -proto tcp")),
                (tcp(3), process("python3 -m http.server")),
                (tcp(4), SocketOwner::Hidden),
            ])),
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
        assert_eq!(snapshot.busy(), (1..=4).map(tcp).collect());
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
        let udp = ProtocolPort {
            number: 53,
            protocol: Protocol::Udp,
        };
        assert_eq!(
            ports_of(summary.unwrap()),
            [(tcp(8080), owner.clone()), (udp, owner)]
        );
    }
}

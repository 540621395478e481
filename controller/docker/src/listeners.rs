//! Which host ports are taken where the engine binds them, and by whom.

mod sockets;

use std::collections::{BTreeMap, BTreeSet};

use argus_core::ident::{ContainerId, HostPort, Protocol};
use argus_core::labels::Owner;
use argus_core::outcome::PortOwner;
use bollard::models::{ContainerSummary, PortSummaryTypeEnum};
use bollard::query_parameters::ListContainersOptionsBuilder;

use crate::Shared;
use crate::call::{self, READ};
use crate::connect::Endpoint;
use crate::error::Op;
use crate::inspect;
use sockets::SocketOwner;

/// What one look at the ports showed.
#[derive(Debug, Default)]
pub(crate) struct ListenerSnapshot {
    /// Published by running containers.
    published: BTreeMap<HostPort, PortOwner>,
    /// Sockets of the engine's network namespace; `None` where they cannot be seen.
    sockets: Option<BTreeMap<HostPort, SocketOwner>>,
}

impl ListenerSnapshot {
    /// Every port that is taken.
    pub(crate) fn busy(&self) -> BTreeSet<HostPort> {
        let sockets = self.sockets.iter().flat_map(BTreeMap::keys);
        self.published.keys().chain(sockets).copied().collect()
    }

    /// Whether a port that is not seen taken is free.
    pub(crate) fn complete(&self) -> bool {
        self.sockets.is_some()
    }

    /// Who holds a port; `None` when nobody was seen to.
    pub(crate) fn owner(&self, port: HostPort) -> Option<PortOwner> {
        if let Some(owner) = self.published.get(&port) {
            return Some(owner.clone());
        }
        Some(match self.sockets.as_ref()?.get(&port)? {
            // A proxy for a container that does not publish the port any more, or the engine itself.
            SocketOwner::Process { command, .. } if is_proxy(command) => PortOwner::StaleAllocation,
            SocketOwner::Process { pid, command } => PortOwner::Process {
                pid: *pid,
                command: command.clone(),
            },
            SocketOwner::Hidden => PortOwner::Unknown,
        })
    }
}

/// Looks at containers and sockets. `but` is a container of which it is known that it holds nothing.
pub(crate) async fn look(shared: &Shared, but: Option<&ContainerId>) -> ListenerSnapshot {
    let published = published(shared, but).await;
    let socket = match shared.connection.endpoint() {
        Endpoint::Unix(path) => Some(path.clone()),
        Endpoint::Tcp(_) => None,
    };
    let sockets = match socket {
        // Reading /proc of every process takes milliseconds that no worker should be held for.
        Some(path) => tokio::task::spawn_blocking(move || sockets::taken(&path))
            .await
            .ok()
            .flatten(),
        None => None,
    };
    ListenerSnapshot { published, sockets }
}

async fn published(shared: &Shared, but: Option<&ContainerId>) -> BTreeMap<HostPort, PortOwner> {
    let Ok(client) = shared.connection.client() else {
        return BTreeMap::new();
    };
    let options = ListContainersOptionsBuilder::default().all(true).build();
    let Ok(list) = call::within(Op::List, READ, client.list_containers(Some(options))).await else {
        return BTreeMap::new();
    };
    let others = list
        .into_iter()
        .filter(|summary| summary.id.as_deref() != but.map(ContainerId::as_str));
    others.flat_map(ports_of).collect()
}

fn ports_of(summary: ContainerSummary) -> Vec<(HostPort, PortOwner)> {
    let published: Vec<HostPort> = summary
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
                .map(|number| HostPort { number, protocol })
        })
        .collect();
    let Some(found) = inspect::listed(summary) else {
        return Vec::new();
    };
    let container = found.container;
    let owner = match Owner::read(&container.labels) {
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

fn is_proxy(command: &str) -> bool {
    let program = command.split(' ').next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    ["docker-proxy", "dockerd", "rootlesskit", "rootlessport", "conmon"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(number: u16) -> HostPort {
        HostPort {
            number,
            protocol: Protocol::Tcp,
        }
    }

    #[test]
    fn the_owner_is_named_as_far_as_it_can_be_found() {
        let process = |command: &str| SocketOwner::Process {
            pid: 7,
            command: command.to_owned(),
        };
        let container = PortOwner::Container {
            name: "db".into(),
            id: "abc".into(),
        };
        let seen = ListenerSnapshot {
            published: BTreeMap::from([(tcp(1), container.clone())]),
            sockets: Some(BTreeMap::from([
                (tcp(1), process("/usr/bin/docker-proxy -proto tcp")),
                (tcp(2), process("/usr/sbin/docker-proxy -proto tcp")),
                (tcp(3), process("python3 -m http.server")),
                (tcp(4), SocketOwner::Hidden),
            ])),
        };
        assert_eq!(seen.owner(tcp(1)), Some(container));
        assert_eq!(seen.owner(tcp(2)), Some(PortOwner::StaleAllocation));
        let python = PortOwner::Process {
            pid: 7,
            command: "python3 -m http.server".into(),
        };
        assert_eq!(seen.owner(tcp(3)), Some(python));
        assert_eq!(seen.owner(tcp(4)), Some(PortOwner::Unknown));
        assert_eq!(seen.owner(tcp(5)), None);
        assert_eq!(seen.busy(), (1..=4).map(tcp).collect());
    }

    #[test]
    fn published_ports_know_their_container() {
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
        let udp = HostPort {
            number: 53,
            protocol: Protocol::Udp,
        };
        assert_eq!(
            ports_of(summary.unwrap()),
            [(tcp(8080), owner.clone()), (udp, owner)]
        );
    }
}

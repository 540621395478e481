//! Port assignments from the labels of containers, for a new state directory.

use crate::desired::{Desired, PortStrategy};
use crate::ident::PortKey;
use crate::ident::{Protocol, ProtocolPort, ServiceName};
use crate::labels;
use crate::observed::{Container, Observed};
use crate::state::EnvHistory;

/// Restores lost port assignments (new state directory) from the labels of the containers.
pub(super) fn restore_ports(history: &mut EnvHistory, desired: &Desired, observed: &Observed) {
    for container in observed.containers.values() {
        let Some(label) = container
            .labels
            .get(labels::PORTS)
            .filter(|label| !label.is_empty())
        else {
            continue;
        };
        let Some(service) = container.owner().and_then(|owner| owner.service) else {
            continue;
        };
        let Some(desired_service) = desired.services.get(&service) else {
            continue;
        };
        let publishes = |container: ProtocolPort| {
            desired_service
                .ports
                .iter()
                .any(|port| port.container == container.number && port.protocol == container.protocol)
        };
        // With the strategy `Fail`, a container is created before its port is assigned.
        if desired.ports.strategy == PortStrategy::Fail && !container.state.is_up() {
            continue;
        }
        for (key, host, requested) in label
            .split(',')
            .filter_map(|entry| parse_port_entry(&service, entry))
        {
            if publishes(key.container) && !history.ports.contains_key(&key) {
                history.ports.insert(key.clone(), host);
                history.requested_ports.insert(key, requested);
            }
        }
    }
}

/// Host ports that a container publishes while it runs: from its last inspect, or else from its label.
pub(crate) fn published_ports(container: &Container) -> Vec<ProtocolPort> {
    if let Some(info) = &container.inspect {
        return info.config.bindings.iter().map(|(_, host)| *host).collect();
    }
    let label = container.labels.get(labels::PORTS).map_or("", String::as_str);
    let service = container.owner().and_then(|owner| owner.service);
    let entries = label.split(',').zip(std::iter::repeat(service));
    let parsed = entries.filter_map(|(entry, service)| parse_port_entry(&service?, entry));
    parsed
        .map(|(key, number, _)| ProtocolPort::new(number, key.container.protocol))
        .collect()
}

/// Parses an entry of the ports label, such as `80/tcp=9001@8080`.
fn parse_port_entry(service: &ServiceName, entry: &str) -> Option<(PortKey, u16, u16)> {
    let (container, assigned) = entry.split_once('=')?;
    let (number, protocol) = container.split_once('/')?;
    let (host, requested) = assigned.split_once('@')?;
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return None,
    };
    let container = ProtocolPort::new(number.parse().ok()?, protocol);
    Some((
        PortKey {
            service: service.clone(),
            container,
        },
        host.parse().ok()?,
        requested.parse().ok()?,
    ))
}

//! Published ports: requested and assigned host ports, and the environment file for tests.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use argus_crds::status::PortMapping;

use crate::desired::Service;

use super::StatusInput;

/// Mappings of one service, without ports that have no host port yet. `originalPort` is 0 if the file accepts any
/// port.
pub(super) fn of(input: &StatusInput<'_>, service: &Service) -> Vec<PortMapping> {
    let mapping = |port: &crate::desired::Port| {
        let key = port.key(&service.name);
        let planned = input.plan.and_then(|plan| plan.ports.get(&key));
        let actual = planned.or_else(|| input.history.ports.get(&key)).copied()?;
        Some(PortMapping {
            service: service.name.to_string(),
            container_port: port.container,
            protocol: port.protocol.to_string(),
            original_port: port.requested.unwrap_or_default(),
            actual_port: actual,
            reassigned: port.requested.is_some_and(|requested| requested != actual),
            host: Some(port.address.unwrap_or(input.publish_address).to_string()),
        })
    };
    service.ports.iter().filter_map(mapping).collect()
}

/// Formats the ports as `<state>/environments/ENV.env` for a shell: `ARGUS_<SERVICE>_<CPORT>=HOST:PORT`, and the first TCP
/// port as `ARGUS_<SERVICE>_URL`. A UDP port has the suffix `_UDP`, and its plain name if no TCP port has the number.
pub fn env_file(mappings: &[PortMapping]) -> String {
    let mut text = String::new();
    let mut with_url = BTreeSet::new();
    let tcp: BTreeSet<_> = mappings
        .iter()
        .filter(|m| m.protocol == "tcp")
        .map(|m| (&m.service, m.container_port))
        .collect();
    for mapping in mappings {
        let at = client_address(mapping);
        let name = format!("ARGUS_{}", variable(&mapping.service));
        let key = (&mapping.service, mapping.container_port);
        let is_tcp = mapping.protocol == "tcp";
        // Writing into a String cannot fail.
        if is_tcp || !tcp.contains(&key) {
            let _ = writeln!(text, "{name}_{}={at}", mapping.container_port);
        }
        if !is_tcp {
            let _ = writeln!(
                text,
                "{name}_{}_{}={at}",
                mapping.container_port,
                variable(&mapping.protocol)
            );
        }
        if is_tcp && with_url.insert(&mapping.service) {
            let _ = writeln!(text, "{name}_URL=http://{at}");
        }
    }
    text
}

/// Address `HOST:PORT` of a published port for clients, which cannot connect to a wildcard.
pub fn client_address(mapping: &PortMapping) -> String {
    let address = match host_address(mapping) {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    SocketAddr::new(address, mapping.actual_port).to_string()
}

/// Host address of a published port, which can be a wildcard.
pub fn host_address(mapping: &PortMapping) -> IpAddr {
    let host = mapping.host.as_deref();
    host.and_then(|host| host.parse().ok())
        .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Name in the form of an environment variable.
fn variable(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}

//! Published ports: requested and assigned host ports, and the environment file for tests.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use argus_crds::diagnostic::Diagnostic;
use argus_crds::status::PortMapping;

use crate::desired::{Port, Role, Service};
use crate::published::connectable;

use super::StatusInput;

/// Remedy for ports that only the engine's host reaches.
pub const UNREACHABLE_HINT: &str = "start the controller with `--publish-address 0.0.0.0`, or write an address of the engine's host before the port";

/// Mappings of one service, without ports that have no host port yet. `originalPort` is 0 if the file accepts any
/// port.
pub(super) fn of(input: &StatusInput<'_>, service: &Service) -> Vec<PortMapping> {
    let mapping = |port: &Port| {
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
            host: input
                .addresses
                .client_host(port.address)
                .map(|host| host.to_string()),
        })
    };
    service.ports.iter().filter_map(mapping).collect()
}

/// Warnings about services with ports that only the engine's host reaches.
pub(super) fn unreachable(input: &StatusInput<'_>) -> Vec<Diagnostic> {
    let Some(accepted) = input.accepted else {
        return Vec::new();
    };
    let warning = |service: &Service| {
        let is_unreachable = |port: &&Port| input.addresses.client_host(port.address).is_none();
        let ports = service.ports.iter().filter(is_unreachable);
        let numbers: Vec<String> = ports.clone().map(|port| port.container.to_string()).collect();
        let bound = input.addresses.bound(ports.clone().next()?.address);
        let message = format!(
            "clients cannot reach `{}` at port {}: the engine runs on another host, and publishes it on its address {bound}",
            service.name,
            numbers.join(", ")
        );
        let key = match service.role {
            Role::Mock => "",
            Role::Service => "container.ports",
        };
        let path = accepted.lines.service_key(service.name.as_str(), key);
        Some(Diagnostic::warning(path, message).hint(UNREACHABLE_HINT))
    };
    let services = accepted.desired.services.values();
    services.filter_map(warning).collect()
}

/// Formats the ports as `<state>/environments/ENV.env` for a shell: `ARGUS_<SERVICE>_<CPORT>=HOST:PORT`, and the first TCP
/// port as `ARGUS_<SERVICE>_URL`, without ports that clients cannot reach. A UDP port has the suffix `_UDP`, and its plain name if no TCP
/// port has the number. Of several addresses of a port, the first one counts.
pub fn env_file(mappings: &[PortMapping]) -> String {
    let mut text = String::new();
    let mut names = BTreeSet::new();
    let mut add = |name: String, value: &str| {
        if names.insert(name.clone()) {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{name}={value}");
        }
    };
    let tcp: BTreeSet<_> = mappings
        .iter()
        .filter(|m| m.protocol == "tcp")
        .map(|m| (&m.service, m.container_port))
        .collect();
    for mapping in mappings {
        let Some(at) = client_address(mapping) else {
            continue;
        };
        let name = format!("ARGUS_{}", variable(&mapping.service));
        let key = (&mapping.service, mapping.container_port);
        let is_tcp = mapping.protocol == "tcp";
        let of_port = format!("{name}_{}", mapping.container_port);
        if is_tcp || !tcp.contains(&key) {
            add(of_port.clone(), &at);
        }
        if is_tcp {
            add(format!("{name}_URL"), &format!("http://{at}"));
        } else {
            add(format!("{of_port}_{}", variable(&mapping.protocol)), &at);
        }
    }
    text
}

/// Address `HOST:PORT` of a published port for clients; `None` if they cannot reach it.
pub fn client_address(mapping: &PortMapping) -> Option<String> {
    let host = connectable(host_address(mapping)?);
    Some(SocketAddr::new(host, mapping.actual_port).to_string())
}

/// Host of a published port for clients, which can be a wildcard; `None` if they cannot reach it.
pub fn host_address(mapping: &PortMapping) -> Option<IpAddr> {
    mapping.host.as_deref()?.parse().ok()
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

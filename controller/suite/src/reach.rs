//! Addresses that a suite may reach: the published ports of its environment, and hosts that a person allows.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use argus_core::published::connectable;
use argus_crds::error::Code;
use url::Host;

use crate::check::Failure;

/// Maximum number of published ports in a message.
const MAX_SHOWN: usize = 6;

/// Published port of a service or a mock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedPort {
    /// Name of the service or mock.
    pub service: String,
    /// Host address, which can be a wildcard.
    pub address: IpAddr,
    /// Requested host port.
    pub requested: u16,
    /// Actual host port.
    pub actual: u16,
}

/// Host that a person allows, with one port or with all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost {
    host: Host,
    port: Option<u16>,
}

/// Addresses that a suite may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Published ports of services whose containers run.
    pub ports: Vec<PublishedPort>,
    /// Addresses of the engine's host. `None` if this host runs the engine.
    pub engine: Option<Vec<IpAddr>>,
    /// Hosts that the person who runs the suite allows. `None` for a client of the controller, which can allow none.
    pub allowed: Option<Vec<AllowedHost>>,
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || "write `HOST` or `HOST:PORT`".to_owned();
        let (host, port) = match text.rsplit_once(':') {
            // The last part of an IPv6 address without brackets is no port.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port != 0);
                (host, Some(port.ok_or_else(invalid)?))
            }
            _ => (text, None),
        };
        let host = parse_host(host).filter(is_plain).ok_or_else(invalid)?;
        Ok(Self { host, port })
    }
}

/// Parses a name or an address as a URL does, also without the brackets of an IPv6 address.
pub fn parse_host(text: &str) -> Option<Host> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some(Host::Ipv6(address));
    }
    let host = Host::parse(text).ok()?;
    Some(match host {
        // A name has the same meaning with the dot of the root.
        Host::Domain(name) => Host::Domain(name.strip_suffix('.').unwrap_or(&name).to_owned()),
        address => address,
    })
}

/// Returns true if a shell takes the host as it is.
fn is_plain(host: &Host) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    !matches!(host, Host::Domain(name) if name.is_empty() || !name.chars().all(is_plain))
}

fn address_of(host: &Host) -> Option<IpAddr> {
    match host {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(connected(IpAddr::V4(*address))),
        Host::Ipv6(address) => Some(connected(IpAddr::V6(*address))),
    }
}

/// Returns the address to which the system connects: IPv4 if the address contains it, and the loopback for a wildcard.
fn connected(address: IpAddr) -> IpAddr {
    connectable(address.to_canonical())
}

impl Reach {
    /// Returns those of the addresses of a host that the suite may connect to, in their order. A connection must use one of them:
    /// another resolution of the name can have another result. `is_own` is true for the addresses of this host.
    pub fn choose(
        &self,
        host: &Host,
        port: u16,
        addresses: &[IpAddr],
        is_own: impl Fn(IpAddr) -> bool,
    ) -> Vec<SocketAddr> {
        let addresses = addresses.iter().map(|address| connected(*address));
        addresses
            .filter(|address| {
                self.is_allowed(host, *address, port) || self.is_published(*address, port, &is_own)
            })
            .map(|address| SocketAddr::new(address, port))
            .collect()
    }

    fn is_allowed(&self, host: &Host, address: IpAddr, port: u16) -> bool {
        let mut allowed = self.allowed.iter().flatten();
        allowed.any(|entry| {
            let is_host = entry.host == *host || address_of(&entry.host) == Some(address);
            is_host && entry.port.is_none_or(|only| only == port)
        })
    }

    fn is_published(&self, address: IpAddr, port: u16, is_own: impl Fn(IpAddr) -> bool) -> bool {
        let is_bound = |bound: IpAddr| {
            if bound.is_unspecified() {
                bound.is_ipv4() == address.is_ipv4()
            } else {
                bound.to_canonical() == address
            }
        };
        let mut ports = self.ports.iter().filter(|published| published.actual == port);
        ports.any(|published| is_bound(published.address))
            && match &self.engine {
                // A port of an engine on another host is none of this host.
                Some(engine) => engine.iter().any(|own| connected(*own) == address),
                None => address.is_loopback() || is_own(address),
            }
    }

    /// Describes why the suite may not reach a host.
    pub fn refuse(&self, host: &Host, port: u16) -> Failure {
        let target = format!("{host}:{port}");
        let mut remedies = Vec::new();
        if self.allowed.is_some() && is_plain(host) {
            // The suite chose the host, so the flag to copy does not contain it.
            remedies.push("allow it with `--allow-test-hosts HOST`".to_owned());
        }
        remedies.push(if self.ports.is_empty() && self.engine.is_some() {
            "publish a port at an address of the engine's host, for example with `--publish-address 0.0.0.0`"
                .to_owned()
        } else if self.ports.is_empty() {
            "publish a port of a service in the spec file".to_owned()
        } else {
            format!("use {}", self.describe_ports())
        });
        let remedies = remedies.join(", or ");
        let message = format!("`{target}` is not a published port of a running service: {remedies}");
        Failure {
            code: Some(Code::PolicyViolation),
            address: is_plain(host).then_some(target),
            ..Failure::new("", message)
        }
    }

    fn describe_ports(&self) -> String {
        let shown = self.ports.iter().take(MAX_SHOWN).map(|published| {
            let address = match (&self.engine, published.address) {
                (Some(engine), address) if address.is_unspecified() => {
                    engine.first().copied().unwrap_or(address)
                }
                (_, address) => connected(address),
            };
            let address = SocketAddr::new(address, published.actual);
            format!("`{}` at `{address}`", published.service)
        });
        let text = shown.collect::<Vec<_>>().join(", ");
        match self.ports.len().saturating_sub(MAX_SHOWN) {
            0 => text,
            more => format!("{text} or {more} more"),
        }
    }
}

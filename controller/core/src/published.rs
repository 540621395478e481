//! Hosts at which clients reach published ports. All addresses of published ports follow from [`Addresses`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Locations of published ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// Default publish address, for ports without an address in the file.
    pub publish_address: IpAddr,
    /// Host of the engine as clients reach it; `None` if it is this host.
    pub engine_host: Option<IpAddr>,
}

impl Addresses {
    /// Returns the address to which the engine binds a port, which can be a wildcard. `named` is the address in the file.
    pub fn bound(self, named: Option<IpAddr>) -> IpAddr {
        named.unwrap_or(self.publish_address)
    }

    /// Returns the host of a port for clients, which is a wildcard only on this host. `None` if the engine on another host binds the port
    /// to its loopback: no client on this host reaches it.
    pub fn client_host(self, named: Option<IpAddr>) -> Option<IpAddr> {
        let bound = self.bound(named);
        match self.engine_host {
            Some(_) if bound.is_loopback() => None,
            Some(host) if bound.is_unspecified() => Some(host),
            Some(_) | None => Some(bound),
        }
    }
}

/// Returns the address for a connection, which cannot go to a wildcard.
pub fn connectable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// True if the engine cannot bind one port to both addresses.
pub fn overlap(one: IpAddr, other: IpAddr) -> bool {
    let is_same_family = one.is_ipv4() == other.is_ipv4();
    one == other || is_same_family && (one.is_unspecified() || other.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_host_depends_on_the_host_of_the_engine() {
        let host = |publish: &str, engine: Option<&str>, named: Option<&str>| {
            let addresses = Addresses {
                publish_address: publish.parse().unwrap(),
                engine_host: engine.map(|engine| engine.parse().unwrap()),
            };
            let found = addresses.client_host(named.map(|named| named.parse().unwrap()));
            found.map(|host| host.to_string())
        };
        let engine = Some("198.51.100.7");
        for (publish, engine, named, expected) in [
            ("127.0.0.1", None, None, Some("127.0.0.1")),
            ("127.0.0.1", None, Some("0.0.0.0"), Some("0.0.0.0")),
            ("127.0.0.1", engine, None, None),
            ("0.0.0.0", engine, None, Some("198.51.100.7")),
            ("0.0.0.0", engine, Some("127.0.0.2"), None),
            ("0.0.0.0", engine, Some("::1"), None),
            ("127.0.0.1", engine, Some("::"), Some("198.51.100.7")),
            ("127.0.0.1", engine, Some("10.0.0.5"), Some("10.0.0.5")),
        ] {
            assert_eq!(
                host(publish, engine, named).as_deref(),
                expected,
                "{publish} {named:?}"
            );
        }
    }
}

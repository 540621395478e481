//! Addresses of suites: those of a host, of this host, and of the engine's host. The crate `argus_suite` chooses the reachable ones.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use argus_suite::Host;
use tokio::net::lookup_host;

use crate::blocking_io;
use crate::engine::find_endpoint;
use crate::settings::Settings;

/// Returns the addresses of a host.
pub(super) async fn find_addresses(host: &Host, port: u16) -> io::Result<Vec<IpAddr>> {
    match host {
        Host::Ipv4(address) => Ok(vec![(*address).into()]),
        Host::Ipv6(address) => Ok(vec![(*address).into()]),
        Host::Domain(name) => {
            let found = lookup_host((name.as_str(), port)).await?;
            Ok(found.map(|address| address.ip()).collect())
        }
    }
}

/// Returns true if the address belongs to this host. The route shows it without a packet: the system sends from the same address.
pub(super) fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let find_source = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((address, 9))?;
        socket.local_addr()
    };
    address.is_loopback() || find_source().is_ok_and(|source| source.ip() == address)
}

/// Returns the addresses of the engine's host; `None` if this host runs the engine. Without a known engine, there is no address.
pub(super) async fn find_engine(settings: &Settings) -> Option<Vec<IpAddr>> {
    let settings = settings.clone();
    let Ok(endpoint) = blocking_io::read(move || find_endpoint(&settings)).await else {
        return Some(Vec::new());
    };
    let found = lookup_host(endpoint.address()?).await;
    let found: Vec<IpAddr> = found.into_iter().flatten().map(|address| address.ip()).collect();
    let is_here = !found.is_empty() && found.iter().all(|address| is_own(*address));
    (!is_here).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_those_of_this_host() {
        for own in ["127.0.0.1", "127.0.0.2", "::1"] {
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        // Addresses of documentation belong to no host.
        for other in ["192.0.2.1", "169.254.169.254", "2001:db8::1"] {
            assert!(!is_own(other.parse().unwrap()), "{other}");
        }
    }
}

//! Client of the engine that the settings name. [`observer`] reads the engine without a controller; [`offline`] changes it without one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;

use argus_core::outcome::ActionError;
use argus_core::status::code_of;
use argus_crds::ByteSize;
use argus_crds::error::Code;
use argus_docker::{Docker, Endpoint, OwnImageBuilder};
use argus_reconciler::clock;

use crate::process::blocking_io;
use crate::process::exit::{Exit, Failure};
use crate::process::own_image;
use crate::settings::Settings;

mod breaker_check;
pub(crate) mod observer;
pub(crate) mod offline;

/// Creates a client for the engine of the settings, without connecting. Fails while a live controller has the engine's
/// breaker open.
pub(crate) async fn connect_docker(settings: &Settings) -> Result<Docker, Failure> {
    let settings = settings.clone();
    blocking_io::read(move || {
        breaker_check::check_engine_breaker(&settings.state)?;
        Ok(connect_endpoint(&settings, find_endpoint(&settings)?))
    })
    .await
}

/// Creates a client that can build an image of this program for helper containers, unless the settings disable helpers.
pub(crate) fn connect_endpoint(settings: &Settings, endpoint: Endpoint) -> Docker {
    let state = settings.state.clone();
    let own_image: OwnImageBuilder = Arc::new(move || own_image::build(&state));
    Docker::with_own_image(
        endpoint,
        Arc::new(clock::now),
        Some(own_image).filter(|_| settings.helpers),
        settings.times.deadlines,
        settings.times.delays.list_interval,
        settings.build_cache_limit.map(ByteSize::bytes),
    )
}

pub(crate) fn find_endpoint(settings: &Settings) -> Result<Endpoint, Failure> {
    Endpoint::discover(settings.docker_host.as_deref()).map_err(|error| {
        let details = serde_json::json!({ "endpoint": settings.docker_host, "reason": error.to_string() });
        Failure::with_code(Code::DockerUnavailable, error.to_string())
            .with_details(details)
            .with_exit(Exit::Usage)
    })
}

/// Converts a failed engine call into the failure of a command; `doing` names the operation.
pub(crate) fn engine_failure(doing: &str, error: &ActionError) -> Failure {
    let details = serde_json::json!({ "operation": doing, "reason": error.to_string() });
    Failure::with_code(code_of(error), format!("{doing}: {error}")).with_details(details)
}

/// Returns an address of the engine's host; `None` if this host runs the engine, or if the name has no address.
pub(crate) async fn endpoint_host(endpoint: &Endpoint) -> Option<IpAddr> {
    find_engine_addresses(endpoint).await?.first().copied()
}

/// Returns the addresses of the engine's host; `None` if this host runs the engine.
pub(crate) async fn find_engine_addresses(endpoint: &Endpoint) -> Option<Vec<IpAddr>> {
    let found = tokio::net::lookup_host(endpoint.address()?).await;
    let found: Vec<IpAddr> = found.into_iter().flatten().map(|address| address.ip()).collect();
    let is_here = !found.is_empty() && found.iter().all(|address| is_own(*address));
    (!is_here).then_some(found)
}

/// Returns true if the address belongs to this host. The route shows it without a packet: the system sends from the same address.
pub(crate) fn is_own(address: IpAddr) -> bool {
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

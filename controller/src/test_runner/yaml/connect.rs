//! Addresses of suites: those of a host, and of the engine's host. The crate `argus_suite` chooses the reachable ones.

use std::io;
use std::net::IpAddr;

use argus_suite::Host;
use tokio::net::lookup_host;

use crate::engine::{find_endpoint, find_engine_addresses};
use crate::process::blocking_io;
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

/// Returns the addresses of the engine's host; `None` if this host runs the engine. Without a known engine, there is no address.
pub(super) async fn find_engine(settings: &Settings) -> Option<Vec<IpAddr>> {
    let settings = settings.clone();
    let Ok(endpoint) = blocking_io::read(move || find_endpoint(&settings)).await else {
        return Some(Vec::new());
    };
    find_engine_addresses(&endpoint).await
}

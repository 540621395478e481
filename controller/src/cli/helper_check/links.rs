//! Connectivity checks from the network of this process: resolves names and connects to ports, with own timeouts.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use argus_core::connectivity::{LinkError, TargetResult};
use dns_lookup::{AddrInfoHints, LookupErrorKind, SockType, getaddrinfo};
use tokio::net::TcpStream;

use crate::process::exit::Failure;
use crate::process::runtime;

/// Timeout of a name lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(4);
/// Timeout of a connection. Inside one engine it takes milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks all targets in parallel. The results have the order of the targets.
pub(super) fn check_targets(targets: &[String]) -> Result<Vec<TargetResult>, Failure> {
    let parsed: Vec<_> = targets
        .iter()
        .map(|target| parse_target(target))
        .collect::<Result<_, _>>()?;
    runtime::block_on(async {
        let checks = parsed.into_iter().map(|(host, port)| check_target(host, port));
        Ok(futures::future::join_all(checks).await)
    })
}

fn parse_target(target: &str) -> Result<(String, Option<u16>), Failure> {
    match target.rsplit_once(':') {
        None => Ok((target.to_owned(), None)),
        Some((host, port)) => match port.parse() {
            Ok(port) => Ok((host.to_owned(), Some(port))),
            Err(_) => Err(Failure::usage(format!("`{target}` is not HOST or HOST:PORT"))),
        },
    }
}

async fn check_target(host: String, port: Option<u16>) -> TargetResult {
    let addresses = match resolve_host(host).await {
        Ok(addresses) => addresses,
        Err(error) => {
            return TargetResult {
                error: Some(error),
                ..TargetResult::default()
            };
        }
    };
    let error = match port {
        None => None,
        Some(port) => connect(&addresses, port).await.err(),
    };
    TargetResult {
        addresses,
        error,
        ..TargetResult::default()
    }
}

/// Resolves a name with the resolver of this container, as any program in it would.
async fn resolve_host(host: String) -> Result<Vec<IpAddr>, LinkError> {
    let lookup = tokio::task::spawn_blocking(move || {
        let hints = AddrInfoHints {
            socktype: SockType::Stream.into(),
            ..AddrInfoHints::default()
        };
        let found = getaddrinfo(Some(&host), None, Some(hints))?;
        let mut addresses: Vec<IpAddr> = found
            .filter_map(Result::ok)
            .map(|info| info.sockaddr.ip())
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        Ok::<_, dns_lookup::LookupError>(addresses)
    });
    match tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await {
        Err(_) => Err(LinkError::NoResolver(format!(
            "timed out after {} s",
            LOOKUP_TIMEOUT.as_secs()
        ))),
        Ok(Err(panicked)) => Err(LinkError::NoResolver(panicked.to_string())),
        Ok(Ok(Ok(addresses))) => Ok(addresses),
        Ok(Ok(Err(error))) => {
            let kind = error.kind();
            let message = std::io::Error::from(error).to_string();
            Err(match kind {
                LookupErrorKind::NoName | LookupErrorKind::NoData => LinkError::NoSuchName(message),
                _ => LinkError::NoResolver(message),
            })
        }
    }
}

/// Connects to the first address that accepts. Returns the error of the last address.
async fn connect(addresses: &[IpAddr], port: u16) -> Result<(), LinkError> {
    let mut last_error = LinkError::NoRoute("the name has no addresses".to_owned());
    for address in addresses {
        let to = SocketAddr::from((*address, port));
        last_error = match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(to)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => match error.kind() {
                ErrorKind::ConnectionRefused => LinkError::Refused(error.to_string()),
                ErrorKind::TimedOut => LinkError::TimedOut(error.to_string()),
                _ => LinkError::NoRoute(error.to_string()),
            },
            Err(_) => LinkError::TimedOut(format!("timed out after {} s", CONNECT_TIMEOUT.as_secs())),
        };
    }
    Err(last_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_port_connects_and_closed_port_is_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap().port();
        let closed = {
            let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            gone.local_addr().unwrap().port()
        };
        let targets = [
            format!("localhost:{open}"),
            format!("localhost:{closed}"),
            "localhost".to_owned(),
        ];
        let results = check_targets(&targets).unwrap();
        assert_eq!(results[0].error, None);
        assert!(
            matches!(results[1].error, Some(LinkError::Refused(_))),
            "{results:?}"
        );
        assert_eq!(results[2].error, None);
        assert!(results.iter().all(|result| !result.addresses.is_empty()));
        assert!(check_targets(&["a:b".to_owned()]).is_err());
    }
}

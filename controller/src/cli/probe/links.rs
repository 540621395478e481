//! Whom one reaches from here: a name is looked up, a port is connected to, with limits of their own.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use argus_core::connectivity::{LinkError, TargetResult};
use dns_lookup::{AddrInfoHints, LookupErrorKind, SockType, getaddrinfo};
use tokio::net::TcpStream;

use crate::exit::Failure;

/// A resolver that takes longer does not answer.
const LOOKUP: Duration = Duration::from_secs(4);
/// A connection inside one engine takes milliseconds.
const CONNECT: Duration = Duration::from_secs(2);

/// One answer a target, in their order.
pub(super) fn look(targets: &[String]) -> Result<Vec<TargetResult>, Failure> {
    let parsed: Vec<_> = targets
        .iter()
        .map(|target| parse(target))
        .collect::<Result<_, _>>()?;
    super::super::block_on(async {
        let looks = parsed.into_iter().map(|(host, port)| reach(host, port));
        Ok(futures::future::join_all(looks).await)
    })
}

fn parse(target: &str) -> Result<(String, Option<u16>), Failure> {
    match target.rsplit_once(':') {
        None => Ok((target.to_owned(), None)),
        Some((host, port)) => match port.parse() {
            Ok(port) => Ok((host.to_owned(), Some(port))),
            Err(_) => Err(Failure::usage(format!("`{target}` is not HOST or HOST:PORT"))),
        },
    }
}

async fn reach(host: String, port: Option<u16>) -> TargetResult {
    let addresses = match resolve(host).await {
        Ok(addresses) => addresses,
        Err(trouble) => {
            return TargetResult {
                addresses: Vec::new(),
                error: Some(trouble),
            };
        }
    };
    let trouble = match port {
        None => None,
        Some(port) => connect(&addresses, port).await.err(),
    };
    TargetResult {
        addresses,
        error: trouble,
    }
}

/// As every program here would, by the resolver that this place has.
async fn resolve(host: String) -> Result<Vec<IpAddr>, LinkError> {
    let asked = tokio::task::spawn_blocking(move || {
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
    match tokio::time::timeout(LOOKUP, asked).await {
        Err(_) => Err(LinkError::NoResolver(format!(
            "no answer within {} s",
            LOOKUP.as_secs()
        ))),
        Ok(Err(lost)) => Err(LinkError::NoResolver(lost.to_string())),
        Ok(Ok(Ok(addresses))) => Ok(addresses),
        Ok(Ok(Err(error))) => {
            let kind = error.kind();
            let said = std::io::Error::from(error).to_string();
            Err(match kind {
                LookupErrorKind::NoName | LookupErrorKind::NoData => LinkError::NoSuchName(said),
                _ => LinkError::NoResolver(said),
            })
        }
    }
}

/// To any of them, as programs do that try one after the other.
async fn connect(addresses: &[IpAddr], port: u16) -> Result<(), LinkError> {
    let mut trouble = LinkError::NoRoute("the name has no address".to_owned());
    for address in addresses {
        let to = SocketAddr::from((*address, port));
        trouble = match tokio::time::timeout(CONNECT, TcpStream::connect(to)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => match error.kind() {
                ErrorKind::ConnectionRefused => LinkError::Refused(error.to_string()),
                ErrorKind::TimedOut => LinkError::TimedOut(error.to_string()),
                _ => LinkError::NoRoute(error.to_string()),
            },
            Err(_) => LinkError::TimedOut(format!("no answer within {} s", CONNECT.as_secs())),
        };
    }
    Err(trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_listens_is_reached_and_what_does_not_is_told_apart() {
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
        let seen = look(&targets).unwrap();
        assert_eq!(seen[0].error, None);
        assert!(matches!(seen[1].error, Some(LinkError::Refused(_))), "{seen:?}");
        assert_eq!(seen[2].error, None);
        assert!(seen.iter().all(|seen| !seen.addresses.is_empty()));
        assert!(look(&["a:b".to_owned()]).is_err());
    }
}

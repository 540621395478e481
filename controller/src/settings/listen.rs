//! Listener of the HTTP interface.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use serde::Deserialize;

/// Default port of the HTTP interface on loopback, for Prometheus and agents.
const PORT: u16 = 9470;

/// Listener of the HTTP interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Listen {
    /// Only on the socket in the state directory.
    Off,
    /// On the socket and on a TCP address.
    At(SocketAddr),
}

impl Default for Listen {
    fn default() -> Self {
        Self::At(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)))
    }
}

impl Listen {
    /// TCP address, if HTTP is served on one.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(at) => Some(at),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        // A port without an address means loopback.
        let port = text.strip_prefix(':').unwrap_or(text).parse().ok();
        let local = port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let at = local.or_else(|| text.parse().ok());
        at.map(Self::At)
            .ok_or_else(|| "must be `ADDRESS:PORT`, a port, or `off`".to_owned())
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

//! State of the TCP address of the HTTP interface.

use std::net::SocketAddr;
use std::time::Duration;

use argus_core::outcome::PortOwner;
use argus_core::time::Timestamp;
use argus_crds::error::{ActionId, Code, Severity, StructuredError};
use serde_json::json;

/// Delay before the next attempt to bind an address.
pub(crate) const RETRY_DELAY: Duration = Duration::from_secs(5);

/// State of the address.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum HttpAddress {
    /// Not requested, not bound yet, or no longer needed.
    #[default]
    Unbound,
    /// The controller listens.
    Bound(SocketAddr),
    /// The controller cannot listen, and tries again.
    Lost(LostAddress),
}

/// An address that the controller cannot bind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LostAddress {
    pub(crate) wanted: SocketAddr,
    pub(crate) since: Timestamp,
    pub(crate) cause: String,
    /// Process that listens there; `None` if none does.
    pub(crate) holder: Option<PortOwner>,
}

impl HttpAddress {
    /// Returns the address on which the controller listens.
    pub(crate) fn bound(&self) -> Option<SocketAddr> {
        match self {
            Self::Bound(at) => Some(*at),
            Self::Unbound | Self::Lost(_) => None,
        }
    }

    /// Returns the address that the controller cannot bind.
    pub(crate) fn lost(&self) -> Option<&LostAddress> {
        match self {
            Self::Lost(lost) => Some(lost),
            Self::Unbound | Self::Bound(_) => None,
        }
    }
}

impl LostAddress {
    /// Returns the error for the status of the controller. Commands still work over the socket, so it is a warning.
    pub(crate) fn to_error(&self) -> StructuredError {
        let wanted = self.wanted;
        let why = match &self.holder {
            Some(owner) => format!("is held by {owner}"),
            None => format!("cannot be bound: {}", self.cause),
        };
        let message = format!(
            "the HTTP address {wanted} {why}; its token is no longer valid, and only the socket works; `--listen` sets another address"
        );
        StructuredError::new(Code::PortConflict, message)
            .severity(Severity::Warning)
            .details(json!({
                "port": wanted.port(),
                "protocol": "tcp",
                "address": wanted.ip().to_string(),
                "owner": self.holder,
                "reason": self.cause,
            }))
            .suggest(&[ActionId::FreePort])
            .retry_after(RETRY_DELAY.as_secs())
            .stage("listen")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unbindable_address_is_an_error_with_its_cause() {
        let lost = LostAddress {
            wanted: "10.0.0.5:80".parse().unwrap(),
            since: Timestamp(0),
            cause: "permission denied".to_owned(),
            holder: None,
        };
        let error = lost.to_error();
        assert!(
            error
                .message
                .starts_with("the HTTP address 10.0.0.5:80 cannot be bound: permission denied;"),
            "{}",
            error.message
        );
        assert_eq!(error.suggested_actions, [ActionId::FreePort]);
        assert_eq!(error.details["owner"], serde_json::Value::Null);
    }
}

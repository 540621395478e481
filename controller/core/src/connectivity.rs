//! Connectivity checks: the links that services need, and the results of the last check.
//!
//! [`targets()`] derives from [`Desired`](crate::desired::Desired) which service connects to which other one.
//! [`ConnectivityInput`] compares this with the containers and returns the [`CheckRequest`] of the current state.
//! A backend performs the check from inside the network of each service and returns [`LinkResult`]s.
//! [`matrix`] and [`errors`] convert a [`ConnectivityCheck`] into the status document.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ident::{ContainerId, EnvName, NetworkId, ServiceName};
use crate::time::Timestamp;

mod report;
mod targets;
mod topology;

pub use report::{error_of, errors, matrix};
pub use targets::{targets, targets_of_failure};
pub use topology::{CheckRequest, ConnectivityInput, LinkSource};

/// Host and port that a service connects to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Service or mock behind the name.
    pub to: ServiceName,
    /// Host name that the service uses for it.
    pub host: String,
    /// TCP port; `None` restricts the check to name resolution.
    pub port: Option<u16>,
}

/// Result of checking one [`Target`] from inside the network of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetResult {
    /// Addresses that the name resolves to.
    pub addresses: Vec<IpAddr>,
    /// Cause of a failed link; `None` for a working link.
    pub error: Option<LinkError>,
    /// Names of all containers on the networks of the source, of any owner; empty for a working link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
}

/// Cause of a failed link, with the text of the tool that reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "message", rename_all = "camelCase")]
pub enum LinkError {
    /// The resolver does not know the name.
    NoSuchName(String),
    /// The resolver failed or did not respond.
    NoResolver(String),
    /// The host responds, but no process listens on the port.
    Refused(String),
    /// No response arrived within the time limit.
    TimedOut(String),
    /// The network has no route to the host.
    NoRoute(String),
}

impl LinkError {
    /// Returns whether name resolution failed.
    pub fn is_dns_error(&self) -> bool {
        match self {
            Self::NoSuchName(_) | Self::NoResolver(_) => true,
            Self::Refused(_) | Self::TimedOut(_) | Self::NoRoute(_) => false,
        }
    }

    /// Returns whether the network can be the cause, so that reattaching a container can fix the link.
    pub fn is_network_error(&self) -> bool {
        match self {
            Self::NoSuchName(_) | Self::NoResolver(_) | Self::TimedOut(_) | Self::NoRoute(_) => true,
            Self::Refused(_) => false,
        }
    }

    /// Returns the text of the tool that reported the error.
    pub fn describe(&self) -> &str {
        match self {
            Self::NoSuchName(text)
            | Self::NoResolver(text)
            | Self::Refused(text)
            | Self::TimedOut(text)
            | Self::NoRoute(text) => text,
        }
    }

    /// Returns the identifier that the details of an error contain.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NoSuchName(_) => "NXDOMAIN",
            Self::NoResolver(_) => "SERVFAIL",
            Self::Refused(_) => "refused",
            Self::TimedOut(_) => "timedOut",
            Self::NoRoute(_) => "noRoute",
        }
    }
}

/// Results in words by check: `dns NAME`, and `tcp NAME:PORT` for names that resolve.
pub fn describe_results(targets: &[Target], results: &[TargetResult]) -> BTreeMap<String, String> {
    let mut described = BTreeMap::new();
    for (target, result) in targets.iter().zip(results) {
        let dns_error = result.error.as_ref().filter(|error| error.is_dns_error());
        let addresses = || {
            let addresses: Vec<String> = result.addresses.iter().map(ToString::to_string).collect();
            addresses.join(", ")
        };
        let describe = |error: &LinkError| format!("{}: {}", error.word(), error.describe());
        let dns = dns_error.map_or_else(addresses, describe);
        described.insert(format!("dns {}", target.host), dns);
        if let Some(port) = target.port.filter(|_| dns_error.is_none()) {
            let tcp = match &result.error {
                None => "connected".to_owned(),
                Some(LinkError::Refused(_)) => "connection refused".to_owned(),
                Some(error) => error.describe().to_owned(),
            };
            described.insert(format!("tcp {}:{port}", target.host), tcp);
        }
    }
    described
}

/// Result of checking one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkResult {
    /// Service that opens the connection.
    pub from: ServiceName,
    /// Host and port that it connects to.
    pub target: Target,
    /// Result of the check; `Err` holds the reason why the check did not run.
    pub result: Result<TargetResult, String>,
}

impl LinkResult {
    /// Returns the cause of a failed link; `None` for a working or unchecked link.
    pub fn error(&self) -> Option<&LinkError> {
        self.result.as_ref().ok()?.error.as_ref()
    }
}

/// Inputs of a check. A different key requires a new check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckKey {
    /// Containers of the services that are up, with their start times.
    pub runs: BTreeMap<ServiceName, (ContainerId, Option<Timestamp>)>,
    /// Services that are not up. Their runs are not part of the key, so that a crash loop repeats no check.
    pub down: BTreeSet<ServiceName>,
    /// Networks of the environment that connect them and exist.
    pub networks: Vec<NetworkId>,
    /// Time at which the engine became reachable again, after its last outage.
    pub engine_returned_at: Option<Timestamp>,
    /// Targets by source service.
    pub targets: BTreeMap<ServiceName, Vec<Target>>,
}

/// Results of one check of all links of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectivityCheck {
    /// Inputs of the check.
    pub key: CheckKey,
    /// Time of the check; the time of the first one among consecutive checks with equal results.
    pub at: Timestamp,
    /// Delay before the failed links are checked again, as last announced.
    pub retry_after: Option<Duration>,
    /// Results of all links.
    pub link_results: Vec<LinkResult>,
    /// True if the current objects still match [`Self::key`].
    pub is_current: bool,
}

impl ConnectivityCheck {
    /// Returns whether every link was checked and works.
    pub fn is_good(&self) -> bool {
        let works = |link: &LinkResult| link.result.as_ref().is_ok_and(|result| result.error.is_none());
        self.link_results.iter().all(works)
    }

    /// Returns whether a repetition of the check can give another result: a link is broken, or its check failed. A link to
    /// a service that is down stays unchecked until the key changes.
    pub fn is_worth_repeating(&self) -> bool {
        self.link_results.iter().any(|link| match &link.result {
            Ok(result) => result.error.is_some(),
            Err(_) => !self.key.down.contains(&link.target.to),
        })
    }

    /// Returns the candidates for reattaching to the network, most likely first.
    ///
    /// A service that fails to reach several others comes first; otherwise the unreachable target does. A service that is
    /// down is no candidate, and neither is a service that only it does not reach.
    pub fn reattach_candidates(&self) -> Vec<&ServiceName> {
        let mut candidates = Vec::new();
        let bad = |link: &&LinkResult| {
            let is_bad = link.error().is_some_and(LinkError::is_network_error);
            is_bad && !self.key.down.contains(&link.from)
        };
        for link in self.link_results.iter().filter(bad) {
            let own: Vec<&LinkResult> = self
                .link_results
                .iter()
                .filter(|other| other.from == link.from)
                .collect();
            let fails_for_every_target = own.len() > 1 && own.iter().all(bad);
            let (first, second) = if fails_for_every_target {
                (&link.from, &link.target.to)
            } else {
                (&link.target.to, &link.from)
            };
            candidates.extend([first, second]);
        }
        let mut known = BTreeSet::new();
        candidates.retain(|name| known.insert(*name));
        candidates
    }
}

/// Last connectivity checks of all environments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResults {
    /// Last check by environment.
    pub checks: BTreeMap<EnvName, ConnectivityCheck>,
    /// True if helper containers are allowed; without them no check runs.
    pub helpers_allowed: bool,
}

impl Default for CheckResults {
    fn default() -> Self {
        Self {
            checks: BTreeMap::new(),
            helpers_allowed: true,
        }
    }
}

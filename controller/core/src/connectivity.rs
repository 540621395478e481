//! Who shall reach whom inside an environment, when that is looked at, and what came of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ident::{ContainerId, EnvName, NetworkId, ServiceName};
use crate::time::Timestamp;

mod report;
mod targets;
mod topology;

pub use report::{errors, matrix};
pub use targets::targets;
pub use topology::Topology;

/// Something that a service wants to reach.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The service or mock behind the name.
    pub to: ServiceName,
    /// The name that it is asked for by.
    pub host: String,
    /// The TCP port; `None`: that its name resolves is all that can be asked.
    pub port: Option<u16>,
}

/// What a look from inside a container's network showed of one aim.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetResult {
    /// What the name resolves to.
    pub addresses: Vec<IpAddr>,
    /// Why it is not reached; `None`: it is.
    pub error: Option<LinkError>,
}

/// Why something is not reached, with the words of whoever said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", content = "said", rename_all = "camelCase")]
pub enum LinkError {
    /// The resolver knows no such name.
    NoSuchName(String),
    /// The resolver failed, or did not answer.
    NoResolver(String),
    /// Its host is there, and nobody listens on the port.
    Refused(String),
    /// Nothing came back.
    TimedOut(String),
    /// There is no way to it.
    NoRoute(String),
}

impl LinkError {
    /// It is the name that is not known.
    pub fn is_dns_error(&self) -> bool {
        match self {
            Self::NoSuchName(_) | Self::NoResolver(_) => true,
            Self::Refused(_) | Self::TimedOut(_) | Self::NoRoute(_) => false,
        }
    }

    /// It may be the network's doing: to attach somebody anew may mend it.
    pub fn is_network_error(&self) -> bool {
        match self {
            Self::NoSuchName(_) | Self::NoResolver(_) | Self::TimedOut(_) | Self::NoRoute(_) => true,
            Self::Refused(_) => false,
        }
    }

    /// What was said.
    pub fn describe(&self) -> &str {
        match self {
            Self::NoSuchName(said)
            | Self::NoResolver(said)
            | Self::Refused(said)
            | Self::TimedOut(said)
            | Self::NoRoute(said) => said,
        }
    }

    /// An identifier, as it stands in the details of an error.
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

/// What was seen of one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkResult {
    /// Who asks.
    pub from: ServiceName,
    /// Whom.
    pub target: Target,
    /// What came of it; why it could not be looked at.
    pub result: Result<TargetResult, String>,
}

impl LinkResult {
    /// Why the link does not work, where it was looked at.
    pub fn error(&self) -> Option<&LinkError> {
        self.result.as_ref().ok()?.error.as_ref()
    }
}

/// What a look at an environment was taken of: another one is another look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckKey {
    /// The runs that were looked at, each with its start.
    pub runs: BTreeMap<ServiceName, (ContainerId, Option<Timestamp>)>,
    /// The network that they were on; `None`: there is none.
    pub network: Option<NetworkId>,
    /// When the engine came back last.
    pub epoch: Option<Timestamp>,
    /// What each wanted.
    pub targets: BTreeMap<ServiceName, Vec<Target>>,
}

/// One look at all links of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectivityCheck {
    /// What it was taken of.
    pub key: CheckKey,
    /// When it was taken; of looks that show the same the first.
    pub at: Timestamp,
    /// After how long what does not work is looked at again, the last time that was said.
    pub again: Option<Duration>,
    /// All links.
    pub links: Vec<LinkResult>,
    /// Everything is still there as it was looked at.
    pub is_current: bool,
}

impl ConnectivityCheck {
    /// Every link was looked at, and works.
    pub fn is_good(&self) -> bool {
        let works = |found: &LinkResult| found.result.as_ref().is_ok_and(|seen| seen.error.is_none());
        self.links.iter().all(works)
    }

    /// The services of which one is to be attached anew, the likeliest first: whoever cannot reach several others,
    /// else whom nobody reaches.
    pub fn suspects(&self) -> Vec<&ServiceName> {
        let mut suspects = Vec::new();
        let bad = |found: &&LinkResult| found.error().is_some_and(LinkError::is_network_error);
        for found in self.links.iter().filter(bad) {
            let own: Vec<&LinkResult> = self
                .links
                .iter()
                .filter(|other| other.from == found.from)
                .collect();
            let lonely = own.len() > 1 && own.iter().all(bad);
            let (first, second) = if lonely {
                (&found.from, &found.target.to)
            } else {
                (&found.target.to, &found.from)
            };
            suspects.extend([first, second]);
        }
        let mut told = std::collections::BTreeSet::new();
        suspects.retain(|name| told.insert(*name));
        suspects
    }
}

/// What is known of all environments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResults {
    /// The last look at each.
    pub checks: BTreeMap<EnvName, ConnectivityCheck>,
    /// Whether helpers may be used at all; without them nobody looks.
    pub helpers: bool,
}

impl Default for CheckResults {
    fn default() -> Self {
        Self {
            checks: BTreeMap::new(),
            helpers: true,
        }
    }
}

//! Port assignment: sticky, unique over all environments, and without recently refused ports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::desired::{Desired, Port, PortStrategy};
use crate::ident::{ProtocolPort, ServiceName};
use crate::outcome::PortOwner;
use crate::plan::{PortKey, PortMap, WaitingOn};
use crate::state::{EnvHistory, RefusedPort};
use crate::time::Timestamp;

/// Time for which a refused port is not tried again, unless a check right after the refusal found it free.
pub const REFUSAL_BLOCK_TIME: Duration = Duration::from_secs(30);
/// Time for which a refusal is remembered; every other port is preferred until then.
pub const REFUSAL_MEMORY: Duration = Duration::from_secs(600);
/// Retry interval with strategy `fail`, and with an exhausted range.
pub const PORT_RETRY: Duration = Duration::from_secs(2);
/// Refusals of an apparently free port after which an invisible holder is assumed.
const MAX_FREE_REFUSALS: u32 = 3;

/// Host ports with the environment and service that hold them.
pub type Claims = BTreeMap<ProtocolPort, (crate::ident::EnvName, ServiceName)>;

/// Assigned ports of one environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Ports that have a number.
    pub ports: PortMap,
    /// Services without a port, each with its wait reason.
    pub blocked: BTreeMap<ServiceName, WaitingOn>,
}

/// Assigns every published port of an environment.
pub fn assign(
    desired: &Desired,
    history: &EnvHistory,
    claims: &Claims,
    refused: &BTreeMap<ProtocolPort, RefusedPort>,
    now: Timestamp,
) -> Assignment {
    let mut assigner = PortAssigner {
        desired,
        claims,
        refused,
        now,
        taken: BTreeSet::new(),
        assignment: Assignment::default(),
    };
    let all: Vec<(&ServiceName, &Port)> = desired
        .services
        .values()
        .flat_map(|service| service.ports.iter().map(move |port| (&service.name, port)))
        .collect();
    // A service that already holds a port keeps it, before any other service can choose it.
    let (held, new): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|(service, port)| sticky(history, service, port).is_some());
    for (service, port) in held.into_iter().chain(new) {
        let sticky = sticky(history, service, port);
        assigner.assign(service, port, sticky);
    }
    assigner.assignment
}

struct PortAssigner<'a> {
    desired: &'a Desired,
    claims: &'a Claims,
    refused: &'a BTreeMap<ProtocolPort, RefusedPort>,
    now: Timestamp,
    taken: BTreeSet<ProtocolPort>,
    assignment: Assignment,
}

impl PortAssigner<'_> {
    fn assign(&mut self, service: &ServiceName, port: &Port, sticky: Option<u16>) {
        let chosen = match self.desired.ports.strategy {
            PortStrategy::Fail => self.assign_declared(service, port),
            PortStrategy::Auto => self.assign_free(service, port, sticky),
        };
        if let Some(number) = chosen {
            self.taken.insert(ProtocolPort {
                number,
                protocol: port.protocol,
            });
            self.assignment.ports.insert(key(service, port), number);
        }
    }

    /// Strategy `fail`: assigns the declared port, and blocks the service while that port is taken.
    fn assign_declared(&mut self, service: &ServiceName, port: &Port) -> Option<u16> {
        let Some(wanted) = port.wanted_host() else {
            return self.assign_free(service, port, None);
        };
        if let Some((env, by)) = self
            .claims
            .get(&wanted)
            .filter(|(env, _)| *env != self.desired.env)
        {
            let owner = PortOwner::Environment {
                environment: env.to_string(),
                service: by.to_string(),
            };
            self.block(service, wanted, owner, self.now + PORT_RETRY);
        } else if let Some(refused) = self.refused.get(&wanted)
            && refused.at + PORT_RETRY > self.now
        {
            self.block(
                service,
                wanted,
                refused.refusal.owner.clone(),
                refused.at + PORT_RETRY,
            );
        }
        Some(wanted.number)
    }

    fn block(&mut self, service: &ServiceName, port: ProtocolPort, owner: PortOwner, until: Timestamp) {
        self.assignment
            .blocked
            .entry(service.clone())
            .or_insert(WaitingOn::Port { port, owner, until });
    }

    /// Strategy `auto`: assigns the held port, else the preferred one, else the first free one of the range.
    fn assign_free(&mut self, service: &ServiceName, port: &Port, sticky: Option<u16>) -> Option<u16> {
        let policy = &self.desired.ports;
        let wanted = port.wanted;
        // After a refusal of the replacement port, the preferred port is tried once more.
        let preferred = match sticky {
            Some(held) if self.is_open(held, port) => Some(held),
            Some(_) | None => wanted.filter(|wanted| self.is_open(*wanted, port)),
        };
        let free = |number: &u16| self.is_open(*number, port) && !self.is_busy(*number, port);
        // Refused ports come last: a pass over the whole range may take longer than a refusal holds.
        let found = preferred
            .or_else(|| (policy.low..=policy.high).find(|n| free(n) && !self.was_refused(*n, port)))
            .or_else(|| (policy.low..=policy.high).find(free));
        if found.is_none() {
            let tried = u32::from(policy.high.saturating_sub(policy.low)) + 1;
            let until = self.now + PORT_RETRY;
            self.assignment
                .blocked
                .insert(service.clone(), WaitingOn::Ports { tried, until });
        }
        found
    }

    fn is_open(&self, number: u16, port: &Port) -> bool {
        let host = ProtocolPort {
            number,
            protocol: port.protocol,
        };
        !self.taken.contains(&host) && !self.is_claimed(host) && !self.is_refused(host)
    }

    fn is_claimed(&self, host: ProtocolPort) -> bool {
        self.claims
            .get(&host)
            .is_some_and(|(env, _)| *env != self.desired.env)
    }

    fn is_refused(&self, host: ProtocolPort) -> bool {
        self.refused.get(&host).is_some_and(|refused| {
            let stale = refused.at + REFUSAL_BLOCK_TIME <= self.now;
            let free = refused.refusal.free_now && refused.times < MAX_FREE_REFUSALS;
            !stale && !free
        })
    }

    fn was_refused(&self, number: u16, port: &Port) -> bool {
        let protocol = port.protocol;
        self.refused.contains_key(&ProtocolPort { number, protocol })
    }

    /// True if the port was taken when the engine refused another port a moment ago.
    fn is_busy(&self, number: u16, port: &Port) -> bool {
        let host = ProtocolPort {
            number,
            protocol: port.protocol,
        };
        self.refused
            .values()
            .any(|refused| refused.at + REFUSAL_BLOCK_TIME > self.now && refused.refusal.busy.contains(&host))
    }
}

/// Port that the service already holds, if the preference in the file is unchanged.
fn sticky(history: &EnvHistory, service: &ServiceName, port: &Port) -> Option<u16> {
    let key = key(service, port);
    let held = *history.ports.get(&key)?;
    let is_unchanged = history
        .wanted
        .get(&key)
        .is_none_or(|wanted| *wanted == port.wanted.unwrap_or(0));
    is_unchanged.then_some(held)
}

fn key(service: &ServiceName, port: &Port) -> PortKey {
    let container = ProtocolPort {
        number: port.container,
        protocol: port.protocol,
    };
    PortKey {
        service: service.clone(),
        container,
    }
}

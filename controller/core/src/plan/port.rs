//! Which host port each published port gets: sticky, unique over all environments, never one that was refused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::desired::{Desired, Port, PortStrategy};
use crate::ident::{HostPort, ServiceName};
use crate::outcome::PortOwner;
use crate::plan::{PortKey, PortMap, WaitingOn};
use crate::state::{EnvHistory, RefusedPort};
use crate::time::Timestamp;

/// A refused port is not tried again for this long, unless it was seen free right after the refusal.
pub const REFUSAL_HOLDS: Duration = Duration::from_secs(30);
/// A refusal is remembered for this long: until then every other port is better.
pub const REFUSAL_REMEMBERED: Duration = Duration::from_secs(600);
/// Under strategy `fail`, and when the range is used up, ports are tried again after this.
pub const PORT_RETRY: Duration = Duration::from_secs(2);
/// A port that reads as free but is refused this often is held by something that cannot be seen.
const FREE_BUT_REFUSED: u32 = 3;

/// Host ports that environments hold: by whom.
pub type Claims = BTreeMap<HostPort, (crate::ident::EnvName, ServiceName)>;

/// The outcome of assigning all ports of one environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Assigned ports.
    pub ports: PortMap,
    /// Services that must wait for a port, and why.
    pub blocked: BTreeMap<ServiceName, WaitingOn>,
}

/// Assigns every published port of an environment.
pub fn assign(
    desired: &Desired,
    memory: &EnvHistory,
    claims: &Claims,
    refused: &BTreeMap<HostPort, RefusedPort>,
    now: Timestamp,
) -> Assignment {
    let mut hand = PortAssigner {
        desired,
        claims,
        refused,
        now,
        taken: BTreeSet::new(),
        out: Assignment::default(),
    };
    let all: Vec<(&ServiceName, &Port)> = desired
        .services
        .values()
        .flat_map(|service| service.ports.iter().map(move |port| (&service.name, port)))
        .collect();
    // Whoever already holds a port keeps it, before anybody else may choose.
    let (held, new): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|(service, port)| sticky(memory, service, port).is_some());
    for (service, port) in held.into_iter().chain(new) {
        let sticky = sticky(memory, service, port);
        hand.assign(service, port, sticky);
    }
    hand.out
}

struct PortAssigner<'a> {
    desired: &'a Desired,
    claims: &'a Claims,
    refused: &'a BTreeMap<HostPort, RefusedPort>,
    now: Timestamp,
    taken: BTreeSet<HostPort>,
    out: Assignment,
}

impl PortAssigner<'_> {
    fn assign(&mut self, service: &ServiceName, port: &Port, sticky: Option<u16>) {
        let chosen = match self.desired.ports.strategy {
            PortStrategy::Fail => self.insist(service, port),
            PortStrategy::Auto => self.choose(service, port, sticky),
        };
        if let Some(number) = chosen {
            self.taken.insert(HostPort {
                number,
                protocol: port.protocol,
            });
            self.out.ports.insert(key(service, port), number);
        }
    }

    /// Strategy `fail`: the wanted port or none.
    fn insist(&mut self, service: &ServiceName, port: &Port) -> Option<u16> {
        let Some(wanted) = port.wanted_host() else {
            return self.choose(service, port, None);
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

    fn block(&mut self, service: &ServiceName, port: HostPort, owner: PortOwner, until: Timestamp) {
        self.out
            .blocked
            .entry(service.clone())
            .or_insert(WaitingOn::Port { port, owner, until });
    }

    /// Strategy `auto`: what it holds, else what it wants, else the first free one of the range.
    fn choose(&mut self, service: &ServiceName, port: &Port, sticky: Option<u16>) -> Option<u16> {
        let policy = &self.desired.ports;
        let wanted = port.wanted;
        // A refused stand-in looks at the wanted port once more before it moves on.
        let preferred = match sticky {
            Some(held) if self.open(held, port) => Some(held),
            Some(_) | None => wanted.filter(|wanted| self.open(*wanted, port)),
        };
        let free = |number: &u16| self.open(*number, port) && !self.is_busy(*number, port);
        // What was refused is not tried again before everything else was: trying all of it may take longer than a refusal
        // holds.
        let found = preferred
            .or_else(|| (policy.low..=policy.high).find(|n| free(n) && !self.was_refused(*n, port)))
            .or_else(|| (policy.low..=policy.high).find(free));
        if found.is_none() {
            let tried = u32::from(policy.high.saturating_sub(policy.low)) + 1;
            let until = self.now + PORT_RETRY;
            self.out
                .blocked
                .insert(service.clone(), WaitingOn::Ports { tried, until });
        }
        found
    }

    fn open(&self, number: u16, port: &Port) -> bool {
        let host = HostPort {
            number,
            protocol: port.protocol,
        };
        !self.taken.contains(&host) && !self.is_claimed(host) && !self.is_refused(host)
    }

    fn is_claimed(&self, host: HostPort) -> bool {
        self.claims
            .get(&host)
            .is_some_and(|(env, _)| *env != self.desired.env)
    }

    fn is_refused(&self, host: HostPort) -> bool {
        self.refused.get(&host).is_some_and(|refused| {
            let stale = refused.at + REFUSAL_HOLDS <= self.now;
            let free = refused.refusal.free_now && refused.times < FREE_BUT_REFUSED;
            !stale && !free
        })
    }

    fn was_refused(&self, number: u16, port: &Port) -> bool {
        let protocol = port.protocol;
        self.refused.contains_key(&HostPort { number, protocol })
    }

    /// Seen taken when some other port was refused a moment ago: not worth a try.
    fn is_busy(&self, number: u16, port: &Port) -> bool {
        let host = HostPort {
            number,
            protocol: port.protocol,
        };
        self.refused
            .values()
            .any(|refused| refused.at + REFUSAL_HOLDS > self.now && refused.refusal.busy.contains(&host))
    }
}

/// The port that is held already, as long as the wish is still the same.
fn sticky(memory: &EnvHistory, service: &ServiceName, port: &Port) -> Option<u16> {
    let key = key(service, port);
    let held = *memory.ports.get(&key)?;
    let same_wish = memory
        .wanted
        .get(&key)
        .is_none_or(|wanted| *wanted == port.wanted.unwrap_or(0));
    same_wish.then_some(held)
}

fn key(service: &ServiceName, port: &Port) -> PortKey {
    let container = HostPort {
        number: port.container,
        protocol: port.protocol,
    };
    PortKey {
        service: service.clone(),
        container,
    }
}

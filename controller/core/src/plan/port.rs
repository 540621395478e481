//! Assigns host ports, and moves a port that the engine refused.
//!
//! All publications of one declared port, for TCP and UDP and on several addresses, have the same host port, and move together.
//!
//! A service keeps its assigned ports. Only the strategy `auto` moves a port: when the engine refused it, when another environment reserved
//! it, or when the request changed. A port that was refused in the last 10 minutes comes last in a search. The assigned and the requested
//! port may be tried again earlier.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::desired::{Desired, Port, PortStrategy, Service};
use crate::ident::{PortMap, ProtocolPort, ServiceName};
use crate::outcome::PortOwner;
use crate::state::{EnvHistory, RefusedPort};
use crate::time::Timestamp;
use crate::wait::WaitReason;

/// Time for which a refused port is not tried again, unless a check right after the refusal found it free.
pub const REFUSAL_BLOCK_TIME: Duration = Duration::from_secs(30);
/// Retry interval with strategy `fail`, and with an exhausted range.
pub const PORT_RETRY: Duration = Duration::from_secs(2);
/// Refusals of an apparently free port after which an invisible owner is assumed.
const MAX_FREE_REFUSALS: u32 = 3;

/// Maximum number of owners in the wait for a free port.
const MAX_LISTED_HOLDERS: usize = 20;

/// Reserved host ports, each with its environment and service.
pub type PortReservations = BTreeMap<ProtocolPort, (crate::ident::EnvName, ServiceName)>;

/// Assigned ports of one environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Ports that have a number.
    pub ports: PortMap,
    /// Services that must not start yet because of a port. With strategy `fail`, `ports` contains the requested number anyway.
    pub blocked: BTreeMap<ServiceName, WaitReason>,
}

/// Assigns every published port of an environment.
pub fn assign(
    desired: &Desired,
    history: &EnvHistory,
    reservations: &PortReservations,
    refused: &BTreeMap<ProtocolPort, RefusedPort>,
    now: Timestamp,
) -> Assignment {
    let mut assigner = PortAssigner {
        desired,
        reservations,
        refused,
        now,
        taken: BTreeSet::new(),
        assignment: Assignment::default(),
    };
    let all = desired
        .services
        .values()
        .flat_map(|service| declared_ports(service).map(move |ports| (&service.name, ports)));
    // A service keeps its assigned port, before a new service or one with a refused port can choose it.
    let (kept, new): (Vec<_>, Vec<_>) = all.partition(|(service, ports)| {
        assigned_before(history, service, ports).is_some_and(|number| assigner.is_assignable(number, ports))
    });
    for (service, ports) in kept.into_iter().chain(new) {
        assigner.assign(service, &ports, assigned_before(history, service, &ports));
    }
    assigner.assignment
}

/// Publications of each declared port of a service, in the order of the file: those of one container port with the same requested
/// host port.
pub(super) fn declared_ports(service: &Service) -> impl Iterator<Item = Vec<&Port>> {
    fn declared(port: &Port) -> (u16, Option<u16>) {
        (port.container, port.requested)
    }
    let mut seen = BTreeSet::new();
    let firsts = service
        .ports
        .iter()
        .filter(move |port| seen.insert(declared(port)));
    firsts.map(move |first| {
        let all = service.ports.iter();
        all.filter(|port| declared(port) == declared(first)).collect()
    })
}

/// A host port for each protocol of the publications.
fn hosts(number: u16, ports: &[&Port]) -> impl Iterator<Item = ProtocolPort> {
    ports
        .iter()
        .map(move |port| ProtocolPort::new(number, port.protocol))
}

struct PortAssigner<'a> {
    desired: &'a Desired,
    reservations: &'a PortReservations,
    refused: &'a BTreeMap<ProtocolPort, RefusedPort>,
    now: Timestamp,
    taken: BTreeSet<ProtocolPort>,
    assignment: Assignment,
}

impl PortAssigner<'_> {
    /// Assigns one number to all publications of a declared port.
    fn assign(&mut self, service: &ServiceName, ports: &[&Port], assigned: Option<u16>) {
        let chosen = match self.desired.ports.strategy {
            PortStrategy::Fail => self.assign_requested(service, ports),
            PortStrategy::Auto => self.assign_free(service, ports, assigned),
        };
        if let Some(number) = chosen {
            self.taken.extend(hosts(number, ports));
            let keys = ports.iter().map(|port| (port.key(service), number));
            self.assignment.ports.extend(keys);
        }
    }

    /// Strategy `fail`: assigns the requested port, and blocks the service while that port is taken.
    fn assign_requested(&mut self, service: &ServiceName, ports: &[&Port]) -> Option<u16> {
        let Some(number) = ports.first().and_then(|port| port.requested) else {
            return self.assign_free(service, ports, None);
        };
        for requested in hosts(number, ports) {
            self.check_requested(service, requested);
        }
        Some(number)
    }

    /// Blocks the service while the requested port is taken.
    fn check_requested(&mut self, service: &ServiceName, requested: ProtocolPort) {
        if let Some((env, by)) = self
            .reservations
            .get(&requested)
            .filter(|(env, _)| *env != self.desired.env)
        {
            let owner = PortOwner::Environment {
                environment: env.to_string(),
                service: by.to_string(),
            };
            self.block(service, requested, owner, self.now + PORT_RETRY);
        } else if let Some(refused) = self.refused.get(&requested)
            && refused.at + PORT_RETRY > self.now
        {
            self.block(
                service,
                requested,
                refused.refusal.owner.clone(),
                refused.at + PORT_RETRY,
            );
        }
    }

    fn block(&mut self, service: &ServiceName, port: ProtocolPort, owner: PortOwner, until: Timestamp) {
        self.assignment
            .blocked
            .entry(service.clone())
            .or_insert(WaitReason::PortTaken { port, owner, until });
    }

    /// Strategy `auto`: assigns the same port again, else the requested one, else the first free one of the range.
    fn assign_free(&mut self, service: &ServiceName, ports: &[&Port], assigned: Option<u16>) -> Option<u16> {
        let policy = &self.desired.ports;
        let requested = ports.first().and_then(|port| port.requested);
        // After a refusal of the replacement port, the requested port is tried once more.
        let first_choice = match assigned {
            Some(number) if self.is_assignable(number, ports) => Some(number),
            Some(_) | None => requested.filter(|requested| self.is_assignable(*requested, ports)),
        };
        let free = |number: &u16| hosts(*number, ports).all(|host| self.is_free(host));
        let is_new = |number: &u16| !hosts(*number, ports).any(|host| self.refused.contains_key(&host));
        // Refused ports come last: a scan of the whole range may take longer than `REFUSAL_BLOCK_TIME`.
        let found = first_choice
            .or_else(|| (policy.low..=policy.high).find(|number| free(number) && is_new(number)))
            .or_else(|| (policy.low..=policy.high).find(free));
        if found.is_none() {
            let tried = u32::from(policy.high.saturating_sub(policy.low)) + 1;
            let exhausted = WaitReason::PortsExhausted {
                tried,
                holders: self.holders_of_range(ports),
                until: self.now + PORT_RETRY,
            };
            self.assignment.blocked.insert(service.clone(), exhausted);
        }
        found
    }

    /// Owners of the first ports of the range.
    fn holders_of_range(&self, ports: &[&Port]) -> Vec<(ProtocolPort, PortOwner)> {
        let policy = &self.desired.ports;
        let range = (policy.low..=policy.high).take(MAX_LISTED_HOLDERS);
        let taken = range.filter_map(|number| hosts(number, ports).find(|host| !self.is_free(*host)));
        taken.map(|host| (host, self.owner_of(host))).collect()
    }

    fn owner_of(&self, host: ProtocolPort) -> PortOwner {
        let own = self.assignment.ports.iter().find(|(key, number)| {
            let (number, protocol) = (**number, key.container.protocol);
            host == ProtocolPort::new(number, protocol)
        });
        let reserved = self
            .reservations
            .get(&host)
            .filter(|(env, _)| *env != self.desired.env);
        let reserved = reserved.map(|(env, service)| (env, service));
        if let Some((env, service)) = own.map(|(key, _)| (&self.desired.env, &key.service)).or(reserved) {
            return PortOwner::Environment {
                environment: env.to_string(),
                service: service.to_string(),
            };
        }
        let busy = |refused: &&RefusedPort| refused.refusal.busy.contains_key(&host);
        let newest = self
            .refused
            .values()
            .filter(busy)
            .max_by_key(|refused| refused.at);
        let owner = newest.and_then(|refused| refused.refusal.busy.get(&host));
        let refused = self.refused.get(&host).map(|refused| &refused.refusal.owner);
        owner.or(refused).cloned().unwrap_or(PortOwner::Unknown)
    }

    fn is_assignable(&self, number: u16, ports: &[&Port]) -> bool {
        hosts(number, ports).all(|host| self.can_try(host))
    }

    fn can_try(&self, host: ProtocolPort) -> bool {
        !self.taken.contains(&host) && !self.is_reserved(host) && !self.is_refused(host)
    }

    fn is_free(&self, host: ProtocolPort) -> bool {
        self.can_try(host) && !self.was_bound_at_refusal(host)
    }

    fn is_reserved(&self, host: ProtocolPort) -> bool {
        self.reservations
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

    /// True if the port was taken when the engine refused another port a moment ago.
    fn was_bound_at_refusal(&self, host: ProtocolPort) -> bool {
        self.refused.values().any(|refused| {
            refused.at + REFUSAL_BLOCK_TIME > self.now && refused.refusal.busy.contains_key(&host)
        })
    }
}

/// Host port that the publications already have, if they have one in common and the request in the file is unchanged.
fn assigned_before(history: &EnvHistory, service: &ServiceName, ports: &[&Port]) -> Option<u16> {
    let known = ports
        .iter()
        .filter_map(|port| assigned_to(history, service, port));
    let known: BTreeSet<u16> = known.collect();
    known.first().copied().filter(|_| known.len() == 1)
}

fn assigned_to(history: &EnvHistory, service: &ServiceName, port: &Port) -> Option<u16> {
    let key = port.key(service);
    let assigned = *history.ports.get(&key)?;
    let is_unchanged = history
        .requested_ports
        .get(&key)
        .is_none_or(|requested| *requested == port.requested.unwrap_or(0));
    is_unchanged.then_some(assigned)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::desired::admit::{SpecContext, admit};
    use crate::ident::Protocol;
    use crate::outcome::PortRefusal;

    #[test]
    fn refused_port_moves_only_its_service() {
        let services = (0..10).map(|n| {
            format!(
                "  - {{name: s{n}, image: 'app:1', container: {{name: shop-s{n}, ports: ['808{n}:80']}}}}\n"
            )
        });
        let text = format!(
            "project: {{name: shop}}\nservices:\n{}",
            services.collect::<String>()
        );
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let desired = admit(&written, &SpecContext::default()).desired.unwrap();
        let (mut history, mut refused) = (Arc::<EnvHistory>::default(), BTreeMap::new());
        let now = Timestamp(1_763_000_000_000);
        let mut moves = 0;
        // The engine refuses the port of the last service first.
        for number in (8_080..8_090).rev() {
            let before = assign(&desired, &history, &BTreeMap::new(), &refused, now).ports;
            history.remember_ports(&desired, &before);
            let port = ProtocolPort::new(number, Protocol::Tcp);
            let refusal = PortRefusal {
                port,
                free_now: false,
                owner: PortOwner::Unknown,
                busy: BTreeMap::from([(port, PortOwner::Unknown)]),
            };
            let refused_port = RefusedPort {
                at: now,
                refusal,
                times: 1,
            };
            refused.insert(port, refused_port);
            let after = assign(&desired, &history, &BTreeMap::new(), &refused, now).ports;
            moves += before
                .iter()
                .filter(|(key, number)| after[*key] != **number)
                .count();
            history.remember_ports(&desired, &after);
        }
        assert_eq!(moves, 10, "{:?}", history.ports);
    }

    #[test]
    fn exhausted_range_names_its_first_owners() {
        let text = "project: {name: shop}\nisolation: {portRange: [9000, 9049]}\nservices:\n  \
                    - {name: a, image: 'app:1', container: {name: shop-a, ports: ['9001:80']}}\n  \
                    - {name: b, image: 'app:1', container: {name: shop-b, ports: ['0:80']}}\n";
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let desired = admit(&written, &SpecContext::default()).desired.unwrap();
        let now = Timestamp(1_763_000_000_000);
        let tcp = |number| ProtocolPort::new(number, Protocol::Tcp);
        let nginx = PortOwner::Process {
            pid: 7,
            command: "nginx".to_owned(),
        };
        let refusal = PortRefusal {
            port: tcp(9_002),
            free_now: false,
            owner: PortOwner::Unknown,
            busy: (9_002..=9_049)
                .map(|number| (tcp(number), nginx.clone()))
                .collect(),
        };
        let refused = RefusedPort {
            at: now,
            refusal,
            times: 1,
        };
        let other = (
            crate::ident::EnvName::new("other").unwrap(),
            ServiceName::new("web").unwrap(),
        );
        let assigned = assign(
            &desired,
            &EnvHistory::default(),
            &BTreeMap::from([(tcp(9_000), other)]),
            &BTreeMap::from([(tcp(9_002), refused)]),
            now,
        );
        let Some(WaitReason::PortsExhausted { tried, holders, .. }) = assigned.blocked.values().next() else {
            panic!("{assigned:?}");
        };
        assert_eq!((*tried, holders.len()), (50, 20));
        let service = |environment: &str, service: &str| PortOwner::Environment {
            environment: environment.to_owned(),
            service: service.to_owned(),
        };
        assert_eq!(
            holders[..3],
            [
                (tcp(9_000), service("other", "web")),
                (tcp(9_001), service("shop", "a")),
                (tcp(9_002), nginx)
            ]
        );
    }
}

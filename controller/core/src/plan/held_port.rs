//! Ports that processes hold before the first start of a service.

use std::sync::Arc;

use super::ControllerIdentity;
use super::port::{self, Assignment, PortReservations};
use crate::desired::{Desired, Port, PortStrategy};
use crate::ident::{PortMap, ProtocolPort, ServiceName};
use crate::observed::Observed;
use crate::outcome::PortRefusal;
use crate::preflight::PreflightSnapshot;
use crate::state::{PlannerState, RefusedPort};
use crate::time::Timestamp;

/// Assigns the ports of an environment. If fresh facts show that a requested port is free again, its service returns to it at
/// the next create. A port that they show as held moves.
pub(crate) fn assign(
    desired: &Desired,
    observed: &Observed,
    state: &mut PlannerState,
    reservations: &PortReservations,
    facts: (Option<&PreflightSnapshot>, &ControllerIdentity),
    now: Timestamp,
) -> Assignment {
    state.environments.entry(desired.env.clone()).or_default();
    let (preflight, identity) = facts;
    let fresh = preflight.filter(|preflight| preflight.is_fresh(now));
    if let Some(preflight) = fresh {
        release_moved_ports(state, desired, observed, reservations, preflight);
    }
    let assign = |state: &PlannerState| {
        let history = &state.environments[&desired.env];
        port::assign(desired, history, reservations, &state.refused, now)
    };
    let assigned = assign(state);
    match fresh {
        Some(preflight)
            if refuse_held_ports(state, desired, observed, &assigned.ports, preflight, identity) =>
        {
            assign(state)
        }
        Some(_) | None => assigned,
    }
}

/// Publications of the declared ports that moved away from the requested port, of services without a container.
pub(super) fn moved_ports<'a>(
    desired: &'a Desired,
    observed: &Observed,
    ports: &PortMap,
) -> Vec<(&'a ServiceName, Vec<&'a Port>)> {
    let is_auto = desired.ports.strategy == PortStrategy::Auto;
    let has_container = |service: &ServiceName| observed.containers.of(service).next().is_some();
    let services = desired.services.values();
    let absent = services.filter(|service| is_auto && !has_container(&service.name));
    let all =
        absent.flat_map(|service| port::declared_ports(service).map(move |ports| (&service.name, ports)));
    let is_moved = |service: &ServiceName, port: &Port| {
        let assigned = ports.get(&port.key(service));
        assigned
            .zip(port.requested)
            .is_some_and(|(number, requested)| *number != requested)
    };
    let moved = all.filter(|(service, ports)| ports.iter().any(|port| is_moved(service, port)));
    moved.collect()
}

/// Drops the assignments of each moved port whose requested port nothing holds any more, for all its publications.
fn release_moved_ports(
    state: &mut PlannerState,
    desired: &Desired,
    observed: &Observed,
    reservations: &PortReservations,
    preflight: &PreflightSnapshot,
) {
    let (Some(at), Some(listeners)) = (preflight.at, preflight.host.listeners.known()) else {
        return;
    };
    let Some(history) = state.environments.get_mut(&desired.env) else {
        return;
    };
    for (service, ports) in moved_ports(desired, observed, &history.ports) {
        let is_free = |requested: ProtocolPort| {
            // Facts that did not explain a refusal do not show its end either.
            let is_refused = state
                .refused
                .get(&requested)
                .is_some_and(|refused| refused.at >= at || !refused.refusal.busy.contains_key(&requested));
            let is_own = history.ports.iter().any(|(other, number)| {
                let protocol = other.container.protocol;
                requested == ProtocolPort::new(*number, protocol)
            });
            let is_reserved = reservations
                .get(&requested)
                .is_some_and(|(env, _)| *env != desired.env);
            !is_refused && !is_own && !is_reserved && !listeners.busy.contains_key(&requested)
        };
        let requested: Vec<ProtocolPort> = ports.iter().filter_map(|port| port.requested_host()).collect();
        if requested.iter().all(|requested| is_free(*requested)) {
            state.refused.retain(|port, _| !requested.contains(port));
            let assigned = &mut Arc::make_mut(history).ports;
            for port in ports {
                assigned.remove(&port.key(service));
            }
        }
    }
}

/// Counts the assigned ports that a process holds as refused, for services without a container. True if there is one.
///
/// This saves the failed start. The engine decides about all other ports.
fn refuse_held_ports(
    state: &mut PlannerState,
    desired: &Desired,
    observed: &Observed,
    assigned: &PortMap,
    preflight: &PreflightSnapshot,
    identity: &ControllerIdentity,
) -> bool {
    let (Some(at), Some(listeners)) = (preflight.at, preflight.host.listeners.known()) else {
        return false;
    };
    if desired.ports.strategy != PortStrategy::Auto {
        return false;
    }
    let mut found = false;
    for service in desired.services.values() {
        if observed.containers.of(&service.name).next().is_some() {
            continue;
        }
        for port in &service.ports {
            let protocol = port.protocol;
            let Some(number) = assigned.get(&port.key(&service.name)).copied() else {
                continue;
            };
            let host = ProtocolPort::new(number, protocol);
            let address = port.address.unwrap_or(identity.publish_address);
            let Some(owner) = listeners.owner_of(host, address) else {
                continue;
            };
            let known = state.refused.get(&host);
            if known.is_some_and(|refused| refused.at >= at) {
                continue;
            }
            let refused = RefusedPort {
                at,
                refusal: PortRefusal {
                    port: host,
                    free_now: false,
                    owner: owner.clone(),
                    busy: listeners.busy.clone(),
                },
                times: known.map_or(1, |refused| refused.times),
            };
            state.refused.insert(host, refused);
            found = true;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::desired::admit::{SpecContext, admit};
    use crate::ident::Protocol;
    use crate::outcome::PortOwner;
    use crate::preflight::{Fact, ListenerFact, ListenersFact};

    const NOW: Timestamp = Timestamp(1_763_000_000_000);

    fn tcp(number: u16) -> ProtocolPort {
        ProtocolPort::new(number, Protocol::Tcp)
    }

    fn desired(strategy: &str) -> Desired {
        let text = format!(
            "project: {{name: shop}}\nresilience: {{network: {{portConflictStrategy: {strategy}}}}}\nservices:\n  \
             - {{name: a, image: 'app:1', container: {{name: shop-a, ports: ['8080:80']}}}}\n  \
             - {{name: b, image: 'app:1', container: {{name: shop-b, ports: ['8081:80']}}}}\n  \
             - {{name: c, image: 'app:1', container: {{name: shop-c, ports: ['0:80']}}}}\n"
        );
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        admit(&written, &SpecContext::default()).desired.unwrap()
    }

    fn preflight(held: &[u16]) -> PreflightSnapshot {
        let sockets = held.iter().map(|number| ("127.0.0.1", tcp(*number)));
        preflight_of(&sockets.collect::<Vec<_>>())
    }

    fn preflight_of(held: &[(&str, ProtocolPort)]) -> PreflightSnapshot {
        let socket = |(address, port): &(&str, ProtocolPort)| ListenerFact {
            address: address.parse().unwrap(),
            port: *port,
            owner: PortOwner::Process {
                pid: 7,
                command: "nginx".to_owned(),
            },
        };
        let mut preflight = PreflightSnapshot {
            at: Some(NOW),
            ..PreflightSnapshot::default()
        };
        preflight.host.listeners = Fact::Known(ListenersFact {
            sockets: held.iter().map(socket).collect(),
            busy: held.iter().map(|(_, port)| (*port, PortOwner::Unknown)).collect(),
        });
        preflight
    }

    fn identity() -> ControllerIdentity {
        ControllerIdentity {
            controller: "c".to_owned(),
            run: "r".to_owned(),
            publish_address: "127.0.0.1".parse().unwrap(),
        }
    }

    /// Host ports of the services after one check.
    fn assigned(desired: &Desired, held: &[u16]) -> (Vec<u16>, PlannerState) {
        let identity = identity();
        let mut state = PlannerState::default();
        let (observed, preflight) = (Observed::default(), preflight(held));
        let facts = (Some(&preflight), &identity);
        let assign = |state: &mut PlannerState| {
            super::assign(desired, &observed, state, &BTreeMap::new(), facts, NOW).ports
        };
        let second = assign(&mut state);
        assert_eq!(assign(&mut state), second);
        (second.into_values().collect(), state)
    }

    #[test]
    fn moved_port_returns_when_its_port_is_free() {
        let desired = desired("auto");
        let (ports, mut state) = assigned(&desired, &[8080]);
        assert_eq!(ports, [9000, 8081, 9001]);
        let identity = identity();
        let history = Arc::make_mut(state.environments.entry(desired.env.clone()).or_default());
        history.ports = port::assign(&desired, history, &BTreeMap::new(), &state.refused, NOW).ports;
        let mut assign = |at: Timestamp, facts: PreflightSnapshot, now: Timestamp| {
            let facts = PreflightSnapshot {
                at: Some(at),
                ..facts
            };
            let (observed, facts) = (Observed::default(), (Some(&facts), &identity));
            let ports = super::assign(&desired, &observed, &mut state, &BTreeMap::new(), facts, now).ports;
            ports.into_values().collect::<Vec<u16>>()
        };
        let later = NOW + std::time::Duration::from_secs(600);
        assert_eq!(
            assign(NOW, preflight(&[]), later),
            [9000, 8081, 9001],
            "old facts prove nothing"
        );
        assert_eq!(assign(later, preflight(&[8080]), later), [9000, 8081, 9001]);
        assert_eq!(assign(later, preflight(&[]), later), [8080, 8081, 9001]);
    }

    #[test]
    fn publications_of_one_port_move_and_return_together() {
        let udp = |number| ProtocolPort::new(number, Protocol::Udp);
        let identity = identity();
        let later = NOW + std::time::Duration::from_secs(600);
        for (ports, held) in [
            ("'53:53/tcp', '53:53/udp'", ("0.0.0.0", udp(53))),
            ("'53:53/udp', '53:53/tcp'", ("127.0.0.1", tcp(53))),
            ("'127.0.0.1:53:53', '[::1]:53:53'", ("::1", tcp(53))),
            (
                "'127.0.0.1:53:53', '[::1]:53:53', '[::1]:53:53/udp'",
                ("::1", udp(53)),
            ),
            ("'127.0.0.1:53:53', '53:53/udp'", ("::1", tcp(53))),
        ] {
            let text = format!(
                "project: {{name: shop}}\nservices:\n  - {{name: a, image: 'app:1', container: {{name: shop-a, ports: [{ports}]}}}}\n"
            );
            let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
            let desired = admit(&written, &SpecContext::default()).desired.unwrap();
            let mut state = PlannerState::default();
            let mut assign = |held: &[(&str, ProtocolPort)], now: Timestamp| {
                let facts = PreflightSnapshot {
                    at: Some(now),
                    ..preflight_of(held)
                };
                let (observed, facts) = (Observed::default(), (Some(&facts), &identity));
                let found =
                    super::assign(&desired, &observed, &mut state, &BTreeMap::new(), facts, now).ports;
                let history = state.environments.get_mut(&desired.env).unwrap();
                history.remember_ports(&desired, &found);
                found.into_values().collect::<std::collections::BTreeSet<u16>>()
            };
            assert_eq!(assign(&[], NOW), [53].into(), "{ports}");
            assert_eq!(assign(&[held], NOW), [9000].into(), "{ports}");
            assert_eq!(assign(&[held], later), [9000].into(), "{ports}");
            assert_eq!(
                assign(&[], later + std::time::Duration::from_secs(600)),
                [53].into(),
                "{ports}"
            );
        }
    }

    #[test]
    fn held_ports_move_before_the_first_start() {
        let auto = desired("auto");
        assert_eq!(assigned(&auto, &[]).0, [8080, 8081, 9000]);
        let (ports, state) = assigned(&auto, &[8080, 8081, 9000, 9001]);
        assert_eq!(ports, [9002, 9003, 9004]);
        assert!(state.refused.keys().eq(&[tcp(8080), tcp(8081), tcp(9000)]));
        assert_eq!(assigned(&auto, &[9000]).0, [8080, 8081, 9001]);
        let (ports, state) = assigned(&desired("fail"), &[8080]);
        assert_eq!((ports, state.refused.len()), (vec![8080, 8081, 9000], 0));
    }
}

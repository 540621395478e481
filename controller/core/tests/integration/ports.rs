//! Properties of the assignment of host ports.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::{Desired, Port};
use argus_core::ident::{EnvName, PortMap, Protocol, ProtocolPort, ServiceName};
use argus_core::outcome::{PortOwner, PortRefusal};
use argus_core::plan::port::{PortReservations, assign};
use argus_core::state::{EnvHistory, RefusedPort};
use argus_core::time::Timestamp;
use proptest::prelude::*;

const NOW: Timestamp = Timestamp(1_763_000_000_000);

/// Admits services with these entries of `ports`.
fn admitted(services: &[Vec<String>]) -> Desired {
    let rows = services.iter().enumerate().map(|(n, ports)| {
        format!("  - {{name: s{n}, image: 'app:1', container: {{name: shop-s{n}, ports: {ports:?}}}}}\n")
    });
    let text = format!(
        "project: {{name: shop}}\nisolation: {{portRange: [9000, 9099]}}\nservices:\n{}",
        rows.collect::<String>()
    );
    let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    let admission = admit(&written, &SpecContext::default());
    admission
        .desired
        .unwrap_or_else(|| panic!("{:?}", admission.diagnostics))
}

/// Checks that all publications of a declared port have one free number, which no other declared port has.
fn check(desired: &Desired, assigned: &PortMap, taken: &BTreeSet<ProtocolPort>) {
    let mut declared: BTreeMap<(ServiceName, u16, Option<u16>), u16> = BTreeMap::new();
    let mut owners: BTreeMap<ProtocolPort, (ServiceName, u16, Option<u16>)> = BTreeMap::new();
    for service in desired.services.values() {
        for port in &service.ports {
            let Port {
                container,
                requested,
                protocol,
                ..
            } = *port;
            let number = assigned[&port.key(&service.name)];
            let host = ProtocolPort::new(number, protocol);
            assert!(!taken.contains(&host), "{host} is taken");
            let declaration = (service.name.clone(), container, requested);
            assert_eq!(
                *declared.entry(declaration.clone()).or_insert(number),
                number,
                "{port:?}"
            );
            assert_eq!(
                *owners.entry(host).or_insert(declaration.clone()),
                declaration,
                "{host}"
            );
        }
    }
}

fn refused(port: ProtocolPort, busy: &BTreeSet<ProtocolPort>) -> RefusedPort {
    RefusedPort {
        at: NOW,
        refusal: PortRefusal {
            port,
            free_now: false,
            owner: PortOwner::Unknown,
            busy: busy.iter().map(|port| (*port, PortOwner::Unknown)).collect(),
        },
        times: 1,
    }
}

fn entry() -> impl Strategy<Value = String> {
    let address = prop::sample::select(vec!["", "127.0.0.1:", "[::1]:", "0.0.0.0:", "[::]:"]);
    let host = prop::sample::select(vec!["", "0", "53", "80", "9000", "9001"]);
    let container = prop::sample::select(vec![53, 80]);
    let protocol = prop::sample::select(vec!["", "/udp"]);
    (address, host, container, protocol)
        .prop_map(|(address, host, container, protocol)| format!("{address}{host}:{container}{protocol}"))
}

fn host_port() -> impl Strategy<Value = ProtocolPort> {
    let number = prop::sample::select(vec![53, 80, 9000, 9001, 9002, 9003]);
    let protocol = prop::sample::select(vec![Protocol::Tcp, Protocol::Udp]);
    (number, protocol).prop_map(|(number, protocol)| ProtocolPort::new(number, protocol))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn publications_of_a_port_share_one_free_number(
        services in prop::collection::vec(prop::collection::vec(entry(), 0..8), 1..4),
        reserved in prop::collection::btree_set(host_port(), 0..4),
        refusals in prop::collection::vec(host_port(), 0..6),
    ) {
        let desired = admitted(&services);
        let other = (EnvName::new("other").unwrap(), ServiceName::new("web").unwrap());
        let reservations: PortReservations = reserved.iter().map(|port| (*port, other.clone())).collect();
        let mut history = Arc::<EnvHistory>::default();
        let mut all_refused = BTreeMap::new();
        let mut taken = reserved;
        for refusal in [None].into_iter().chain(refusals.into_iter().map(Some)) {
            if let Some(port) = refusal {
                taken.insert(port);
                all_refused.insert(port, refused(port, &taken));
            }
            let assigned = assign(&desired, &history, &reservations, &all_refused, NOW).ports;
            check(&desired, &assigned, &taken);
            history.remember_ports(&desired, &assigned);
            let again = assign(&desired, &history, &reservations, &all_refused, NOW).ports;
            prop_assert_eq!(&again, &assigned, "an assigned port stays");
        }
    }
}

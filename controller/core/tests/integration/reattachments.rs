//! Reattachments: only a check of the present state shows which container is unreachable.
#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::{Action, Cause, Step};
use argus_core::connectivity::{
    CheckResults, ConnectivityCheck, ConnectivityInput, LinkError, LinkResult, TargetResult,
};
use argus_core::desired::Accepted;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::key_lines::KeyLines;
use argus_core::ident::{EnvName, ServiceName};
use argus_core::lease::ControllerLeases;
use argus_core::observed::{Container, Object, Store, WatchEvent};
use argus_core::probe::HealthStates;
use argus_core::reconcile::Planner;
use argus_core::reconcile::forecast::apply_action;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;

use crate::reconcile::{identity, listed_store, reconcile};

const SPEC: &str = "project: { name: shop }\nservices:\n  db: { image: db:1, container: { name: shop-db } }\n  \
                    web: { image: web:1, dependsOn: [{ service: db, condition: started }], container: { name: shop-web } }\n";

struct World {
    planner: Planner,
    store: Store,
    specs: BTreeMap<EnvName, Arc<Accepted>>,
    now: Timestamp,
}

fn env() -> EnvName {
    EnvName::new("shop").unwrap()
}

impl World {
    /// Both services run.
    fn new() -> Self {
        Self::of(SPEC)
    }

    /// All services of a file run.
    fn of(text: &str) -> Self {
        let now = Timestamp(1_000_000);
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let accepted = Accepted {
            desired: admit(&spec, &SpecContext::default()).desired.unwrap(),
            spec_path: "e2e.yaml".to_owned(),
            lines: KeyLines::default(),
            accepted_at: now,
            has_pending_edit: false,
            allowed: false,
            is_ending: false,
            file_hash: None,
            mounted_files: std::collections::BTreeMap::new(),
        };
        let mut world = Self {
            planner: Planner::new(identity(), PlannerState::default()),
            store: listed_store(now),
            specs: BTreeMap::from([(env(), Arc::new(accepted))]),
            now,
        };
        for number in 0..40 {
            for (index, step) in world.steps().into_iter().enumerate() {
                let done = apply_action(&mut world.store, &step.action, world.now, number * 10 + index);
                world.planner.finished(&step, &Ok(done), &world.store, world.now);
            }
            world.now = world.now + Duration::from_secs(3);
        }
        assert_eq!(world.steps(), []);
        world
    }

    fn steps(&mut self) -> Vec<Step> {
        let result = reconcile(
            &mut self.planner,
            &self.specs,
            &self.store,
            &ControllerLeases::default(),
            self.now,
        );
        result.steps
    }

    /// Check of the present state, in which `web` does not reach `db`.
    fn failed_check(&self) -> ConnectivityCheck {
        let topology = ConnectivityInput {
            desired: &self.specs[&env()].desired,
            observed: self.store.of(&env()).unwrap(),
            hashes: None,
            health: &HealthStates::new(),
            outages: self.store.outages(),
            engine_returned_at: None,
        };
        let key = topology.request().unwrap().key;
        let web = ServiceName::new("web").unwrap();
        let target = key.targets[&web][0].clone();
        ConnectivityCheck {
            key,
            at: self.now,
            retry_after: None,
            link_results: vec![LinkResult {
                from: web,
                target,
                result: Ok(TargetResult {
                    error: Some(LinkError::TimedOut(String::new())),
                    ..TargetResult::default()
                }),
            }],
            is_current: true,
        }
    }

    fn restart(&mut self, name: &str) {
        let now = self.now;
        self.edit(name, |container| {
            container.inspect.as_mut().unwrap().started_at = Some(now);
        });
    }

    fn edit(&mut self, name: &str, change: impl FnOnce(&mut Container)) {
        let found = self.store.containers().find(|container| container.name == name);
        let mut container = Container::clone(found.unwrap());
        change(&mut container);
        let event = WatchEvent::Apply(Object::Container(Arc::new(container)));
        self.store.apply(event);
    }

    /// Returns whether this check reattaches a container.
    fn reattaches(&mut self, check: ConnectivityCheck) -> bool {
        self.reattached_network(check).is_some()
    }

    /// Returns the network to which this check reattaches a container.
    fn reattached_network(&mut self, check: ConnectivityCheck) -> Option<String> {
        let results = CheckResults {
            checks: BTreeMap::from([(env(), check)]),
            ..CheckResults::default()
        };
        self.planner.on_connectivity_changed(&Arc::new(results));
        let steps = self.steps();
        let mut steps = steps.into_iter().filter(|step| step.cause == Cause::Unreachable);
        steps.find_map(|step| {
            let Action::DisconnectNetwork { network, .. } = step.action else {
                return None;
            };
            Some(network)
        })
    }
}

#[test]
fn check_of_the_present_state_reattaches_a_container() {
    let mut world = World::new();
    let check = world.failed_check();
    assert!(world.reattaches(check));
}

#[test]
fn check_of_an_earlier_run_reattaches_nothing() {
    for restarted in ["shop-db", "shop-web"] {
        let mut world = World::new();
        let check = world.failed_check();
        world.restart(restarted);
        assert!(!world.reattaches(check), "{restarted} has another run");
    }
    let mut world = World::new();
    let mut check = world.failed_check();
    check.key.networks.clear();
    assert!(!world.reattaches(check), "the network has another id");
}

#[test]
fn failed_address_selects_the_network_to_reattach() {
    let text = "project: { name: shop }\nnetworks: { back: {}, front: {} }\nservices:\n  \
                db: { image: db:1, container: { name: shop-db, networks: [back, front] } }\n  \
                web: { image: web:1, dependsOn: [{ service: db, condition: started }], \
                container: { name: shop-web, networks: [back, front] } }\n";
    for (addresses, expected) in [
        (vec!["10.2.0.2".parse().unwrap()], "argusai-shop_front"),
        (vec!["10.1.0.2".parse().unwrap()], "argusai-shop_back"),
        (Vec::new(), "argusai-shop_back"),
    ] {
        let mut world = World::of(text);
        for (network, address) in [
            ("argusai-shop_back", "10.1.0.2"),
            ("argusai-shop_front", "10.2.0.2/16"),
        ] {
            let networks = &world.store.of(&env()).unwrap().networks;
            let found = networks.values().find(|it| it.name == network);
            let id = found.unwrap().id.clone();
            for name in ["shop-db", "shop-web"] {
                world.edit(name, |container| {
                    let at = container.networks.get_mut(network).unwrap();
                    at.network = Some(id.clone());
                    at.address = (name == "shop-db").then(|| address.to_owned());
                });
            }
        }
        let mut check = world.failed_check();
        check.link_results[0].result.as_mut().unwrap().addresses = addresses;
        assert_eq!(world.reattached_network(check).as_deref(), Some(expected));
    }
}

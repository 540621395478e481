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
        let now = Timestamp(1_000_000);
        let spec = argus_crds::yaml::read("e2e.yaml", SPEC.as_bytes()).spec.unwrap();
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
        let found = self.store.containers().find(|container| container.name == name);
        let mut container = Container::clone(found.unwrap());
        container.inspect.as_mut().unwrap().started_at = Some(self.now);
        let event = WatchEvent::Apply(Object::Container(Arc::new(container)));
        self.store.apply(event);
    }

    /// Returns whether this check reattaches a container.
    fn reattaches(&mut self, check: ConnectivityCheck) -> bool {
        let results = CheckResults {
            checks: BTreeMap::from([(env(), check)]),
            ..CheckResults::default()
        };
        self.planner.on_connectivity_changed(&Arc::new(results));
        let steps = self.steps();
        let is_reattached = |step: &Step| {
            step.cause == Cause::Unreachable && matches!(step.action, Action::DisconnectNetwork { .. })
        };
        steps.iter().any(is_reattached)
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

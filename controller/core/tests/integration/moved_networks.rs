//! Networks whose name a foreign object holds.
#![allow(clippy::unwrap_used, reason = "all names in these tests are valid")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::{Action, Step};
use argus_core::desired::Accepted;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::key_lines::KeyLines;
use argus_core::ident::EnvName;
use argus_core::lease::ControllerLeases;
use argus_core::observed::Store;
use argus_core::outcome::{ActionError, FOREIGN_NETWORK};
use argus_core::reconcile::Planner;
use argus_core::reconcile::forecast::apply_action;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;

use crate::reconcile::{identity, listed_store, reconcile};

pub(crate) type Specs = BTreeMap<EnvName, Arc<Accepted>>;

pub(crate) fn env() -> EnvName {
    EnvName::new("shop").unwrap()
}

fn specs(more: &str) -> Specs {
    specs_of(&format!(
        "services:\n  web: {{ image: a, container: {{ name: shop-web }} }}\n{more}"
    ))
}

/// The accepted file of the environment `shop`.
pub(crate) fn specs_of(text: &str) -> Specs {
    let text = format!("project: {{ name: shop }}\n{text}");
    let mut context = SpecContext::default();
    context.host.allowed = true;
    let parsed = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
    let written = parsed.spec.unwrap();
    let accepted = Accepted {
        desired: admit(&written, &context).desired.unwrap(),
        spec_path: "e2e.yaml".to_owned(),
        lines: KeyLines::from_spec(&written, &parsed.source),
        accepted_at: Timestamp(0),
        has_pending_edit: false,
        allowed: false,
        is_ending: false,
        file_hash: None,
        mounted_files: BTreeMap::new(),
    };
    [(env(), Arc::new(accepted))].into()
}

pub(crate) struct World {
    pub(crate) planner: Planner,
    pub(crate) store: Store,
    now: Timestamp,
    /// Names of foreign networks.
    pub(crate) taken: Vec<&'static str>,
    /// Names of the requested networks.
    pub(crate) requested: Vec<String>,
    /// Number of executed actions.
    executed: usize,
}

impl World {
    pub(crate) fn new(taken: Vec<&'static str>) -> Self {
        let now = Timestamp(1_000_000);
        Self {
            planner: Planner::new(identity(), PlannerState::default()),
            store: listed_store(now),
            now,
            taken,
            requested: Vec::new(),
            executed: 0,
        }
    }

    /// Runs passes for a while. Returns the steps.
    pub(crate) fn run(&mut self, specs: &Specs) -> Vec<Step> {
        let mut all = Vec::new();
        for _ in 0..20 {
            self.now = self.now + Duration::from_millis(100);
            let moved = self.planner.move_networks(specs, &self.store);
            let specs = moved.as_ref().unwrap_or(specs);
            let leases = ControllerLeases::default();
            let steps = reconcile(&mut self.planner, specs, &self.store, &leases, self.now).steps;
            for step in &steps {
                self.executed += 1;
                let outcome = match &step.action {
                    Action::CreateNetwork { name, external, .. } => {
                        self.requested.push(name.to_string());
                        if *external && !self.taken.contains(&name.as_str()) {
                            Err(ActionError::NetworkNotFound(name.to_string()))
                        } else if !external && self.taken.contains(&name.as_str()) {
                            Err(ActionError::NameTaken {
                                holder: format!("`{name}`: {FOREIGN_NETWORK}"),
                            })
                        } else {
                            Ok(apply_action(
                                &mut self.store,
                                &step.action,
                                self.now,
                                self.executed,
                            ))
                        }
                    }
                    action => Ok(apply_action(&mut self.store, action, self.now, self.executed)),
                };
                self.planner.finished(step, &outcome, &self.store, self.now);
            }
            all.extend(steps);
        }
        all
    }

    /// Names of the networks of the environment.
    pub(crate) fn network(&self) -> Vec<String> {
        let networks = self
            .store
            .of(&env())
            .into_iter()
            .flat_map(|seen| seen.networks.values());
        networks.map(|network| network.name.clone()).collect()
    }
}

#[test]
fn derived_network_takes_the_next_free_name_and_keeps_it() {
    let (own, second) = ("argusai-shop-network", "argusai-shop-network-2");
    let specs = specs("");
    let mut world = World::new(vec![own, second]);
    world.run(&specs);
    assert_eq!(world.requested, [own, second, "argusai-shop-network-3"]);
    assert_eq!(world.network(), ["argusai-shop-network-3"]);
    let moved = world
        .planner
        .state()
        .history(&env())
        .unwrap()
        .moved_networks
        .first_key_value()
        .map(|(_, moved)| moved.clone())
        .unwrap();
    assert_eq!(moved.holder, format!("`{own}`: {FOREIGN_NETWORK}"));
    // Neither the end of the conflict nor a new controller without a memory changes it.
    world.taken.clear();
    assert_eq!(world.run(&specs), []);
    world.planner = Planner::new(identity(), PlannerState::default());
    assert_eq!(world.run(&specs), []);
    assert_eq!(world.network(), ["argusai-shop-network-3"]);
}

#[test]
fn network_with_a_name_of_the_file_stays() {
    let specs = specs("network: { name: chosen }\n");
    let mut world = World::new(vec!["chosen"]);
    world.run(&specs);
    assert!(
        world.requested.iter().all(|name| name == "chosen"),
        "{:?}",
        world.requested
    );
    assert_eq!(world.network(), [""; 0]);
}

#[test]
fn edited_name_ends_the_move() {
    let mut world = World::new(vec!["argusai-shop-network"]);
    world.run(&specs(""));
    assert_eq!(world.network(), ["argusai-shop-network-2"]);
    world.run(&specs("network: { name: chosen }\n"));
    assert!(
        world.network().contains(&"chosen".to_owned()),
        "{:?}",
        world.network()
    );
    assert!(
        world
            .planner
            .state()
            .history(&env())
            .unwrap()
            .moved_networks
            .is_empty()
    );
}

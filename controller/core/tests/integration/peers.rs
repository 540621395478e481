//! Environments that are not desired, next to another controller with one of the same name.
#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_core::ident::{ContainerId, EnvName, NetworkId};
use argus_core::lease::{ControllerLease, ControllerLeases, LeaseSpec, ProcessIdentity, TTL};
use argus_core::observed::{Container, ContainerState, Network, Object, Store, WatchEvent};
use argus_core::plan::{ControllerIdentity, Plan};
use argus_core::probe::HealthStates;
use argus_core::reconcile::{Inputs, Planner};
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;
use argus_core::wait::WaitReason;

use crate::reconcile::shop_labels;

const NOW: Timestamp = Timestamp(1_000_000);

/// Store with a container of the controller `them`, and a network of each of these controllers.
fn store(networks: &[&str]) -> Store {
    let mut store = Store::default();
    store.apply(WatchEvent::Connected(NOW));
    store.apply(WatchEvent::Init);
    store.apply(WatchEvent::Apply(Object::Container(Arc::new(Container {
        id: ContainerId::new("c1").unwrap(),
        name: "shop-web".to_owned(),
        labels: shop_labels("web", "them"),
        image: "web:1".to_owned(),
        state: ContainerState::Running,
        created_at: NOW,
        networks: BTreeMap::new(),
        inspect: None,
        stopped_by_other: None,
        oom_at: None,
    }))));
    for controller in networks {
        store.apply(WatchEvent::Apply(Object::Network(Arc::new(Network {
            id: NetworkId::new(*controller).unwrap(),
            name: format!("shop-{controller}"),
            labels: shop_labels("web", controller),
            created_at: NOW,
            is_broken: false,
        }))));
    }
    store.apply(WatchEvent::InitDone);
    store
}

/// Lease of a controller, which claims `shop` or nothing.
fn lease(controller: &str, is_claimed: bool) -> ControllerLease {
    let claim = (EnvName::new("shop").unwrap(), Some(Timestamp(0)));
    ControllerLease {
        name: controller.to_owned(),
        spec: LeaseSpec {
            controller: controller.to_owned(),
            run: controller.to_owned(),
            state_dir: controller.to_owned(),
            specs: None,
            host: "host".to_owned(),
            pid: 1,
            pid_namespace: String::new(),
            ttl: TTL,
            since: None,
            claims: is_claimed.then_some(claim).into_iter().collect(),
        },
        created_at: NOW,
        renewed_at: NOW,
    }
}

/// Plan of the controller `me`, which does not desire `shop`, with these leases.
fn plan(store: &Store, found: Vec<ControllerLease>) -> Plan {
    plan_with(store, Some(found))
}

/// As [`plan`]; without leases, they are not listed yet.
fn plan_with(store: &Store, found: Option<Vec<ControllerLease>>) -> Plan {
    let mut leases = ControllerLeases::new(ProcessIdentity {
        controller: "me".to_owned(),
        run: "me".to_owned(),
        state_dir: "me".to_owned(),
        holds_lease: true,
    });
    if let Some(found) = found {
        leases.on_listed(found, NOW);
    }
    let identity = ControllerIdentity {
        controller: "me".to_owned(),
        run: "me".to_owned(),
        publish_address: [127, 0, 0, 1].into(),
    };
    let result = Planner::new(identity, PlannerState::default()).reconcile(&Inputs {
        specs: &BTreeMap::new(),
        scanned: true,
        store,
        health: &HealthStates::new(),
        leases: &leases,
        requests: &UserRequests::default(),
        preflight: None,
        now: NOW,
    });
    Plan::clone(&result.plans[&EnvName::new("shop").unwrap()])
}

#[test]
fn objects_of_a_live_controller_do_not_delay_a_removal() {
    let theirs = store(&["them"]);
    for is_claimed in [true, false] {
        let plan = plan(&theirs, vec![lease("me", false), lease("them", is_claimed)]);
        assert!(plan.is_settled() && plan.is_left_to_others, "{is_claimed}");
    }
    assert!(
        !plan_with(&theirs, None).is_left_to_others,
        "nothing is known yet"
    );
    let dead = plan(&theirs, vec![lease("me", false)]);
    assert!(!dead.is_left_to_others, "this controller can remove them");
}

#[test]
fn removal_waits_for_the_controller_that_holds_the_name() {
    let both = store(&["me", "them"]);
    let held = plan(&both, vec![lease("me", false), lease("them", true)]);
    assert!(!held.is_left_to_others);
    let [wait] = &held.waits[..] else {
        panic!("one wait: {:?}", held.waits)
    };
    assert_eq!(wait.subject.orphan_id(), Some("me"));
    let WaitReason::LeaseHeldByOther { controller, .. } = &wait.on else {
        panic!("{wait:?}")
    };
    assert_eq!(controller.controller, "them");
    let unclaimed = plan(&both, Vec::new());
    assert_eq!(unclaimed.waits[0].on, WaitReason::ControllerLease);
}

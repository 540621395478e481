//! Orphans of dead controllers stay in the reports as long as they exist.
#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_core::action::Action;
use argus_core::desired::Accepted;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::ident::{ContainerId, EnvName, ResourceName};
use argus_core::labels;
use argus_core::lease::{ControllerLease, ControllerLeases, LeaseSpec, ProcessIdentity, TTL};
use argus_core::observed::{Container, ContainerState, Object, ObjectId, Store, Volume, WatchEvent};
use argus_core::plan::{ControllerIdentity, Plan};
use argus_core::probe::HealthStates;
use argus_core::reconcile::{Inputs, Planner};
use argus_core::state::PlannerState;
use argus_core::status;
use argus_core::time::Timestamp;
use argus_core::user_requests::{UserRequests, VolumeRemoval};

use crate::reconcile::shop_labels;

const NOW: Timestamp = Timestamp(1_000_000);

fn env() -> EnvName {
    EnvName::new("shop").unwrap()
}

/// Container of a service that no file defines, created by a controller that no longer exists.
fn orphan() -> Container {
    Container {
        id: ContainerId::new("c1").unwrap(),
        name: "shop-gone".to_owned(),
        labels: shop_labels("gone", "dead"),
        image: "web:1".to_owned(),
        state: ContainerState::Running,
        created_at: NOW,
        networks: BTreeMap::new(),
        inspect: None,
        stopped_by_other: None,
        oom_at: None,
    }
}

fn accepted() -> Arc<Accepted> {
    let text =
        "version: \"1\"\nproject: { name: shop }\nservice: { image: web, container: { name: shop-web } }\n";
    let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    Arc::new(Accepted {
        desired: admit(&written, &SpecContext::default()).desired.unwrap(),
        spec_path: "e2e.yaml".to_owned(),
        lines: argus_core::desired::key_lines::KeyLines::default(),
        accepted_at: NOW,
        has_pending_edit: false,
        allowed: false,
        is_ending: false,
        file_hash: None,
        mounted_files: std::collections::BTreeMap::new(),
    })
}

/// Lease of this controller without any claim.
fn leases_without_claims() -> ControllerLeases {
    let mut leases = ControllerLeases::new(ProcessIdentity {
        controller: "me".to_owned(),
        run: "run".to_owned(),
        state_dir: "here".to_owned(),
        holds_lease: true,
    });
    let own = ControllerLease {
        name: "own".to_owned(),
        spec: LeaseSpec {
            controller: "me".to_owned(),
            run: "run".to_owned(),
            state_dir: "here".to_owned(),
            specs: None,
            host: "host".to_owned(),
            pid: 1,
            pid_namespace: String::new(),
            ttl: TTL,
            since: None,
            claims: BTreeMap::new(),
        },
        created_at: NOW,
        renewed_at: NOW,
    };
    leases.on_listed(vec![own], NOW);
    leases
}

#[test]
fn orphan_is_reported_while_a_claim_is_pending() {
    let mut planner = Planner::new(identity(), PlannerState::default());
    let mut store = Store::default();
    store.apply(WatchEvent::Connected(NOW));
    store.apply(WatchEvent::Init);
    store.apply(WatchEvent::Apply(Object::Container(Arc::new(orphan()))));
    store.apply(WatchEvent::InitDone);
    let (leases, health, requests) = (
        leases_without_claims(),
        HealthStates::new(),
        UserRequests::default(),
    );
    let (none, one) = (BTreeMap::new(), BTreeMap::from([(env(), accepted())]));
    let mut count_orphans = |specs: &BTreeMap<_, _>, store: &Store| {
        let result = planner.reconcile(&Inputs {
            specs,
            scanned: true,
            store,
            health: &health,
            leases: &leases,
            requests: &requests,
            preflight: None,
            now: NOW,
        });
        let plan = result.plans.get(&env());
        plan.map_or(0, |plan| plan.orphans.len())
    };
    assert_eq!(count_orphans(&none, &store), 1, "no spec file");
    assert_eq!(
        count_orphans(&one, &store),
        1,
        "a file was added, and the claim is pending"
    );
    store.apply(WatchEvent::Delete(ObjectId::Container(orphan().id)));
    assert_eq!(count_orphans(&one, &store), 0, "the orphan was removed");
}

/// Volume that the removal of an environment kept. Its controller no longer exists.
fn kept_volume(controller: &str) -> WatchEvent {
    let all = [
        (labels::MANAGED, "true"),
        (labels::PROJECT, "other"),
        (labels::ENVIRONMENT, "shop"),
        (labels::CONTROLLER, controller),
    ];
    WatchEvent::Apply(Object::Volume(Arc::new(Volume {
        name: "data".to_owned(),
        labels: all.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    })))
}

fn identity() -> ControllerIdentity {
    ControllerIdentity {
        controller: "me".to_owned(),
        run: "run".to_owned(),
        publish_address: [127, 0, 0, 1].into(),
    }
}

/// Store with this volume only.
fn store_with(volume: WatchEvent) -> Store {
    let mut store = Store::default();
    for event in [
        WatchEvent::Connected(NOW),
        WatchEvent::Init,
        volume,
        WatchEvent::InitDone,
    ] {
        store.apply(event);
    }
    store
}

fn pass(planner: &mut Planner, store: &Store, requests: &UserRequests) -> Arc<Plan> {
    let result = planner.reconcile(&Inputs {
        specs: &BTreeMap::new(),
        scanned: true,
        store,
        health: &HealthStates::new(),
        leases: &leases_without_claims(),
        requests,
        preflight: None,
        now: NOW,
    });
    result.plans[&env()].clone()
}

fn removes_the_volume(plan: &Plan) -> bool {
    let mut steps = plan.steps.iter();
    steps.any(|step| matches!(&step.action, Action::RemoveVolume { name } if name.as_str() == "data"))
}

#[test]
fn kept_volume_is_no_orphan_and_goes_on_request() {
    let store = store_with(kept_volume("dead"));
    let mut planner = Planner::new(identity(), PlannerState::default());
    let mut requests = UserRequests::default();
    for is_requested in [false, true] {
        if is_requested {
            requests.request_orphan_removal(["other".to_owned()], VolumeRemoval::None, NOW + TTL);
        }
        let plan = pass(&mut planner, &store, &requests);
        let listed = status::orphans(&plan);
        assert!(
            plan.steps.is_empty() && listed.len() == 1 && listed[0].is_kept(),
            "{listed:#?}"
        );
        assert_eq!(status::orphan_errors(&listed), []);
    }
    requests.request_orphan_removal(["other".to_owned()], VolumeRemoval::OwnFolders, NOW + TTL);
    let plan = pass(&mut planner, &store, &requests);
    assert!(removes_the_volume(&plan), "{plan:#?}");
}

#[test]
fn volume_of_a_removed_environment_goes_on_request() {
    let store = store_with(kept_volume("me"));
    let requests = UserRequests::default();
    let mut planner = Planner::new(identity(), PlannerState::default());
    let plan = pass(&mut planner, &store, &requests);
    assert!(plan.is_settled() && plan.orphans.is_empty(), "{plan:#?}");
    planner.request_volume_removal(&env());
    assert!(removes_the_volume(&pass(&mut planner, &store, &requests)));
    // The last file declared it as external.
    let mut state = PlannerState::default();
    let history = state.environments.entry(env()).or_default();
    Arc::make_mut(history)
        .external_volumes
        .insert(ResourceName::new("data").unwrap());
    let mut planner = Planner::new(identity(), state);
    planner.request_volume_removal(&env());
    assert!(pass(&mut planner, &store, &requests).is_settled());
}

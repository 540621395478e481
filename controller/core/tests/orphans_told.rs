//! What dead controllers left is told as long as it is there, whatever else is decided meanwhile.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_core::desired::Accepted;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::ident::{ContainerId, EnvName};
use argus_core::labels;
use argus_core::lease::{ControllerLease, LeaseSpec, Leases, OwnIdentity, TTL};
use argus_core::observed::{Container, ContainerState, Object, ObjectId, Store, WatchEvent};
use argus_core::probe::HealthStates;
use argus_core::reconcile::{ControllerIdentity, Inputs, Planner};
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;

const NOW: Timestamp = Timestamp(1_000_000);

fn env() -> EnvName {
    EnvName::new("shop").unwrap()
}

/// A service that no file names any more, made by a controller of which nothing is left.
fn left() -> Container {
    let all = [
        (labels::MANAGED, "true"),
        (labels::PROJECT, "shop"),
        (labels::ENVIRONMENT, "shop"),
        (labels::SERVICE, "gone"),
        (labels::CONTROLLER, "dead"),
    ];
    Container {
        id: ContainerId::new("c1").unwrap(),
        name: "shop-gone".to_owned(),
        labels: all.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
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
        accepted_at: NOW,
        has_pending_edit: false,
    })
}

/// Our lease, with nothing claimed yet.
fn unclaimed() -> Leases {
    let mut book = Leases::of(OwnIdentity {
        controller: "me".to_owned(),
        run: "run".to_owned(),
        place: "here".to_owned(),
        holds: true,
    });
    let own = ControllerLease {
        name: "own".to_owned(),
        spec: LeaseSpec {
            controller: "me".to_owned(),
            run: "run".to_owned(),
            place: "here".to_owned(),
            host: "host".to_owned(),
            pid: 1,
            processes: String::new(),
            ttl: TTL,
            claims: BTreeMap::new(),
        },
        made_at: NOW,
        renewed_at: NOW,
    };
    book.take(vec![own], NOW);
    book
}

#[test]
fn an_orphan_is_told_while_a_file_of_its_environment_waits_for_our_claim() {
    let site = ControllerIdentity {
        controller: "me".to_owned(),
        run: "run".to_owned(),
        publish_address: [127, 0, 0, 1].into(),
    };
    let mut planner = Planner::new(site, PlannerState::default());
    let mut world = Store::default();
    world.apply(WatchEvent::Connected(NOW));
    world.apply(WatchEvent::Init);
    world.apply(WatchEvent::Apply(Object::Container(Arc::new(left()))));
    world.apply(WatchEvent::InitDone);
    let (leases, health, orders) = (unclaimed(), HealthStates::new(), UserRequests::default());
    let (none, one) = (BTreeMap::new(), BTreeMap::from([(env(), accepted())]));
    let mut told = |specs: &BTreeMap<_, _>, world: &Store| {
        let turn = planner.reconcile(&Inputs {
            specs,
            scanned: true,
            store: world,
            health: &health,
            leases: &leases,
            requests: &orders,
            preflight: None,
            now: NOW,
        });
        let plan = turn.plans.get(&env());
        plan.map_or(0, |plan| plan.orphans.len())
    };
    assert_eq!(told(&none, &world), 1, "nobody holds its project");
    assert_eq!(
        told(&one, &world),
        1,
        "a file came, and the claim is being written"
    );
    world.apply(WatchEvent::Delete(ObjectId::Container(left().id)));
    assert_eq!(told(&one, &world), 0, "it is gone");
}

//! Objects of dead runs that hold what a new environment needs.
#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::{Action, Step};
use argus_core::delays::Delays;
use argus_core::desired::Accepted;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::ident::{ContainerId, EnvName, NetworkId};
use argus_core::labels;
use argus_core::lease::{ControllerLease, ControllerLeases, LeaseSpec, ProcessIdentity, TTL};
use argus_core::observed::{
    Attachment, Container, ContainerState, Network, Object, ObjectId, Released, Store, WatchEvent,
};
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::ControllerIdentity;
use argus_core::plan::Plan;
use argus_core::plan::orphan::OrphanDecision;
use argus_core::reconcile::Planner;
use argus_core::state::PlannerState;
use argus_core::status::describe_wait;
use argus_core::time::Timestamp;
use argus_core::wait::WaitReason;
use argus_crds::error::Code;

use crate::reconcile::reconcile;

const NOW: Timestamp = Timestamp(1_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn env(name: &str) -> EnvName {
    EnvName::new(name).unwrap()
}

fn labels_of(environment: &str, controller: &str) -> BTreeMap<String, String> {
    let all = [
        (labels::MANAGED, "true"),
        (labels::PROJECT, "shop"),
        (labels::ENVIRONMENT, environment),
        (labels::SERVICE, "web"),
        (labels::CONTROLLER, controller),
        (labels::RUN_ID, "run-1"),
        (labels::PORTS, "80/tcp=8080@8080"),
    ];
    all.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Container of an earlier run of the project, in another environment.
fn left(name: &str, state: ContainerState) -> Container {
    let attachment = Attachment {
        network: Some(NetworkId::new("n1").unwrap()),
        aliases: Vec::new(),
        address: None,
    };
    Container {
        id: ContainerId::new("c1").unwrap(),
        name: name.to_owned(),
        labels: labels_of("shop-before", "dead"),
        image: "web:1".to_owned(),
        state,
        created_at: NOW - SECOND * 5,
        networks: [("shop-before".to_owned(), attachment)].into(),
        inspect: None,
        stopped_by_other: None,
        oom_at: None,
    }
}

fn network(id: &str, environment: &str, controller: &str) -> Network {
    Network {
        id: NetworkId::new(id).unwrap(),
        name: environment.to_owned(),
        labels: labels_of(environment, controller),
        created_at: NOW - SECOND * 5,
        is_broken: false,
    }
}

fn lease(controller: &str) -> ControllerLease {
    ControllerLease {
        name: controller.to_owned(),
        spec: LeaseSpec {
            controller: controller.to_owned(),
            run: format!("run-{controller}"),
            state_dir: format!("at-{controller}"),
            specs: None,
            host: "host".to_owned(),
            pid: 1,
            pid_namespace: String::new(),
            ttl: TTL,
            since: Some(Timestamp(0)),
            claims: [(env("shop"), Some(Timestamp(0)))].into(),
        },
        created_at: NOW,
        renewed_at: NOW,
    }
}

struct World {
    planner: Planner,
    store: Store,
    leases: ControllerLeases,
    specs: BTreeMap<EnvName, Arc<Accepted>>,
    now: Timestamp,
}

impl World {
    /// One environment that requests the name `shop-web` and port 8080, and objects that exist.
    fn new(is_proven_dead: bool, objects: Vec<Object>) -> Self {
        let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  web: { image: web, container: { name: shop-web, ports: [\"8080:80\"] } }\n";
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let accepted = Accepted {
            desired: admit(&written, &SpecContext::default()).desired.unwrap(),
            spec_path: "e2e.yaml".to_owned(),
            lines: argus_core::desired::key_lines::KeyLines::default(),
            accepted_at: NOW - SECOND * 60,
            has_pending_edit: false,
            allowed: false,
            is_ending: false,
            file_hash: None,
            mounted_files: std::collections::BTreeMap::new(),
        };
        let mut leases = ControllerLeases::new(ProcessIdentity {
            controller: "me".to_owned(),
            run: "run-me".to_owned(),
            state_dir: "at-me".to_owned(),
            holds_lease: true,
        });
        if is_proven_dead {
            leases.on_exited(&[lease("dead")]);
        }
        leases.on_listed(vec![lease("me")], NOW);
        let mut store = Store::default();
        store.apply(WatchEvent::Connected(NOW));
        store.apply(WatchEvent::Init);
        for object in objects {
            store.apply(WatchEvent::Apply(object));
        }
        store.apply(WatchEvent::InitDone);
        let identity = ControllerIdentity {
            controller: "me".to_owned(),
            run: "run-me".to_owned(),
            publish_address: [127, 0, 0, 1].into(),
        };
        Self {
            planner: Planner::new(identity, PlannerState::default()),
            store,
            leases,
            specs: [(env("shop"), Arc::new(accepted))].into(),
            now: NOW,
        }
    }

    fn with_delays(mut self, delays: Delays) -> Self {
        let state = PlannerState {
            delays,
            ..PlannerState::default()
        };
        self.planner = Planner::new(self.planner.identity().clone(), state);
        self
    }

    fn plan(&mut self) -> (Vec<Step>, Arc<BTreeMap<EnvName, Arc<Plan>>>) {
        let result = reconcile(
            &mut self.planner,
            &self.specs,
            &self.store,
            &self.leases,
            self.now,
        );
        (result.steps, result.plans)
    }

    /// Wait of the service or the network of the new environment.
    fn waits(&mut self) -> Vec<WaitReason> {
        let (_, plans) = self.plan();
        let waits = plans[&env("shop")].waits.iter();
        waits.map(|wait| wait.on.clone()).collect()
    }

    fn finish(&mut self, step: &Step, outcome: &Result<Done, ActionError>) {
        self.planner.finished(step, outcome, &self.store, self.now);
    }
}

fn is_obstacle(on: &WaitReason, named: &str) -> bool {
    matches!(on, WaitReason::Obstacle { object, .. } if object.ends_with(&format!(" `{named}`")))
}

#[test]
fn orphan_of_an_ended_run_in_the_way_goes_first() {
    let objects = || {
        vec![
            Object::Container(Arc::new(left("shop-web-old", ContainerState::Running))),
            Object::Network(Arc::new(network("n2", "shop", "me"))),
        ]
    };
    let mut world = World::new(true, objects());
    // The network of the new environment has the name that its file implies.
    let name = world.specs[&env("shop")].desired.network.to_string();
    world
        .store
        .apply(WatchEvent::Apply(Object::Network(Arc::new(Network {
            name,
            ..network("n2", "shop", "me")
        }))));
    let (steps, plans) = world.plan();
    assert!(
        matches!(steps.as_slice(), [step] if matches!(step.action, Action::StopContainer { .. })),
        "it is 5 s old, and its port is needed: {steps:?}"
    );
    let waits = &plans[&env("shop")].waits;
    assert!(is_obstacle(&waits[0].on, "shop-web-old"), "{waits:?}");
    assert_eq!(plans[&env("shop-before")].orphans[0].run, "run-1");

    world.finish(&steps[0], &Ok(Done::Applied));
    let gone = ObjectId::Container(ContainerId::new("c1").unwrap());
    world.store.apply(WatchEvent::Delete(gone));
    let (steps, plans) = world.plan();
    assert!(
        matches!(&steps[0].action, Action::CreateContainer { .. }),
        "{steps:?}"
    );
    assert!(plans[&env("shop")].ports.values().eq([&8080]));
}

#[test]
fn orphan_of_a_possibly_live_run_keeps_its_grace() {
    let mut world = World::new(
        false,
        vec![Object::Container(Arc::new(left(
            "shop-web",
            ContainerState::Exited,
        )))],
    );
    let (_, plans) = world.plan();
    let orphan = &plans[&env("shop-before")].orphans[0];
    assert!(
        matches!(orphan.decision, OrphanDecision::TooNew { .. }),
        "{orphan:?}"
    );
    let own = Object::Network(Arc::new(Network {
        name: world.specs[&env("shop")].desired.network.to_string(),
        ..network("n2", "shop", "me")
    }));
    world.store.apply(WatchEvent::Apply(own.clone()));
    let waits = world.waits();
    assert!(is_obstacle(&waits[0], "shop-web"), "{waits:?}");
    world.now = NOW + SECOND * 26;
    let (steps, _) = world.plan();
    assert!(
        matches!(steps[0].action, Action::RemoveContainer { .. }),
        "{steps:?}"
    );

    // A removal that fails holds up nothing: the create reports what holds the name.
    world.finish(
        &steps[0],
        &Err(ActionError::Busy("removal in progress".to_owned())),
    );
    world.store.apply(WatchEvent::Init);
    let remains = left("shop-web", ContainerState::Exited);
    world
        .store
        .apply(WatchEvent::Apply(Object::Container(Arc::new(remains))));
    world.store.apply(WatchEvent::Apply(own));
    world.store.apply(WatchEvent::InitDone);
    let (steps, plans) = world.plan();
    let waits = &plans[&env("shop")].waits;
    assert!(
        !waits.iter().any(|wait| is_obstacle(&wait.on, "shop-web")),
        "{waits:?}"
    );
    let creates = |step: &Step| matches!(step.action, Action::CreateContainer { .. });
    assert!(steps.iter().any(creates), "{steps:?}");
}

#[test]
fn orphan_age_and_list_interval_are_settings() {
    let world = |delays, age: u32| {
        let orphan = Container {
            created_at: NOW - SECOND * age,
            ..left("shop-web", ContainerState::Exited)
        };
        World::new(false, vec![Object::Container(Arc::new(orphan))]).with_delays(delays)
    };
    let is_removal = |step: &Step| matches!(step.action, Action::RemoveContainer { .. });
    for (orphan_age, removed) in [(5, true), (6, false)] {
        let delays = Delays {
            orphan_age: SECOND * orphan_age,
            ..Delays::default()
        };
        let (steps, plans) = world(delays, 5).plan();
        assert_eq!(steps.iter().any(is_removal), removed, "{orphan_age} s: {plans:?}");
    }
    let short = Delays {
        list_interval: SECOND,
        ..Delays::default()
    };
    for (delays, seconds) in [(Delays::default(), 12), (short, 3)] {
        // The leases are older than the container.
        let (_, plans) = world(delays, 0).plan();
        let until = NOW + SECOND * seconds;
        let decision = &plans[&env("shop-before")].orphans[0].decision;
        assert_eq!(*decision, OrphanDecision::Unconfirmed { until });
    }
}

#[test]
fn exhausted_pools_remove_unneeded_networks_before_an_error() {
    let mut world = World::new(
        true,
        vec![
            Object::Container(Arc::new(left("other", ContainerState::Exited))),
            Object::Network(Arc::new(network("n1", "shop-before", "dead"))),
        ],
    );
    let (steps, _) = world.plan();
    let [create] = steps.as_slice() else {
        panic!("nothing is in the way yet: {steps:?}")
    };
    let exhausted = Err(ActionError::PoolExhausted("no range".to_owned()));
    world.finish(create, &exhausted);
    // The container on the network goes first.
    let (steps, plans) = world.plan();
    assert!(
        matches!(steps.as_slice(), [step] if matches!(step.action, Action::RemoveContainer { .. })),
        "{steps:?}"
    );
    let waits = &plans[&env("shop")].waits;
    assert!(
        waits.iter().any(|wait| is_obstacle(&wait.on, "shop-before")),
        "{waits:?}"
    );
    world.finish(&steps[0], &Ok(Done::Applied));
    let gone = ObjectId::Container(ContainerId::new("c1").unwrap());
    world.store.apply(WatchEvent::Delete(gone));
    let (steps, _) = world.plan();
    assert!(
        matches!(steps.as_slice(), [step] if matches!(step.action, Action::RemoveNetwork { .. })),
        "{steps:?}"
    );
    world.finish(&steps[0], &Ok(Done::Applied));
    world.store.apply(WatchEvent::Delete(ObjectId::Network(
        NetworkId::new("n1").unwrap(),
    )));
    let (steps, _) = world.plan();
    let [create] = steps.as_slice() else {
        panic!("the create follows without a delay: {steps:?}")
    };
    // Nothing is left to remove, so the error is reported.
    world.finish(create, &exhausted);
    let waits = world.waits();
    assert!(
        waits
            .iter()
            .any(|on| matches!(on, WaitReason::Retry { failure, .. } if matches!(failure.error, ActionError::PoolExhausted(_)))),
        "{waits:?}"
    );
}

#[test]
fn networks_of_removed_environments_go_when_pools_are_exhausted() {
    // A network of this controller whose last removal failed is not waited for.
    let mut world = World::new(
        false,
        vec![Object::Network(Arc::new(network("n9", "shop-gone", "me")))],
    );
    let (steps, _) = world.plan();
    let of = |is: fn(&Action) -> bool| steps.iter().find(|step| is(&step.action)).unwrap().clone();
    let create = of(|action| matches!(action, Action::CreateNetwork { .. }));
    let remove = of(|action| matches!(action, Action::RemoveNetwork { .. }));
    world.finish(&create, &Err(ActionError::PoolExhausted("no range".to_owned())));
    let waits = world.waits();
    assert!(waits.iter().any(|on| is_obstacle(on, "shop-gone")), "{waits:?}");
    world.finish(&remove, &Err(ActionError::Rejected("no".to_owned())));
    let waits = world.waits();
    assert!(
        waits.iter().any(|on| matches!(on, WaitReason::Retry { .. })),
        "{waits:?}"
    );
}

/// Finishes the planned create of the network as exhausted, and returns the waits that follow.
fn exhaust(world: &mut World) -> Vec<WaitReason> {
    let (steps, _) = world.plan();
    let is_create = |step: &&Step| matches!(step.action, Action::CreateNetwork { .. });
    let create = steps.iter().find(is_create).unwrap().clone();
    world.finish(&create, &Err(ActionError::PoolExhausted("no range".to_owned())));
    world.waits()
}

/// Attempts of the failed create of the network whose retry is waited for.
fn retried(waits: &[WaitReason]) -> Option<u32> {
    waits.iter().find_map(|on| match on {
        WaitReason::Retry { failure, .. } => {
            matches!(failure.error, ActionError::PoolExhausted(_)).then_some(failure.attempts)
        }
        _ => None,
    })
}

#[test]
fn network_under_a_desired_service_is_no_obstacle() {
    // The network of the environment was renamed: its service stays on the old network until the new one exists.
    let attachment = Attachment {
        network: Some(NetworkId::new("n2").unwrap()),
        aliases: Vec::new(),
        address: None,
    };
    let web = Container {
        labels: labels_of("shop", "me"),
        networks: [("shop-old".to_owned(), attachment)].into(),
        ..left("shop-web", ContainerState::Running)
    };
    let old = Network {
        name: "shop-old".to_owned(),
        ..network("n2", "shop", "me")
    };
    let mut world = World::new(
        true,
        vec![Object::Container(Arc::new(web)), Object::Network(Arc::new(old))],
    );
    let waits = exhaust(&mut world);
    assert_eq!(retried(&waits), Some(1), "{waits:?}");
    assert!(!waits.iter().any(|on| is_obstacle(on, "shop-old")), "{waits:?}");
    world.now = world.now + SECOND * 10;
    let waits = exhaust(&mut world);
    assert_eq!(retried(&waits), Some(2), "{waits:?}");
}

#[test]
fn create_is_retried_at_its_time_while_an_obstacle_remains() {
    let mut world = World::new(
        false,
        vec![Object::Network(Arc::new(network("n9", "shop-gone", "me")))],
    );
    for seconds in [10, 20, 30] {
        let waits = exhaust(&mut world);
        let wait = waits.iter().find(|on| is_obstacle(on, "shop-gone")).unwrap();
        assert_eq!(wait.until(), Some(NOW + SECOND * seconds), "{waits:?}");
        assert_eq!(describe_wait(wait).error, None);
        world.now = NOW + SECOND * seconds;
    }
    // It failed for 30 s, so the error is reported.
    let waits = exhaust(&mut world);
    let wait = waits.iter().find(|on| is_obstacle(on, "shop-gone")).unwrap();
    let described = describe_wait(wait);
    assert_eq!(described.error, Some(Code::NetworkPoolExhausted));
    assert_eq!(described.until, None, "a check for a change is not announced");
}

#[test]
fn removals_by_other_clients_keep_the_failed_attempts() {
    let mut world = World::new(true, Vec::new());
    for attempts in 1..=6 {
        let waits = exhaust(&mut world);
        assert_eq!(retried(&waits), Some(attempts), "{waits:?}");
        for name in ["other-1", "other-2"] {
            let released = Released::Network(name.to_owned());
            world.store.apply(WatchEvent::Released(released));
        }
        let waits = world.waits();
        let retry = waits.iter().find_map(WaitReason::until);
        assert_eq!(retry, Some(world.now + SECOND * 2), "{waits:?}");
        world.now = world.now + SECOND * 2;
    }
    // Without a removal, the retries are slow now.
    let waits = exhaust(&mut world);
    let retry = waits.iter().find_map(WaitReason::until);
    assert!(retry > Some(world.now + SECOND * 50), "{waits:?}");
}

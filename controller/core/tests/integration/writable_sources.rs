//! Bind sources that a running container can replace, although no accepted file declares such a mount any more.
#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::Action;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::key_lines::KeyLines;
use argus_core::desired::{Accepted, Mount};
use argus_core::ident::EnvName;
use argus_core::lease::ControllerLeases;
use argus_core::observed::{Container, Store, WatchEvent};
use argus_core::plan::ControllerIdentity;
use argus_core::probe::HealthStates;
use argus_core::reconcile::forecast::apply_action;
use argus_core::reconcile::{Inputs, Planner, ReconcileResult};
use argus_core::state::PlannerState;
use argus_core::status::describe_wait;
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;
use argus_core::wait::WaitReason;

const WRITES_ABOVE: &str = "project: { name: shop }\nservices:\n  \
    web: { image: web:1, container: { name: web, volumes: [\".:/app\"] } }\n";
/// Its `db` mounts a directory of the earlier mount, and the new `web` waits for it.
const MOUNTS_BELOW: &str = "project: { name: shop }\nservices:\n  \
    web: { image: web:1, dependsOn: [{ service: db, condition: started }], container: { name: web } }\n  \
    db: { image: db:1, container: { name: db, volumes: [\"./data:/data\"] } }\n";

struct World {
    planner: Planner,
    store: Store,
    specs: BTreeMap<EnvName, Arc<Accepted>>,
    now: Timestamp,
    actions: usize,
}

fn env(name: &str) -> EnvName {
    EnvName::new(name).unwrap()
}

impl World {
    fn new(allowed: bool) -> Self {
        let identity = ControllerIdentity {
            controller: "me".to_owned(),
            run: "run".to_owned(),
            publish_address: [127, 0, 0, 1].into(),
        };
        let state = PlannerState {
            allowed,
            ..PlannerState::default()
        };
        let now = Timestamp(1_000_000);
        let mut store = Store::default();
        for event in [WatchEvent::Connected(now), WatchEvent::Init, WatchEvent::InitDone] {
            store.apply(event);
        }
        Self {
            planner: Planner::new(identity, state),
            store,
            specs: BTreeMap::new(),
            now,
            actions: 0,
        }
    }

    fn accept(&mut self, text: &str) {
        let spec = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        let context = SpecContext {
            directory: "/p".to_owned(),
            ..SpecContext::default()
        };
        let accepted = Accepted {
            desired: admit(&spec, &context).desired.unwrap(),
            spec_path: "e2e.yaml".to_owned(),
            lines: KeyLines::default(),
            accepted_at: self.now,
            has_pending_edit: false,
        };
        self.specs.insert(env("shop"), Arc::new(accepted));
    }

    /// Runs the plans for two minutes. Returns whether a container was started while another one could replace its sources.
    fn settle(&mut self) -> bool {
        let mut is_exposed = false;
        for _ in 0..40 {
            for step in self.reconcile().steps {
                if let Action::StartContainer { id } = &step.action {
                    let container = self.store.container(id).unwrap();
                    is_exposed |= self.store.containers().any(|other| can_replace(other, container));
                }
                self.actions += 1;
                let done = apply_action(&mut self.store, &step.action, self.now, self.actions);
                self.planner.finished(&step, &Ok(done), &self.store, self.now);
            }
            self.now = self.now + Duration::from_secs(3);
        }
        is_exposed
    }

    fn reconcile(&mut self) -> ReconcileResult {
        self.planner.reconcile(&Inputs {
            specs: &self.specs,
            scanned: true,
            store: &self.store,
            health: &HealthStates::new(),
            leases: &ControllerLeases::default(),
            requests: &UserRequests::default(),
            preflight: None,
            now: self.now,
        })
    }

    fn names(&self) -> Vec<&str> {
        let up = self
            .store
            .containers()
            .filter(|container| container.state.is_up());
        let mut names: Vec<&str> = up.map(|container| container.name.as_str()).collect();
        names.sort_unstable();
        names
    }
}

/// Returns whether a running container can write a directory above a source of another one.
fn can_replace(other: &Container, container: &Container) -> bool {
    let mounts = |container: &Container| container.inspect.as_ref().unwrap().config.mounts.clone();
    let is_below = |above: &Mount, below: &Mount| match (above, below) {
        (
            Mount::Bind {
                source: above,
                read_only: false,
                ..
            },
            Mount::Bind { source: below, .. },
        ) => below.starts_with(&format!("{above}/")),
        _ => false,
    };
    other.state.is_up()
        && mounts(other)
            .iter()
            .any(|above| mounts(container).iter().any(|below| is_below(above, below)))
}

#[test]
fn earlier_revision_ends_before_a_source_below_it_is_mounted() {
    let mut world = World::new(false);
    world.accept(WRITES_ABOVE);
    assert!(!world.settle());
    assert_eq!(world.names(), ["web"]);
    world.accept(MOUNTS_BELOW);
    assert!(!world.settle(), "`db` started next to the earlier `web`");
    assert_eq!(world.names(), ["db", "web"]);
}

#[test]
fn fork_of_an_earlier_revision_delays_a_source_below_it() {
    for allowed in [false, true] {
        let mut world = World::new(allowed);
        world.accept(WRITES_ABOVE);
        let fork = world.specs[&env("shop")].desired.forked(&env("copy"));
        let accepted = Accepted {
            desired: fork,
            ..Accepted::clone(&world.specs[&env("shop")])
        };
        world.specs.insert(env("copy"), Arc::new(accepted));
        world.settle();
        world.accept(MOUNTS_BELOW);
        assert_eq!(world.settle(), allowed);
        if allowed {
            assert_eq!(world.names().len(), 3);
            continue;
        }
        assert_eq!(world.names(), ["copy-web"]);
        let waits = world.reconcile().plans[&env("shop")].waits.clone();
        let container = "copy-web".to_owned();
        let on = WaitReason::WritableSource { container };
        assert!(waits.iter().any(|wait| wait.on == on), "{waits:?}");
        assert_eq!(describe_wait(&on).error, None);

        world.specs.remove(&env("copy"));
        assert!(!world.settle());
        assert_eq!(world.names(), ["db", "web"]);
    }
}

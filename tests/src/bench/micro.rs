//! Micro benchmarks of the pure planner: one reconcile pass without changes, after one change, and from scratch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::hash::revision_of;
use argus_core::desired::{Accepted, Desired};
use argus_core::ident::EnvName;
use argus_core::ident::PortMap;
use argus_core::lease::ControllerLeases;
use argus_core::observed::{ContainerState, Object, Store, WatchEvent};
use argus_core::plan::ControllerIdentity;
use argus_core::plan::render;
use argus_core::probe::{HealthStates, ProbeStatus, ProbedHealth};
use argus_core::reconcile::forecast::apply_action;
use argus_core::reconcile::{Inputs, Planner, ReconcileResult};
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;
use argus_tests::wait;

use crate::figure::Figure;

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn place() -> SpecContext {
    SpecContext {
        directory: "/specs/shop".to_owned(),
        now: NOW,
        uuid: "6f2c1c7e-0000-4000-8000-000000000001".to_owned(),
        ..SpecContext::default()
    }
}

fn site() -> ControllerIdentity {
    ControllerIdentity {
        controller: "bench".into(),
        run: "run".into(),
        publish_address: [0, 0, 0, 0].into(),
    }
}

fn written(project: &str, services: usize) -> argus_crds::E2eSpec {
    let text = crate::plain(project, services);
    argus_crds::yaml::read("e2e.yaml", text.as_bytes())
        .spec
        .expect("a spec")
}

fn desired(project: &str, services: usize) -> Desired {
    admit(&written(project, services), &place())
        .desired
        .expect("the spec is admitted")
}

/// Specs, the store and the time, as the planner sees them.
struct PlannerFixture {
    specs: BTreeMap<EnvName, Arc<Accepted>>,
    store: Store,
    health: HealthStates,
    now: Timestamp,
}

impl PlannerFixture {
    /// Creates `environments` environments of `services` services each, on a listed and empty engine.
    fn new(environments: usize, services: usize) -> Self {
        let accept = |index| {
            let desired = desired(&format!("e{index}"), services);
            let accepted = Accepted {
                spec_path: format!("/specs/e{index}/e2e.yaml"),
                lines: argus_core::desired::key_lines::KeyLines::default(),
                accepted_at: NOW,
                has_pending_edit: false,
                desired,
            };
            (accepted.desired.env.clone(), Arc::new(accepted))
        };
        let mut store = Store::default();
        store.apply(WatchEvent::Connected(NOW));
        store.apply(WatchEvent::Init);
        store.apply(WatchEvent::InitDone);
        Self {
            specs: (0..environments).map(accept).collect(),
            store,
            health: HealthStates::new(),
            now: NOW,
        }
    }

    fn turn(&self, planner: &mut Planner) -> ReconcileResult {
        planner.reconcile(&Inputs {
            leases: &ControllerLeases::default(),
            requests: &UserRequests::default(),
            specs: &self.specs,
            preflight: None,
            scanned: true,
            store: &self.store,
            health: &self.health,
            now: self.now,
        })
    }

    /// Lets every action succeed until the planner plans none.
    fn settle(&mut self, planner: &mut Planner) {
        let mut number = 0;
        for _ in 0..1_000 {
            let turn = self.turn(planner);
            for step in &turn.steps {
                number += 1;
                let done = apply_action(&mut self.store, &step.action, self.now, number);
                planner.finished(step, &Ok(done), &self.store, self.now);
            }
            let probed = self.probe();
            match turn.wake_at {
                _ if !turn.steps.is_empty() || probed => self.now = self.now + Duration::from_millis(1),
                Some(at) if at > self.now => self.now = at,
                _ => return,
            }
        }
        panic!("the planner does not settle");
    }

    /// Marks everything that runs as healthy. True if that changed something.
    fn probe(&mut self) -> bool {
        let before = self.health.len();
        for container in self
            .store
            .containers()
            .filter(|found| found.state == ContainerState::Running)
        {
            let seen = ProbedHealth {
                status: ProbeStatus::Healthy,
                since: self.now,
                started_at: container.inspect.as_ref().and_then(|facts| facts.started_at),
                ..ProbedHealth::default()
            };
            self.health.entry(container.id.clone()).or_insert(seen);
        }
        self.health.len() > before
    }

    fn containers(&self) -> usize {
        self.store
            .containers()
            .filter(|found| found.state == ContainerState::Running)
            .count()
    }
}

fn milliseconds<T>(rounds: usize, mut work: impl FnMut() -> T) -> Vec<f64> {
    let mut took = Vec::new();
    for _ in 0..rounds {
        let (time, result) = wait::timed(&mut work);
        drop(result);
        took.push(time.as_secs_f64() * 1e3);
    }
    took
}

pub(crate) fn run(figures: &mut Vec<Figure>) {
    at_rest(figures);
    from_scratch(figures);
    pieces(figures);
}

fn at_rest(figures: &mut Vec<Figure>) {
    for (environments, goal) in [(10, ("≤ 1 ms", 1.0)), (100, ("≤ 10 ms", 10.0))] {
        let mut fixture = PlannerFixture::new(environments, 10);
        let mut planner = Planner::new(site(), PlannerState::default());
        fixture.settle(&mut planner);
        assert_eq!(fixture.containers(), environments * 10, "all containers run");
        let took = milliseconds(300, || {
            let turn = fixture.turn(&mut planner);
            assert!(turn.steps.is_empty(), "nothing left to do: {:?}", turn.steps);
            turn
        });
        let what = format!(
            "reconcile pass, no change, {} containers in {environments} environments",
            environments * 10
        );
        figures.push(Figure::new(what, "ms", took).goal(goal));
        if environments == 100 {
            one_changed(&mut fixture, &mut planner, figures);
        }
    }
}

fn one_changed(fixture: &mut PlannerFixture, planner: &mut Planner, figures: &mut Vec<Figure>) {
    let any = fixture.store.containers().next().expect("one").clone();
    let mut last = fixture.turn(planner);
    let mut took = Vec::new();
    for round in 1..=300 {
        let mut changed = (*any).clone();
        changed.created_at = Timestamp(any.created_at.0 - round);
        fixture
            .store
            .apply(WatchEvent::Apply(Object::Container(Arc::new(changed))));
        let (time, turn) = wait::timed(|| fixture.turn(planner));
        took.push(time.as_secs_f64() * 1e3);
        assert!(turn.steps.is_empty(), "nothing left to do: {:?}", turn.steps);
        let again = turn
            .plans
            .iter()
            .filter(|(env, plan)| !last.plans.get(*env).is_some_and(|old| Arc::ptr_eq(old, plan)))
            .count();
        assert_eq!(again, 1, "only the changed environment is planned again");
        last = turn;
    }
    let what = "reconcile pass, one of 100 environments changed (the pass did not plan the 99 others)";
    figures.push(Figure::new(what, "ms", took));
}

fn from_scratch(figures: &mut Vec<Figure>) {
    let mut fixture = PlannerFixture::new(200, 50);
    let fresh = |memory: &PlannerState| Planner::new(site(), memory.clone());
    let goal = ("≤ 100 ms", 100.0);
    let nothing = PlannerState::default();
    let took = milliseconds(9, || fixture.turn(&mut fresh(&nothing)));
    figures.push(Figure::new("10,000 containers planned from scratch, empty engine", "ms", took).goal(goal));
    let mut planner = fresh(&nothing);
    fixture.settle(&mut planner);
    assert_eq!(fixture.containers(), 10_000, "all containers run");
    let memory = planner.state().clone();
    let took = milliseconds(9, || {
        let turn = fixture.turn(&mut fresh(&memory));
        assert!(
            turn.steps.is_empty(),
            "nothing left to do: {:?}",
            turn.steps.first()
        );
        turn
    });
    figures.push(Figure::new("10,000 containers planned from scratch, all present", "ms", took).goal(goal));
}

fn pieces(figures: &mut Vec<Figure>) {
    let (text, spec, ten) = (crate::plain("shop", 10), written("shop", 10), desired("shop", 10));
    let mut piece = |what: &str, took| figures.push(Figure::new(what, "ms", took));
    piece(
        "read a file of 10 services",
        milliseconds(300, || argus_crds::yaml::read("e2e.yaml", text.as_bytes())),
    );
    piece("admit 10 services", milliseconds(300, || admit(&spec, &place())));
    piece(
        "revision hash of 10 services",
        milliseconds(300, || revision_of(&ten)),
    );
    piece(
        "render and hash 10 services",
        milliseconds(300, || render::render_all(&ten, &PortMap::new(), &site())),
    );
}

//! The pure parts of Argus at work: read, admit, hash, render and plan. The benchmark times them, and a test counts their instructions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
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

const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// The folder of a spec file, at a fixed time.
pub fn place() -> SpecContext {
    SpecContext {
        directory: "/specs/shop".to_owned(),
        now: NOW,
        uuid: "6f2c1c7e-0000-4000-8000-000000000001".to_owned(),
        ..SpecContext::default()
    }
}

/// The controller that plans.
pub fn site() -> ControllerIdentity {
    ControllerIdentity {
        controller: "bench".into(),
        run: "run".into(),
        publish_address: [0, 0, 0, 0].into(),
    }
}

/// Content of the spec file of [`plain`].
pub fn written(project: &str, services: usize) -> argus_crds::E2eSpec {
    let text = plain(project, services);
    argus_crds::yaml::read("e2e.yaml", text.as_bytes())
        .spec
        .expect("a spec")
}

/// The admitted spec file of [`plain`].
pub fn desired(project: &str, services: usize) -> Desired {
    admit(&written(project, services), &place())
        .desired
        .expect("the spec is admitted")
}

/// Specs, the store and the time, as the planner sees them.
pub struct PlannerFixture {
    specs: BTreeMap<EnvName, Arc<Accepted>>,
    store: Store,
    health: HealthStates,
    now: Timestamp,
}

impl PlannerFixture {
    /// Creates `environments` environments of `services` services each, on a listed and empty engine.
    pub fn new(environments: usize, services: usize) -> Self {
        let accept = |index| {
            let desired = desired(&format!("e{index}"), services);
            let accepted = Accepted {
                spec_path: format!("/specs/e{index}/e2e.yaml"),
                lines: argus_core::desired::key_lines::KeyLines::default(),
                accepted_at: NOW,
                has_pending_edit: false,
                allowed: false,
                is_ending: false,
                file_hash: None,
                mounted_files: std::collections::BTreeMap::new(),
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

    /// Runs one reconcile pass.
    pub fn turn(&self, planner: &mut Planner) -> ReconcileResult {
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
    pub fn settle(&mut self, planner: &mut Planner) {
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

    /// Changes one container without an effect on the plan.
    pub fn change(&mut self, round: usize) {
        let any = self.store.containers().next().expect("a container").clone();
        let mut changed = (*any).clone();
        changed.created_at = NOW + Duration::from_millis(u64::try_from(round).expect("small"));
        self.store
            .apply(WatchEvent::Apply(Object::Container(Arc::new(changed))));
    }

    /// Number of running containers.
    pub fn containers(&self) -> usize {
        self.store
            .containers()
            .filter(|found| found.state == ContainerState::Running)
            .count()
    }
}

/// A spec file with services of one image.
pub fn plain(project: &str, count: usize) -> String {
    let mut text = format!("version: \"1\"\nproject: {{ name: {project} }}\nservices:\n");
    for index in 0..count {
        writeln!(
            text,
            "  s{index}:\n    image: busybox:local\n    container: {{ name: {project}-s{index} }}"
        )
        .expect("writing to a string succeeds");
    }
    text
}

/// Pure parts that [`work`] repeats.
pub const PARTS: [&str; 6] = ["read", "admit", "hash", "render", "pass", "changed pass"];

/// Repeats a pure part for an input of `count` services. The passes plan environments of ten services each.
pub fn work(part: &str, count: usize, rounds: usize) {
    match part {
        "read" => {
            let text = plain("shop", count);
            repeat(rounds, || argus_crds::yaml::read("e2e.yaml", text.as_bytes()));
        }
        "admit" => {
            let spec = written("shop", count);
            repeat(rounds, || admit(&spec, &place()));
        }
        "hash" => {
            let desired = desired("shop", count);
            repeat(rounds, || revision_of(&desired));
        }
        "render" => {
            let desired = desired("shop", count);
            repeat(rounds, || render::render_all(&desired, &PortMap::new(), &site()));
        }
        "pass" | "changed pass" => {
            let mut fixture = PlannerFixture::new(count / 10, 10);
            let mut planner = Planner::new(site(), PlannerState::default());
            fixture.settle(&mut planner);
            for round in 0..rounds {
                if part == "changed pass" {
                    fixture.change(round);
                }
                black_box(fixture.turn(&mut planner));
            }
        }
        other => panic!("no pure part `{other}`"),
    }
}

fn repeat<T>(rounds: usize, mut part: impl FnMut() -> T) {
    for _ in 0..rounds {
        black_box(part());
    }
}

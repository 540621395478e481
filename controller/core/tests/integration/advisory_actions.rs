//! Actions and checks that only report: they leave a service ready that runs as desired.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed precondition fails the test"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::{Action, ActionKind, Step};
use argus_core::desired::Accepted;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::ident::{EnvName, ServiceName};
use argus_core::lease::ControllerLeases;
use argus_core::observed::{Container, ContainerState, Object, Store, WatchEvent};
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::Plan;
use argus_core::preflight::PreflightSnapshot;
use argus_core::probe::HealthStates;
use argus_core::reconcile::forecast::apply_action;
use argus_core::reconcile::{Inputs, Planner};
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;
use argus_core::wait::WaitReason;

use crate::reconcile::{identity, listed_store, reconcile};

const SPEC: &str = "version: \"1\"\nproject: { name: shop }\nservices:\n  web: { image: web:1, container: { name: shop-web } }\n";

fn env() -> EnvName {
    EnvName::new("shop").unwrap()
}

struct Fixture {
    planner: Planner,
    store: Store,
    specs: BTreeMap<EnvName, Arc<Accepted>>,
    now: Timestamp,
}

impl Fixture {
    /// An environment whose only service has run for a minute.
    fn settled() -> Self {
        let written = argus_crds::yaml::read("e2e.yaml", SPEC.as_bytes()).spec.unwrap();
        let accepted = Accepted {
            desired: admit(&written, &SpecContext::default()).desired.unwrap(),
            spec_path: "e2e.yaml".to_owned(),
            lines: argus_core::desired::key_lines::KeyLines::default(),
            accepted_at: Timestamp(0),
            has_pending_edit: false,
            allowed: false,
            is_ending: false,
            file_hash: None,
            mounted_files: std::collections::BTreeMap::new(),
        };
        let now = Timestamp(1_000_000);
        let mut fixture = Self {
            planner: Planner::new(identity(), PlannerState::default()),
            store: listed_store(now),
            specs: [(env(), Arc::new(accepted))].into(),
            now,
        };
        for round in 0..20 {
            let (_, steps) = fixture.reconcile();
            for (number, step) in steps.iter().enumerate() {
                let done = apply_action(
                    &mut fixture.store,
                    &step.action,
                    fixture.now,
                    round * 100 + number,
                );
                fixture.finish(step, &Ok(done));
            }
            fixture.pause(3);
        }
        let (plan, _) = fixture.reconcile();
        assert!(plan.is_settled(), "{plan:#?}");
        fixture
    }

    fn reconcile(&mut self) -> (Arc<Plan>, Vec<Step>) {
        let leases = ControllerLeases::default();
        let result = reconcile(&mut self.planner, &self.specs, &self.store, &leases, self.now);
        (result.plans[&env()].clone(), result.steps)
    }

    fn finish(&mut self, step: &Step, outcome: &Result<Done, ActionError>) {
        self.planner.finished(step, outcome, &self.store, self.now);
    }

    fn pause(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }

    fn change(&mut self, change: impl FnOnce(&mut Container)) {
        let mut container = Container::clone(self.store.containers().next().unwrap());
        change(&mut container);
        let object = Object::Container(Arc::new(container));
        self.store.apply(WatchEvent::Apply(object));
    }

    /// True if nothing in this plan keeps the environment from being ready.
    fn is_ready(&self, plan: &Plan) -> bool {
        let services = &self.specs[&env()].desired.services;
        plan.unfinished(services).next().is_none()
    }
}

#[test]
fn reading_evidence_of_an_earlier_run_is_no_progress() {
    let mut fixture = Fixture::settled();
    let web = ServiceName::new("web").unwrap();
    let now = fixture.now;
    fixture.change(|container| {
        container.state = ContainerState::Exited;
        let info = container.inspect.as_mut().unwrap();
        (info.exit_code, info.finished_at) = (1, Some(now));
    });
    let (plan, steps) = fixture.reconcile();
    let [step] = &steps[..] else { panic!("{steps:#?}") };
    assert!(matches!(step.action, Action::CollectEvidence { .. }), "{step:#?}");
    assert!(!fixture.is_ready(&plan), "the service does not run: {plan:#?}");

    // Another client starts the container before the evidence is there, and it runs longer than its failed run.
    let started = fixture.now;
    fixture.pause(60);
    fixture.change(|container| {
        container.state = ContainerState::Running;
        container.inspect.as_mut().unwrap().started_at = Some(started);
    });
    let (plan, _) = fixture.reconcile();
    let verb = ActionKind::CollectEvidence;
    assert_eq!(plan.waits[0].on, WaitReason::InFlight { verb });
    assert!(plan.reading_evidence.contains(&web), "{plan:#?}");
    assert!(fixture.is_ready(&plan), "in flight: {plan:#?}");

    fixture.finish(step, &Err(ActionError::TimedOut("no answer".to_owned())));
    let (plan, steps) = fixture.reconcile();
    assert!(matches!(plan.waits[0].on, WaitReason::Retry { .. }), "{plan:#?}");
    assert!(
        steps.is_empty() && fixture.is_ready(&plan),
        "before its retry: {plan:#?}"
    );

    fixture.pause(60);
    let (plan, steps) = fixture.reconcile();
    let [step] = &steps[..] else { panic!("{plan:#?}") };
    assert!(fixture.is_ready(&plan), "planned: {plan:#?}");
    fixture.finish(step, &Ok(Done::Evidence(Box::default())));
    let (plan, _) = fixture.reconcile();
    assert!(plan.is_settled(), "{plan:#?}");
    assert!(plan.reading_evidence.is_empty());
}

#[test]
fn settled_environment_has_its_disk_checked_again() {
    let mut fixture = Fixture::settled();
    let (checked_at, due) = (fixture.now, fixture.now + Duration::from_secs(300));
    let preflight = PreflightSnapshot {
        at: Some(checked_at),
        ..PreflightSnapshot::default()
    };
    let mut pass = |now: Timestamp| {
        let result = fixture.planner.reconcile(&Inputs {
            specs: &fixture.specs,
            scanned: true,
            store: &fixture.store,
            health: &HealthStates::new(),
            leases: &ControllerLeases::default(),
            requests: &UserRequests::default(),
            preflight: Some(&preflight),
            now,
        });
        assert!(result.steps.is_empty(), "{:#?}", result.steps);
        (result.needs_preflight, result.wake_at)
    };
    let (is_requested, wake_at) = pass(checked_at);
    assert!(
        !is_requested && wake_at.is_some_and(|at| at <= due),
        "{wake_at:?}"
    );
    assert!(!pass(due - Duration::from_millis(1)).0, "it is not due yet");
    let (is_requested, wake_at) = pass(due);
    // The result wakes the planner. Until then, it does not wake itself.
    assert!(is_requested && wake_at.is_none_or(|at| at > due), "{wake_at:?}");
}

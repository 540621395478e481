//! Failed runs: detection, reset of the history, and restart decisions.
#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::{ActionKind, Subject};
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::desired::mounted_file::MountedFile;
use argus_core::desired::{Accepted, Mount, Probe};
use argus_core::failed_run;
use argus_core::failed_run::{DependencyState, FailureCause, FailureKind, RunFacts, Stopper};
use argus_core::ident::{ContainerId, EnvName, Revision, ServiceName};
use argus_core::labels;
use argus_core::observed::{
    Container, ContainerState, InspectInfo, MemoryUse, Object, ObjectId, Outage, Store, Volume, WatchEvent,
};
use argus_core::outcome::Evidence;
use argus_core::probe::{HealthStates, ProbeStatus, ProbedHealth};
use argus_core::state::observe::Context;
use argus_core::state::restart::{self, RestartDecision as Restart};
use argus_core::state::{Expectation, ImageState, PlannerState, Proof, ServiceHistory};
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;

const SECOND: i64 = 1_000;
const OUTAGE_MARGIN: Duration = Duration::from_secs(2);

/// Simulation of one service and its observations over time.
struct Fixture {
    state: PlannerState,
    accepted: Accepted,
    health: HealthStates,
    outages: Vec<Outage>,
    now: Timestamp,
    containers: BTreeMap<String, Container>,
    retagged: Vec<&'static str>,
    /// High memory use of container `c1`.
    memory: Option<MemoryUse>,
    /// Spec hash of the next observed container.
    hash: &'static str,
    /// Service of the next observed container.
    service: &'static str,
}

fn env() -> EnvName {
    EnvName::new("shop").unwrap()
}

impl Fixture {
    fn new(more: &str) -> Self {
        let text = format!(
            "version: \"1\"\nproject: {{ name: shop }}\nservices:\n  web:\n    image: web:1\n    container:\n      name: shop-web\n{more}"
        );
        let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
        Self {
            state: PlannerState::default(),
            accepted: Accepted {
                desired: admit(&written, &SpecContext::default()).desired.unwrap(),
                spec_path: "e2e.yaml".to_owned(),
                lines: argus_core::desired::key_lines::KeyLines::default(),
                accepted_at: Timestamp(0),
                has_pending_edit: false,
                allowed: false,
                is_ending: false,
                file_hash: None,
                mounted_files: std::collections::BTreeMap::new(),
            },
            health: HealthStates::new(),
            outages: Vec::new(),
            now: Timestamp(1_000 * SECOND),
            containers: BTreeMap::new(),
            retagged: Vec::new(),
            memory: None,
            hash: "aaaaaaaa",
            service: "web",
        }
    }

    fn with_probe() -> Self {
        Self::new("      healthcheck: { path: /, port: 80, interval: 30s, retries: 3 }\n")
    }

    /// Observes container `c1` in a state.
    fn observe_container(
        &mut self,
        state: ContainerState,
        started: Timestamp,
        ended: Option<(Timestamp, i64)>,
    ) {
        self.observe_container_with_id("c1", state, started, ended);
    }

    fn observe_container_with_id(
        &mut self,
        id: &str,
        state: ContainerState,
        started: Timestamp,
        ended: Option<(Timestamp, i64)>,
    ) {
        let all = [
            (labels::MANAGED, "true"),
            (labels::ENVIRONMENT, "shop"),
            (labels::SERVICE, self.service),
            (labels::SPEC_HASH, self.hash),
        ];
        let container = Container {
            id: ContainerId::new(id).unwrap(),
            name: "shop-web".to_owned(),
            labels: all.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            image: "web:1".to_owned(),
            state,
            created_at: Timestamp(1),
            networks: BTreeMap::new(),
            inspect: Some(InspectInfo {
                started_at: Some(started),
                finished_at: ended.map(|(at, _)| at),
                exit_code: ended.map_or(0, |(_, code)| code),
                ..InspectInfo::default()
            }),
            stopped_by_other: None,
            oom_at: None,
        };
        self.containers.insert(id.to_owned(), container);
        self.observe();
    }

    fn request_restart(&mut self) {
        self.request_restart_of(None);
    }

    fn request_restart_of(&mut self, service: Option<&ServiceName>) {
        let (desired, store) = (self.accepted.desired.clone(), self.store());
        self.state
            .request_restart(&desired, service, store.of(&env()).unwrap());
    }

    fn is_restart_requested(&mut self) -> bool {
        let container = self.containers["c1"].clone();
        self.history().is_restart_requested(&container)
    }

    fn observe_probe(&mut self, status: ProbeStatus) {
        let seen = &self.containers["c1"];
        let service = self.accepted.desired.services.get("web");
        let probe = service.and_then(|service| service.probe.clone());
        let health = ProbedHealth {
            status,
            probe: probe.map(Arc::new),
            since: self.now,
            started_at: seen.inspect.as_ref().unwrap().started_at,
            failing_since: (status == ProbeStatus::Unhealthy).then(|| self.now - Duration::from_secs(60)),
            recent: vec!["503".to_owned()],
            ..ProbedHealth::default()
        };
        self.health.insert(seen.id.clone(), health);
        self.observe();
    }

    fn store(&self) -> Store {
        let mut store = Store::default();
        for container in self.containers.values() {
            store.apply(WatchEvent::Apply(Object::Container(Arc::new(container.clone()))));
        }
        for id in &self.retagged {
            store.apply(WatchEvent::ImageRetagged(ContainerId::new(*id).unwrap()));
        }
        if self.memory.is_some() {
            let id = ContainerId::new("c1").unwrap();
            store.apply(WatchEvent::MemoryHigh(id, self.memory));
        }
        store
    }

    fn observe(&mut self) {
        let store = self.store();
        let context = Context {
            health: &self.health,
            outages: &self.outages,
            requests: &UserRequests::default(),
            controller: "",
            now: self.now,
        };
        let seen = store.of(&env()).cloned().unwrap_or_default();
        self.state.observe(&env(), Some(&self.accepted), &seen, &context);
    }

    fn advance(&mut self, seconds: u64) -> Timestamp {
        self.now = self.now + Duration::from_secs(seconds);
        self.now
    }

    fn history(&mut self) -> &mut ServiceHistory {
        let history = Arc::make_mut(self.state.environments.get_mut(&env()).unwrap());
        history.service_mut(&ServiceName::new("web").unwrap())
    }

    fn decision(&mut self) -> Restart {
        let (policy, outages) = (self.accepted.desired.restart.clone(), self.outages.clone());
        let history = self.history();
        restart::decide_restart(&policy, history, &outages)
    }
}

#[test]
fn counters_belong_to_one_life_of_the_environment() {
    let mut fixture = Fixture::new("");
    for id in ["c1", "c2", "c3"] {
        let begin = fixture.advance(10);
        fixture.observe_container_with_id(id, ContainerState::Running, begin, None);
        let again = fixture.advance(10);
        fixture.observe_container_with_id(id, ContainerState::Running, again, None);
        assert_eq!(fixture.history().restarts, 1, "{id}");
        let history = &fixture.state.environments[&env()];
        assert_eq!(history.started_at(&fixture.accepted), begin);
        // Only a kept volume remains.
        fixture.containers.clear();
        let mut store = fixture.store();
        let labels = [(labels::MANAGED, "true"), (labels::ENVIRONMENT, "shop")];
        let volume = Volume {
            name: "data".to_owned(),
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        };
        store.apply(WatchEvent::Apply(Object::Volume(Arc::new(volume))));
        fixture.state.forget_absent(&BTreeMap::new(), &store, fixture.now);
    }
}

#[test]
fn never_healthy_service_uses_up_its_budget() {
    let mut fixture = Fixture::with_probe();
    for run in 1..=4 {
        let started = fixture.now;
        fixture.observe_container(ContainerState::Running, started, None);
        fixture.advance(130);
        fixture.observe_probe(ProbeStatus::Unhealthy);
        match (run, fixture.decision()) {
            (1..=3, Restart::StartAt(_, attempt)) => assert_eq!(attempt, run),
            (4, Restart::GaveUp(restarts)) => assert_eq!(restarts, 3),
            (_, other) => panic!("run {run}: {other:?}"),
        }
        fixture.advance(8);
    }
}

#[test]
fn failed_run_names_the_party_that_stopped_it() {
    for (by_us, expected) in [(true, Some(Stopper::Argus)), (false, Some(Stopper::OtherClient))] {
        let mut fixture = Fixture::with_probe();
        let started = fixture.now;
        fixture.observe_container(ContainerState::Running, started, None);
        fixture.advance(130);
        fixture.observe_probe(ProbeStatus::Unhealthy);
        let ended = fixture.advance(1);
        let id = ContainerId::new("c1").unwrap();
        if by_us {
            fixture.state.stopped_by_us.insert(id, Some(started));
            fixture.observe_container(ContainerState::Exited, started, Some((ended, 137)));
        } else {
            let container = fixture.containers.get_mut("c1").unwrap();
            container.state = ContainerState::Exited;
            container.stopped_by_other = Some(ended);
            container.inspect.as_mut().unwrap().finished_at = Some(ended);
            fixture.observe();
        }
        let facts = RunFacts::from_run(fixture.history().failures.last().unwrap(), false);
        assert_eq!(facts.stopped_by, expected);
        assert_eq!(facts.stopped_at, Some(ended.to_string()));
        assert_eq!(
            (facts.kind, facts.exit_code),
            (Some(FailureKind::Unhealthy), None)
        );
        assert_eq!(facts.duration_ms, Some(130_000));
    }
    let mut fixture = Fixture::new("");
    let started = fixture.now;
    let ended = fixture.advance(5);
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 3)));
    let id = ContainerId::new("c1").unwrap();
    // Argus removes the container, which does not run any more.
    fixture.state.stopped_by_us.insert(id, Some(started));
    fixture.observe();
    let failed_run = fixture.history().failures.last().unwrap().clone();
    let facts = RunFacts::from_run(&failed_run, false);
    assert_eq!((facts.stopped_by, facts.exit_code), (None, Some(3)));
    assert_eq!(facts.image.as_deref(), Some("web:1"));
    assert_eq!(facts.spec_hash.as_deref(), Some("aaaaaaaa"));
    assert_eq!(
        RunFacts::from_run(&failed_run, true).stopped_by,
        Some(Stopper::Engine)
    );
}

#[test]
fn high_memory_use_belongs_to_its_container() {
    let mut fixture = Fixture::new("");
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    let mut store = fixture.store();
    let id = ContainerId::new("c1").unwrap();
    let high = MemoryUse {
        used: 95,
        limit: 100,
        at: started,
    };
    let before = store.of(&env()).unwrap().version;
    store.apply(WatchEvent::MemoryHigh(id.clone(), Some(high)));
    let observed = store.of(&env()).unwrap();
    assert_eq!(observed.memory_high.get(&id), Some(&high));
    assert!(observed.version > before);
    store.apply(WatchEvent::MemoryHigh(id.clone(), None));
    assert!(store.of(&env()).unwrap().memory_high.is_empty());
    store.apply(WatchEvent::Delete(ObjectId::Container(id.clone())));
    // A late sample of a removed container changes nothing.
    store.apply(WatchEvent::MemoryHigh(id, Some(high)));
    assert!(store.of(&env()).is_none());
}

#[test]
fn memory_above_its_share_is_a_failure_until_normal() {
    let mut fixture = Fixture::new("argus: { restart: { memoryAbove: 95 } }\n");
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    let at = fixture.advance(10);
    let high = |used, at| Some(MemoryUse { used, limit: 100, at });
    for (memory, expected) in [
        (high(95, at), None),
        (high(96, started - Duration::from_secs(1)), None),
        (high(96, at), Some(96)),
        (high(98, at), Some(96)),
    ] {
        fixture.memory = memory;
        fixture.observe();
        let failures = &fixture.history().failures;
        let used = failures.last().and_then(|last| last.memory_used);
        assert_eq!(
            (used, failures.len()),
            (expected, usize::from(expected.is_some()))
        );
    }
    assert_eq!(
        fixture.decision(),
        Restart::StartAt(at + Duration::from_secs(2), 1),
        "it uses the budget"
    );
    fixture.memory = None;
    fixture.observe();
    let failure = fixture.history().failures[0].clone();
    assert_eq!((failure.recovered_at, failure.followed_by_run), (Some(at), true));
}

#[test]
fn probe_failure_records_its_first_failed_probe() {
    let mut fixture = Fixture::with_probe();
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    let detected_at = fixture.advance(130);
    fixture.observe_probe(ProbeStatus::Unhealthy);
    let failed_run = &fixture.history().failures[0];
    assert_eq!(
        (failed_run.at, failed_run.failing_since),
        (detected_at, Some(detected_at - Duration::from_secs(60)))
    );
}

const DEPENDENCY: &str = "    dependsOn: [db]\n  db:\n    image: db:1\n    container:\n      name: shop-db\n      healthcheck: { type: tcp, port: 5432 }\n";

/// A service with a running dependency, whose health check succeeded.
fn fixture_with_dependency() -> Fixture {
    let mut fixture = Fixture::new(DEPENDENCY);
    let started = fixture.now;
    observe_dependency(&mut fixture, ContainerState::Running, started, None);
    observe_health(&mut fixture, ProbeStatus::Healthy, false);
    fixture
}

fn observe_dependency(
    fixture: &mut Fixture,
    state: ContainerState,
    started: Timestamp,
    ended: Option<(Timestamp, i64)>,
) {
    fixture.service = "db";
    fixture.observe_container_with_id("db1", state, started, ended);
    fixture.service = "web";
}

fn observe_health(fixture: &mut Fixture, status: ProbeStatus, failing: bool) {
    let container = &fixture.containers["db1"];
    let health = ProbedHealth {
        status,
        failing,
        since: fixture.now,
        started_at: container.inspect.as_ref().unwrap().started_at,
        ..ProbedHealth::default()
    };
    fixture.health.insert(container.id.clone(), health);
    fixture.observe();
}

/// Ends a run of the service after 30 s, and returns the dependency that explains it.
fn ends(fixture: &mut Fixture) -> Option<String> {
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    let ended = fixture.advance(30);
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
    let last = fixture.history().failures.last().unwrap();
    last.failed_dependency.as_ref().map(ToString::to_string)
}

fn dependency_state(fixture: &mut Fixture) -> Option<DependencyState> {
    fixture.history().failures.last().unwrap().dependency_state
}

#[test]
fn failing_check_of_a_dependency_explains_a_failure() {
    let mut fixture = fixture_with_dependency();
    // Longer than the failed probes that lead to `Unhealthy`.
    fixture.advance(600);
    assert_eq!(ends(&mut fixture), None, "the dependency is healthy");
    for (status, failing) in [(ProbeStatus::Healthy, true), (ProbeStatus::Unhealthy, false)] {
        observe_health(&mut fixture, status, failing);
        assert_eq!(ends(&mut fixture).as_deref(), Some("db"), "{status:?}");
        assert_eq!(dependency_state(&mut fixture), Some(DependencyState::Unhealthy));
    }
    let policy = fixture.accepted.desired.restart.clone();
    let used = restart::used_restarts(&policy, &fixture.history().failures, &[]);
    assert_eq!(used, Some(1), "the first failure alone");
    observe_health(&mut fixture, ProbeStatus::Starting, false);
    assert_eq!(ends(&mut fixture), None, "it has no result for its run");
}

#[test]
fn dependency_that_was_never_healthy_explains_no_failure() {
    for status in [ProbeStatus::Starting, ProbeStatus::Unhealthy] {
        let mut fixture = Fixture::new(DEPENDENCY);
        let started = fixture.now;
        observe_dependency(&mut fixture, ContainerState::Running, started, None);
        fixture.advance(600);
        observe_health(&mut fixture, status, false);
        for failures in 1..=4 {
            assert_eq!(ends(&mut fixture), None, "{status:?} {failures}");
        }
        assert!(
            matches!(fixture.decision(), Restart::GaveUp(3)),
            "{status:?}: {:?}",
            fixture.decision()
        );
    }
}

#[test]
fn new_container_of_a_dependency_explains_a_failure() {
    for (seconds, explained) in [(9, Some("db")), (11, None)] {
        let mut fixture = fixture_with_dependency();
        let started = fixture.now;
        fixture.observe_container(ContainerState::Running, started, None);
        let db_started = fixture.advance(20);
        observe_dependency(&mut fixture, ContainerState::Running, db_started, None);
        observe_health(&mut fixture, ProbeStatus::Healthy, false);
        let ended = fixture.advance(seconds);
        fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
        let last = fixture.history().failures.last().unwrap();
        let found = last.failed_dependency.as_ref().map(ToString::to_string);
        assert_eq!(found.as_deref(), explained, "{seconds} s");
    }
}

#[test]
fn start_of_a_dependency_before_the_run_explains_nothing() {
    let mut fixture = fixture_with_dependency();
    for _ in 1..=4 {
        let started = fixture.advance(1);
        fixture.observe_container(ContainerState::Running, started, None);
        let ended = fixture.advance(1);
        fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
        assert_eq!(fixture.history().failures.last().unwrap().failed_dependency, None);
    }
    assert!(matches!(fixture.decision(), Restart::GaveUp(3)));
}

#[test]
fn earlier_end_of_an_optional_dependency_explains_nothing() {
    let optional = DEPENDENCY.replace("[db]", "[{ service: db, required: false }]");
    for (text, explained) in [(DEPENDENCY, Some("db")), (optional.as_str(), None)] {
        let mut fixture = Fixture::new(text);
        let started = fixture.now;
        let ended = fixture.advance(1);
        observe_dependency(&mut fixture, ContainerState::Exited, started, Some((ended, 1)));
        fixture.advance(1);
        assert_eq!(ends(&mut fixture).as_deref(), explained);
        if explained.is_none() {
            // It ends during the run.
            let started = fixture.now;
            fixture.observe_container(ContainerState::Running, started, None);
            let ended = fixture.advance(1);
            observe_dependency(&mut fixture, ContainerState::Exited, started, Some((ended, 1)));
            let ended = fixture.advance(1);
            fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
            let last = fixture.history().failures.last().unwrap();
            assert_eq!(last.failed_dependency.as_ref().unwrap().as_str(), "db");
        }
    }
}

#[test]
fn restart_of_a_dependency_explains_a_failure_shortly_after_it() {
    let mut fixture = fixture_with_dependency();
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    let db_ended = fixture.advance(20);
    let db_started = fixture.advance(1);
    observe_dependency(
        &mut fixture,
        ContainerState::Running,
        db_started,
        Some((db_ended, 0)),
    );
    observe_health(&mut fixture, ProbeStatus::Healthy, false);
    let ended = fixture.advance(2);
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
    let last = fixture.history().failures.last().unwrap();
    assert_eq!(last.failed_dependency.as_ref().unwrap().as_str(), "db");
    assert_eq!(dependency_state(&mut fixture), Some(DependencyState::Restarted));
    // The next run began after the restart.
    assert_eq!(ends(&mut fixture), None);
    let db_ended = fixture.now;
    observe_dependency(
        &mut fixture,
        ContainerState::Exited,
        db_started,
        Some((db_ended, 1)),
    );
    assert_eq!(ends(&mut fixture).as_deref(), Some("db"), "it does not run");
    assert_eq!(dependency_state(&mut fixture), Some(DependencyState::Ended(1)));
}

#[test]
fn only_a_healthy_minute_resets_the_failures() {
    for (healthy_for, spent) in [(5, true), (70, false)] {
        let mut fixture = Fixture::with_probe();
        for _ in 0..5 {
            let started = fixture.now;
            fixture.observe_container(ContainerState::Running, started, None);
            fixture.advance(1);
            fixture.observe_probe(ProbeStatus::Healthy);
            // Three consecutive failures, 30 s apart, follow the last success.
            fixture.advance(healthy_for + 90);
            fixture.observe_probe(ProbeStatus::Unhealthy);
            fixture.advance(8);
        }
        let gave_up = matches!(fixture.decision(), Restart::GaveUp(_));
        assert_eq!(
            gave_up,
            spent,
            "healthy for {healthy_for} s: {:?}",
            fixture.decision()
        );
    }
}

#[test]
fn replaced_image_ends_a_give_up_but_no_earlier_delay() {
    let mut fixture = Fixture::new("");
    for run in 1..=4 {
        let started = fixture.now;
        fixture.observe_container(ContainerState::Running, started, None);
        let ended = fixture.advance(1);
        fixture.observe_container(ContainerState::Exited, started, Some((ended, run)));
        if run == 3 {
            fixture.retagged.push("c1");
            fixture.observe();
            assert!(
                !fixture.history().failures[2].image_retagged,
                "the restart is already planned"
            );
            fixture.retagged.clear();
        }
        fixture.advance(8);
    }
    assert_eq!(fixture.decision(), Restart::GaveUp(3));
    fixture.observe();
    assert!(!fixture.history().failures[3].image_retagged);
    fixture.retagged.push("c1");
    fixture.observe();
    assert!(fixture.history().failures[3].image_retagged);

    // The container of the new image fails for the first time.
    fixture.containers.clear();
    fixture.retagged.clear();
    let started = fixture.advance(1);
    fixture.observe_container_with_id("c2", ContainerState::Running, started, None);
    let ended = fixture.advance(1);
    fixture.observe_container_with_id("c2", ContainerState::Exited, started, Some((ended, 1)));
    assert_eq!(fixture.history().failures.len(), 1);
    assert!(matches!(fixture.decision(), Restart::StartAt(_, 1)));
}

#[test]
fn running_resets_the_failures_without_a_probe() {
    let mut fixture = Fixture::new("");
    for _ in 0..5 {
        let started = fixture.now;
        fixture.observe_container(ContainerState::Running, started, None);
        let ended = fixture.advance(70);
        fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
        fixture.advance(8);
    }
    assert!(matches!(fixture.decision(), Restart::StartAt(_, 1)));
}

#[test]
fn unhealthy_run_fails_again_after_a_retry() {
    let mut fixture = Fixture::with_probe();
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.advance(130);
    fixture.observe_probe(ProbeStatus::Unhealthy);
    assert_eq!(fixture.history().failures.len(), 1);
    let desired = fixture.accepted.desired.clone();
    fixture.state.clear_failures(&env(), Some(&desired));
    assert!(fixture.history().failures.is_empty());
    fixture.advance(1);
    fixture.observe();
    let failures = &fixture.history().failures;
    assert_eq!((failures.len(), failures[0].number), (1, 2));
    // A run that ended before the retry does not count.
    let mut fixture = Fixture::new("");
    fixture.observe_container(ContainerState::Exited, started, Some((started, 1)));
    assert_eq!(fixture.history().failures.len(), 1);
    fixture.state.clear_failures(&env(), Some(&desired));
    fixture.observe();
    assert!(fixture.history().failures.is_empty());
}

#[test]
fn forgotten_image_concerns_other_environments() {
    let mut fixture = Fixture::new("");
    let desired = fixture.accepted.desired.clone();
    let (mut state, env) = (fixture.state, env());
    assert!(!state.clear_failures(&env, Some(&desired)));
    for (known, is_forgotten) in [(ImageState::Present, false), (ImageState::Missing, true)] {
        state.images.insert("web:1".to_owned(), known);
        assert_eq!(state.clear_failures(&env, Some(&desired)), is_forgotten);
    }
    assert!(state.images.is_empty());
    // A changed revision has the same effect.
    state.images.insert("web:1".to_owned(), ImageState::Missing);
    fixture.state = state;
    fixture.observe();
    assert_eq!(fixture.state.images.len(), 1, "the first revision is no change");
    fixture.accepted.desired.revision = Revision::new("2").unwrap();
    fixture.observe();
    assert!(fixture.state.images.is_empty());
}

#[test]
fn ended_run_is_ignored_over_several_edits() {
    let mut fixture = Fixture::new("");
    let started = fixture.now;
    let ended = fixture.advance(1);
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 3)));
    assert_eq!(fixture.history().failures.len(), 1);
    for revision in ["0123456789abcdef", "123456789abcdef0", "23456789abcdef01"] {
        fixture.accepted.desired.revision = Revision::new(revision).unwrap();
        fixture.observe();
        assert_eq!(fixture.history().failures, [], "{revision}");
    }
}

#[test]
fn verdict_of_earlier_probe_settings_does_not_count() {
    let mut fixture = Fixture::with_probe();
    let started = fixture.now;
    fixture.advance(60);
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.observe_probe(ProbeStatus::Unhealthy);
    let web = ServiceName::new("web").unwrap();
    let probe = fixture.accepted.desired.services[&web].probe.clone().unwrap();
    let seen = fixture.health.values_mut().next().unwrap();
    seen.probe = Some(Arc::new(probe.clone()));
    fixture.observe();
    assert_eq!(fixture.history().failures.len(), 1);
    // The prober has no result with the new settings yet.
    fixture.accepted.desired.revision = Revision::new("0123456789abcdef").unwrap();
    let service = fixture.accepted.desired.services.get_mut(&web).unwrap();
    service.probe = Some(Probe {
        start_period: Duration::from_secs(600),
        ..probe
    });
    fixture.observe();
    assert_eq!(fixture.history().failures, []);
}

#[test]
fn exit_of_an_unhealthy_run_updates_its_failure() {
    let mut fixture = Fixture::with_probe();
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.advance(130);
    fixture.observe_probe(ProbeStatus::Unhealthy);
    fixture.history().failures[0].evidence = Some(Evidence::default());
    let ended = fixture.advance(1);
    fixture.containers.get_mut("c1").unwrap().oom_at = Some(ended);
    let oom_at = fixture.containers["c1"].oom_at;
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 137)));
    fixture.containers.get_mut("c1").unwrap().oom_at = oom_at;
    fixture.observe();
    let failures = &fixture.history().failures;
    assert_eq!(failures.len(), 1, "{failures:?}");
    let failed_run = &failures[0];
    assert_eq!(
        (failed_run.cause, failed_run.exit_code, failed_run.at),
        (FailureCause::Exited, 137, ended)
    );
    assert_eq!(failed_run::kind(failed_run), FailureKind::OutOfMemory);
    assert_eq!(failed_run.number, 1);
    assert!(failed_run.evidence.is_none(), "the evidence is collected again");
    assert_eq!(failed_run.probe_output, ["503"]);
}

fn set_last_line(fixture: &mut Fixture, line: &str) {
    let history = fixture.history();
    let last = history.failures.last_mut().unwrap();
    last.evidence = Some(Evidence {
        stderr: vec![line.to_owned()],
        ..Evidence::default()
    });
}

#[test]
fn long_runs_between_equal_failures_are_not_halted() {
    for (minutes, halted) in [(1, true), (24 * 60, false)] {
        let mut fixture = Fixture::new("");
        for _ in 0..4 {
            let started = fixture.now;
            fixture.observe_container(ContainerState::Running, started, None);
            let ended = fixture.advance(minutes * 60);
            fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
            set_last_line(&mut fixture, "connection reset by peer");
            fixture.advance(8);
        }
        let found = matches!(fixture.decision(), Restart::Halted(_));
        assert_eq!(found, halted, "{minutes} min: {:?}", fixture.decision());
    }
}

#[test]
fn recovery_and_outages_end_a_repetition() {
    let mut fixture = Fixture::new("");
    for round in 0..3 {
        let started = fixture.now;
        fixture.observe_container(ContainerState::Running, started, None);
        let ended = fixture.advance(5);
        if round < 2 {
            let outage = Outage::starting_at(ended).ended(ended, OUTAGE_MARGIN);
            fixture.outages.push(outage);
        }
        fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
        set_last_line(&mut fixture, "terminated");
        fixture.advance(60);
    }
    assert!(
        matches!(fixture.decision(), Restart::StartAt(_, 1)),
        "{:?}",
        fixture.decision()
    );
    let mut fixture = Fixture::with_probe();
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    for _ in 0..3 {
        fixture.advance(100);
        fixture.observe_probe(ProbeStatus::Unhealthy);
        set_last_line(&mut fixture, "slow query");
        if fixture.history().failures.len() < 3 {
            fixture.advance(1);
            fixture.observe_probe(ProbeStatus::Healthy);
        }
    }
    assert!(
        matches!(fixture.decision(), Restart::StartAt(..)),
        "{:?}",
        fixture.decision()
    );
}

#[test]
fn probe_failure_before_an_outage_does_not_count() {
    let mut fixture = Fixture::with_probe();
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.advance(60);
    fixture.observe_probe(ProbeStatus::Healthy);
    let cut = fixture.advance(60);
    let outage = Outage::starting_at(cut).ended(cut + Duration::from_secs(30), OUTAGE_MARGIN);
    fixture.outages.push(outage);
    // The engine hung before the outage was detected, and the probe status is still present after it.
    fixture.now = cut - Duration::from_secs(5);
    fixture.observe_probe(ProbeStatus::Unhealthy);
    fixture.now = cut + Duration::from_secs(31);
    fixture.observe();
    assert_eq!(fixture.history().failures, []);
    // The same status after the outage counts.
    fixture.observe_probe(ProbeStatus::Unhealthy);
    assert_eq!(fixture.history().failures.len(), 1);
}

#[test]
fn outage_causes_no_health_transition() {
    let mut fixture = Fixture::with_probe();
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.advance(60);
    fixture.observe_probe(ProbeStatus::Healthy);
    fixture.advance(60);
    fixture.observe_probe(ProbeStatus::Unhealthy);
    assert_eq!(fixture.history().health_transitions.len(), 1);
    // Only then the outage is noticed.
    let cut = fixture.advance(5);
    let outage = Outage::starting_at(cut).ended(cut + Duration::from_secs(30), OUTAGE_MARGIN);
    fixture.outages.push(outage);
    fixture.advance(60);
    fixture.observe_probe(ProbeStatus::Healthy);
    assert_eq!(fixture.history().health_transitions, []);
}

#[test]
fn health_before_an_edit_is_not_that_of_the_edit() {
    let healthy = || {
        let mut fixture = Fixture::with_probe();
        let started = fixture.now;
        fixture.observe_container(ContainerState::Running, started, None);
        fixture.advance(60);
        fixture.observe_probe(ProbeStatus::Healthy);
        fixture.advance(600);
        fixture
    };
    // The edit changes only the health check, so the container runs on.
    for during_a_stop in [false, true] {
        let mut fixture = healthy();
        if during_a_stop {
            let history = fixture.state.environments.get_mut(&env()).unwrap();
            let stored = serde_json::to_string(&**history).unwrap();
            *history = Arc::new(serde_json::from_str(&stored).unwrap());
        }
        let check = "      healthcheck: { path: /, port: 81, interval: 30s, retries: 3 }\n";
        fixture.accepted = Fixture::new(check).accepted;
        fixture.observe();
        fixture.advance(200);
        fixture.observe_probe(ProbeStatus::Unhealthy);
        assert_eq!(fixture.history().health_transitions, []);
        let failed = fixture.history().failures[0].clone();
        assert_eq!(failed.healthy_duration, Some(Duration::ZERO));
    }
    // Other times are the same check.
    let mut fixture = healthy();
    let check = "      healthcheck: { path: /, port: 80, interval: 60s, retries: 2 }\n";
    fixture.accepted = Fixture::new(check).accepted;
    fixture.observe();
    fixture.advance(200);
    fixture.observe_probe(ProbeStatus::Unhealthy);
    assert_eq!(fixture.history().health_transitions.len(), 1);
    // The edit replaces the container, or another client starts the same one again.
    for (hash, transitions) in [("bbbbbbbb", 0), ("aaaaaaaa", 1)] {
        let mut fixture = healthy();
        fixture.hash = hash;
        let started = fixture.now;
        fixture.observe_container(ContainerState::Running, started, None);
        fixture.advance(200);
        fixture.observe_probe(ProbeStatus::Unhealthy);
        assert_eq!(fixture.history().health_transitions.len(), transitions, "{hash}");
    }
}

#[test]
fn failure_by_a_lagging_clock_comes_last() {
    let mut fixture = Fixture::new("");
    for round in 1..=4 {
        // The clock of the engine was set back by an hour after the first failure.
        let engine = |at: Timestamp| {
            if round == 1 {
                at
            } else {
                at - Duration::from_secs(3_600)
            }
        };
        let started = engine(fixture.now);
        // Each run has a new container, as from the second failure on.
        let id = format!("c{round}");
        fixture.containers.clear();
        fixture.observe_container_with_id(&id, ContainerState::Running, started, None);
        let ended = engine(fixture.advance(1));
        fixture.observe_container_with_id(&id, ContainerState::Exited, started, Some((ended, 1)));
        let last = fixture.history().failures.last().unwrap().clone();
        assert_eq!((last.number, last.container.as_str()), (round, id.as_str()));
        assert!(!last.followed_by_run);
        let now = fixture.now;
        match fixture.decision() {
            Restart::StartAt(at, _) => assert!(at > now, "failure {round} has its delay"),
            other => assert_eq!(other, Restart::GaveUp(3), "failure {round}"),
        }
        fixture.advance(10);
    }
    assert_eq!(fixture.decision(), Restart::GaveUp(3));
}

#[test]
fn retry_before_the_first_sync_clears_the_failures() {
    let mut fixture = Fixture::new("");
    let started = fixture.now;
    fixture.observe_container(ContainerState::Exited, started, Some((started, 1)));
    let identity = argus_core::plan::ControllerIdentity {
        controller: "me".to_owned(),
        run: "1".to_owned(),
        publish_address: [127, 0, 0, 1].into(),
    };
    let web = ServiceName::new("web").unwrap();
    for service in [None, Some(&web)] {
        let mut planner = argus_core::reconcile::Planner::new(identity.clone(), fixture.state.clone());
        planner.retry(&env(), Some(&ServiceName::new("db").unwrap()));
        assert_eq!(
            planner.state(),
            &fixture.state,
            "another service keeps its failures"
        );
        planner.retry(&env(), service);
        let history = &planner.state().environments[&env()].services[&web];
        assert!(history.failures.is_empty() && history.ignored_run.is_some());
    }
}

#[test]
fn requested_restart_is_no_failure() {
    let mut fixture = Fixture::new("");
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.request_restart();
    assert!(fixture.is_restart_requested());
    // It ends with an error on its own, before Argus stops it.
    let ended = fixture.advance(1);
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
    assert!(fixture.is_restart_requested(), "it has not started again");
    let again = fixture.advance(1);
    fixture.observe_container(ContainerState::Running, again, None);
    assert!(!fixture.is_restart_requested());
    let history = fixture.history();
    assert_eq!((history.restarts, history.failure_count), (1, 0));
    let ended = fixture.advance(1);
    fixture.observe_container(ContainerState::Exited, again, Some((ended, 1)));
    assert_eq!(fixture.history().failure_count, 1, "the next run can fail");
}

#[test]
fn requested_restart_runs_a_completed_job_again() {
    let mut fixture = Fixture::new("    oneShot: true\n");
    let started = fixture.now;
    let ended = fixture.advance(1);
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 0)));
    assert!(fixture.history().completed.is_some());
    fixture.request_restart();
    assert!(
        fixture.history().completed.is_some(),
        "that of the environment does not"
    );
    fixture.request_restart_of(Some(&ServiceName::new("web").unwrap()));
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 0)));
    assert!(fixture.history().completed.is_none() && fixture.is_restart_requested());
    let again = fixture.advance(1);
    let ended = fixture.advance(1);
    fixture.observe_container(ContainerState::Exited, again, Some((ended, 0)));
    assert!(fixture.history().completed.is_some() && !fixture.is_restart_requested());
}

#[test]
fn restart_requested_during_a_start_ends_the_new_run() {
    let mut fixture = Fixture::new("");
    let started = fixture.now;
    let ended = fixture.advance(1);
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
    let subject = Subject::Service {
        environment: env(),
        service: ServiceName::new(fixture.service).unwrap(),
    };
    let expectation = Expectation {
        verb: ActionKind::StartContainer,
        proof: Proof::Relisted(1),
        until: fixture.now + Duration::from_secs(5),
    };
    fixture.state.expectations.insert(subject, expectation);
    fixture.request_restart();
    assert!(!fixture.is_restart_requested(), "this run has ended");
    let again = fixture.advance(1);
    fixture.observe_container(ContainerState::Running, again, None);
    assert!(fixture.is_restart_requested(), "it started before the request");
    let last = fixture.advance(1);
    fixture.observe_container(ContainerState::Running, last, None);
    assert!(!fixture.is_restart_requested());
}

#[test]
fn every_new_run_counts_as_a_restart() {
    let mut fixture = Fixture::new("");
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.observe_container(ContainerState::Running, started, None);
    assert_eq!(fixture.history().restarts, 0);
    // A stop by another client is no failure, but the next run is a restart.
    let ended = fixture.advance(5);
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 0)));
    let again = fixture.advance(1);
    fixture.observe_container(ContainerState::Running, again, None);
    assert_eq!(fixture.history().restarts, 1);
    // So is the run of another container of the same spec.
    fixture.containers.clear();
    let other = fixture.advance(5);
    fixture.observe_container_with_id("c2", ContainerState::Running, other, None);
    assert_eq!(fixture.history().restarts, 2);
    fixture.hash = "bbbbbbbb";
    let edited = fixture.advance(5);
    fixture.observe_container_with_id("c3", ContainerState::Running, edited, None);
    fixture.hash = "aaaaaaaa";
    fixture.observe_container_with_id("c2", ContainerState::Exited, other, Some((edited, 143)));
    assert_eq!(
        fixture.history().restarts,
        2,
        "the run of an edited spec is no restart"
    );
}

#[test]
fn lasting_run_resets_the_use_of_the_restart_budget() {
    let mut fixture = Fixture::new("");
    let used = |fixture: &mut Fixture| {
        let policy = fixture.accepted.desired.restart.clone();
        restart::used_restarts(&policy, &fixture.history().failures, &[])
    };
    let mut started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    assert_eq!(used(&mut fixture), Some(0));
    for failures in 1..=2 {
        let ended = fixture.advance(5);
        fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
        started = fixture.advance(2);
        fixture.observe_container(ContainerState::Running, started, None);
        assert_eq!(used(&mut fixture), Some(failures));
    }
    let resets_at = started + fixture.accepted.desired.restart.reset_after;
    assert_eq!(fixture.history().budget_resets_at, Some(resets_at));
    fixture.now = resets_at;
    fixture.observe();
    assert_eq!(
        (used(&mut fixture), fixture.history().budget_resets_at),
        (Some(0), None)
    );
    let ended = fixture.advance(1);
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
    assert_eq!(used(&mut fixture), Some(1));
    fixture.accepted.desired.restart.enabled = false;
    assert_eq!(used(&mut fixture), None);
}

#[test]
fn health_of_an_earlier_run_resets_no_restart_budget() {
    let mut fixture = Fixture::with_probe();
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.observe_probe(ProbeStatus::Healthy);
    let ended = fixture.advance(300);
    fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
    fixture.health.clear();
    let again = fixture.advance(2);
    fixture.observe_container(ContainerState::Running, again, None);
    assert!(!fixture.history().failures[0].budget_reset);
}

#[test]
fn late_recovery_is_recorded_until_a_clean_start() {
    let mut fixture = Fixture::with_probe();
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.advance(130);
    fixture.observe_probe(ProbeStatus::Unhealthy);
    assert_eq!(fixture.history().late_recovery, None);
    let started = fixture.advance(8);
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.advance(20);
    fixture.observe_probe(ProbeStatus::Healthy);
    assert_eq!(fixture.history().late_recovery, Some(1));
    // A later start without a failure is clean.
    let started = fixture.advance(600);
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.advance(5);
    fixture.observe_probe(ProbeStatus::Healthy);
    assert_eq!(fixture.history().late_recovery, None);
}

#[test]
fn recovery_of_an_edited_container_is_not_late() {
    let mut fixture = Fixture::with_probe();
    let started = fixture.now;
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.advance(130);
    fixture.observe_probe(ProbeStatus::Unhealthy);
    fixture.hash = "bbbbbbbb";
    let started = fixture.advance(8);
    fixture.observe_container(ContainerState::Running, started, None);
    fixture.advance(1);
    fixture.observe_probe(ProbeStatus::Healthy);
    assert_eq!(fixture.history().late_recovery, None);
}

#[test]
fn change_of_a_read_only_file_ends_the_failures_of_its_service() {
    for (read_only, expected) in [(true, 0), (false, 1)] {
        let mut fixture = Fixture::new("");
        let source = "/p/app.conf".to_owned();
        let mount = Mount::Bind {
            source: source.clone(),
            target: "/app.conf".to_owned(),
            read_only,
        };
        let services = &mut fixture.accepted.desired.services;
        services.get_mut("web").unwrap().mounts.push(mount);
        let facts = |inode| MountedFile {
            identity: (1, inode),
            ..MountedFile::default()
        };
        let first = facts(1).after(None, fixture.now, fixture.now);
        fixture.accepted.mounted_files = [(source.clone(), first)].into();
        let started = fixture.now;
        fixture.observe_container(ContainerState::Running, started, None);
        let ended = fixture.advance(5);
        fixture.observe_container(ContainerState::Exited, started, Some((ended, 1)));
        assert_eq!(fixture.history().failures.len(), 1);
        let edited = fixture.advance(20);
        let second = facts(2).after(Some(&first), edited, edited);
        fixture.accepted.mounted_files = [(source, second)].into();
        fixture.observe();
        assert_eq!(
            fixture.history().failures.len(),
            expected,
            "read_only: {read_only}"
        );
        // The same change does not end later failures.
        let again = fixture.advance(2);
        fixture.observe_container(ContainerState::Running, again, None);
        let ended = fixture.advance(5);
        fixture.observe_container(ContainerState::Exited, again, Some((ended, 1)));
        fixture.observe();
        assert_eq!(fixture.history().failures.len(), expected + 1);
    }
}

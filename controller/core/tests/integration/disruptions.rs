//! Disruptions and restarts during a test: their causes, attributions and originators.
#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::Accepted;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::ident::{ContainerId, EnvName, NetworkId, ServiceName};
use argus_core::labels;
use argus_core::observed::{
    Attachment, Container, ContainerState, InspectInfo, Network, Object, Outage, Store, WatchEvent,
};
use argus_core::outcome::Evidence;
use argus_core::probe::{HealthStates, ProbeStatus, ProbedHealth};
use argus_core::state::observe::Context;
use argus_core::state::{EnvHistory, PlannerState};
use argus_core::time::Timestamp;
use argus_core::user_requests::{TestLease, UserRequests};

const SPEC: &str = "version: \"1\"\nproject: { name: shop }\nservices:\n  web:\n    image: web:1\n    container:\n      name: shop-web\n      \
                    healthcheck: { path: /, port: 80 }\n";

fn labels(more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let all = [(labels::MANAGED, "true"), (labels::ENVIRONMENT, "shop")];
    let all = all.iter().chain(more);
    all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// One service under test, and the observations of its container over time.
struct Fixture {
    state: PlannerState,
    accepted: Accepted,
    requests: UserRequests,
    health: HealthStates,
    outages: Vec<Outage>,
    container: Option<Container>,
    now: Timestamp,
}

impl Fixture {
    /// The service runs, and a test begins. The engine became reachable when the run began.
    fn new() -> Self {
        let written = argus_crds::yaml::read("e2e.yaml", SPEC.as_bytes()).spec.unwrap();
        let mut fixture = Self {
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
            requests: UserRequests::default(),
            health: HealthStates::new(),
            outages: vec![
                Outage::starting_at(Timestamp(990_000)).ended(Timestamp(1_001_000), Duration::from_secs(2)),
            ],
            container: None,
            now: Timestamp(1_000_000),
        };
        fixture.run("c1");
        fixture.observe();
        fixture.requests.begin(TestLease {
            environment: EnvName::new("shop").unwrap(),
            case: "buy".to_owned(),
            since: fixture.now,
            until: fixture.now + Duration::from_secs(600),
            holder: None,
            purpose: None,
            unverified: None,
        });
        fixture.now = fixture.now + Duration::from_secs(60);
        fixture
    }

    /// Starts a container now.
    fn run(&mut self, id: &str) {
        let attachment = Attachment {
            network: Some(NetworkId::new("n").unwrap()),
            aliases: Vec::new(),
            address: None,
        };
        self.container = Some(Container {
            id: ContainerId::new(id).unwrap(),
            name: "shop-web".to_owned(),
            labels: labels(&[(labels::SERVICE, "web"), (labels::SPEC_HASH, "aaaaaaaa")]),
            image: "web:1".to_owned(),
            state: ContainerState::Running,
            created_at: Timestamp(1),
            networks: [("net".to_owned(), attachment)].into(),
            inspect: Some(InspectInfo {
                started_at: Some(self.now),
                ..InspectInfo::default()
            }),
            stopped_by_other: None,
            oom_at: None,
        });
    }

    fn change(&mut self, change: impl FnOnce(&mut Container)) {
        change(self.container.as_mut().unwrap());
    }

    fn end(&mut self, exit_code: i64) {
        let now = self.now;
        self.change(|container| {
            container.state = ContainerState::Exited;
            let info = container.inspect.as_mut().unwrap();
            (info.finished_at, info.exit_code) = (Some(now), exit_code);
        });
    }

    fn observe(&mut self) {
        let network = Network {
            id: NetworkId::new("n").unwrap(),
            name: "net".to_owned(),
            labels: labels(&[]),
            created_at: Timestamp(1),
            is_broken: false,
        };
        let mut store = Store::default();
        store.apply(WatchEvent::Apply(Object::Network(Arc::new(network))));
        if let Some(container) = &self.container {
            store.apply(WatchEvent::Apply(Object::Container(Arc::new(container.clone()))));
        }
        let context = Context {
            health: &self.health,
            outages: &self.outages,
            requests: &self.requests,
            controller: "",
            now: self.now,
        };
        let env = EnvName::new("shop").unwrap();
        let seen = store.of(&env).cloned().unwrap_or_default();
        self.state.observe(&env, Some(&self.accepted), &seen, &context);
    }

    /// Observes the current state, and then a new run.
    fn observe_restart(&mut self, id: &str) {
        self.observe();
        self.now = self.now + Duration::from_secs(20);
        self.run(id);
        self.observe();
    }

    fn history(&mut self) -> &mut EnvHistory {
        let history = self.state.environments.get_mut(&EnvName::new("shop").unwrap());
        Arc::make_mut(history.unwrap())
    }

    /// Disruptions and restarts as JSON words: cause, attribution, originator; then the reasons of the restarts.
    fn found(&mut self) -> (Vec<String>, Vec<String>) {
        let history = serde_json::to_value(self.history()).unwrap();
        let words = |entry: &serde_json::Value, keys: &[&str]| {
            let words = keys.iter().filter_map(|key| match &entry[*key] {
                serde_json::Value::String(word) => Some(word.clone()),
                serde_json::Value::Bool(true) => Some((*key).to_owned()),
                _ => None,
            });
            words.collect::<Vec<_>>().join(" ")
        };
        let all = |key: &str, keys: &[&str]| {
            let entries = history[key].as_array().unwrap();
            entries.iter().map(|entry| words(entry, keys)).collect::<Vec<_>>()
        };
        (
            all("disruptions", &["cause", "attribution", "suspected", "by"]),
            all("restarts", &["reason", "by"]),
        )
    }
}

fn both(disruption: &str, restart: &str) -> (Vec<String>, Vec<String>) {
    (vec![disruption.to_owned()], vec![restart.to_owned()])
}

#[test]
fn interruptions_by_others_are_infrastructure() {
    let mut stopped = Fixture::new();
    let at = stopped.now;
    stopped.change(|container| container.stopped_by_other = Some(at));
    stopped.end(137);
    stopped.observe_restart("c1");
    let expected = both("stop infrastructure otherClient", "stop otherClient");
    assert_eq!(stopped.found(), expected);
    assert_eq!(stopped.history().disruptions[0].at, at);

    let mut removed = Fixture::new();
    removed.container = None;
    removed.observe_restart("c2");
    let expected = both("removal infrastructure otherClient", "removal otherClient");
    assert_eq!(removed.found(), expected);

    // The engine reports a forced removal as a kill and a removal.
    let mut killed = Fixture::new();
    let at = killed.now;
    killed.change(|container| container.stopped_by_other = Some(at));
    killed.end(137);
    killed.observe();
    killed.container = None;
    killed.observe_restart("c2");
    assert_eq!(killed.found(), expected);

    // No observation shows the end of the run.
    let mut restarted = Fixture::new();
    restarted.observe_restart("c1");
    let expected = both("stop infrastructure otherClient", "stop otherClient");
    assert_eq!(restarted.found(), expected);

    let mut paused = Fixture::new();
    paused.change(|container| container.state = ContainerState::Paused);
    paused.observe();
    paused.observe();
    paused.change(|container| container.state = ContainerState::Running);
    paused.observe();
    let only = |text: &str| (vec![text.to_owned()], Vec::new());
    assert_eq!(paused.found(), only("pause infrastructure otherClient"));

    let mut detached = Fixture::new();
    detached.observe();
    detached.change(|container| container.networks.clear());
    detached.observe();
    detached.observe();
    assert_eq!(detached.found(), only("detachment infrastructure otherClient"));
}

#[test]
fn stop_and_the_exit_that_it_causes_are_one_disruption() {
    let mut fixture = Fixture::new();
    let at = fixture.now;
    fixture.change(|container| container.stopped_by_other = Some(at));
    fixture.end(137);
    fixture.observe();
    // A list of an earlier state shows the container as running, and its stop is forgotten.
    fixture.change(|container| {
        container.stopped_by_other = None;
        container.state = ContainerState::Running;
    });
    fixture.observe();
    fixture.end(137);
    fixture.observe_restart("c1");
    let expected = both("stop infrastructure otherClient", "stop otherClient");
    assert_eq!(fixture.found(), expected);
    let web = ServiceName::new("web").unwrap();
    assert_eq!(fixture.history().service_mut(&web).failures, []);
}

#[test]
fn exit_long_after_a_survived_signal_is_of_the_service() {
    let mut fixture = Fixture::new();
    let at = fixture.now;
    fixture.change(|container| container.stopped_by_other = Some(at));
    fixture.observe();
    fixture.now = fixture.now + Duration::from_secs(60);
    fixture.end(3);
    fixture.observe_restart("c1");
    assert_eq!(fixture.found(), both("exit service", "exit"));
}

#[test]
fn exits_are_attributed_by_their_evidence() {
    let mut own = Fixture::new();
    own.end(3);
    own.observe_restart("c1");
    assert_eq!(own.found(), both("exit service", "exit"));

    let mut memory = Fixture::new();
    memory.end(137);
    memory.change(|container| container.oom_at = Some(Timestamp(1)));
    memory.observe_restart("c1");
    assert_eq!(memory.found(), both("outOfMemory resource", "outOfMemory"));

    // Argus learns of the output and of an outage only after the failure.
    let mut disk = Fixture::new();
    disk.end(1);
    disk.observe_restart("c1");
    assert_eq!(disk.found(), both("exit service", "exit"));
    let web = ServiceName::new("web").unwrap();
    let service = disk.history().service_mut(&web);
    service.failures[0].evidence = Some(Evidence {
        stderr: vec!["write /data: No space left on device".to_owned()],
        ..Evidence::default()
    });
    disk.observe();
    assert_eq!(disk.found(), both("diskFull resource", "diskFull"));

    let mut engine = Fixture::new();
    engine.end(0);
    engine.observe();
    engine.outages.push(Outage::starting_at(engine.now));
    engine.observe_restart("c1");
    let expected = both("engineOutage infrastructure engine", "engineOutage engine");
    assert_eq!(engine.found(), expected);
}

#[test]
fn stop_during_a_lost_connection_is_by_the_other_client() {
    let mut fixture = Fixture::new();
    let at = fixture.now;
    fixture.change(|container| container.stopped_by_other = Some(at));
    fixture.end(137);
    fixture.outages.push(Outage::starting_at(at));
    fixture.observe();
    assert_eq!(
        fixture.found().0,
        ["engineOutage infrastructure engine"],
        "possibly a restart"
    );
    let lost = fixture.outages.last_mut().unwrap();
    (lost.until, lost.engine_ran) = (Some(at), true);
    fixture.observe_restart("c1");
    let expected = both("stop infrastructure otherClient", "stop otherClient");
    assert_eq!(fixture.found(), expected);
}

#[test]
fn failed_probe_on_a_starved_host_is_only_suspected() {
    for (pressure, expected) in [
        (None, "healthCheck service"),
        (Some(40), "healthCheck service"),
        (Some(41), "healthCheck infrastructure suspected"),
    ] {
        let mut fixture = Fixture::new();
        let container = fixture.container.clone().unwrap();
        let health = ProbedHealth {
            status: ProbeStatus::Unhealthy,
            since: fixture.now,
            started_at: container.inspect.unwrap().started_at,
            host_pressure: pressure,
            ..ProbedHealth::default()
        };
        fixture.health.insert(container.id, health);
        fixture.observe();
        let failures = (vec![expected.to_owned()], Vec::new());
        assert_eq!(fixture.found(), failures, "no restart yet");
        fixture.observe_restart("c1");
        let restarts = (vec![expected.to_owned()], vec!["healthCheck".to_owned()]);
        assert_eq!(fixture.found(), restarts);
    }
}

#[test]
fn nothing_is_recorded_without_a_test() {
    let mut fixture = Fixture::new();
    fixture.requests = UserRequests::default();
    fixture.end(3);
    fixture.observe_restart("c1");
    fixture.container = None;
    fixture.observe_restart("c2");
    assert_eq!(fixture.found(), (Vec::new(), Vec::new()));
}

#[test]
fn stored_disruptions_of_earlier_versions_are_read() {
    let stored =
        r#"{"disruptions":[{"case":"buy","service":"web","number":2,"at":1000,"attribution":"test"}]}"#;
    let history: EnvHistory = serde_json::from_str(stored).unwrap();
    let found = &history.disruptions[0];
    assert_eq!((found.number, found.at), (Some(2), Timestamp(1_000)));
    let again = serde_json::to_string(&history).unwrap();
    assert!(
        again.contains(r#""at":"1970-01-01T00:00:01.000Z","cause":"exit","attribution":"service""#),
        "{again}"
    );
    assert_eq!(serde_json::from_str::<EnvHistory>(&again).unwrap(), history);
}

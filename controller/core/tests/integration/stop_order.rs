//! Order of stops: dependents first, whether the file, the state or only the labels know the dependencies.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed precondition fails the test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::{Action, Step};
use argus_core::desired::Accepted;
use argus_core::desired::admit::{SpecContext, admit};
use argus_core::ident::{ContainerId, EnvName, PortMap, ServiceName};
use argus_core::labels;
use argus_core::lease::{ControllerLeases, ProcessIdentity};
use argus_core::observed::{Container, ContainerState, Object, ObjectId, Store, WatchEvent};
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::{longest_stop, render};
use argus_core::probe::HealthStates;
use argus_core::reconcile::forecast::apply_action;
use argus_core::reconcile::{Inputs, Planner};
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_core::user_requests::{Hold, UserRequests};
use argus_core::wait::WaitReason;
use proptest::prelude::*;

use crate::reconcile::{identity, listed_store, reconcile};

fn env() -> EnvName {
    EnvName::new("shop").unwrap()
}

/// A file of services, each with the names that it depends on.
fn accept(services: &[(&str, &[&str])], version: u32, at: Timestamp) -> Arc<Accepted> {
    let mut text = "version: '1'\nproject: { name: shop }\nservices:\n".to_owned();
    for (name, on) in services {
        writeln!(
            text,
            "  {name}: {{ image: a, dependsOn: [{}], container: {{ name: shop-{name}, environment: {{ V: '{version}' }} }} }}",
            on.join(", ")
        )
        .unwrap();
    }
    let written = argus_crds::yaml::read("e2e.yaml", text.as_bytes()).spec.unwrap();
    Arc::new(Accepted {
        file_hash: None,
        mounted_files: BTreeMap::new(),
        desired: admit(&written, &SpecContext::default()).desired.unwrap(),
        spec_path: "e2e.yaml".to_owned(),
        lines: argus_core::desired::key_lines::KeyLines::default(),
        accepted_at: at,
        has_pending_edit: false,
        allowed: false,
        is_ending: false,
    })
}

struct World {
    planner: Planner,
    store: Store,
    specs: BTreeMap<EnvName, Arc<Accepted>>,
    leases: ControllerLeases,
    requests: UserRequests,
    now: Timestamp,
    /// Number of executed actions.
    executed: usize,
}

impl World {
    /// An environment whose services run.
    fn running(services: &[(&str, &[&str])]) -> Self {
        let now = Timestamp(1_000_000);
        let mut world = Self {
            planner: Planner::new(identity(), PlannerState::default()),
            store: listed_store(now),
            specs: BTreeMap::new(),
            leases: ControllerLeases::default(),
            requests: UserRequests::default(),
            now,
            executed: 0,
        };
        world.edit(services, 1);
        assert_eq!(world.stops(), [[""; 0]; 0]);
        let up = world.store.containers().filter(|it| it.state.is_up());
        assert_eq!(up.count(), services.len());
        world
    }

    fn edit(&mut self, services: &[(&str, &[&str])], version: u32) {
        self.specs.insert(env(), accept(services, version, self.now));
        self.now = self.now + Duration::from_secs(60);
    }

    fn remove_file(&mut self) {
        self.specs.clear();
    }

    /// A controller with no memory takes over.
    fn forget(&mut self) {
        self.planner = Planner::new(identity(), PlannerState::default());
    }

    fn change(&mut self, change: impl Fn(&mut Container)) {
        let all: Vec<_> = self.store.containers().cloned().collect();
        for mut container in all {
            change(Arc::make_mut(&mut container));
            self.store.apply(WatchEvent::Apply(Object::Container(container)));
        }
    }

    fn relabel(&mut self, service: &str, on: &str) {
        self.change(|container| {
            if service_of(container) == service {
                container
                    .labels
                    .insert(labels::DEPENDS_ON.to_owned(), on.to_owned());
            }
        });
    }

    fn plan(&mut self) -> Vec<Step> {
        let result = self.planner.reconcile(&Inputs {
            specs: &self.specs,
            scanned: true,
            store: &self.store,
            health: &HealthStates::new(),
            leases: &self.leases,
            requests: &self.requests,
            preflight: None,
            now: self.now,
        });
        if result.relist {
            self.relist();
        }
        result.steps
    }

    /// The engine lists the same objects again.
    fn relist(&mut self) {
        let all: Vec<_> = self.store.environments().values().cloned().collect();
        self.store.apply(WatchEvent::Init);
        for observed in all {
            let networks = observed.networks.values().cloned().map(Object::Network);
            let containers = observed.containers.values().cloned().map(Object::Container);
            for object in networks.chain(containers) {
                self.store.apply(WatchEvent::Apply(object));
            }
        }
        self.store.apply(WatchEvent::InitDone);
    }

    fn execute(&mut self, step: &Step) {
        self.executed += 1;
        let done = apply_action(&mut self.store, &step.action, self.now, self.executed);
        self.planner.finished(step, &Ok(done), &self.store, self.now);
    }

    fn fail(&mut self, step: &Step, error: &ActionError) {
        let outcome: Result<Done, _> = Err(error.clone());
        self.planner.finished(step, &outcome, &self.store, self.now);
    }

    fn stopped_by(&self, step: &Step) -> Option<String> {
        let Action::StopContainer { id, .. } = &step.action else {
            return None;
        };
        self.store.container(id).map(|it| service_of(it).to_owned())
    }

    /// Services that these steps stop.
    fn names(&self, steps: &[Step]) -> Vec<String> {
        let mut names: Vec<_> = steps.iter().filter_map(|step| self.stopped_by(step)).collect();
        names.sort();
        names
    }

    /// Executes everything that is planned. Returns the services that stop, those of one pass together.
    fn stops(&mut self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        for _ in 0..1_000 {
            let steps = self.plan();
            if steps.is_empty() {
                return all;
            }
            let names = self.names(&steps);
            all.extend((!names.is_empty()).then_some(names));
            for step in &steps {
                self.execute(step);
            }
            self.now = self.now + Duration::from_millis(1);
        }
        panic!("it does not settle: {all:?}");
    }

    fn waits(&self) -> Vec<String> {
        let mut planner = self.planner.clone();
        let result = reconcile(&mut planner, &self.specs, &self.store, &self.leases, self.now);
        let waits = result.plans[&env()].waits.iter();
        let on = waits.filter_map(|wait| match &wait.on {
            WaitReason::Dependent { service } => Some(service.to_string()),
            _ => None,
        });
        on.collect()
    }
}

fn service_of(container: &Container) -> &str {
    container.labels.get(labels::SERVICE).map_or("", String::as_str)
}

const CHAIN: &[(&str, &[&str])] = &[("db", &[]), ("api", &["db"]), ("web", &["api"])];
const DIAMOND: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("left", &["base"]),
    ("right", &["base"]),
    ("top", &["left", "right"]),
];

#[test]
fn chain_stops_one_after_the_other() {
    let mut world = World::running(CHAIN);
    world.remove_file();
    let steps = world.plan();
    assert_eq!(world.names(&steps), ["web"]);
    assert_eq!(world.waits(), ["web", "api"], "each waits for a dependent");
    // A stop that takes its time delays the others.
    world.now = world.now + Duration::from_secs(5);
    assert_eq!(world.plan(), []);
    for step in &steps {
        world.execute(step);
    }
    assert_eq!(world.stops(), [["api"], ["db"]]);
    assert_eq!(world.store.containers().count(), 0);
}

#[test]
fn stopped_service_stays_down_until_its_start() {
    let mut world = World::running(CHAIN);
    let stop = Hold {
        environment: env(),
        service: Some(ServiceName::new("db").unwrap()),
        since: world.now,
        until: None,
        stops: true,
        reason: String::new(),
        holder: None,
        command: None,
    };
    world.requests.add_hold(stop.clone());
    assert_eq!(world.stops(), [["db"]], "its dependents keep running");
    world.now = world.now + Duration::from_secs(600);
    assert_eq!(world.plan(), []);
    world.requests.start(&env(), None);
    assert_eq!(world.stops(), [[""; 0]; 0]);
    assert!(world.store.containers().all(|it| it.state.is_up()));
    // Its removal needs no start.
    world.requests.add_hold(stop);
    assert_eq!(world.stops(), [["db"]]);
    world.remove_file();
    assert_eq!(world.stops(), [["web"], ["api"]]);
    assert_eq!(world.store.containers().count(), 0);
}

#[test]
fn diamond_stops_its_sides_together() {
    let mut world = World::running(DIAMOND);
    world.remove_file();
    assert_eq!(world.stops(), [vec!["top"], vec!["left", "right"], vec!["base"]]);
}

#[test]
fn longest_stop_is_that_of_the_slowest_chain() {
    let mut desired = accept(DIAMOND, 1, Timestamp(1)).desired.clone();
    assert_eq!(longest_stop(&desired), Duration::from_secs(30));
    desired.services.get_mut("left").unwrap().stop_grace = Duration::from_secs(50);
    assert_eq!(longest_stop(&desired), Duration::from_secs(70));
    desired.services.clear();
    assert_eq!(longest_stop(&desired), Duration::ZERO);
}

#[test]
fn independent_services_stop_together() {
    let mut world = World::running(&[("a", &[]), ("b", &["a"]), ("c", &[]), ("d", &["c"]), ("e", &[])]);
    world.remove_file();
    assert_eq!(world.stops(), [["b", "d", "e"].as_slice(), &["a", "c"]]);
}

#[test]
fn labels_alone_keep_the_order() {
    let mut world = World::running(CHAIN);
    let label = |service: &str| {
        let mut all = world.store.containers().filter(|it| service_of(it) == service);
        all.next().unwrap().labels.get(labels::DEPENDS_ON).cloned()
    };
    assert_eq!(label("web").as_deref(), Some("api,db"));
    assert_eq!(label("api").as_deref(), Some("db"));
    assert_eq!(label("db").as_deref(), Some(""));
    world.remove_file();
    world.forget();
    assert_eq!(world.stops(), [["web"], ["api"], ["db"]]);
}

#[test]
fn containers_of_older_versions_stay_and_follow_the_file() {
    let mut world = World::running(CHAIN);
    world.change(|container| drop(container.labels.remove(labels::DEPENDS_ON)));
    world.forget();
    assert_eq!(world.plan(), [], "nothing is created again");
    world.remove_file();
    assert_eq!(world.stops(), [["web"], ["api"], ["db"]]);
}

#[test]
fn containers_without_any_record_stop_together() {
    let mut world = World::running(CHAIN);
    world.change(|container| drop(container.labels.remove(labels::DEPENDS_ON)));
    world.remove_file();
    world.forget();
    assert_eq!(world.stops(), [["api", "db", "web"]]);
}

#[test]
fn dependencies_are_no_part_of_the_hash() {
    let hash = |services: &[(&str, &[&str])]| {
        let accepted = accept(services, 1, Timestamp(1));
        let all = render::render_all(&accepted.desired, &PortMap::new(), &identity());
        all["web"].1.clone()
    };
    assert_eq!(
        hash(&[("db", &[]), ("web", &["db"])]),
        hash(&[("db", &[]), ("web", &[])])
    );
}

#[test]
fn service_without_a_container_passes_on_the_order() {
    for forgets in [false, true] {
        let mut world = World::running(CHAIN);
        world.remove_file();
        if forgets {
            world.forget();
        }
        let api = world
            .store
            .containers()
            .find(|it| service_of(it) == "api")
            .unwrap()
            .id
            .clone();
        world.store.apply(WatchEvent::Delete(ObjectId::Container(api)));
        assert_eq!(world.stops(), [["web"], ["db"]], "without state: {forgets}");
    }
}

#[test]
fn last_file_decides_before_older_labels() {
    let mut world = World::running(&[("a", &["b"]), ("b", &[])]);
    world.edit(&[("a", &[]), ("b", &["a"])], 1);
    assert_eq!(world.stops(), [[""; 0]; 0], "the order alone replaces nothing");
    world.remove_file();
    assert_eq!(world.stops(), [["b"], ["a"]]);
}

#[test]
fn removed_services_stop_in_the_order_of_the_earlier_file() {
    let mut world = World::running(&[("db", &[]), ("api", &["db"]), ("log", &[])]);
    world.change(|container| drop(container.labels.remove(labels::DEPENDS_ON)));
    world.edit(&[("log", &[])], 1);
    assert_eq!(world.stops(), [["api"], ["db"]]);
}

#[test]
fn containers_in_a_cycle_of_labels_stop_together() {
    let mut world = World::running(&[("a", &[]), ("b", &[]), ("base", &[]), ("c", &[]), ("d", &[])]);
    world.relabel("a", "b,base");
    world.relabel("b", "c");
    world.relabel("c", "a");
    world.relabel("d", "a");
    world.remove_file();
    world.forget();
    assert_eq!(world.stops(), [["d"].as_slice(), &["a", "b", "c"], &["base"]]);
}

#[test]
fn orphan_waits_for_the_age_of_its_dependents() {
    let mut world = World::running(&[("log", &[])]);
    let created = world.now;
    let template = world.store.containers().next().unwrap().clone();
    for (service, on, at) in [
        ("db", "", created),
        ("app", "db", created + Duration::from_secs(5)),
    ] {
        let mut orphan = Container::clone(&template);
        orphan.id = ContainerId::new(service).unwrap();
        (orphan.name, orphan.created_at) = (service.to_owned(), at);
        let changed = [
            (labels::ENVIRONMENT, "before"),
            (labels::CONTROLLER, "dead"),
            (labels::SERVICE, service),
            (labels::DEPENDS_ON, on),
        ];
        orphan
            .labels
            .extend(changed.map(|(key, value)| (key.to_owned(), value.to_owned())));
        world
            .store
            .apply(WatchEvent::Apply(Object::Container(Arc::new(orphan))));
    }
    world.leases = ControllerLeases::new(ProcessIdentity {
        controller: "me".to_owned(),
        run: "run".to_owned(),
        state_dir: "state".to_owned(),
        holds_lease: false,
    });
    let age = world.planner.state().delays.orphan_age;
    let mut stops_at = |after: Duration| {
        world.now = created + after;
        world.leases.on_listed(Vec::new(), world.now);
        world.stops()
    };
    let second = Duration::from_secs(1);
    assert_eq!(stops_at(age + second), [[""; 0]; 0], "`app` is not old enough");
    assert_eq!(stops_at(age + second * 6), [["app"], ["db"]]);
}

/// A world whose only dependent fails to stop.
fn failed_stop(error: &ActionError) -> World {
    let mut world = World::running(&[("db", &[]), ("web", &["db"])]);
    world.remove_file();
    let steps = world.plan();
    assert_eq!(world.names(&steps), ["web"]);
    world.fail(&steps[0], error);
    world
}

#[test]
fn stop_that_cannot_succeed_delays_nothing() {
    let mut world = failed_stop(&ActionError::Rejected("no".to_owned()));
    let steps = world.plan();
    assert_eq!(world.names(&steps), ["db"]);
}

#[test]
fn stop_that_keeps_failing_delays_for_a_limited_time() {
    let error = ActionError::Busy("did not receive an exit event".to_owned());
    let mut world = failed_stop(&error);
    let start = world.now;
    let mut failures = 1;
    let freed = loop {
        world.now = world.now + Duration::from_millis(500);
        let steps = world.plan();
        if world.names(&steps).contains(&"db".to_owned()) {
            break world.now.since(start);
        }
        for step in &steps {
            world.fail(step, &error);
            failures += 1;
        }
        assert!(failures < 20, "db is never stopped");
    };
    assert!(failures > 1, "one failure does not end the order");
    assert!(freed <= Duration::from_secs(40), "{freed:?}");
}

#[test]
fn services_replaced_together_stop_in_the_order() {
    for services in [CHAIN, DIAMOND] {
        let mut world = World::running(services);
        let mut removed = World::running(services);
        removed.remove_file();
        world.edit(services, 2);
        assert_eq!(world.stops(), removed.stops());
        let version = |it: &Arc<Container>| {
            let config = &it.inspect.as_ref().unwrap().config;
            it.state == ContainerState::Running && config.environment.contains(&"V=2".to_owned())
        };
        assert!(world.store.containers().all(version));
        assert_eq!(world.store.containers().count(), services.len());
    }
}

#[test]
fn service_replaced_alone_stops_below_its_dependents() {
    let mut world = World::running(CHAIN);
    let mut edited = Accepted::clone(&world.specs[&env()]);
    let db = edited.desired.services.get_mut("db").unwrap();
    db.env_vars.insert("V".to_owned(), "2".to_owned());
    edited.desired.revision = argus_core::desired::hash::revision_of(&edited.desired);
    world.specs.insert(env(), Arc::new(edited));
    assert_eq!(world.stops(), [["db"]]);
}

#[test]
fn replacement_that_cannot_be_created_delays_no_dependency() {
    let mut world = World::running(&[("db", &[]), ("web", &["db"])]);
    world.edit(&[("db", &[]), ("web", &["db"])], 2);
    let refused = ActionError::Rejected("no".to_owned());
    let mut stopped = Vec::new();
    for _ in 0..50 {
        for step in world.plan() {
            stopped.extend(world.stopped_by(&step));
            match (&step.action, step.subject.service()) {
                (Action::CreateContainer { .. }, Some(service)) if service.as_str() == "web" => {
                    world.fail(&step, &refused);
                }
                _ => world.execute(&step),
            }
        }
    }
    assert_eq!(stopped, ["db"], "the old `web` keeps running");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// In every graph, no container stops while a running one depends on it, and the number of rounds is the length of the
    /// longest chain of running containers at most.
    #[test]
    fn no_container_stops_below_a_running_dependent(
        edges in prop::collection::vec(any::<bool>(), 21),
        ended in prop::collection::vec(prop::bool::weighted(0.2), 7),
        forgets in any::<bool>(),
        replaces in any::<bool>(),
    ) {
        let names: Vec<String> = (0..7).map(|number| format!("s{number}")).collect();
        let mut edges = edges.into_iter();
        let on: Vec<Vec<&str>> = (0..7)
            .map(|at| names.iter().take(at).filter(|_| edges.next().unwrap()).map(String::as_str).collect())
            .collect();
        let services: Vec<(&str, &[&str])> =
            names.iter().zip(&on).map(|(name, on)| (name.as_str(), on.as_slice())).collect();
        // Services that a service reaches, itself included, and the length of its longest chain.
        let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut depth: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, on) in &services {
            let all = on.iter().flat_map(|it| reached[it].iter().copied()).chain([*name]);
            let all = all.collect();
            reached.insert(*name, all);
            depth.insert(*name, 1 + on.iter().map(|it| depth[it]).max().unwrap_or(0));
        }
        let mut world = World::running(&services);
        if replaces {
            world.edit(&services, 2);
        } else {
            world.remove_file();
            world.change(|container| {
                let number: usize = service_of(container)[1..].parse().unwrap();
                if ended[number] {
                    container.state = ContainerState::Exited;
                }
            });
            if forgets {
                world.forget();
            }
        }
        let old: BTreeSet<ContainerId> = world.store.containers().map(|it| it.id.clone()).collect();
        let mut rounds = 0;
        for _ in 0..200 {
            let steps = world.plan();
            let stopped = world.names(&steps);
            rounds += usize::from(!stopped.is_empty());
            let up = world.store.containers().filter(|it| it.state.is_up() && old.contains(&it.id));
            for running in up {
                let below = &reached[service_of(running)];
                let early = stopped.iter().find(|it| it.as_str() != service_of(running) && below.contains(it.as_str()));
                prop_assert_eq!(early, None, "{} still runs", service_of(running));
            }
            for step in &steps {
world.execute(step);
}
            world.now = world.now + Duration::from_millis(1);
        }
        prop_assert!(rounds <= depth.values().copied().max().unwrap_or(0));
        let left = world.store.containers().filter(|it| old.contains(&it.id)).count();
        prop_assert_eq!(left, 0);
        prop_assert_eq!(world.store.containers().count(), if replaces { 7 } else { 0 });
    }
}

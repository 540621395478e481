//! Two controllers on one engine: actions, restraint, takeover, and the fate of orphans.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_backend::sim::{AfterRestart, CallId, Engine, FaultProfile, Rng, SimEvent};
use argus_core::action::{Action, Step, Subject};
use argus_core::delays::Delays;
use argus_core::desired::{Accepted, Desired, Service};
use argus_core::ident::{ContainerId, EnvName, NetworkId};
use argus_core::labels::{CONTROLLER, CREATED_AT, ENVIRONMENT, MANAGED, PROJECT, RUN_ID, SERVICE};
use argus_core::lease::{ControllerLease, ControllerLeases, LeaseSpec, Ownership, ProcessIdentity, TTL};
use argus_core::observed::{ContainerState, Network, Object, Store};
use argus_core::plan::ControllerIdentity;
use argus_core::plan::orphan::OrphanDecision;
use argus_core::probe::HealthStates;
use argus_core::reconcile::{Inputs, Planner, ReconcileResult};
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_core::user_requests::UserRequests;
use argus_core::wait::{Wait, WaitReason};

use crate::fixture::START;
use crate::foreign_objects::container;
use crate::specs::{accept, desired, env, furnish, plain, published, site};
use crate::{each_seed, external_changes};

const SECOND: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_secs(10);

/// One controller: its planner, its lease and its specs.
struct Party {
    site: ControllerIdentity,
    note: LeaseSpec,
    planner: Planner,
    leases: ControllerLeases,
    specs: BTreeMap<EnvName, Arc<Accepted>>,
    requests: UserRequests,
    waiting: BTreeMap<CallId, Step>,
    started: Vec<(Timestamp, Step)>,
    last: ReconcileResult,
    next_lease_read: Timestamp,
    written: Option<Timestamp>,
    /// The controller exists, and its process runs.
    awake: bool,
}

impl Party {
    fn new(name: &str, runs: u32, specs: &[Desired], now: Timestamp) -> Self {
        let site = ControllerIdentity {
            controller: name.to_owned(),
            run: format!("run-{name}-{runs}"),
            ..site()
        };
        let note = LeaseSpec {
            controller: name.to_owned(),
            run: site.run.clone(),
            state_dir: format!("place-{name}"),
            specs: None,
            host: name.to_owned(),
            pid: 1,
            pid_namespace: String::new(),
            ttl: TTL,
            since: None,
            claims: BTreeMap::new(),
        };
        let me = ProcessIdentity {
            controller: name.to_owned(),
            run: site.run.clone(),
            state_dir: note.state_dir.clone(),
            holds_lease: true,
        };
        let accepted = specs
            .iter()
            .map(|desired| (desired.env.clone(), accept(desired.clone(), now)));
        Self {
            planner: Planner::new(site.clone(), PlannerState::default()),
            leases: ControllerLeases::new(me),
            site,
            note,
            specs: accepted.collect(),
            requests: UserRequests::default(),
            waiting: BTreeMap::new(),
            started: Vec::new(),
            last: ReconcileResult::default(),
            next_lease_read: now,
            written: None,
            awake: true,
        }
    }

    /// Renews the lease as the lease task does.
    fn keep_lease(&mut self, engine: &mut Engine, store: &Store, now: Timestamp) {
        if !store.is_reachable() {
            self.leases.on_unreachable();
            return;
        }
        let well = self.leases.is_valid(now);
        let adds = well
            && self
                .wanted(store)
                .iter()
                .any(|env| !self.note.claims.contains_key(env));
        if now < self.next_lease_read && !adds {
            return;
        }
        self.next_lease_read = now + INTERVAL;
        if !adds && self.written.is_some() {
            let Ok(found) = engine.leases(now) else {
                self.next_lease_read = now + SECOND;
                return;
            };
            self.leases.on_listed(found, now);
        }
        let due = self.written.is_none_or(|at| at + TTL / 3 <= now + INTERVAL / 2);
        if adds || due || !self.leases.is_valid(now) {
            self.note.claims = self.leases.claims(&self.wanted(store), now);
            self.note.since = self.leases.own_since();
            match engine.renew_lease(&self.note, now) {
                Ok(found) => {
                    self.leases.on_listed(found, now);
                    self.written = Some(now);
                }
                Err(_) => self.next_lease_read = now + SECOND,
            }
        }
        let check = self.leases.next_claim_check();
        self.next_lease_read = self.next_lease_read.min(check.unwrap_or(self.next_lease_read));
    }

    fn wanted(&self, store: &Store) -> BTreeSet<EnvName> {
        let left = store
            .environments()
            .iter()
            .filter(|(_, seen)| seen.has_containers_or_networks_of(&self.site.controller));
        self.specs
            .keys()
            .chain(left.map(|(env, _)| env))
            .cloned()
            .collect()
    }

    fn has(&self, env: &EnvName, now: Timestamp) -> bool {
        self.awake && self.specs.contains_key(env) && self.leases.ownership(env, true, now) == Ownership::Own
    }

    /// True if every other controller has listed its lease since it started or woke up.
    fn is_known_alive(&self, now: Timestamp) -> bool {
        let is_listed = |own: &ControllerLease| own.renewed_at + INTERVAL + SECOND < now;
        self.awake && self.leases.is_valid(now) && self.leases.own().is_some_and(is_listed)
    }

    fn waits_for_another(&self, env: &EnvName) -> bool {
        let plan = self.last.plans.get(env);
        plan.is_some_and(|plan| {
            plan.waits
                .iter()
                .any(|wait| matches!(wait.on, WaitReason::LeaseHeldByOther { .. }))
        })
    }
}

struct Controllers {
    engine: Engine,
    store: Store,
    now: Timestamp,
    parties: Vec<Party>,
    broken: Vec<String>,
}

impl Controllers {
    fn new(seed: u64, faults: FaultProfile) -> Self {
        let mut engine = Engine::new(seed, faults);
        furnish(&mut engine.model);
        engine.start_watch(START);
        Self {
            engine,
            store: Store::default(),
            now: START,
            parties: Vec::new(),
            broken: Vec::new(),
        }
    }

    fn joins(&mut self, name: &str, specs: &[Desired]) -> usize {
        let runs = u32::try_from(self.parties.len()).unwrap();
        self.parties.push(Party::new(name, runs, specs, self.now));
        self.parties.len() - 1
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.step(end);
        }
    }

    fn step(&mut self, end: Timestamp) {
        let awake = || self.parties.iter().filter(|party| party.awake);
        let wakes = awake().filter_map(|party| party.last.wake_at);
        let checks = awake().map(|party| party.next_lease_read);
        let soon = self.now + Duration::from_millis(10);
        let next = wakes.chain(checks).map(|at| at.max(soon));
        let next = next
            .chain(self.engine.next_at())
            .chain([end])
            .min()
            .unwrap_or(end);
        self.now = self.now.max(next);
        let now = self.now;
        for happening in self.engine.advance_until(now) {
            match happening {
                SimEvent::Observed(seen) => self.store.apply(seen),
                SimEvent::Returned(ticket, outcome) => {
                    for party in &mut self.parties {
                        // A stopped controller receives nothing, and one that never runs again never will.
                        if let Some(step) = party.waiting.remove(&ticket) {
                            party.planner.finished(&step, &outcome, &self.store, now);
                        }
                    }
                }
            }
        }
        for at in 0..self.parties.len() {
            if self.parties[at].awake {
                self.parties[at].keep_lease(&mut self.engine, &self.store, now);
                self.turn(at);
            }
        }
    }

    fn turn(&mut self, at: usize) {
        let now = self.now;
        let party = &mut self.parties[at];
        let turn = party.planner.reconcile(&Inputs {
            leases: &party.leases,
            requests: &party.requests,
            specs: &party.specs,
            scanned: true,
            store: &self.store,
            health: &HealthStates::new(),
            preflight: None,
            now,
        });
        for step in &turn.steps {
            let ticket = self.engine.begin(&step.action, now);
            party.waiting.insert(ticket, step.clone());
            party.started.push((now, step.clone()));
        }
        if turn.relist {
            self.engine.request_relist(now);
        }
        party.last = turn;
        self.check_orphans(at);
        for step in self.parties[at].last.steps.clone() {
            let Some(env) = environment(&step) else { continue };
            let others = self.parties.iter().enumerate().filter(|(other, _)| *other != at);
            if let Some((_, other)) = others.into_iter().find(|(_, other)| other.has(env, now)) {
                let (me, it) = (&self.parties[at].site.run, &other.site.run);
                let ms = now.0 - START.0;
                self.broken
                    .push(format!("{ms}: {me} acts on {env}, which {it} owns: {step:?}"));
            }
        }
    }

    /// Checks that no object of a live controller is reported as an orphan.
    fn check_orphans(&mut self, at: usize) {
        let party = &self.parties[at];
        let reported = party.last.plans.values().flat_map(|plan| &plan.orphans);
        let is_alive = |controller: &str| {
            let mut parties = self.parties.iter();
            parties.any(|other| other.site.controller == controller && other.is_known_alive(self.now))
        };
        let wrong = reported
            .filter(|orphan| !matches!(orphan.decision, OrphanDecision::Unconfirmed { .. }))
            .find(|orphan| is_alive(&orphan.controller));
        if let Some(orphan) = wrong {
            let ms = self.now.0 - START.0;
            let run = &party.site.run;
            self.broken.push(format!(
                "{ms}: {run} reports an orphan of a live controller: {orphan:?}"
            ));
        }
    }

    /// The first action after `since` on any object.
    fn acted_since(&self, at: usize, since: Timestamp) -> Option<&Step> {
        let mut since = self.parties[at]
            .started
            .iter()
            .filter(|(started, _)| *started > since);
        since.next().map(|(_, step)| step)
    }

    fn settled(&self, at: usize) -> bool {
        let party = &self.parties[at];
        party.waiting.is_empty() && party.last.plans.values().all(|plan| plan.is_settled())
    }

    fn offence(&self) -> Option<String> {
        self.broken
            .first()
            .cloned()
            .or_else(|| self.engine.model.foreign_actions().first().cloned())
    }
}

fn environment(step: &Step) -> Option<&EnvName> {
    match &step.subject {
        Subject::Service { environment, .. }
        | Subject::Network { environment, .. }
        | Subject::Volume { environment, .. } => Some(environment),
        Subject::Image { .. } | Subject::ExtraContainer { .. } | Subject::ExtraNetwork { .. } => None,
    }
}

fn shop() -> Desired {
    desired("one", [plain("one", "a"), plain("one", "b")])
}

fn shop_at(version: &str) -> Desired {
    let mut services = [plain("one", "a"), plain("one", "b")];
    for service in &mut services {
        service.env_vars.insert("VERSION".to_owned(), version.to_owned());
    }
    desired("one", services)
}

/// A way in which the first of two controllers stops.
#[derive(Debug, Clone, Copy)]
enum Leaves {
    Killed,
    Cleanly,
    /// It stops for a while, as on a suspended host, and returns.
    Frozen,
}

#[test]
fn second_controller_takes_over_without_a_restart() {
    each_seed("second_controller_takes_over_without_a_restart", 60, |seed| {
        let mut chance = Rng::new(seed);
        let mut controllers = Controllers::new(seed, FaultProfile::no_faults());
        let leaves = [Leaves::Killed, Leaves::Cleanly, Leaves::Frozen][usize::try_from(seed % 3).unwrap()];
        let one = env("one");
        let first = controllers.joins("a", &[shop()]);
        controllers.run(chance.millis((1_000, 20_000)));
        let second = controllers.joins("b", &[shop()]);
        controllers.run(chance.millis((60_000, 400_000)));
        if !controllers.settled(first) || !controllers.parties[second].waits_for_another(&one) {
            return Some(format!(
                "{leaves:?}: first {:?}, second {:?}",
                controllers.settled(first),
                controllers.parties[second].last.plans
            ));
        }
        controllers.parties[first].awake = false;
        if matches!(leaves, Leaves::Cleanly) {
            controllers
                .engine
                .release_lease("run-a-0", controllers.now)
                .unwrap();
        }
        let gone = controllers.now;
        let limit = match leaves {
            Leaves::Cleanly => INTERVAL + SECOND,
            Leaves::Killed | Leaves::Frozen => Duration::from_secs(120),
        };
        controllers.run(limit);
        if !controllers.parties[second].has(&one, controllers.now) || !controllers.settled(second) {
            return Some(format!(
                "{leaves:?}: not taken over: {:?}",
                controllers.parties[second].last.plans
            ));
        }
        if let Leaves::Frozen = leaves {
            controllers.parties[first].awake = true;
            controllers.run(chance.millis((60_000, 300_000)));
            if !controllers.parties[first].waits_for_another(&one) {
                return Some("the returning controller does not notice the takeover".to_owned());
            }
        }
        let runs = ["one/a", "one/b"].map(|service| controllers.engine.model.start_count(service));
        if runs != [1, 1] {
            return Some(format!("{leaves:?}: {runs:?} runs"));
        }
        controllers
            .acted_since(first, gone)
            .map(|step| format!("{step:?}"))
            .or_else(|| controllers.offence())
    });
}

/// The second controller replaces the containers of a suspended one, which returns with its earlier specs.
#[test]
fn suspended_controller_leaves_a_takeover_alone() {
    each_seed("suspended_controller_leaves_a_takeover_alone", 40, |seed| {
        let mut chance = Rng::new(seed);
        let mut controllers = Controllers::new(seed, FaultProfile::no_faults());
        let first = controllers.joins("a", &[shop_at("1")]);
        controllers.run(chance.millis((1_000, 20_000)));
        let second = controllers.joins("b", &[shop_at("2")]);
        controllers.run(chance.millis((60_000, 100_000)));
        controllers.parties[first].awake = false;
        let gone = controllers.now;
        controllers.run(SECOND * 120 + chance.millis((0, 60_000)));
        if !controllers.settled(second) {
            return Some(format!(
                "not taken over: {:?}",
                controllers.parties[second].last.plans
            ));
        }
        let taken_over = controllers.engine.model.calls().len();
        controllers.parties[first].awake = true;
        controllers.run(TTL * 3);
        if !controllers.parties[first].waits_for_another(&env("one")) {
            return Some("the returning controller does not notice the takeover".to_owned());
        }
        let later = &controllers.engine.model.calls()[taken_over..];
        controllers
            .acted_since(first, gone)
            .map(|step| format!("{step:?}"))
            .or_else(|| (!later.is_empty()).then(|| format!("{later:?}")))
            .or_else(|| controllers.offence())
    });
}

#[test]
fn differing_leftovers_are_replaced_after_the_lease() {
    let mut controllers = Controllers::new(1, FaultProfile::no_faults());
    let first = controllers.joins("a", &[shop_at("1")]);
    controllers.run(SECOND * 5);
    let second = controllers.joins("b", &[shop_at("2")]);
    controllers.run(SECOND * 300);
    assert_eq!(controllers.parties[second].started, [], "while the first lives");
    controllers.parties[first].awake = false;
    controllers.run(SECOND * 120);
    assert!(
        controllers.settled(second),
        "{:?}",
        controllers.parties[second].last.plans
    );
    let all: Vec<_> = controllers.engine.model.containers().collect();
    assert!(
        all.len() == 2 && all.iter().all(|container| container.is_made_by("b")),
        "{all:?}"
    );
    assert_eq!(controllers.offence(), None);
}

#[test]
fn one_of_two_simultaneous_controllers_owns() {
    each_seed("one_of_two_simultaneous_controllers_owns", 40, |seed| {
        let mut chance = Rng::new(seed);
        let mut controllers = Controllers::new(seed, FaultProfile::no_faults());
        controllers.joins("a", &[shop()]);
        controllers.run(chance.millis((0, 900)));
        controllers.joins("b", &[shop()]);
        controllers.run(SECOND * 60);
        let has: Vec<bool> = [0, 1]
            .map(|at| controllers.parties[at].has(&env("one"), controllers.now))
            .to_vec();
        let made = controllers.engine.model.containers().count();
        let holder = has.iter().position(|has| *has);
        let fine = has.iter().filter(|has| **has).count() == 1
            && made == 2
            && holder.is_some_and(|at| controllers.settled(at));
        (!fine).then(|| format!("{has:?}, {made} containers"))
    });
}

#[test]
fn two_controllers_never_share_an_environment() {
    each_seed("two_controllers_never_share_an_environment", 60, |seed| {
        let mut chance = Rng::new(seed);
        let mut controllers = Controllers::new(seed, FaultProfile::of(&mut chance));
        plant(&mut controllers);
        let mut live = [controllers.joins("a", &[shop_at("1")]), 0];
        controllers.run(SECOND * 3);
        live[1] = controllers.joins("b", &[shop_at("2")]);
        for _ in 0..12 {
            controllers.run(chance.millis((1_000, 150_000)));
            let index = usize::try_from(chance.below(2)).unwrap();
            let name = ["a", "b"][index];
            match chance.below(6) {
                // Killed, and started again on the same state directory some time later.
                0 => {
                    controllers.parties[live[index]].awake = false;
                    controllers.run(chance.millis((1_000, 200_000)));
                    live[index] = controllers.joins(name, &[shop_at(["1", "2"][index])]);
                }
                1 => {
                    controllers.parties[live[index]].awake = false;
                    controllers.run(chance.millis((1_000, 300_000)));
                    controllers.parties[live[index]].awake = true;
                }
                2 => {
                    let now = controllers.now;
                    let left = [AfterRestart::Running, AfterRestart::Ended, AfterRestart::Lost(30)];
                    let left = left[usize::try_from(chance.below(3)).unwrap()];
                    controllers
                        .engine
                        .restart_with(now, chance.millis((1_000, 200_000)), left);
                }
                3 | 4 => {
                    let now = controllers.now;
                    external_changes::meddle(
                        &mut controllers.engine,
                        now,
                        &["one"],
                        &mut chance,
                        is_of_either,
                    );
                }
                _ => {}
            }
        }
        let now = controllers.now;
        external_changes::give_names_back(&mut controllers.engine, now);
        controllers.engine.set_faults(FaultProfile::no_faults());
        controllers.run(SECOND * 400);
        let has = live
            .iter()
            .filter(|at| controllers.parties[**at].has(&env("one"), controllers.now))
            .count();
        controllers
            .offence()
            .or_else(|| (has != 1).then(|| format!("{has} controllers own it")))
    });
}

fn is_of_either(container: &argus_core::observed::Container) -> bool {
    container.is_made_by("a") || container.is_made_by("b")
}

/// Creates objects that must survive everything.
fn plant(controllers: &mut Controllers) {
    let now = controllers.now;
    let lives = LeaseSpec {
        controller: "elsewhere".to_owned(),
        run: "run-elsewhere".to_owned(),
        state_dir: "elsewhere".to_owned(),
        specs: None,
        host: "elsewhere".to_owned(),
        pid: 1,
        pid_namespace: String::new(),
        // This lease is not renewed here, and outlives every test.
        ttl: Duration::from_secs(1_000_000),
        since: None,
        claims: BTreeMap::new(),
    };
    controllers
        .engine
        .change(now, |model| model.write_lease(&lives, now));
    let four = |project: &'static str| {
        [
            (MANAGED, "true"),
            (PROJECT, project),
            (RUN_ID, "r"),
            (CREATED_AT, "2026-01-01T00:00:00Z"),
        ]
        .to_vec()
    };
    let with = |project: &'static str, more: &[(&'static str, &'static str)]| {
        [four(project), more.to_vec()].concat()
    };
    let all = [
        ("d0", vec![]),
        (
            "d1",
            with(
                "other",
                &[(ENVIRONMENT, "other"), (SERVICE, "a"), (CONTROLLER, "dead")],
            ),
        ),
        (
            "d2",
            with(
                "one-and-more",
                &[
                    (ENVIRONMENT, "one-and-more"),
                    (SERVICE, "a"),
                    (CONTROLLER, "dead"),
                ],
            ),
        ),
        (
            "d3",
            with(
                "one",
                &[
                    (ENVIRONMENT, "one-elsewhere"),
                    (SERVICE, "a"),
                    (CONTROLLER, "elsewhere"),
                ],
            ),
        ),
        (
            "d4",
            with(
                "one",
                &[(ENVIRONMENT, "one"), (SERVICE, "gone"), (CONTROLLER, "elsewhere")],
            ),
        ),
        ("d5", four("other")),
        ("d6", four("one")[..3].to_vec()),
    ];
    for (id, labels) in all {
        let labels: BTreeMap<String, String> = labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let state = [ContainerState::Running, ContainerState::Exited][id.len() % 2];
        let object = container(
            ContainerId::new(id).unwrap(),
            format!("decoy-{id}"),
            labels.clone(),
            state,
        );
        let network = Network {
            id: NetworkId::new(id).unwrap(),
            name: format!("decoy-{id}"),
            labels,
            created_at: START,
            is_broken: false,
        };
        controllers.engine.change(now, |model| {
            model.add_foreign(Object::Container(Arc::new(object)));
            model.add_foreign(Object::Network(Arc::new(network)));
        });
    }
}

/// Creates containers and networks that a dead controller, or the Node tool, left in a project.
fn leave(controllers: &mut Controllers, project: &'static str) -> usize {
    let now = controllers.now;
    let four = [
        (MANAGED, "true"),
        (PROJECT, project),
        (RUN_ID, "r"),
        (CREATED_AT, "2026-01-01T00:00:00Z"),
    ];
    let dead = [(ENVIRONMENT, "one-before"), (SERVICE, "a"), (CONTROLLER, "dead")];
    for (id, labels) in [("o1", [&four[..], &dead[..]].concat()), ("o2", four.to_vec())] {
        let labels: BTreeMap<String, String> = labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let object = container(
            ContainerId::new(id).unwrap(),
            format!("left-{id}"),
            labels.clone(),
            ContainerState::Running,
        );
        let network = Network {
            id: NetworkId::new(id).unwrap(),
            name: format!("left-{id}"),
            labels,
            created_at: now,
            is_broken: false,
        };
        controllers.engine.change(now, |model| {
            model.add_object(Object::Container(Arc::new(argus_core::observed::Container {
                created_at: now,
                ..object
            })));
            model.add_object(Object::Network(Arc::new(network)));
        });
    }
    4
}

fn left(controllers: &Controllers) -> usize {
    let model = &controllers.engine.model;
    let containers = model.containers().filter(|left| left.name.starts_with("left-"));
    containers.count()
        + model
            .networks()
            .filter(|left| left.name.starts_with("left-"))
            .count()
}

#[test]
fn orphans_of_dead_controllers_go_after_their_grace() {
    let mut controllers = Controllers::new(3, FaultProfile::no_faults());
    plant(&mut controllers);
    let all = leave(&mut controllers, "one");
    let at = controllers.joins("a", &[shop()]);
    controllers.run(SECOND * 29);
    assert_eq!(left(&controllers), all, "younger than the grace period");
    controllers.run(SECOND * 30);
    assert_eq!(left(&controllers), 0, "{:?}", controllers.parties[at].last.plans);
    assert_eq!(controllers.offence(), None);
    assert!(controllers.settled(at));
}

#[test]
fn shorter_orphan_age_removes_orphans_earlier() {
    let mut controllers = Controllers::new(3, FaultProfile::no_faults());
    let all = leave(&mut controllers, "one");
    let at = controllers.joins("a", &[shop()]);
    let state = PlannerState {
        delays: Delays {
            orphan_age: SECOND * 2,
            ..Delays::default()
        },
        ..PlannerState::default()
    };
    let party = &mut controllers.parties[at];
    party.planner = Planner::new(party.site.clone(), state);
    controllers.run(Duration::from_millis(1_900));
    assert_eq!(left(&controllers), all, "younger than the grace period");
    // The next list of the leases shows that the orphans have no living controller.
    controllers.run(SECOND * 14);
    assert_eq!(left(&controllers), 0, "{:?}", controllers.parties[at].last.plans);
}

#[test]
fn twenty_orphans_are_stopped_in_one_pass() {
    let mut controllers = Controllers::new(3, FaultProfile::no_faults());
    let now = controllers.now;
    let labels = [
        (MANAGED, "true"),
        (PROJECT, "one"),
        (ENVIRONMENT, "one-before"),
        (SERVICE, "a"),
        (CONTROLLER, "dead"),
        (RUN_ID, "r"),
    ];
    for number in 0..20 {
        let object = container(
            ContainerId::new(format!("o{number}")).unwrap(),
            format!("left-{number}"),
            labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ContainerState::Running,
        );
        let object = argus_core::observed::Container {
            created_at: now,
            ..object
        };
        controllers.engine.change(now, |model| {
            model.add_object(Object::Container(Arc::new(object)));
        });
    }
    let at = controllers.joins("a", &[shop()]);
    controllers.run(SECOND * 60);
    assert_eq!(left(&controllers), 0);
    let stops: Vec<_> = controllers.parties[at]
        .started
        .iter()
        .filter_map(|(started_at, step)| {
            let Action::StopContainer { grace, .. } = &step.action else {
                return None;
            };
            Some((*started_at, *grace))
        })
        .collect();
    // Eight stops run together, so containers that ignore the signal end within nine seconds.
    assert_eq!(stops, [(stops[0].0, SECOND * 3); 20]);
}

/// The next run of a project, under another name, gets the port of a dead one.
#[test]
fn dead_run_gives_its_port_to_the_next_environment() {
    each_seed("dead_run_gives_its_port_to_the_next_environment", 40, |seed| {
        let mut chance = Rng::new(seed);
        let mut controllers = Controllers::new(seed, FaultProfile::no_faults());
        let of = |name: &str| {
            let web = Service {
                ports: vec![published(80, Some(8080))],
                ..plain(name, "a")
            };
            Desired {
                project: "one".to_owned(),
                ..desired(name, [web])
            }
        };
        let first = controllers.joins("a", &[of("one")]);
        controllers.run(chance.millis((5_000, 30_000)));
        controllers.parties[first].awake = false;
        controllers.run(chance.millis((95_000, 150_000)));
        let second = controllers.joins("b", &[of("two")]);
        controllers.run(SECOND * 60);
        let plan = &controllers.parties[second].last.plans[&env("two")];
        let has_port = plan.ports.values().eq([&8080]);
        let names: Vec<_> = controllers
            .engine
            .model
            .containers()
            .map(|container| container.name.clone())
            .collect();
        let is_done = has_port && names == ["two-a"] && controllers.settled(second);
        controllers
            .offence()
            .or_else(|| (!is_done).then(|| format!("{names:?}: {plan:#?}")))
    });
}

#[test]
fn report_only_orphans_go_on_request() {
    let mut controllers = Controllers::new(3, FaultProfile::no_faults());
    plant(&mut controllers);
    let all = leave(&mut controllers, "one");
    let mut quiet = shop();
    quiet.clean_orphans = false;
    let at = controllers.joins("a", &[quiet]);
    controllers.run(SECOND * 120);
    assert_eq!(left(&controllers), all);
    let party = &mut controllers.parties[at];
    let output: usize = party
        .last
        .plans
        .values()
        .map(|plan| {
            plan.orphans
                .iter()
                .filter(|o| o.name.starts_with("left-"))
                .count()
        })
        .sum();
    assert_eq!(output, all);
    party
        .requests
        .orphan_removal_until
        .insert("one".to_owned(), controllers.now + SECOND * 60);
    controllers.run(SECOND * 30);
    assert_eq!(left(&controllers), 0);
    assert_eq!(controllers.offence(), None);
}

#[test]
fn orphans_of_other_projects_stay_until_named() {
    let mut controllers = Controllers::new(3, FaultProfile::no_faults());
    let all = leave(&mut controllers, "other");
    let at = controllers.joins("a", &[shop()]);
    controllers.run(SECOND * 120);
    assert_eq!(left(&controllers), all);
    controllers.parties[at]
        .requests
        .orphan_removal_until
        .insert("other".to_owned(), controllers.now + SECOND * 60);
    controllers.run(SECOND * 30);
    assert_eq!(left(&controllers), 0);
}

#[test]
fn pruned_lease_is_rewritten_and_its_objects_stay() {
    let mut controllers = Controllers::new(3, FaultProfile::no_faults());
    let other = Desired {
        project: "one".to_owned(),
        ..desired("two", [plain("two", "a")])
    };
    controllers.joins("a", &[shop()]);
    controllers.joins("b", &[other]);
    controllers.run(SECOND * 60);
    let made = controllers.engine.model.calls().len();
    let now = controllers.now;
    controllers
        .engine
        .change(now, argus_backend::sim::Model::person_prunes_leases);
    controllers.run(SECOND * 200);
    let calls = &controllers.engine.model.calls()[made..];
    assert!(
        calls.iter().all(|call| !matches!(
            call.action,
            Action::StopContainer { .. } | Action::RemoveContainer { .. }
        )),
        "{calls:?}"
    );
    assert_eq!(controllers.engine.leases(controllers.now).unwrap().len(), 2);
    assert_eq!(controllers.offence(), None);
}

#[test]
fn adopted_objects_go_with_their_environment() {
    let mut controllers = Controllers::new(3, FaultProfile::no_faults());
    let first = controllers.joins("a", &[shop()]);
    controllers.run(SECOND * 5);
    let second = controllers.joins("b", &[shop()]);
    controllers.run(SECOND * 20);
    controllers.parties[first].awake = false;
    controllers.run(SECOND * 120);
    controllers.parties[second].specs.clear();
    controllers.run(SECOND * 60);
    let model = &controllers.engine.model;
    assert_eq!((model.containers().count(), model.networks().count()), (0, 0));
}

#[test]
fn objects_of_a_new_controller_are_no_orphans() {
    each_seed("objects_of_a_new_controller_are_no_orphans", 40, |seed| {
        let mut chance = Rng::new(seed);
        let mut controllers = Controllers::new(seed, FaultProfile::no_faults());
        controllers.joins("a", &[shop()]);
        controllers.run(chance.millis((5_000, 30_000)));
        controllers.joins("b", &[desired("two", [plain("two", "a")])]);
        controllers.run(SECOND * 120);
        controllers.offence()
    });
}

/// Moves the spec between two controllers that freeze, die and start again. At the end, the holder of the spec has
/// the whole environment, and the other controller has nothing left to do.
#[test]
fn hand_overs_leave_nothing_behind() {
    each_seed("hand_overs_leave_nothing_behind", 50, |seed| {
        let mut chance = Rng::new(seed);
        let mut controllers = Controllers::new(seed, FaultProfile::no_faults());
        let mut live = [
            controllers.joins("a", &[shop_at("1")]),
            controllers.joins("b", &[]),
        ];
        for _ in 0..8 {
            controllers.run(chance.millis((1_000, 60_000)));
            let index = usize::try_from(chance.below(2)).unwrap();
            let other = live[1 - index];
            match chance.below(4) {
                0 | 1 => move_spec(&mut controllers, live[index], other, &mut chance),
                // The process ends without a release, and a new one continues with the same specs.
                2 => {
                    let specs = std::mem::take(&mut controllers.parties[live[index]].specs);
                    controllers.parties[live[index]].awake = false;
                    controllers.run(chance.millis((1_000, 150_000)));
                    let specs: Vec<Desired> = specs.values().map(|spec| spec.desired.clone()).collect();
                    live[index] = controllers.joins(["a", "b"][index], &specs);
                }
                _ => {
                    controllers.parties[live[index]].awake = false;
                    controllers.run(chance.millis((1_000, 150_000)));
                    controllers.parties[live[index]].awake = true;
                }
            }
        }
        controllers.run(SECOND * 200);
        let (containers, networks) = {
            let model = &controllers.engine.model;
            (model.containers().count(), model.networks().count())
        };
        let wanted = live.iter().any(|at| !controllers.parties[*at].specs.is_empty());
        let expected = if wanted { (2, 1) } else { (0, 0) };
        let complete = (containers, networks) == expected;
        // A removal waits for the controller that has adopted the containers, as long as that one wants them.
        let is_held = |wait: &Wait| matches!(wait.on, WaitReason::LeaseHeldByOther { .. });
        let is_done = |at: usize| {
            let party = &controllers.parties[at];
            let mut plans = party.last.plans.values();
            let is_left = plans.all(|plan| plan.steps.is_empty() && wanted && plan.waits.iter().all(is_held));
            controllers.settled(at) || party.waiting.is_empty() && is_left
        };
        let idle = live
            .iter()
            .filter(|at| controllers.parties[**at].specs.is_empty());
        let stuck: Vec<_> = idle.filter(|at| !is_done(**at)).collect();
        controllers.offence().or_else(|| {
            (!complete || !stuck.is_empty()).then(|| {
                let plans = live.map(|at| controllers.parties[at].last.plans.clone());
                format!("{containers} containers, {networks} networks, stuck {stuck:?}: {plans:#?}")
            })
        })
    });
}

/// Moves the spec from one controller to the other. Both have it for a while, or neither has.
fn move_spec(controllers: &mut Controllers, from: usize, to: usize, chance: &mut Rng) {
    let overlap = chance.below(2) == 0;
    let pause = chance.millis((0, 40_000));
    let specs = controllers.parties[from].specs.clone();
    if overlap {
        controllers.parties[to].specs.extend(specs);
        controllers.run(pause);
        controllers.parties[from].specs.clear();
    } else {
        controllers.parties[from].specs.clear();
        controllers.run(pause);
        controllers.parties[to].specs.extend(specs);
    }
}

#[test]
fn first_claim_removes_objects_of_later_claims() {
    let mut controllers = Controllers::new(3, FaultProfile::no_faults());
    let first = controllers.joins("a", &[shop()]);
    controllers.run(SECOND * 5);
    let second = controllers.joins("b", &[shop()]);
    controllers.run(SECOND * 20);
    controllers.parties[first].awake = false;
    controllers.run(SECOND * 120);
    controllers.parties[first].awake = true;
    controllers.run(SECOND * 30);
    // The second controller owns the environment, and all containers are of the first.
    let smaller = desired("one", [plain("one", "a")]);
    let now = controllers.now;
    controllers.parties[second].specs = [(env("one"), accept(smaller, now))].into();
    controllers.run(SECOND * 30);
    let names: Vec<_> = controllers
        .engine
        .model
        .containers()
        .map(|c| c.name.clone())
        .collect();
    assert_eq!(names, ["one-a"]);
    assert_eq!(controllers.offence(), None);
}

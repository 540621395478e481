//! Single scenarios: exact numbers of calls, ports, budgets, kills between any two calls.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_backend::sim::{ExitScript, FaultProfile, Rng};
use argus_core::desired::Condition;
use argus_core::ident::{Protocol, ProtocolPort};
use argus_core::lease::ControllerLeases;
use argus_core::observed::{ContainerState, Object, Store, WatchEvent};
use argus_core::probe::{HealthStates, ProbeStatus, ProbedHealth};
use argus_core::reconcile::forecast::apply_action;
use argus_core::reconcile::{Inputs, Planner};
use argus_core::state::PlannerState;
use argus_core::state::restart::used_restarts;
use argus_core::user_requests::UserRequests;
use argus_core::wait::WaitReason;

use crate::fixture::{START, SimFixture};
use crate::specs::{any, depends, desired, env, plain, probe, published, service_name, site};
use crate::{each_seed, foreign_objects};

const MINUTE: Duration = Duration::from_secs(60);

fn tcp(number: u16) -> ProtocolPort {
    ProtocolPort {
        number,
        protocol: Protocol::Tcp,
    }
}

/// Changes without pulls and builds, which may be repeated.
fn light(changes: &[&'static str]) -> Vec<&'static str> {
    let mut light: Vec<_> = changes
        .iter()
        .copied()
        .filter(|verb| !verb.ends_with("-image"))
        .collect();
    light.sort_unstable();
    light
}

#[test]
fn no_action_repeats_before_its_effect_is_observed() {
    for lag in 0..=1_000 {
        let faults = FaultProfile {
            lag: (lag, lag),
            call: (1, 5),
            list: (1, 5),
            ..FaultProfile::default()
        };
        let mut fixture = SimFixture::new(lag, faults);
        fixture.wants(desired("one", [plain("one", "a"), plain("one", "b")]));
        assert!(fixture.run_to_rest(MINUTE), "at {lag} ms: {:?}", fixture.stuck());
        let later = fixture.now + MINUTE;
        fixture.run_until(later);
        assert_eq!(fixture.started.len(), 5, "at {lag} ms: {:#?}", fixture.started);
    }
}

#[test]
fn environments_progress_at_the_same_time() {
    let call = Duration::from_secs(5);
    let took = |names: &[&str]| {
        let faults = FaultProfile {
            call: (5_000, 5_000),
            ..FaultProfile::no_faults()
        };
        let mut fixture = SimFixture::new(1, faults);
        for name in names {
            fixture.wants(desired(name, [plain(name, "a")]));
        }
        assert!(fixture.run_to_rest(10 * MINUTE), "{:?}", fixture.stuck());
        fixture.now.since(START)
    };
    let (alone, together) = (took(&["one"]), took(&["one", "two", "three"]));
    assert!(
        alone >= 3 * call && together < alone + call,
        "{alone:?}, {together:?}"
    );
}

#[test]
fn plan_settles_and_then_is_empty() {
    each_seed("plan_settles_and_then_is_empty", 300, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = SimFixture::new(seed, FaultProfile::of(&mut chance));
        foreign_objects::plant(&mut fixture);
        for name in ["one", "two"] {
            fixture.wants(any(name, &mut chance));
        }
        let cut = START + chance.millis((0, 20_000));
        fixture.run_until(cut);
        if chance.percent(50) {
            fixture.wants(any("one", &mut chance));
        }
        if chance.percent(30) {
            fixture.specs.remove(&env("two"));
        }
        let rounds = rounds_to_rest(&fixture);
        (rounds > 100).then(|| format!("{rounds} rounds"))
    });
}

/// Plans and simulates from the real objects until nothing is left to do. Returns the number of rounds.
fn rounds_to_rest(fixture: &SimFixture) -> usize {
    let mut planner = Planner::new(site(), PlannerState::default());
    let (mut store, mut health, mut now) = (Store::default(), HealthStates::new(), fixture.now);
    store.apply(WatchEvent::Connected(now));
    store.apply(WatchEvent::Init);
    fixture
        .engine
        .model
        .list()
        .into_iter()
        .for_each(|seen| store.apply(seen));
    store.apply(WatchEvent::InitDone);
    for round in 0..1_000 {
        let turn = planner.reconcile(&Inputs {
            leases: &ControllerLeases::default(),
            requests: &UserRequests::default(),
            specs: &fixture.specs,
            preflight: None,
            scanned: true,
            store: &store,
            health: &health,
            now,
        });
        for (number, step) in turn.steps.iter().enumerate() {
            let done = apply_action(&mut store, &step.action, now, round * 1_000 + number);
            planner.finished(step, &Ok(done), &store, now);
        }
        let ran = finish_runs(fixture, &mut store, &mut health);
        now = match turn.wake_at {
            Some(at) if turn.steps.is_empty() && !ran => at.max(now + Duration::from_millis(1)),
            None if turn.steps.is_empty() && !ran => return round,
            _ => now + Duration::from_millis(1),
        };
    }
    usize::MAX
}

fn finish_runs(fixture: &SimFixture, store: &mut Store, health: &mut HealthStates) -> bool {
    let mut ran = false;
    let running: Vec<_> = store
        .containers()
        .filter(|c| c.state == ContainerState::Running)
        .cloned()
        .collect();
    for mut container in running {
        let Some(owner) = container.owner() else { continue };
        let Some(accepted) = fixture.specs.get(&owner.environment) else {
            continue;
        };
        let Some(service) = owner
            .service
            .and_then(|name| accepted.desired.services.get(&name))
        else {
            continue;
        };
        let started_at = container.inspect.as_ref().and_then(|facts| facts.started_at);
        if service.one_shot {
            std::sync::Arc::make_mut(&mut container).state = ContainerState::Exited;
            store.apply(WatchEvent::Apply(Object::Container(container)));
            ran = true;
        } else if health
            .get(&container.id)
            .is_none_or(|seen| seen.started_at != started_at)
        {
            let seen = ProbedHealth {
                status: ProbeStatus::Healthy,
                since: START,
                started_at,
                ..ProbedHealth::default()
            };
            health.insert(container.id.clone(), seen);
            ran = true;
        }
    }
    ran
}

#[test]
fn every_action_can_be_repeated() {
    each_seed("every_action_can_be_repeated", 300, |seed| {
        let run = |twice: bool| {
            let mut chance = Rng::new(seed);
            let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
            fixture.twice = twice;
            fixture.wants(any("one", &mut chance));
            let settled = fixture.run_to_rest(10 * MINUTE);
            (settled, light(&fixture.changes()), fixture.shortfalls())
        };
        let (once, twice) = (run(false), run(true));
        (!once.0 || once != twice).then(|| format!("once {once:#?}\ntwice {twice:#?}"))
    });
}

#[test]
fn controller_killed_between_two_calls_ends_the_same() {
    each_seed("controller_killed_between_two_calls_ends_the_same", 40, |seed| {
        let begin = || {
            let mut chance = Rng::new(seed);
            let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
            fixture.wants(any("one", &mut chance));
            (fixture, chance)
        };
        let (mut calm, _) = begin();
        if !calm.run_to_rest(10 * MINUTE) {
            return Some(format!(
                "without a kill: {:?} {:?}",
                calm.shortfalls(),
                calm.stuck()
            ));
        }
        for kill in 0..=calm.started.len() {
            let (mut fixture, mut chance) = begin();
            fixture.run_until_started(kill);
            let moment = fixture.now + chance.millis((0, 60));
            fixture.run_until(moment);
            let keeps_state = chance.percent(50);
            fixture.kill_controller(chance.millis((0, 3_000)), keeps_state);
            let settled = fixture.run_to_rest(10 * MINUTE);
            let (once, killed) = (light(&calm.changes()), light(&fixture.changes()));
            if !settled || once != killed {
                return Some(format!(
                    "killed after {kill} calls, state kept: {keeps_state}\nstuck {:#?}\n{:#?}\nwithout {once:?}\nwith {killed:?}",
                    fixture.stuck(),
                    fixture.shortfalls()
                ));
            }
        }
        None
    });
}

#[test]
fn conflicting_and_refused_ports_end_distinct() {
    each_seed("conflicting_and_refused_ports_end_distinct", 100, |seed| {
        let mut chance = Rng::new(seed);
        let faults = FaultProfile {
            calls: 0,
            ..FaultProfile::of(&mut chance)
        };
        let mut fixture = SimFixture::new(seed, faults);
        let blind = chance.percent(50);
        fixture.engine.change(START, |model| {
            model.occupy_port(tcp(8_080));
            (9_000..9_009).for_each(|number| model.occupy_port(tcp(number)));
            if blind {
                model.hide_ports();
            }
        });
        let publishing = |env: &str, name: &str| {
            let mut service = plain(env, name);
            service.ports = vec![published(80, Some(8_080)), published(81, None)];
            service
        };
        for name in ["one", "two"] {
            fixture.wants(desired(name, [publishing(name, "a"), publishing(name, "b")]));
        }
        let settled = fixture.run_to_rest(10 * MINUTE);
        let bound = fixture.bound();
        let different: BTreeSet<_> = bound.iter().collect();
        let good = settled && bound.len() == 8 && different.len() == 8;
        (!good).then(|| format!("{bound:?} {:?}", fixture.stuck()))
    });
}

#[test]
fn host_port_that_a_dependency_takes_is_released() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    let (mut first, mut second) = (plain("one", "first"), plain("one", "second"));
    second.ports = vec![published(80, Some(8_080))];
    fixture.wants(desired("one", [first.clone(), second.clone()]));
    assert!(fixture.run_to_rest(MINUTE));
    first.ports = vec![published(80, Some(8_080))];
    first.probe = Some(probe());
    second.ports.clear();
    second.depends_on = vec![depends("first", Condition::Healthy)];
    fixture.wants(desired("one", [first, second]));
    assert!(fixture.run_to_rest(MINUTE), "{:#?}", fixture.stuck());
    assert_eq!(fixture.bound(), [tcp(8_080)]);
}

#[test]
fn engine_restart_failures_use_no_budget() {
    each_seed("engine_restart_failures_use_no_budget", 100, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
        fixture.wants(desired("one", [plain("one", "a"), plain("one", "b")]));
        let mut settled = fixture.run_to_rest(MINUTE);
        for _ in 0..6 {
            let moment = fixture.now + chance.millis((0, 20_000));
            fixture.run_until(moment);
            let now = fixture.now;
            fixture.engine.restart(now, chance.millis((500, 12_000)));
            settled &= fixture.run_to_rest(MINUTE);
        }
        let kept = &fixture.planner.state().environments[&env("one")];
        let policy = desired("one", []).restart;
        let failures = &kept.services[&service_name("a")].failures;
        let used = used_restarts(&policy, failures, fixture.store.outages());
        (!settled || used != Some(0)).then(|| format!("{used:?} restarts used, {:?}", fixture.stuck()))
    });
}

#[test]
fn crash_loop_makes_at_most_max_restarts() {
    each_seed("crash_loop_makes_at_most_max_restarts", 100, |seed| {
        let mut chance = Rng::new(seed);
        // Late events of earlier runs look like failures without a reaction.
        let mut faults = FaultProfile {
            calls: 0,
            repeated: 0,
            reordered: 0,
            // A list without details keeps the facts of an earlier run, which would end the wait for a list too early.
            without_inspect: 0,
            ..FaultProfile::of(&mut chance)
        };
        // A watch that lags longer than the wait for an effect cannot distinguish a new run from an old one.
        faults.lag.1 = faults.lag.1.min(2_000);
        faults.list.1 = faults.list.1.min(2_000);
        let mut fixture = SimFixture::new(seed, faults);
        let life = ExitScript {
            after: chance.millis((0, 5_000)),
            code: 1,
            times: u32::MAX,
        };
        fixture
            .engine
            .change(START, |model| model.set_script("one/a", life));
        fixture.wants(desired("one", [plain("one", "a")]));
        let killed = chance.percent(50);
        if killed {
            let moment = START + chance.millis((0, 30_000));
            fixture.run_until(moment);
            fixture.kill_controller(chance.millis((0, 2_000)), true);
        }
        fixture.run_until(START + 6 * MINUTE);
        let runs = fixture.engine.model.start_count("one/a");
        // A start in flight at the kill may begin a run whose failure is not observed.
        let most = if killed { 5 } else { 4 };
        (runs > most || !fixture.gave_up()).then(|| {
            let starts = fixture
                .started
                .iter()
                .map(|(at, step)| format!("{} {}: {}", at.0 - START.0, step.action.verb(), step.cause));
            let kept = &fixture.planner.state().environments[&env("one")].services[&service_name("a")];
            format!(
                "{runs} runs, killed: {killed}\n{:#?}\n{:#?}",
                starts.collect::<Vec<_>>(),
                kept.failures
            )
        })
    });
}

#[test]
fn nothing_is_collected_before_the_scan_is_complete() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    fixture.wants(desired("one", [plain("one", "a")]));
    assert!(fixture.run_to_rest(MINUTE));
    let before = fixture.engine.model.calls().len();
    fixture.kill_controller(Duration::from_secs(1), true);
    let specs = std::mem::take(&mut fixture.specs);
    fixture.scanned = false;
    let later = fixture.now + 10 * MINUTE;
    fixture.run_until(later);
    fixture.specs = specs;
    fixture.scanned = true;
    assert!(fixture.run_to_rest(MINUTE));
    assert_eq!(
        fixture.engine.model.calls().len(),
        before,
        "a restarted controller adopts and does nothing"
    );
}

#[test]
fn environment_without_spec_is_removed_alone() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    foreign_objects::plant(&mut fixture);
    fixture.wants(desired("one", [plain("one", "a")]));
    fixture.wants(desired("two", [plain("two", "a")]));
    assert!(fixture.run_to_rest(MINUTE));
    fixture.specs.remove(&env("one"));
    assert!(fixture.run_to_rest(MINUTE), "{:#?}", fixture.shortfalls());
    assert_eq!(fixture.engine.model.start_count("two/a"), 1);
    assert_eq!(fixture.engine.model.foreign_actions(), [""; 0]);
}

#[test]
fn name_wait_reports_the_holder() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    let theirs = foreign_objects::container(
        argus_core::ident::ContainerId::new("theirs").unwrap(),
        "one-a".to_owned(),
        std::collections::BTreeMap::new(),
        ContainerState::Running,
    );
    fixture.engine.change(START, |model| {
        model.add_foreign(Object::Container(std::sync::Arc::new(theirs)));
    });
    fixture.wants(desired("one", [plain("one", "a")]));
    fixture.run_until(START + MINUTE);
    let plan = &fixture.last.plans[&env("one")];
    assert!(
        plan.waits
            .iter()
            .any(|wait| matches!(&wait.on, WaitReason::NameTaken { name, .. } if name == "one-a")),
        "{:?}",
        plan.waits
    );
    assert_eq!(fixture.engine.model.foreign_actions(), [""; 0]);
    // The holder is removed, and no retry is necessary.
    let now = fixture.now;
    let id = argus_core::ident::ContainerId::new("theirs").unwrap();
    fixture.engine.change(now, |model| model.person_removes(&id));
    assert!(fixture.run_to_rest(MINUTE));
}

#[test]
fn objects_of_another_controller_are_never_changed() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    let labels = [
        ("argusai.managed", "true"),
        ("argusai.environment", "one"),
        ("argusai.service", "a"),
        ("argusai.spec-hash", "abc"),
        ("argusai.controller", "other"),
    ];
    let labels = labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let id = argus_core::ident::ContainerId::new("theirs").unwrap();
    let theirs = foreign_objects::container(id, "theirs".to_owned(), labels, ContainerState::Running);
    fixture.engine.change(START, |model| {
        model.add_foreign(Object::Container(std::sync::Arc::new(theirs)));
    });
    fixture.wants(desired("one", [plain("one", "a")]));
    fixture.run_until(START + MINUTE);
    assert_eq!(fixture.engine.model.foreign_actions(), [""; 0]);
}

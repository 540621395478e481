//! Single roads: exact numbers of calls, ports, budgets, kills between any two calls.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_backend::sim::{ContainerScript, FaultProfile, Rng};
use argus_core::desired::Condition;
use argus_core::ident::{HostPort, Protocol};
use argus_core::lease::Leases;
use argus_core::observed::{ContainerState, Object, Store, WatchEvent};
use argus_core::plan::WaitingOn;
use argus_core::plan::forecast::pretend;
use argus_core::probe::{Health, HealthStates, ProbeStatus};
use argus_core::reconcile::{Inputs, Planner};
use argus_core::state::PlannerState;
use argus_core::user_requests::UserRequests;

use crate::fixture::{START, Stage};
use crate::specs::{any, depends, desired, env, plain, probe, published, service_name, site};
use crate::{each_seed, foreign_objects};

const MINUTE: Duration = Duration::from_secs(60);

fn tcp(number: u16) -> HostPort {
    HostPort {
        number,
        protocol: Protocol::Tcp,
    }
}

/// Everything but pulls and builds, which may be asked for again.
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
fn no_act_is_repeated_while_its_effect_is_not_seen() {
    for lag in 0..=1_000 {
        let faults = FaultProfile {
            lag: (lag, lag),
            call: (1, 5),
            list: (1, 5),
            ..FaultProfile::default()
        };
        let mut stage = Stage::new(lag, faults);
        stage.wants(desired("one", [plain("one", "a"), plain("one", "b")]));
        assert!(stage.run_to_rest(MINUTE), "at {lag} ms: {:?}", stage.stuck());
        let later = stage.now + MINUTE;
        stage.run_until(later);
        assert_eq!(stage.begun.len(), 5, "at {lag} ms: {:#?}", stage.begun);
    }
}

#[test]
fn a_plan_comes_to_rest_and_then_does_nothing() {
    each_seed("a_plan_comes_to_rest", 300, |seed| {
        let mut chance = Rng::new(seed);
        let mut stage = Stage::new(seed, FaultProfile::of(&mut chance));
        foreign_objects::plant(&mut stage);
        for name in ["one", "two"] {
            stage.wants(any(name, &mut chance));
        }
        let cut = START + chance.millis((0, 20_000));
        stage.run_until(cut);
        if chance.percent(50) {
            stage.wants(any("one", &mut chance));
        }
        if chance.percent(30) {
            stage.specs.remove(&env("two"));
        }
        let rounds = rounds_to_rest(&stage);
        (rounds > 100).then(|| format!("{rounds} rounds"))
    });
}

/// Plans and pretends, from what is really there, until nothing is left to do; how many rounds that takes.
fn rounds_to_rest(stage: &Stage) -> usize {
    let mut planner = Planner::new(site(), PlannerState::default());
    let (mut store, mut health, mut now) = (Store::default(), HealthStates::new(), stage.now);
    store.apply(WatchEvent::Connected(now));
    store.apply(WatchEvent::Init);
    stage
        .engine
        .model
        .list()
        .into_iter()
        .for_each(|seen| store.apply(seen));
    store.apply(WatchEvent::InitDone);
    for round in 0..1_000 {
        let turn = planner.reconcile(&Inputs {
            leases: &Leases::default(),
            requests: &UserRequests::default(),
            specs: &stage.specs,
            preflight: None,
            scanned: true,
            store: &store,
            health: &health,
            now,
        });
        for (number, step) in turn.actions.iter().enumerate() {
            let done = pretend(&mut store, &step.action, now, round * 1_000 + number);
            planner.finished(step, &Ok(done), &store, now);
        }
        let ran = finish_runs(stage, &mut store, &mut health);
        now = match turn.wake_at {
            Some(at) if turn.actions.is_empty() && !ran => at.max(now + Duration::from_millis(1)),
            None if turn.actions.is_empty() && !ran => return round,
            _ => now + Duration::from_millis(1),
        };
    }
    usize::MAX
}

fn finish_runs(stage: &Stage, store: &mut Store, health: &mut HealthStates) -> bool {
    let mut ran = false;
    let running: Vec<_> = store
        .containers()
        .filter(|c| c.state == ContainerState::Running)
        .cloned()
        .collect();
    for mut container in running {
        let Some(owner) = container.owner() else { continue };
        let Some(accepted) = stage.specs.get(&owner.environment) else {
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
            let seen = Health {
                status: ProbeStatus::Healthy,
                since: START,
                started_at,
                ..Health::default()
            };
            health.insert(container.id.clone(), seen);
            ran = true;
        }
    }
    ran
}

#[test]
fn every_act_can_be_repeated() {
    each_seed("every_act_can_be_repeated", 300, |seed| {
        let run = |twice: bool| {
            let mut chance = Rng::new(seed);
            let mut stage = Stage::new(seed, FaultProfile::calm());
            stage.twice = twice;
            stage.wants(any("one", &mut chance));
            let settled = stage.run_to_rest(10 * MINUTE);
            (settled, light(&stage.changes()), stage.shortfalls())
        };
        let (once, twice) = (run(false), run(true));
        (!once.0 || once != twice).then(|| format!("once {once:#?}\ntwice {twice:#?}"))
    });
}

#[test]
fn a_controller_killed_between_any_two_calls_reaches_the_same_end_without_an_extra_restart() {
    each_seed("a_controller_killed", 40, |seed| {
        let begin = || {
            let mut chance = Rng::new(seed);
            let mut stage = Stage::new(seed, FaultProfile::calm());
            stage.wants(any("one", &mut chance));
            (stage, chance)
        };
        let (mut calm, _) = begin();
        if !calm.run_to_rest(10 * MINUTE) {
            return Some(format!(
                "without a kill: {:?} {:?}",
                calm.shortfalls(),
                calm.stuck()
            ));
        }
        for kill in 0..=calm.begun.len() {
            let (mut stage, mut chance) = begin();
            stage.run_until_begun(kill);
            let moment = stage.now + chance.millis((0, 60));
            stage.run_until(moment);
            let keeps_state = chance.percent(50);
            stage.kill_controller(chance.millis((0, 3_000)), keeps_state);
            let settled = stage.run_to_rest(10 * MINUTE);
            let (once, killed) = (light(&calm.changes()), light(&stage.changes()));
            if !settled || once != killed {
                return Some(format!(
                    "killed after {kill} calls, state kept: {keeps_state}\nstuck {:#?}\n{:#?}\nwithout {once:?}\nwith {killed:?}",
                    stage.stuck(),
                    stage.shortfalls()
                ));
            }
        }
        None
    });
}

#[test]
fn ports_that_two_services_want_and_ten_that_are_refused_end_in_different_ones() {
    each_seed("ports_that_two", 100, |seed| {
        let mut chance = Rng::new(seed);
        let faults = FaultProfile {
            calls: 0,
            ..FaultProfile::of(&mut chance)
        };
        let mut stage = Stage::new(seed, faults);
        let blind = chance.percent(50);
        stage.engine.change(START, |model| {
            model.take_port(tcp(8_080));
            (9_000..9_009).for_each(|number| model.take_port(tcp(number)));
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
            stage.wants(desired(name, [publishing(name, "a"), publishing(name, "b")]));
        }
        let settled = stage.run_to_rest(10 * MINUTE);
        let bound = stage.bound();
        let different: BTreeSet<_> = bound.iter().collect();
        let good = settled && bound.len() == 8 && different.len() == 8;
        (!good).then(|| format!("{bound:?} {:?}", stage.stuck()))
    });
}

#[test]
fn a_host_port_that_moves_to_a_dependency_is_let_go() {
    let mut stage = Stage::new(1, FaultProfile::calm());
    let (mut first, mut second) = (plain("one", "first"), plain("one", "second"));
    second.ports = vec![published(80, Some(8_080))];
    stage.wants(desired("one", [first.clone(), second.clone()]));
    assert!(stage.run_to_rest(MINUTE));
    first.ports = vec![published(80, Some(8_080))];
    first.probe = Some(probe());
    second.ports.clear();
    second.depends_on = vec![depends("first", Condition::Healthy)];
    stage.wants(desired("one", [first, second]));
    assert!(stage.run_to_rest(MINUTE), "{:#?}", stage.stuck());
    assert_eq!(stage.bound(), [tcp(8_080)]);
}

#[test]
fn deaths_by_an_engine_restart_burn_no_budget() {
    each_seed("deaths_by_an_engine_restart", 100, |seed| {
        let mut chance = Rng::new(seed);
        let mut stage = Stage::new(seed, FaultProfile::calm());
        stage.wants(desired("one", [plain("one", "a"), plain("one", "b")]));
        let mut settled = stage.run_to_rest(MINUTE);
        for _ in 0..6 {
            let moment = stage.now + chance.millis((0, 20_000));
            stage.run_until(moment);
            let now = stage.now;
            stage.engine.restart(now, chance.millis((500, 12_000)));
            settled &= stage.run_to_rest(MINUTE);
        }
        let kept = &stage.planner.state().environments[&env("one")];
        let restarts = kept.services[&service_name("a")].restarts;
        (!settled || restarts > 0).then(|| format!("{restarts} restarts, {:?}", stage.stuck()))
    });
}

#[test]
fn a_crash_loop_makes_at_most_max_restarts() {
    each_seed("a_crash_loop", 100, |seed| {
        let mut chance = Rng::new(seed);
        // Sights of earlier runs that come late look like deaths after which nothing was done.
        let mut faults = FaultProfile {
            calls: 0,
            repeated: 0,
            reordered: 0,
            // A thin list keeps the facts of an earlier run, which then ends the wait for a list too early.
            thin: 0,
            ..FaultProfile::of(&mut chance)
        };
        // Eyes that are further behind than an effect is waited for cannot tell a new run from an old one.
        faults.lag.1 = faults.lag.1.min(2_000);
        faults.list.1 = faults.list.1.min(2_000);
        let mut stage = Stage::new(seed, faults);
        let life = ContainerScript {
            after: chance.millis((0, 5_000)),
            code: 1,
            times: u32::MAX,
        };
        stage.engine.change(START, |model| model.live("one/a", life));
        stage.wants(desired("one", [plain("one", "a")]));
        let killed = chance.percent(50);
        if killed {
            let moment = START + chance.millis((0, 30_000));
            stage.run_until(moment);
            stage.kill_controller(chance.millis((0, 2_000)), true);
        }
        stage.run_until(START + 6 * MINUTE);
        let runs = stage.engine.model.runs("one/a");
        // A start that was in flight when the controller was killed may begin a run whose death nobody sees.
        let most = if killed { 5 } else { 4 };
        (runs > most || !stage.gave_up()).then(|| {
            let starts = stage
                .begun
                .iter()
                .map(|(at, step)| format!("{} {}: {}", at.0 - START.0, step.action.verb(), step.cause));
            let kept = &stage.planner.state().environments[&env("one")].services[&service_name("a")];
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
    let mut stage = Stage::new(1, FaultProfile::calm());
    stage.wants(desired("one", [plain("one", "a")]));
    assert!(stage.run_to_rest(MINUTE));
    let before = stage.engine.model.calls().len();
    stage.kill_controller(Duration::from_secs(1), true);
    let specs = std::mem::take(&mut stage.specs);
    stage.scanned = false;
    let later = stage.now + 10 * MINUTE;
    stage.run_until(later);
    stage.specs = specs;
    stage.scanned = true;
    assert!(stage.run_to_rest(MINUTE));
    assert_eq!(
        stage.engine.model.calls().len(),
        before,
        "a restarted controller adopts and does nothing"
    );
}

#[test]
fn an_environment_without_its_spec_is_removed_and_others_are_not() {
    let mut stage = Stage::new(1, FaultProfile::calm());
    foreign_objects::plant(&mut stage);
    stage.wants(desired("one", [plain("one", "a")]));
    stage.wants(desired("two", [plain("two", "a")]));
    assert!(stage.run_to_rest(MINUTE));
    stage.specs.remove(&env("one"));
    assert!(stage.run_to_rest(MINUTE), "{:#?}", stage.shortfalls());
    assert_eq!(stage.engine.model.runs("two/a"), 1);
    assert_eq!(stage.engine.model.trespasses(), [""; 0]);
}

#[test]
fn what_is_waited_for_is_told_with_who_holds_the_name() {
    let mut stage = Stage::new(1, FaultProfile::calm());
    let theirs = foreign_objects::container(
        argus_core::ident::ContainerId::new("theirs").unwrap(),
        "one-a".to_owned(),
        std::collections::BTreeMap::new(),
        ContainerState::Running,
    );
    stage.engine.change(START, |model| {
        model.plant(Object::Container(std::sync::Arc::new(theirs)));
    });
    stage.wants(desired("one", [plain("one", "a")]));
    stage.run_until(START + MINUTE);
    let plan = &stage.last.plans[&env("one")];
    assert!(
        plan.waits
            .iter()
            .any(|wait| matches!(&wait.on, WaitingOn::Name { name, .. } if name == "one-a")),
        "{:?}",
        plan.waits
    );
    assert_eq!(stage.engine.model.trespasses(), [""; 0]);
    // It goes, and nobody has to ask for a new try.
    let now = stage.now;
    let id = argus_core::ident::ContainerId::new("theirs").unwrap();
    stage.engine.change(now, |model| model.person_removes(&id));
    assert!(stage.run_to_rest(MINUTE));
}

#[test]
fn what_another_controller_made_in_an_environment_of_the_same_name_is_left_alone() {
    let mut stage = Stage::new(1, FaultProfile::calm());
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
    stage.engine.change(START, |model| {
        model.plant(Object::Container(std::sync::Arc::new(theirs)));
    });
    stage.wants(desired("one", [plain("one", "a")]));
    stage.run_until(START + MINUTE);
    assert_eq!(stage.engine.model.trespasses(), [""; 0]);
}

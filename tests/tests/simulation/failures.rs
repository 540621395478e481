//! Failing services: no failure script causes more restarts than allowed, or leaves a service without a reason.

use std::time::Duration;

use argus_backend::sim::{ExitScript, FaultProfile, Rng};
use argus_core::action::{Action, Cause, Step, Subject};
use argus_core::desired::{Condition, Criticality, Mount, Service};
use argus_core::observed::ContainerState;
use argus_core::preflight::{DiskFact, Fact, HostFacts, PreflightSnapshot};
use argus_core::retry::RetrySettings;
use argus_core::time::Timestamp;
use argus_core::user_requests::{Hold, TestLease};
use argus_core::wait::WaitReason;

use crate::each_seed;
use crate::fixture::{START, SimFixture};
use crate::restart_times::with_retries;
use crate::specs::{depends, desired, env, plain, probe, resource, service_name};

const MINUTE: Duration = Duration::from_secs(60);

fn waits(fixture: &SimFixture, is: impl Fn(&WaitReason) -> bool) -> bool {
    let mut waits = fixture.last.plans.values().flat_map(|plan| &plan.waits);
    waits.any(|wait| is(&wait.on))
}

/// Times at which containers were restarted after a failure.
fn restarts(fixture: &SimFixture) -> Vec<Timestamp> {
    let started = fixture.started.iter().filter(|(_, step)| {
        let is_start = matches!(step.action, Action::StartContainer { .. });
        is_start && matches!(step.cause, Cause::Restart { .. })
    });
    started.map(|(at, _)| *at).collect()
}

fn stops(fixture: &SimFixture, cause: impl Fn(&Cause) -> bool) -> usize {
    let stops = |step: &&(Timestamp, Step)| {
        matches!(step.1.action, Action::StopContainer { .. }) && cause(&step.1.cause)
    };
    fixture.started.iter().filter(stops).count()
}

#[test]
fn same_failure_uses_its_budgets_and_then_halts() {
    each_seed("same_failure_uses_its_budgets", 100, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
        let life = ExitScript {
            after: chance.millis((0, 5_000)),
            code: 1,
            times: u32::MAX,
        };
        fixture.engine.change(START, |model| {
            model.enable_output();
            model.set_script("one/a", life);
        });
        fixture.wants(desired("one", [plain("one", "a")]));
        let killed = chance.percent(50);
        if killed {
            let moment = START + chance.millis((0, 20_000));
            fixture.run_until(moment);
            fixture.kill_controller(chance.millis((0, 2_000)), true);
        }
        for budget in 1..=3 {
            fixture.run_until(START + budget * 3 * MINUTE);
            let halted = waits(&fixture, |on| matches!(on, WaitReason::Halted { budgets: 3 }));
            let ended = if budget == 3 { halted } else { fixture.gave_up() };
            let runs = fixture.engine.model.start_count("one/a");
            // A start in flight at the kill may begin a run whose failure is not observed.
            let expected = 4 * budget;
            if !ended || runs < expected || runs > expected + u32::from(killed) {
                return Some(format!("budget {budget}, {runs} runs: {:?}", fixture.stuck()));
            }
            if budget < 3 {
                fixture.planner.retry(&env("one"), None);
            }
        }
        let runs = fixture.engine.model.start_count("one/a");
        fixture.run_until(START + 20 * MINUTE);
        let waited = fixture.engine.model.start_count("one/a") == runs;
        let mut edited = plain("one", "a");
        edited.env_vars.insert("VERSION".to_owned(), "2".to_owned());
        fixture.wants(desired("one", [edited]));
        fixture.run_until(START + 21 * MINUTE);
        let is_again = fixture.engine.model.start_count("one/a") > runs;
        (!waited || !is_again).then(|| format!("waited {waited}, started by the edit {is_again}"))
    });
}

#[test]
fn dependents_of_a_failing_dependency_keep_their_budget() {
    each_seed("dependents_of_a_failing_dependency", 100, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
        let runs = u32::from(chance.percent(50)) + 1;
        fixture.engine.change(START, |model| {
            let life = ExitScript {
                after: chance.millis((0, 5_000)),
                code: 1,
                times: runs,
            };
            model.set_script("one/app", life);
        });
        let db = Service {
            probe: Some(probe()),
            ..plain("one", "db")
        };
        let app = Service {
            depends_on: vec![depends("db", Condition::Healthy)],
            ..plain("one", "app")
        };
        fixture.wants(desired("one", [db, app]));
        fixture.failing.insert("one/db".to_owned());
        fixture.run_until(START + 5 * MINUTE);
        let started = fixture.engine.model.start_count("one/app");
        if started != 1 || fixture.gave_up() {
            return Some(format!(
                "{started} runs while the dependency fails: {:?}",
                fixture.stuck()
            ));
        }
        fixture.failing.clear();
        fixture.run_until(START + 10 * MINUTE);
        let started = fixture.engine.model.start_count("one/app");
        (started != runs + 1 || fixture.gave_up())
            .then(|| format!("{started} runs after its recovery: {:?}", fixture.stuck()))
    });
}

#[test]
fn critical_service_restarts_before_older_failures() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    let names: Vec<String> = (10..35).map(|number| format!("s{number}")).collect();
    let life = |seconds| ExitScript {
        after: Duration::from_secs(seconds),
        code: 1,
        times: 2,
    };
    fixture.engine.change(START, |model| {
        for name in &names {
            model.set_script(&format!("one/{name}"), life(20));
        }
        model.set_script("two/db", life(25));
    });
    fixture.wants(desired(
        "one",
        names.iter().map(|name| Service {
            criticality: Criticality::Important,
            ..plain("one", name)
        }),
    ));
    fixture.wants(desired("two", [plain("two", "db")]));
    fixture.run_until(START + 3 * MINUTE);
    let steps = fixture.started.iter().map(|(_, step)| step);
    let mut restarts = steps.filter(|step| step.is_repeated_restart());
    let of_db = restarts.position(|step| step.subject.environment() == Some(&env("two")));
    // The first ten repeated restarts use all permits of the first minute.
    assert!(of_db.is_some_and(|before| before <= 10), "{of_db:?}");
    assert!(fixture.run_to_rest(3 * MINUTE), "{:?}", fixture.stuck());
}

#[test]
fn start_refused_twice_is_not_tried_again_on_the_same_container() {
    each_seed("start_refused_twice", 50, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
        fixture.wants(desired("one", [plain("one", "a")]));
        fixture.run_until_seen(|fixture| fixture.engine.model.containers().next().is_some());
        let refused = fixture.engine.model.containers().next()?.id.clone();
        let now = fixture.now;
        fixture.engine.change(now, |model| model.refuse_starts(&refused));
        if chance.percent(50) {
            // A request of a person does not help this container either.
            let moment = now + chance.millis((0, 6_000));
            fixture.run_until(moment);
            fixture.planner.retry(&env("one"), None);
        }
        let rests = fixture.run_to_rest(MINUTE);
        let calls = fixture.engine.model.calls().iter();
        let (mut starts, mut evidence) = (0, 0);
        for call in calls.filter(|call| call.action.container() == Some(&refused)) {
            starts += usize::from(matches!(call.action, Action::StartContainer { .. }));
            evidence += usize::from(matches!(call.action, Action::CollectEvidence { .. }));
        }
        let restarts =
            fixture.planner.state().environments[&env("one")].services[&service_name("a")].restarts;
        let expected = rests && (starts, evidence, restarts) == (2, 1, 0);
        (!expected).then(|| {
            format!(
                "{starts} starts, {evidence} evidence, {restarts} restarts: {:?}",
                fixture.stuck()
            )
        })
    });
}

#[test]
fn refusals_of_every_new_container_become_rarer() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    fixture.wants(desired("one", [plain("one", "a")]));
    while fixture.now < START + 10 * MINUTE {
        fixture.run_until_started(fixture.started.len() + 1);
        let now = fixture.now;
        fixture.engine.change(now, |model| {
            let all: Vec<_> = model.containers().map(|container| container.id.clone()).collect();
            for id in all {
                model.refuse_starts(&id);
            }
        });
    }
    let starts = fixture.started.iter();
    let starts = starts.filter(|(_, step)| matches!(step.action, Action::StartContainer { .. }));
    let starts = starts.count();
    assert!((10..25).contains(&starts), "{starts} starts in ten minutes");
}

#[test]
fn unrunnable_command_is_tried_once() {
    for code in [126, 127] {
        let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
        let life = ExitScript {
            after: Duration::from_millis(10),
            code,
            times: u32::MAX,
        };
        fixture
            .engine
            .change(START, |model| model.set_script("one/a", life));
        fixture.wants(desired("one", [plain("one", "a")]));
        fixture.run_until(START + 6 * MINUTE);
        assert_eq!(fixture.engine.model.start_count("one/a"), 1);
        assert!(waits(&fixture, |on| matches!(on, WaitReason::NotRunnable { .. })));
    }
}

#[test]
fn thirty_repeated_failures_restart_ten_per_minute() {
    // If each run resets the budget, every restart has the number 1.
    for reset_after in [MINUTE, Duration::ZERO] {
        let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
        let names: Vec<String> = (0..30).map(|n| format!("s{n}")).collect();
        let mut wanted = desired("one", names.iter().map(|name| plain("one", name)));
        wanted.restart.reset_after = reset_after;
        fixture.wants(wanted);
        assert!(fixture.run_to_rest(MINUTE));
        let mut killed_at = Vec::new();
        for _ in 0..2 {
            let now = fixture.now;
            killed_at.push(now);
            fixture.engine.change(now, |model| {
                let all: Vec<_> = model.containers().map(|container| container.id.clone()).collect();
                for id in &all {
                    model.kill(id, 1);
                }
            });
            assert!(fixture.run_to_rest(10 * MINUTE), "{:?}", fixture.stuck());
        }
        let all = restarts(&fixture);
        assert_eq!(all.len(), 60);
        // The first restart of a service costs its delay of 2 s, and nothing else.
        let (first, repeated) = all.split_at(30);
        let in_time = |at: &Timestamp| at.since(killed_at[0]) < Duration::from_secs(3);
        assert!(first.iter().all(in_time), "{first:?}");
        for (index, at) in repeated.iter().enumerate() {
            let earlier = index.checked_sub(10).map(|tenth| repeated[tenth]);
            assert!(
                earlier.is_none_or(|earlier| at.since(earlier) >= MINUTE),
                "{repeated:?}"
            );
        }
        assert!(repeated[9].since(repeated[0]) < MINUTE, "{repeated:?}");
    }
}

#[test]
fn unhealthy_service_is_given_up_within_its_budget() {
    each_seed("unhealthy_service_is_given_up_within_its_budget", 100, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
        let mut service = plain("one", "a");
        service.probe = Some(probe());
        fixture.wants(desired("one", [service]));
        let sick_at = START + chance.millis((0, 20_000));
        fixture.run_until(sick_at);
        fixture.sick.insert("one/a".to_owned());
        if chance.percent(50) {
            let moment = fixture.now + chance.millis((0, 20_000));
            fixture.run_until(moment);
            fixture.kill_controller(chance.millis((0, 2_000)), true);
        }
        let end = fixture.now + 6 * MINUTE;
        fixture.run_until(end);
        let stops = stops(&fixture, |cause| matches!(cause, Cause::Unhealthy { .. }));
        let kept = &fixture.planner.state().environments[&env("one")].services[&service_name("a")];
        (stops > 4 || !fixture.gave_up() || kept.restarts > 3)
            .then(|| format!("{stops} stops, {} restarts: {:?}", kept.restarts, fixture.stuck()))
    });
}

#[test]
fn recovery_within_the_delay_counts_transitions_only() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    let mut service = plain("one", "a");
    service.probe = Some(probe());
    fixture.wants(desired("one", [service]));
    assert!(fixture.run_to_rest(MINUTE));
    // It recovers before each restart, and fails again.
    for _ in 0..12 {
        fixture.sick.insert("one/a".to_owned());
        let later = fixture.now + Duration::from_millis(500);
        fixture.run_until(later);
        fixture.sick.clear();
        let later = fixture.now + Duration::from_secs(5);
        fixture.run_until(later);
    }
    let kept = &fixture.planner.state().environments[&env("one")].services[&service_name("a")];
    assert!(
        kept.health_transitions.len() > 10,
        "{:?}",
        kept.health_transitions
    );
    assert_eq!(
        kept.restarts, 0,
        "it recovered each time before its delay was over"
    );
}

#[test]
fn running_test_defers_restarts() {
    each_seed("running_test_defers_restarts", 50, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
        let mut service = plain("one", "a");
        service.probe = Some(probe());
        fixture.wants(desired("one", [service.clone()]));
        fixture.run_to_rest(MINUTE);
        let until = fixture.now + chance.millis((30_000, 120_000));
        fixture.requests.begin(TestLease {
            environment: env("one"),
            case: "buy".to_owned(),
            since: fixture.now,
            until,
            holder: None,
            purpose: None,
            unverified: None,
        });
        fixture.sick.insert("one/a".to_owned());
        let moment = fixture.now + chance.millis((0, 20_000));
        fixture.run_until(moment);
        service.env_vars.insert("VERSION".to_owned(), "other".to_owned());
        fixture.wants(desired("one", [service]));
        fixture.run_until(until - Duration::from_millis(1));
        let during = stops(&fixture, |_| true);
        fixture.sick.clear();
        let rests = fixture.run_to_rest(10 * MINUTE);
        (during > 0 || !rests).then(|| format!("{during} stops, rests {rests}: {:?}", fixture.stuck()))
    });
}

/// Holds the environment `one`.
fn hold_until(fixture: &mut SimFixture, until: Timestamp) {
    fixture.requests.add_hold(Hold {
        environment: env("one"),
        service: None,
        since: fixture.now,
        until: Some(until),
        stops: false,
        reason: String::new(),
        holder: None,
        command: None,
    });
}

#[test]
fn held_service_is_never_changed() {
    each_seed("held_service_is_never_changed", 50, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
        fixture.wants(desired("one", [plain("one", "a"), plain("one", "b")]));
        fixture.run_to_rest(MINUTE);
        let until = fixture.now + chance.millis((10_000, 60_000));
        hold_until(&mut fixture, until);
        let before = fixture.started.len();
        let now = fixture.now;
        let all: Vec<_> = fixture.engine.model.containers().map(|c| c.id.clone()).collect();
        fixture.engine.change(now, |model| model.kill(&all[0], 1));
        fixture.engine.change(now, |model| model.person_removes(&all[1]));
        fixture.wants(desired("one", [plain("one", "a"), plain("one", "c")]));
        fixture.run_until(until - Duration::from_millis(1));
        let changes = |(_, step): &&(Timestamp, Step)| !matches!(step.action, Action::CollectEvidence { .. });
        let during: Vec<_> = fixture.started[before..]
            .iter()
            .filter(changes)
            .cloned()
            .collect();
        let service = Subject::Service {
            environment: env("one"),
            service: service_name("a"),
        };
        let output = fixture.last.plans.values().flat_map(|plan| &plan.waits);
        let output = output.filter(|wait| wait.subject == service).count() > 0;
        let rests = fixture.run_to_rest(10 * MINUTE);
        (!during.is_empty() || !rests || !output).then(|| {
            format!(
                "rests {rests}, reported {output}, {during:?}, {:?}",
                fixture.stuck()
            )
        })
    });
}

#[test]
fn hold_lets_the_running_action_end() {
    let slow = FaultProfile {
        call: (5_000, 5_000),
        ..FaultProfile::no_faults()
    };
    let mut fixture = SimFixture::new(1, slow);
    fixture.wants(desired("one", [plain("one", "a")]));
    fixture.run_until_seen(|fixture| {
        let mut started = fixture.started.iter();
        started.any(|(_, step)| matches!(step.action, Action::CreateContainer { .. }))
    });
    let until = fixture.now + MINUTE;
    hold_until(&mut fixture, until);
    let is_made = |fixture: &SimFixture| {
        let mut containers = fixture.engine.model.containers();
        containers.any(|it| it.name == "one-a" && it.state == ContainerState::Created)
    };
    assert!(!is_made(&fixture), "the call is in progress");
    let before = fixture.started.len();
    fixture.run_until(until - Duration::from_millis(1));
    assert!(is_made(&fixture), "the call has ended");
    assert_eq!(fixture.started.len(), before, "no further action begins");
    assert!(waits(&fixture, |on| matches!(on, WaitReason::Held { .. })));
    assert!(fixture.run_to_rest(10 * MINUTE), "{:?}", fixture.stuck());
}

#[test]
fn optional_services_are_shed_first_and_return() {
    let mut fixture = with_retries(RetrySettings {
        shed_optional: true,
        ..RetrySettings::default()
    });
    let with = |name: &str, criticality| Service {
        criticality,
        ..plain("one", name)
    };
    // `a` requires `d` through `c`.
    let requires = |service: Service, name: &str| Service {
        depends_on: vec![depends(name, Condition::Started)],
        ..service
    };
    let services = |shed: Service| {
        let a = requires(with("a", Criticality::Critical), "c");
        let c = requires(with("c", Criticality::Optional), "d");
        desired("one", [a, shed, c, with("d", Criticality::Optional)])
    };
    fixture.wants(services(with("b", Criticality::Optional)));
    assert!(fixture.run_to_rest(MINUTE), "{:?}", fixture.stuck());
    let state = |fixture: &SimFixture, name: &str| {
        let mut containers = fixture.engine.model.containers();
        containers.find(|it| it.name == name).map(|it| it.state)
    };
    let check = |fixture: &mut SimFixture, memory_stall, free| {
        let disk = DiskFact {
            path: "/var/lib/docker".to_owned(),
            free,
            total: u64::MAX,
            free_inodes: None,
            reclaimable: None,
        };
        fixture.preflight = Some(PreflightSnapshot {
            at: Some(fixture.now),
            host: HostFacts {
                disk: Fact::Known(disk),
                memory_stall: Some(memory_stall),
                ..HostFacts::default()
            },
            ..PreflightSnapshot::default()
        });
    };
    let is_shed = |fixture: &SimFixture| waits(fixture, |on| matches!(on, WaitReason::Shed { .. }));
    check(&mut fixture, 20, u64::MAX);
    fixture.run_until(fixture.now + MINUTE);
    assert!(!is_shed(&fixture), "the host is not short of memory yet");
    check(&mut fixture, 21, u64::MAX);
    fixture.run_until_seen(is_shed);
    assert_eq!(state(&fixture, "one-b"), Some(ContainerState::Exited));
    assert_eq!(state(&fixture, "one-a"), Some(ContainerState::Running));
    for required in ["one-c", "one-d"] {
        assert_eq!(state(&fixture, required), Some(ContainerState::Running));
    }
    check(&mut fixture, 6, u64::MAX);
    fixture.run_until(fixture.now + MINUTE);
    assert!(is_shed(&fixture), "its start would stop it again");
    check(&mut fixture, 5, u64::MAX);
    assert!(fixture.run_to_rest(MINUTE), "{:?}", fixture.stuck());
    assert_eq!(state(&fixture, "one-b"), Some(ContainerState::Running));
    let mut edited = with("b", Criticality::Optional);
    edited.env_vars.insert("VERSION".to_owned(), "2".to_owned());
    fixture.wants(services(edited));
    check(&mut fixture, 21, u64::MAX);
    fixture.run_until_seen(is_shed);
    assert_eq!(
        state(&fixture, "one-b"),
        Some(ContainerState::Exited),
        "its old revision stops"
    );
    // A new revision needs fresh facts.
    for _ in 0..60 {
        check(&mut fixture, 0, u64::MAX);
        fixture.run_until(fixture.now + Duration::from_secs(1));
    }
    assert_eq!(state(&fixture, "one-b"), Some(ContainerState::Running));
    check(&mut fixture, 0, 1);
    fixture.run_until_seen(is_shed);
    assert_eq!(
        state(&fixture, "one-b"),
        Some(ContainerState::Exited),
        "the disk is full"
    );
    assert_eq!(stops(&fixture, |cause| *cause == Cause::Shed), 3);
    assert_eq!(fixture.engine.model.start_count("one/a"), 1);
    assert!(fixture.broken.is_empty(), "{:?}", fixture.broken);
}

#[test]
fn removed_service_with_a_kept_volume_wakes_nothing() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    let life = ExitScript {
        after: Duration::from_secs(1),
        code: 1,
        times: 1,
    };
    fixture
        .engine
        .change(START, |model| model.set_script("one/a", life));
    let mut service = plain("one", "a");
    service.mounts = vec![Mount::Volume {
        name: resource("argus-one-data"),
        target: "/data".to_owned(),
        read_only: false,
    }];
    fixture.wants(desired("one", [service]));
    let moment = START + Duration::from_secs(10);
    fixture.run_until(moment);
    let kept = &fixture.planner.state().environments[&env("one")].services[&service_name("a")];
    assert_eq!((kept.failures.len(), kept.restarts), (1, 1));
    let resets_at = kept.budget_resets_at.expect("its run resets the budget");
    fixture.specs.clear();
    fixture.run_until(resets_at);
    let turns = fixture.turns;
    fixture.run_until(resets_at + MINUTE);
    assert!(fixture.turns - turns < 100, "{} passes", fixture.turns - turns);
}

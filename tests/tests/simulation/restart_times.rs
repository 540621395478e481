//! Restart policies at exact times: restart delays, slow retries, the restart rate limit, flapping health checks and test leases.

use std::time::Duration;

use argus_backend::sim::{AfterRestart, ExitScript, FaultProfile, Rng};
use argus_core::action::{Action, Cause, Step};
use argus_core::backoff::{self, Growth};
use argus_core::delays::Delays;
use argus_core::desired::{Desired, RestartMode};
use argus_core::failed_run::FailureCause;
use argus_core::ident::ContainerId;
use argus_core::probe::ProbeStatus;
use argus_core::reconcile::Planner;
use argus_core::retry::RetrySettings;
use argus_core::state::{PlannerState, ServiceHistory};
use argus_core::time::Timestamp;
use argus_core::user_requests::TestLease;
use argus_core::wait::WaitReason;

use crate::each_seed;
use crate::fixture::{START, SimFixture};
use crate::specs::{desired, env, plain, probe, service_name, site};

const MINUTE: Duration = Duration::from_secs(60);
/// The fixture runs at most one pass within this time.
const PASS: Duration = Duration::from_millis(10);
/// Restart delay of an unhealthy service.
const RESTART_DELAY: Duration = Duration::from_secs(20);

/// The environment `one` with the service `a`.
fn crashing(fixture: &mut SimFixture, after: Duration) -> Desired {
    let life = ExitScript {
        after,
        code: 1,
        times: u32::MAX,
    };
    fixture
        .engine
        .change(START, |model| model.set_script("one/a", life));
    desired("one", [plain("one", "a")])
}

/// The environment `one` with the service `a`, which has a probe and is healthy.
fn healthy(fixture: &mut SimFixture, change: impl FnOnce(&mut Desired)) {
    let mut service = plain("one", "a");
    service.probe = Some(probe());
    let mut desired = desired("one", [service]);
    change(&mut desired);
    fixture.wants(desired);
    assert!(fixture.run_to_rest(MINUTE), "{:?}", fixture.stuck());
}

/// Runs an unhealthy service until its restart delay begins.
fn in_delay(seed: u64) -> SimFixture {
    let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
    healthy(&mut fixture, |desired| desired.restart.delay = RESTART_DELAY);
    fixture.sick.insert("one/a".to_owned());
    fixture.run_until_seen(|fixture| delay_end(fixture).is_some());
    fixture
}

pub(crate) fn with_retries(retries: RetrySettings) -> SimFixture {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    let state = PlannerState {
        retries,
        ..PlannerState::default()
    };
    fixture.planner = Planner::new(site(), state);
    fixture
}

/// History of the service `a`.
fn history(fixture: &SimFixture) -> ServiceHistory {
    let known = fixture.planner.state().environments.get(&env("one"));
    let history = known.and_then(|known| known.service(&service_name("a")));
    history.cloned().unwrap_or_default()
}

/// Time and number of each restart attempt: of its first action.
fn attempts(fixture: &SimFixture) -> Vec<(Timestamp, u32)> {
    let mut attempts: Vec<(Timestamp, u32)> = Vec::new();
    for (at, step) in &fixture.started {
        let (Cause::Restart { attempt, .. } | Cause::Unhealthy { attempt }) = &step.cause else {
            continue;
        };
        if attempts.last().is_none_or(|(_, last)| last != attempt) {
            attempts.push((*at, *attempt));
        }
    }
    attempts
}

fn stops(fixture: &SimFixture) -> Vec<Timestamp> {
    let is_stop = |action: &Action| matches!(action, Action::StopContainer { .. });
    let stops = fixture.started.iter().filter(|(_, step)| is_stop(&step.action));
    stops.map(|(at, _)| *at).collect()
}

/// End of the delay that a service waits for.
fn delay_end(fixture: &SimFixture) -> Option<Timestamp> {
    let is_delay =
        |on: &WaitReason| matches!(on, WaitReason::RestartDelay { .. } | WaitReason::Unhealthy { .. });
    let mut waits = fixture.last.plans.values().flat_map(|plan| &plan.waits);
    waits.find(|wait| is_delay(&wait.on))?.on.until()
}

fn is_at(at: Timestamp, due: Timestamp) -> bool {
    at >= due && at <= due + PASS
}

#[test]
fn restart_begins_exactly_after_its_delay() {
    each_seed("restart_begins_exactly_after_its_delay", 100, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
        let mut desired = crashing(&mut fixture, chance.millis((0, 5_000)));
        desired.restart.delay = chance.millis((500, 4_000));
        if chance.percent(50) {
            desired.restart.growth = Growth::Linear;
        }
        let policy = desired.restart.clone();
        fixture.wants(desired);
        fixture.run_until(START + 5 * MINUTE);
        let (history, attempts) = (history(&fixture), attempts(&fixture));
        let counts = (history.failures.len(), attempts.len(), history.restarts);
        if counts != (4, 3, 3) || !fixture.gave_up() {
            return Some(format!("{counts:?}: {:?}", fixture.stuck()));
        }
        let mut restarts = (1..).zip(history.failures.iter().zip(&attempts));
        let wrong = restarts.find(|(number, (failed, (at, attempt)))| {
            let delay = backoff::delay(policy.growth, policy.delay, policy.max_delay, *number);
            attempt != number || !is_at(*at, failed.seen() + delay)
        });
        wrong.map(|found| format!("{found:?}"))
    });
}

#[test]
fn killed_controller_keeps_delay_and_budget() {
    each_seed("killed_controller_keeps_delay_and_budget", 100, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
        let mut desired = crashing(&mut fixture, Duration::from_millis(100));
        desired.restart.delay = Duration::from_secs(10);
        fixture.wants(desired);
        for number in 1..=3 {
            fixture.run_until_seen(|fixture| {
                history(fixture).failure_count == u64::from(number) && delay_end(fixture).is_some()
            });
            let Some(until) = delay_end(&fixture) else {
                return Some(format!("no delay {number}: {:?}", fixture.stuck()));
            };
            let moment = fixture.now + chance.millis((0, 5_000));
            fixture.run_until(moment);
            fixture.kill_controller(chance.millis((0, 4_000)), true);
            fixture.run_until(until + PASS);
            let attempts = attempts(&fixture);
            let is_due = |(at, attempt): &(Timestamp, u32)| *attempt == number && is_at(*at, until);
            if !attempts.last().is_some_and(is_due) {
                return Some(format!("restart {number} due at {until}: {attempts:?}"));
            }
        }
        fixture.run_until_seen(SimFixture::gave_up);
        fixture.kill_controller(Duration::from_secs(1), true);
        let end = fixture.now + 6 * MINUTE;
        fixture.run_until(end);
        let runs = fixture.engine.model.start_count("one/a");
        let restarts = history(&fixture).restarts;
        let expected = fixture.gave_up() && (runs, restarts) == (4, 3);
        (!expected).then(|| format!("{runs} runs, {restarts} restarts: {:?}", fixture.stuck()))
    });
}

#[test]
fn slow_retry_restarts_once_per_interval() {
    for interval in [RetrySettings::default().slow_restart, Duration::from_secs(600)] {
        let retries = RetrySettings {
            slow_restart: interval,
            ..RetrySettings::default()
        };
        let mut fixture = with_retries(retries);
        let mut desired = crashing(&mut fixture, Duration::from_millis(100));
        desired.restart.mode = RestartMode::SlowRetry;
        desired.restart.max_restarts = 1;
        desired.restart.window = Duration::from_secs(24 * 3_600);
        let delay = desired.restart.delay;
        fixture.wants(desired);
        fixture.run_until(START + 5 * interval + MINUTE / 2);
        let (history, attempts) = (history(&fixture), attempts(&fixture));
        let delays = std::iter::once(delay).chain(std::iter::repeat(interval));
        let due = history.failures.iter().zip(delays);
        let due: Vec<_> = due.map(|(failed, delay)| failed.seen() + delay).collect();
        // The last failure waits.
        assert_eq!((due.len(), attempts.len()), (7, 6), "{:?}", fixture.stuck());
        for ((at, _), due) in attempts.iter().zip(&due) {
            assert!(is_at(*at, *due), "due at {due}: {attempts:?}");
        }
        assert_eq!(delay_end(&fixture), due.last().copied());
    }
}

#[test]
fn repeated_restart_beyond_the_limit_waits_a_minute() {
    let retries = RetrySettings {
        restarts_per_minute: 2,
        ..RetrySettings::default()
    };
    let mut fixture = with_retries(retries);
    let services = ["a", "b", "c"].map(|name| plain("one", name));
    fixture.wants(desired("one", services));
    // The first failure of each service is not limited.
    for _ in 0..2 {
        assert!(fixture.run_to_rest(MINUTE), "{:?}", fixture.stuck());
        let now = fixture.now;
        fixture.engine.change(now, |model| {
            let all: Vec<_> = model.containers().map(|container| container.id.clone()).collect();
            for id in &all {
                model.kill(id, 1);
            }
        });
    }
    let limited_until = |fixture: &SimFixture| {
        let is_limited = |on: &WaitReason| matches!(on, WaitReason::RestartRateLimited { limit: 2, .. });
        let mut waits = fixture.last.plans.values().flat_map(|plan| &plan.waits);
        waits.find(|wait| is_limited(&wait.on))?.on.until()
    };
    let restarts = |fixture: &SimFixture| {
        let restarts = fixture
            .started
            .iter()
            .filter(|(_, step)| step.is_repeated_restart());
        restarts.map(|(at, _)| *at).collect::<Vec<_>>()
    };
    fixture.run_until_seen(|fixture| limited_until(fixture).is_some() && restarts(fixture).len() == 2);
    let until = limited_until(&fixture).expect("one waits");
    assert_eq!(restarts(&fixture)[0] + MINUTE, until);
    assert!(fixture.run_to_rest(2 * MINUTE), "{:?}", fixture.stuck());
    let restarts = restarts(&fixture);
    assert_eq!(restarts.len(), 3, "{restarts:?}");
    assert!(is_at(restarts[2], until), "{until}: {restarts:?}");
}

#[test]
fn exit_within_the_delay_is_one_failure() {
    each_seed("exit_within_the_delay_is_one_failure", 50, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = in_delay(seed);
        let moment = fixture.now + chance.millis((0, 15_000));
        fixture.run_until(moment);
        let all: Vec<_> = fixture.engine.model.containers().map(|c| c.id.clone()).collect();
        fixture.engine.change(moment, |model| model.kill(&all[0], 137));
        fixture.sick.clear();
        let rests = fixture.run_to_rest(2 * MINUTE);
        let (history, attempts) = (history(&fixture), attempts(&fixture));
        let failed = &history.failures[0];
        let due = failed.seen() + RESTART_DELAY;
        let counts = (history.failure_count, history.restarts, stops(&fixture).len());
        let expected = rests
            && counts == (1, 1, 0)
            && failed.cause == FailureCause::Exited
            && matches!(attempts[..], [(at, 1)] if is_at(at, due));
        (!expected).then(|| format!("{counts:?}, due at {due}: {attempts:?}, {failed:?}"))
    });
}

#[test]
fn killed_controller_counts_an_unhealthy_service_once() {
    each_seed("killed_controller_counts_an_unhealthy_service_once", 50, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = in_delay(seed);
        let due = history(&fixture).failures[0].seen() + RESTART_DELAY;
        let moment = fixture.now + chance.millis((0, 10_000));
        fixture.run_until(moment);
        fixture.kill_controller(chance.millis((0, 5_000)), true);
        fixture.run_until(due - PASS);
        let before = stops(&fixture).len();
        fixture.run_until(due + PASS);
        let (count, stops) = (history(&fixture).failure_count, stops(&fixture));
        let expected = (before, count) == (0, 1) && matches!(stops[..], [at] if is_at(at, due));
        (!expected).then(|| format!("{count} failures, due at {due}: {before} before, {stops:?}"))
    });
}

#[test]
fn flapping_service_waits_longer_each_time() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    let delay = Duration::from_secs(11);
    healthy(&mut fixture, |desired| {
        desired.restart.max_restarts = 9;
        desired.restart.delay = delay;
        desired.restart.growth = Growth::Linear;
    });
    // Attempt 2 follows 3 changes, and attempt 3 follows 5: two too many.
    for (failure, factor) in [(1, 1), (2, 2), (3, 5)] {
        fixture.sick.insert("one/a".to_owned());
        fixture.run_until_seen(|fixture| {
            history(fixture).failure_count == failure && delay_end(fixture).is_some()
        });
        let failed = history(&fixture).failures.last().cloned().expect("it failed");
        assert_eq!(
            delay_end(&fixture),
            Some(failed.seen() + factor * delay),
            "{failure}"
        );
        fixture.sick.clear();
        fixture.run_until_seen(|fixture| history(fixture).health == Some(ProbeStatus::Healthy));
    }
    assert_eq!(history(&fixture).health_transitions.len(), 6);
    assert_eq!(stops(&fixture), []);
}

#[test]
fn expired_test_lease_ends_the_deferral() {
    each_seed("expired_test_lease_ends_the_deferral", 50, |seed| {
        let mut chance = Rng::new(seed);
        let mut fixture = SimFixture::new(seed, FaultProfile::no_faults());
        healthy(&mut fixture, |_| {});
        let lease = |since: Timestamp, span: Duration| TestLease {
            environment: env("one"),
            case: "buy".to_owned(),
            since,
            until: since + span,
            holder: None,
            purpose: None,
            unverified: None,
        };
        fixture.requests.begin(lease(fixture.now, 10 * MINUTE));
        fixture.sick.insert("one/a".to_owned());
        let moment = fixture.now + chance.millis((10_000, 60_000));
        fixture.run_until(moment);
        // The same test again, with a shorter lease.
        let shorter = lease(moment, chance.millis((100, 60_000)));
        let until = shorter.until;
        fixture.requests.begin(shorter);
        fixture.turn();
        fixture.run_until(until - PASS);
        let before = stops(&fixture).len();
        fixture.run_until(until + PASS);
        let stops = stops(&fixture);
        let expected = before == 0 && matches!(stops[..], [at] if is_at(at, until));
        (!expected).then(|| {
            format!(
                "due at {until}: {before} before, {stops:?}, {:?}",
                fixture.stuck()
            )
        })
    });
}

/// Number of restarts of the engine that were the cause of a start.
fn starts_after_the_engine(fixture: &SimFixture) -> usize {
    let is_start = |step: &Step| {
        matches!(step.action, Action::StartContainer { .. }) && step.cause == Cause::EngineRestart
    };
    fixture.started.iter().filter(|(_, step)| is_start(step)).count()
}

/// The environment `one` with the running service `a`, and its container.
fn running() -> (SimFixture, ContainerId) {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    fixture.wants(desired("one", [plain("one", "a")]));
    assert!(fixture.run_to_rest(MINUTE), "{:?}", fixture.stuck());
    let mut containers = fixture.engine.model.containers();
    let found = containers.find(|container| container.name == "one-a");
    let id = found.map(|container| container.id.clone());
    drop(containers);
    (fixture, id.expect("a container"))
}

// Real engines are tested with a longer margin, because a busy one reports ends late.
#[test]
fn end_after_an_outage_is_charged_from_its_margin_on() {
    let (margin, milli) = (Delays::default().outage_margin, Duration::from_millis(1));
    let restarted = || {
        let (mut fixture, id) = running();
        let now = fixture.now;
        fixture
            .engine
            .restart_with(now, Duration::from_secs(3), AfterRestart::Running);
        (fixture, id)
    };
    // The end of the outage is known only after it. Each case is the same run, until its kill.
    let (mut fixture, _) = restarted();
    fixture.run_until_seen(|fixture| fixture.store.outages().iter().any(|one| one.until.is_some()));
    let back = fixture.store.outages()[0].until.expect("the engine is back");
    for (late, charged) in [
        (milli, 0),
        (margin.saturating_sub(milli), 0),
        (margin, 0),
        (margin + milli, 1),
    ] {
        let (mut fixture, id) = restarted();
        fixture.run_until(back + late);
        let now = fixture.now;
        fixture.engine.change(now, |model| model.kill(&id, 137));
        assert!(fixture.run_to_rest(MINUTE), "{late:?}: {:?}", fixture.stuck());
        assert_eq!(fixture.store.outages()[0].until, Some(back));
        let failed: Vec<_> = history(&fixture).failures.iter().map(|run| run.at).collect();
        assert_eq!(failed, [back + late]);
        let counts = (attempts(&fixture).len(), starts_after_the_engine(&fixture));
        assert_eq!(counts, (charged, 1 - charged), "{late:?} after the outage");
    }
}

#[test]
fn one_environment_acts_first_after_an_outage() {
    let mut fixture = SimFixture::new(1, FaultProfile::no_faults());
    for name in ["one", "two"] {
        fixture.wants(desired(name, [plain(name, "a"), plain(name, "b")]));
    }
    assert!(fixture.run_to_rest(MINUTE), "{:?}", fixture.stuck());
    let (before, now) = (fixture.started.len(), fixture.now);
    // The outage is long enough to open the breaker.
    fixture.engine.restart_with(now, MINUTE, AfterRestart::Ended);
    assert!(fixture.run_to_rest(5 * MINUTE), "{:?}", fixture.stuck());
    let starts = fixture.started[before..]
        .iter()
        .filter(|(_, step)| matches!(step.action, Action::StartContainer { .. }));
    let mut environments: Vec<_> = starts.map(|(_, step)| step.subject.environment()).collect();
    assert_eq!(environments.len(), 4, "{environments:?}");
    environments.dedup();
    assert_eq!(environments.len(), 2, "one after the other: {environments:?}");
}

#[test]
fn graceful_restart_of_the_engine_charges_no_restart() {
    let wait = Delays::default().external_stop;
    for before in [
        Duration::ZERO,
        wait / 2,
        wait.saturating_sub(Duration::from_millis(1)),
    ] {
        let (mut fixture, id) = running();
        let now = fixture.now;
        // An engine that shuts down reports its stops like those of a person.
        fixture.engine.change(now, |model| model.person_stops(&id));
        fixture.run_until(now + before);
        let now = fixture.now;
        fixture.engine.restart(now, Duration::from_secs(3));
        assert!(fixture.run_to_rest(MINUTE), "{before:?}: {:?}", fixture.stuck());
        let counts = (attempts(&fixture).len(), starts_after_the_engine(&fixture));
        assert_eq!(counts, (0, 1), "stopped {before:?} before the outage");
        assert_eq!(fixture.engine.model.start_count("one/a"), 2);
    }
}

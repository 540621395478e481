//! Origins of failed test cases: each change by a process, a person or the engine is one cause, at every lag of the watch.

use std::time::Duration;

use argus_backend::sim::{FaultProfile, Rng};
use argus_core::ident::ContainerId;
use argus_core::state::{CaseAttribution, FailureOrigin, Interruption};
use argus_core::user_requests::TestLease;

use crate::each_seed;
use crate::fixture::SimFixture;
use crate::specs::{desired, env, plain};

const MINUTE: Duration = Duration::from_secs(60);

/// A change of the container of `one/a` during a case.
type Change = fn(&mut SimFixture, &ContainerId);

/// End of the case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It fails with the change, which the watch shows later.
    Immediate,
    /// It fails after the watch has shown the change, because the engine reports no time of it.
    Late,
}

/// Runs a case during which a container changes. Returns its origin, and the causes.
fn run_case(seed: u64, change: Change, end: End) -> (FailureOrigin, Vec<Interruption>) {
    let mut random = Rng::new(seed);
    let faults = FaultProfile {
        lag: (0, random.below(3_000)),
        list: (0, random.below(3_000)),
        ..FaultProfile::no_faults()
    };
    let mut fixture = SimFixture::new(seed, faults);
    fixture.wants(desired("one", [plain("one", "a"), plain("one", "b")]));
    fixture.run_to_rest(10 * MINUTE);
    fixture.requests.begin(TestLease {
        environment: env("one"),
        case: "buy".to_owned(),
        since: fixture.now,
        until: fixture.now + 5 * MINUTE,
        holder: None,
        purpose: None,
        unverified: None,
    });
    let started = fixture.now;
    let moment = started + random.millis((0, 20_000));
    fixture.run_until(moment);
    let mut containers = fixture.engine.model.containers();
    let id = containers.find(|container| container.name == "one-a");
    let id = id.map(|container| container.id.clone()).unwrap();
    drop(containers);
    change(&mut fixture, &id);
    let changed = fixture.now;
    fixture.run_to_rest(10 * MINUTE);
    let ended = if end == End::Immediate {
        changed
    } else {
        fixture.now
    };
    let history = &fixture.planner.state().environments[&env("one")];
    let found = CaseAttribution::find(started, ended, &history.disruptions, &history.restarts);
    let causes = found.evidence.iter().map(|evidence| evidence.disruption.cause);
    (found.origin, causes.collect())
}

#[track_caller]
fn check(test: &str, change: Change, end: End, origin: FailureOrigin, causes: &[Interruption]) {
    each_seed(test, 200, |seed| {
        let found = run_case(seed, change, end);
        (found != (origin, causes.to_vec())).then(|| format!("{found:?}"))
    });
}

#[test]
fn case_without_a_disruption_is_of_the_test() {
    check(
        "case_without_a_disruption_is_of_the_test",
        |_, _| {},
        End::Late,
        FailureOrigin::Test,
        &[],
    );
}

#[test]
fn exit_is_one_cause_and_of_the_service() {
    check(
        "exit_is_one_cause_and_of_the_service",
        |fixture, id| {
            let now = fixture.now;
            fixture.engine.change(now, |model| model.kill(id, 3));
        },
        End::Immediate,
        FailureOrigin::Service,
        &[Interruption::Exit],
    );
}

#[test]
fn stop_with_its_exit_is_one_cause_and_excused() {
    check(
        "stop_with_its_exit_is_one_cause_and_excused",
        |fixture, id| {
            let now = fixture.now;
            fixture.engine.change(now, |model| model.person_stops(id));
        },
        End::Immediate,
        FailureOrigin::Infrastructure,
        &[Interruption::Stop],
    );
}

#[test]
fn pause_is_one_cause_and_excused() {
    check(
        "pause_is_one_cause_and_excused",
        |fixture, id| {
            let now = fixture.now;
            fixture.engine.change(now, |model| model.person_pauses(id));
        },
        End::Late,
        FailureOrigin::Infrastructure,
        &[Interruption::Pause],
    );
}

#[test]
fn removal_is_one_cause_and_excused() {
    check(
        "removal_is_one_cause_and_excused",
        |fixture, id| {
            let now = fixture.now;
            fixture.engine.change(now, |model| model.person_removes(id));
        },
        End::Late,
        FailureOrigin::Infrastructure,
        &[Interruption::Removal],
    );
}

#[test]
fn detachment_is_one_cause_and_excused() {
    check(
        "detachment_is_one_cause_and_excused",
        |fixture, id| {
            let now = fixture.now;
            fixture.engine.change(now, |model| model.person_disconnects(id));
        },
        End::Late,
        FailureOrigin::Infrastructure,
        &[Interruption::Detachment],
    );
}

#[test]
fn engine_restart_is_one_cause_per_service_and_excused() {
    check(
        "engine_restart_is_one_cause_per_service_and_excused",
        |fixture, _| {
            let now = fixture.now;
            fixture.engine.restart(now, Duration::from_secs(3));
        },
        End::Immediate,
        FailureOrigin::Infrastructure,
        &[Interruption::EngineOutage; 2],
    );
}

//! Events are only hints: dropped, repeated or out of order, they lead to the same end state.

use std::time::Duration;

use argus_backend::sim::{FaultProfile, Rng};
use argus_core::observed::ContainerState;

use crate::each_seed;
use crate::fixture::{SimFixture, is_ours};
use crate::specs::{any, desired, plain};

const LIMIT: Duration = Duration::from_secs(600);

/// The end state, without ids, times and moved ports.
fn there(fixture: &SimFixture) -> Vec<(String, Option<ContainerState>, Vec<String>)> {
    let model = &fixture.engine.model;
    let containers = model.containers().filter(|c| is_ours(c)).map(|c| {
        let facts = c.inspect.as_ref().unwrap();
        let mut text = facts.config.environment.clone();
        text.extend(c.networks.keys().cloned());
        text.push(format!("{} of {}", facts.config.bindings.len(), c.image));
        (c.name.clone(), Some(c.state), text)
    });
    let networks = model.networks().map(|n| (n.name.clone(), None, Vec::new()));
    let volumes = model.volumes().map(|v| (v.name.clone(), None, Vec::new()));
    let mut all: Vec<_> = containers.chain(networks).chain(volumes).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn ends_the_same(test: &str, faults: FaultProfile) {
    each_seed(test, 200, |seed| {
        let run = |faults: FaultProfile| {
            let mut chance = Rng::new(seed);
            let mut fixture = SimFixture::new(seed, faults);
            fixture.wants(any("one", &mut chance));
            let first = fixture.run_to_rest(LIMIT);
            fixture.wants(any("one", &mut chance));
            let second = fixture.run_to_rest(LIMIT);
            (first && second, there(&fixture), fixture.stuck())
        };
        let (calm, other) = (run(FaultProfile::no_faults()), run(faults));
        (!calm.0 || calm != other).then(|| format!("with all events {calm:#?}\nwith these {other:#?}"))
    });
}

#[test]
fn dropped_events_lead_to_the_same_end() {
    let faults = FaultProfile {
        lost: 100,
        ..FaultProfile::no_faults()
    };
    ends_the_same("dropped_events_lead_to_the_same_end", faults);
}

#[test]
fn half_the_events_dropped_lead_to_the_same_end() {
    let faults = FaultProfile {
        lost: 50,
        ..FaultProfile::no_faults()
    };
    ends_the_same("half_the_events_dropped_lead_to_the_same_end", faults);
}

#[test]
fn repeated_events_lead_to_the_same_end() {
    let faults = FaultProfile {
        repeated: 100,
        lag: (0, 2_000),
        ..FaultProfile::no_faults()
    };
    ends_the_same("repeated_events_lead_to_the_same_end", faults);
}

#[test]
fn reordered_events_lead_to_the_same_end() {
    let faults = FaultProfile {
        reordered: 100,
        lag: (0, 2_000),
        ..FaultProfile::no_faults()
    };
    ends_the_same("reordered_events_lead_to_the_same_end", faults);
}

#[test]
fn lists_alone_restore_lost_objects_within_12_s() {
    each_seed("lists_alone_restore_lost_objects_within_12_s", 200, |seed| {
        let mut chance = Rng::new(seed);
        let faults = FaultProfile {
            lost: 100,
            ..FaultProfile::no_faults()
        };
        let mut fixture = SimFixture::new(seed, faults);
        fixture.wants(desired("one", [plain("one", "a"), plain("one", "b")]));
        let rested = fixture.run_to_rest(LIMIT);
        let moment = fixture.now + chance.millis((0, 20_000));
        fixture.run_until(moment);
        let now = fixture.now;
        let mut containers = fixture.engine.model.containers();
        let id = containers.next().map(|c| c.id.clone()).unwrap();
        drop(containers);
        let kind = chance.below(5);
        fixture.engine.change(now, |model| match kind {
            0 => model.person_removes(&id),
            1 => model.kill(&id, 1),
            2 => model.person_stops(&id),
            3 => model.person_pauses(&id),
            _ => model.person_disconnects(&id),
        });
        let before = fixture.store.last_complete();
        fixture.run_until_seen(|fixture| fixture.store.last_complete() > before + 1);
        let listed = fixture.now;
        fixture.run_until_seen(|fixture| fixture.shortfalls().is_empty());
        let took = fixture.now.since(listed);
        // Ready follows after the minimum run time.
        let back = fixture.run_to_rest(LIMIT);
        let good = rested && back && took <= Duration::from_secs(12);
        (!good).then(|| format!("kind {kind}: {took:?} after the list, {:?}", fixture.stuck()))
    });
}

//! What counts for which breaker, and how work begins again.

use std::time::Duration;

use super::*;
use crate::ident::ServiceName;
use crate::observed::WatchEvent;

fn env(name: &str) -> EnvName {
    EnvName::new(name).unwrap()
}

fn subject(of: &str) -> Subject {
    Subject::Service {
        environment: env(of),
        service: ServiceName::new("api").unwrap(),
    }
}

fn reset() -> Result<Done, ActionError> {
    Err(ActionError::ConnectionLost("reset by peer".to_owned()))
}

fn listed(world: &mut Store) {
    for sighting in [WatchEvent::Init, WatchEvent::InitDone] {
        world.apply(sighting);
    }
}

fn up() -> Store {
    let mut world = Store::default();
    world.apply(WatchEvent::Connected(Timestamp(0)));
    listed(&mut world);
    world
}

fn call(circuits: &mut BreakerRegistry, of: &str, outcome: &Result<Done, ActionError>, now: i64) {
    circuits.on_call(&env(of), &subject(of));
    circuits.on_result(&env(of), &subject(of), outcome, Timestamp(now));
}

#[test]
fn what_one_resource_is_to_blame_for_opens_nothing() {
    let innocent = [
        Ok(Done::Ok),
        Err(ActionError::Unknown("500 about one container".to_owned())),
        Err(ActionError::TimedOut("a stop that hangs".to_owned())),
        Err(ActionError::Rejected("400".to_owned())),
        Err(ActionError::Gone),
        Err(ActionError::Busy("removal in progress".to_owned())),
        Err(ActionError::DiskFull("no space left".to_owned())),
        Err(ActionError::BuildFailed {
            message: "RUN false".to_owned(),
            log: String::new(),
        }),
        Err(ActionError::CircuitOpen),
    ];
    for outcome in innocent {
        let mut circuits = BreakerRegistry::default();
        circuits.observe(&up(), Timestamp(1));
        for now in 0..20 {
            call(&mut circuits, "shop", &outcome, now);
        }
        assert_eq!(
            circuits.blocked_by(&env("shop"), Timestamp(20)),
            None,
            "{outcome:?}"
        );
        assert!(circuits.engine().is_closed(), "{outcome:?}");
    }
}

#[test]
fn five_failures_in_a_row_open_it_for_the_environment_and_for_the_engine() {
    for outcome in [
        reset(),
        Err(ActionError::Engine("502".to_owned())),
        Err(ActionError::Unreachable("refused".to_owned())),
    ] {
        let mut circuits = BreakerRegistry::default();
        circuits.observe(&up(), Timestamp(1));
        for now in 0..4 {
            call(&mut circuits, "shop", &outcome, now);
            assert_eq!(circuits.blocked_by(&env("shop"), Timestamp(now)), None);
        }
        call(&mut circuits, "shop", &outcome, 4);
        for of in ["shop", "other"] {
            let bars = circuits.blocked_by(&env(of), Timestamp(5));
            assert!(
                matches!(bars, Some(WaitingOn::Breaker { engine: true, .. })),
                "{bars:?}"
            );
        }
        assert!(!circuits.of(&env("shop")).unwrap().is_closed());
        assert_eq!(circuits.of(&env("other")), None);
    }
}

#[test]
fn the_engine_is_left_alone_after_as_many_failures_as_was_said_and_for_as_long() {
    let mut circuits = BreakerRegistry::new(BreakerSettings {
        threshold: 2,
        cooldown: Duration::from_secs(7),
    });
    circuits.observe(&up(), Timestamp(1));
    call(&mut circuits, "shop", &reset(), 1);
    assert_eq!(circuits.blocked_by(&env("other"), Timestamp(2)), None);
    call(&mut circuits, "shop", &reset(), 2);
    let Some(WaitingOn::Breaker {
        engine: true, until, ..
    }) = circuits.blocked_by(&env("other"), Timestamp(3))
    else {
        panic!("{circuits:?}");
    };
    // Spread by 15 %.
    let cooldown = until.unwrap().since(Timestamp(2)).as_millis();
    assert!((5_950..=8_050).contains(&cooldown), "{cooldown}");
}

#[test]
fn an_environment_that_fails_among_others_that_do_not_is_left_alone_by_itself() {
    let mut circuits = BreakerRegistry::default();
    circuits.observe(&up(), Timestamp(1));
    for now in 0..5 {
        call(&mut circuits, "shop", &reset(), now);
        call(&mut circuits, "other", &Ok(Done::Ok), now);
    }
    let bars = circuits.blocked_by(&env("shop"), Timestamp(5));
    assert!(
        matches!(
            bars,
            Some(WaitingOn::Breaker {
                engine: false,
                until: Some(_),
                ..
            })
        ),
        "{bars:?}"
    );
    assert_eq!(circuits.blocked_by(&env("other"), Timestamp(5)), None);
    assert!(circuits.times_opened(&env("shop")) > circuits.times_opened(&env("other")));
}

#[test]
fn an_engine_that_answers_no_ping_opens_its_breaker_and_is_tried_when_it_is_back() {
    let mut world = up();
    let mut circuits = BreakerRegistry::default();
    world.apply(WatchEvent::Disconnected(
        Timestamp(1),
        "connection refused".to_owned(),
    ));
    for tries in 1..=12 {
        let next = Some(Timestamp(i64::from(tries) * 1000));
        world.apply(WatchEvent::Retrying { tries, next });
        circuits.observe(&world, Timestamp(i64::from(tries) * 1000 - 500));
        assert_eq!(circuits.engine().is_closed(), tries < PINGS, "{tries}");
        assert_eq!(circuits.failed_reconnects(), (tries >= TRIES).then_some(tries));
    }
    assert_eq!(circuits.engine().times_opened(), 1, "one outage is one opening");
    world.apply(WatchEvent::Connected(Timestamp(20_000)));
    assert!(circuits.observe(&world, Timestamp(20_000)), "a list is wanted");
    assert!(
        circuits.blocked_by(&env("a"), Timestamp(20_000)).is_some(),
        "before the list"
    );
    listed(&mut world);
    circuits.observe(&world, Timestamp(20_010));
    assert_eq!(circuits.blocked_by(&env("a"), Timestamp(20_010)), None);
    assert!(circuits.half_open_limit(&env("a")).is_some());
    circuits.on_call(&env("a"), &subject("a"));
    assert!(
        circuits.blocked_by(&env("b"), Timestamp(20_011)).is_some(),
        "one probe only"
    );
    circuits.on_result(&env("a"), &subject("a"), &Ok(Done::Ok), Timestamp(20_020));
    let ramp = circuits.blocked_by(&env("b"), Timestamp(20_021));
    assert!(matches!(ramp, Some(WaitingOn::RampUp { .. })), "{ramp:?}");
    assert_eq!(
        circuits.blocked_by(&env("a"), Timestamp(20_021)),
        None,
        "the first goes on"
    );
    assert!(
        circuits.on_planned(&env("a"), true, Timestamp(20_022)),
        "then the others may"
    );
    assert_eq!(circuits.blocked_by(&env("b"), Timestamp(20_023)), None);
}

#[test]
fn nobody_waits_for_the_first_environment_for_long() {
    let mut circuits = BreakerRegistry {
        ramp: Some(RampUp {
            first: env("a"),
            until: Timestamp(5_000),
        }),
        ..BreakerRegistry::default()
    };
    assert!(circuits.blocked_by(&env("b"), Timestamp(4_999)).is_some());
    assert_eq!(circuits.wake_at(), Some(Timestamp(5_000)));
    circuits.observe(&up(), Timestamp(5_000));
    assert_eq!(circuits.blocked_by(&env("b"), Timestamp(5_000)), None);
}

#[test]
fn a_reset_tries_it_at_once_and_an_engine_that_is_away_stays_away() {
    let mut circuits = BreakerRegistry::default();
    let mut world = up();
    circuits.observe(&world, Timestamp(1));
    for now in 0..5 {
        call(&mut circuits, "shop", &reset(), now);
    }
    assert!(circuits.reset(None, Timestamp(6)));
    listed(&mut world);
    circuits.observe(&world, Timestamp(7));
    assert_eq!(circuits.blocked_by(&env("shop"), Timestamp(7)), None);
    world.apply(WatchEvent::Disconnected(Timestamp(8), "gone".to_owned()));
    world.apply(WatchEvent::Retrying { tries: 3, next: None });
    circuits.observe(&world, Timestamp(8));
    circuits.reset(None, Timestamp(9));
    assert!(matches!(circuits.engine().state(), CircuitState::Open { .. }));
}

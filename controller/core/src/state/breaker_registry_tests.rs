//! Counted results of each breaker, and the ramp-up after an outage.

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

fn connection_reset() -> Result<Done, ActionError> {
    Err(ActionError::ConnectionLost("reset by peer".to_owned()))
}

fn finish_list(store: &mut Store) {
    for event in [WatchEvent::Init, WatchEvent::InitDone] {
        store.apply(event);
    }
}

fn connected_store() -> Store {
    let mut store = Store::default();
    store.apply(WatchEvent::Connected(Timestamp(0)));
    finish_list(&mut store);
    store
}

fn run_call(breakers: &mut BreakerRegistry, of: &str, outcome: &Result<Done, ActionError>, now: i64) {
    breakers.on_call(&env(of), &subject(of));
    let kind = ActionKind::StartContainer;
    breakers.on_result(&env(of), &subject(of), kind, outcome, Timestamp(now));
}

#[test]
fn failures_of_one_resource_open_no_breaker() {
    let harmless = [
        Ok(Done::Applied),
        Err(ActionError::Unknown("500 about one container".to_owned())),
        Err(ActionError::TimedOut("a stop that hangs".to_owned())),
        Err(ActionError::Rejected("400".to_owned())),
        Err(ActionError::Gone),
        Err(ActionError::Busy("removal in progress".to_owned())),
        Err(ActionError::DiskFull("no space left".to_owned())),
        Err(ActionError::BuildFailed {
            message: "RUN false".to_owned(),
            log: String::new(),
            instruction: None,
        }),
        Err(ActionError::CircuitOpen),
    ];
    for outcome in harmless {
        let mut breakers = BreakerRegistry::default();
        breakers.observe(&connected_store(), Timestamp(1));
        for now in 0..20 {
            run_call(&mut breakers, "shop", &outcome, now);
        }
        assert_eq!(
            breakers.blocked_by(&env("shop"), Timestamp(20)),
            None,
            "{outcome:?}"
        );
        assert!(breakers.engine().is_closed(), "{outcome:?}");
    }
}

#[test]
fn five_failures_open_the_breakers_of_environment_and_engine() {
    for outcome in [
        connection_reset(),
        Err(ActionError::Engine("502".to_owned())),
        Err(ActionError::Unreachable("refused".to_owned())),
    ] {
        let mut breakers = BreakerRegistry::default();
        breakers.observe(&connected_store(), Timestamp(1));
        for now in 0..4 {
            run_call(&mut breakers, "shop", &outcome, now);
            assert_eq!(breakers.blocked_by(&env("shop"), Timestamp(now)), None);
        }
        run_call(&mut breakers, "shop", &outcome, 4);
        for of in ["shop", "other"] {
            let wait = breakers.blocked_by(&env(of), Timestamp(5));
            assert!(
                matches!(wait, Some(WaitReason::Breaker { engine: true, .. })),
                "{wait:?}"
            );
        }
        assert!(!breakers.of(&env("shop")).unwrap().is_closed());
        assert_eq!(breakers.of(&env("other")), None);
    }
}

#[test]
fn five_slow_answers_in_a_row_open_the_breaker() {
    let run = |slow: &[bool]| {
        let mut breakers = BreakerRegistry::default();
        breakers.observe(&connected_store(), Timestamp(1));
        for (now, is_slow) in (0..).zip(slow) {
            let why = || {
                (
                    subject("shop"),
                    "start-container took 29.0 s of at most 30 s".to_owned(),
                )
            };
            breakers.slow = is_slow.then(why);
            run_call(&mut breakers, "shop", &Ok(Done::Applied), now);
        }
        breakers
    };
    assert!(run(&[true; 4]).engine().is_closed());
    let open = run(&[true; 5]);
    assert!(!open.engine().is_closed());
    assert!(open.engine().last_failure().unwrap().contains("29.0 s"));
    let reset = [true, true, true, true, false, true, true, true, true];
    assert!(
        run(&reset).engine().is_closed(),
        "a quick answer resets the count"
    );
}

#[test]
fn engine_breaker_follows_its_settings() {
    let mut breakers = BreakerRegistry::new(BreakerSettings {
        threshold: 2,
        cooldown: Duration::from_secs(7),
    });
    breakers.observe(&connected_store(), Timestamp(1));
    run_call(&mut breakers, "shop", &connection_reset(), 1);
    assert_eq!(breakers.blocked_by(&env("other"), Timestamp(2)), None);
    run_call(&mut breakers, "shop", &connection_reset(), 2);
    let Some(WaitReason::Breaker {
        engine: true, until, ..
    }) = breakers.blocked_by(&env("other"), Timestamp(3))
    else {
        panic!("{breakers:?}");
    };
    // The jitter is 15 %.
    let cooldown = until.unwrap().since(Timestamp(2)).as_millis();
    assert!((5_950..=8_050).contains(&cooldown), "{cooldown}");
}

#[test]
fn single_failing_environment_opens_only_its_own_breaker() {
    let mut breakers = BreakerRegistry::default();
    breakers.observe(&connected_store(), Timestamp(1));
    for now in 0..5 {
        run_call(&mut breakers, "shop", &connection_reset(), now);
        run_call(&mut breakers, "other", &Ok(Done::Applied), now);
    }
    let wait = breakers.blocked_by(&env("shop"), Timestamp(5));
    assert!(
        matches!(
            wait,
            Some(WaitReason::Breaker {
                engine: false,
                until: Some(_),
                ..
            })
        ),
        "{wait:?}"
    );
    assert_eq!(breakers.blocked_by(&env("other"), Timestamp(5)), None);
    assert!(breakers.openings(&env("shop")) > breakers.openings(&env("other")));
}

#[test]
fn unreachable_engine_opens_its_breaker_until_it_returns() {
    let mut store = connected_store();
    let mut breakers = BreakerRegistry::default();
    store.apply(WatchEvent::Disconnected(
        Timestamp(1),
        "connection refused".to_owned(),
    ));
    for tries in 1..=12 {
        let next = Some(Timestamp(i64::from(tries) * 1000));
        store.apply(WatchEvent::Retrying { tries, next });
        breakers.observe(&store, Timestamp(i64::from(tries) * 1000 - 500));
        assert_eq!(breakers.engine().is_closed(), tries < MAX_FAILED_PINGS, "{tries}");
        assert_eq!(
            breakers.reconnects_to_report(),
            (tries >= RECONNECTS_BEFORE_REPORT).then_some(tries)
        );
    }
    assert_eq!(breakers.engine().openings(), 1, "one outage causes one opening");
    store.apply(WatchEvent::Connected(Timestamp(20_000)));
    assert!(breakers.observe(&store, Timestamp(20_000)), "a relist is needed");
    assert!(
        breakers.blocked_by(&env("a"), Timestamp(20_000)).is_some(),
        "before the complete list"
    );
    finish_list(&mut store);
    breakers.observe(&store, Timestamp(20_010));
    assert_eq!(breakers.blocked_by(&env("a"), Timestamp(20_010)), None);
    assert!(breakers.half_open_limit(&env("a")).is_some());
    breakers.on_call(&env("a"), &subject("a"));
    assert!(
        breakers.blocked_by(&env("b"), Timestamp(20_011)).is_some(),
        "only one test call"
    );
    breakers.on_result(
        &env("a"),
        &subject("a"),
        ActionKind::StartContainer,
        &Ok(Done::Applied),
        Timestamp(20_020),
    );
    let ramp = breakers.blocked_by(&env("b"), Timestamp(20_021));
    assert!(matches!(ramp, Some(WaitReason::RampUp { .. })), "{ramp:?}");
    assert_eq!(
        breakers.blocked_by(&env("a"), Timestamp(20_021)),
        None,
        "the first environment continues"
    );
    assert!(
        breakers.on_planned(&env("a"), true, Timestamp(20_022)),
        "the others follow"
    );
    assert_eq!(breakers.blocked_by(&env("b"), Timestamp(20_023)), None);
}

#[test]
fn returned_engine_half_opens_breakers_that_its_end_opened() {
    let mut store = connected_store();
    let mut breakers = BreakerRegistry::default();
    breakers.observe(&store, Timestamp(0));
    // Calls fail before the watch notices the outage, which is shorter than three pings.
    for now in 1..=5 {
        run_call(&mut breakers, "shop", &connection_reset(), now);
    }
    assert!(matches!(breakers.engine().state(), CircuitState::Open { .. }));
    store.apply(WatchEvent::Disconnected(Timestamp(6), "gone".to_owned()));
    breakers.observe(&store, Timestamp(6));
    assert!(matches!(breakers.engine().state(), CircuitState::Open { .. }));
    store.apply(WatchEvent::Connected(Timestamp(700)));
    assert!(breakers.observe(&store, Timestamp(700)), "a relist is needed");
    finish_list(&mut store);
    breakers.observe(&store, Timestamp(710));
    assert_eq!(breakers.blocked_by(&env("shop"), Timestamp(710)), None);
}

#[test]
fn ramp_up_ends_after_its_limit() {
    let mut breakers = BreakerRegistry {
        ramp: Some(RampUp {
            first: env("a"),
            until: Timestamp(5_000),
        }),
        ..BreakerRegistry::default()
    };
    assert!(breakers.blocked_by(&env("b"), Timestamp(4_999)).is_some());
    assert_eq!(breakers.wake_at(), Some(Timestamp(5_000)));
    breakers.observe(&connected_store(), Timestamp(5_000));
    assert_eq!(breakers.blocked_by(&env("b"), Timestamp(5_000)), None);
}

#[test]
fn reset_half_opens_breakers() {
    let mut breakers = BreakerRegistry::default();
    let mut store = connected_store();
    breakers.observe(&store, Timestamp(1));
    for now in 0..5 {
        run_call(&mut breakers, "shop", &connection_reset(), now);
    }
    assert!(breakers.reset(None, Timestamp(6)));
    finish_list(&mut store);
    breakers.observe(&store, Timestamp(7));
    assert_eq!(breakers.blocked_by(&env("shop"), Timestamp(7)), None);
}

#[test]
fn reset_with_an_unreachable_engine_opens_after_one_ping() {
    let mut breakers = BreakerRegistry::default();
    let mut store = connected_store();
    breakers.observe(&store, Timestamp(1));
    store.apply(WatchEvent::Disconnected(Timestamp(8), "refused".to_owned()));
    for tries in 1..=3 {
        store.apply(WatchEvent::Retrying { tries, next: None });
        breakers.observe(&store, Timestamp(8));
    }
    assert!(breakers.reset(None, Timestamp(9)));
    for now in 9..12 {
        breakers.observe(&store, Timestamp(now));
        let state = breakers.engine().state();
        assert!(
            matches!(state, CircuitState::HalfOpen { .. }),
            "before the next ping: {state:?}"
        );
        assert!(breakers.blocked_by(&env("shop"), Timestamp(now)).is_some());
    }
    store.apply(WatchEvent::Retrying { tries: 4, next: None });
    breakers.observe(&store, Timestamp(12));
    let engine = breakers.engine();
    assert!(matches!(engine.state(), CircuitState::Open { .. }));
    assert_eq!((engine.openings(), engine.failure_count()), (2, 4));
    let changes: Vec<_> = engine.history().iter().map(|change| change.to).collect();
    assert_eq!(changes, ["open", "halfOpen", "open"]);
    assert!(
        engine
            .failures()
            .iter()
            .all(|it| (it.operation.as_str(), it.error.as_str()) == ("ping", "refused"))
    );
}

#[test]
fn end_of_the_engine_cooldown_tests_environments_too() {
    let mut store = connected_store();
    let mut breakers = BreakerRegistry::new(BreakerSettings {
        cooldown: Duration::from_secs(2),
        ..BreakerSettings::default()
    });
    breakers.observe(&store, Timestamp(0));
    // containerd is killed: the engine answers, and each start fails.
    for now in 1..=5 {
        run_call(
            &mut breakers,
            "shop",
            &Err(ActionError::Engine("unavailable".to_owned())),
            now,
        );
    }
    assert!(matches!(
        breakers.of(&env("shop")).unwrap().state(),
        CircuitState::Open { .. }
    ));
    assert!(breakers.observe(&store, Timestamp(2_400)), "a relist is needed");
    finish_list(&mut store);
    breakers.observe(&store, Timestamp(2_410));
    assert_eq!(breakers.blocked_by(&env("shop"), Timestamp(2_410)), None);
    run_call(&mut breakers, "shop", &Ok(Done::Applied), 2_420);
    assert!(breakers.engine().is_closed() && breakers.of(&env("shop")).unwrap().is_closed());
}

#[test]
fn cooldowns_wake_nothing_while_the_engine_is_away() {
    let mut store = connected_store();
    let mut breakers = BreakerRegistry::default();
    breakers.observe(&store, Timestamp(0));
    for now in 1..=5 {
        run_call(&mut breakers, "shop", &connection_reset(), now);
    }
    assert!(breakers.wake_at().is_some());
    store.apply(WatchEvent::Disconnected(Timestamp(6), "gone".to_owned()));
    store.apply(WatchEvent::Retrying { tries: 3, next: None });
    breakers.observe(&store, Timestamp(7));
    let version = breakers.version();
    breakers.observe(&store, Timestamp(8));
    assert_eq!((breakers.wake_at(), breakers.version()), (None, version));
}

#[test]
fn lists_and_other_environments_change_no_status() {
    let mut breakers = BreakerRegistry::default();
    let mut store = connected_store();
    breakers.observe(&store, Timestamp(1));
    let before = breakers.clone();
    finish_list(&mut store);
    breakers.observe(&store, Timestamp(2));
    Arc::make_mut(&mut breakers.settings).insert(env("other"), None);
    assert_ne!(breakers, before);
    assert!(breakers.is_same_for(&env("shop"), &before));
    breakers.environments.insert(env("other"), Breaker::default());
    assert!(breakers.is_same_for(&env("shop"), &before));
    assert!(!breakers.is_same_for(&env("other"), &before));
    run_call(&mut breakers, "other", &connection_reset(), 3);
    assert!(
        !breakers.is_same_for(&env("shop"), &before),
        "the engine's breaker concerns all"
    );
}

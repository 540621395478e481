//! All transitions of a breaker, in every order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::ident::{EnvName, ServiceName};

const SETTINGS: BreakerSettings = BreakerSettings {
    threshold: 3,
    cooldown: Duration::from_secs(30),
};

fn subject(name: &str) -> Subject {
    Subject::Service {
        environment: EnvName::new("shop").unwrap(),
        service: ServiceName::new(name).unwrap(),
    }
}

fn failure(why: &str) -> CallOutcome<'_> {
    CallOutcome::Failure {
        operation: "start-container",
        why,
    }
}

fn record_failure(breaker: &mut Breaker, now: i64) {
    breaker.on_result(&subject("a"), failure("reset"), SETTINGS, "k", Timestamp(now));
}

fn open_until(breaker: &Breaker) -> Timestamp {
    match breaker.state() {
        CircuitState::Open { until } => *until,
        other => panic!("{other:?} is not open"),
    }
}

#[test]
fn breaker_opens_at_the_threshold() {
    let mut breaker = Breaker::default();
    record_failure(&mut breaker, 1);
    record_failure(&mut breaker, 2);
    breaker.on_result(&subject("b"), CallOutcome::Success, SETTINGS, "k", Timestamp(3));
    record_failure(&mut breaker, 4);
    record_failure(&mut breaker, 5);
    assert!(breaker.is_closed(), "a success resets the counter");
    record_failure(&mut breaker, 6);
    assert!(!breaker.allows_call(u64::MAX));
    assert_eq!(breaker.openings(), 1);
    assert_eq!(breaker.last_failure(), Some("reset"));
}

#[test]
fn open_breaker_keeps_its_last_failures() {
    let mut breaker = Breaker::default();
    for now in 1..=3 {
        record_failure(&mut breaker, now);
    }
    let times = |breaker: &Breaker| -> Vec<i64> { breaker.failures().iter().map(|it| it.at.0).collect() };
    assert_eq!((breaker.failure_count(), times(&breaker)), (3, vec![1, 2, 3]));
    assert_eq!(breaker.failures()[0].operation, "start-container");
    for now in 4..=30 {
        breaker.count_failure("ping", "refused", Timestamp(now));
    }
    assert_eq!(
        (breaker.failure_count(), times(&breaker)),
        (30, (11..=30).collect())
    );
    assert_eq!(breaker.last_failure(), Some("refused"));
    breaker.tick(0, open_until(&breaker));
    breaker.on_call(&subject("a"));
    breaker.on_result(
        &subject("a"),
        CallOutcome::Success,
        SETTINGS,
        "k",
        Timestamp(40_000),
    );
    assert_eq!(
        (breaker.failure_count(), times(&breaker).len()),
        (0, 20),
        "the history remains"
    );
    record_failure(&mut breaker, 50_000);
    assert_eq!((breaker.failure_count(), times(&breaker)), (1, vec![50_000]));
}

#[test]
fn cooldown_doubles_to_five_minutes_and_resets_on_close() {
    let mut breaker = Breaker::default();
    let mut now = 0;
    let mut spans = Vec::new();
    for _ in 0..3 {
        record_failure(&mut breaker, now);
    }
    for _ in 0..7 {
        let until = open_until(&breaker);
        spans.push(until.since(Timestamp(now)).as_secs_f64());
        now = until.0;
        assert!(breaker.tick(0, until));
        breaker.on_call(&subject("a"));
        record_failure(&mut breaker, now);
    }
    let bases: [f64; 7] = [30.0, 60.0, 120.0, 240.0, 300.0, 300.0, 300.0];
    for (span, base) in spans.iter().zip(bases) {
        assert!((base * 0.85..=base * 1.15).contains(span), "{span} of {base}");
    }
    let mut all = spans.iter().zip(bases);
    let has_jitter = all.any(|(span, base)| (span - base).abs() > base * 0.02);
    assert!(has_jitter, "{spans:?}");
    let until = open_until(&breaker);
    breaker.tick(0, until);
    breaker.on_call(&subject("a"));
    breaker.on_result(&subject("a"), CallOutcome::Success, SETTINGS, "k", until);
    assert!(breaker.is_closed());
    for _ in 0..3 {
        record_failure(&mut breaker, until.0);
    }
    assert!(open_until(&breaker).since(until) < Duration::from_secs(40));
}

#[test]
fn clock_set_back_does_not_extend_the_cooldown() {
    let mut breaker = Breaker::default();
    for _ in 0..3 {
        record_failure(&mut breaker, 10_000_000);
    }
    assert!(breaker.tick(0, Timestamp(0)), "{:?}", breaker.state());
}

#[test]
fn test_call_waits_for_a_new_complete_list() {
    let mut breaker = Breaker::default();
    for _ in 0..3 {
        record_failure(&mut breaker, 0);
    }
    let until = open_until(&breaker);
    breaker.tick(7, until);
    assert!(
        !breaker.allows_call(7),
        "that list had started before the transition"
    );
    assert!(breaker.allows_call(8));
    assert!(
        breaker.close_if_idle(8, until),
        "without a test call, the complete list closes the breaker"
    );
    assert!(breaker.is_closed());
}

/// Operations on a breaker with two callers.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Call(usize),
    Good(usize),
    Bad(usize),
    Silent(usize),
    CooldownOver,
    Early,
    ListDone,
    Reset,
    Rest,
    Away,
}

const ALL_OPERATIONS: [Operation; 14] = [
    Operation::Call(0),
    Operation::Call(1),
    Operation::Good(0),
    Operation::Good(1),
    Operation::Bad(0),
    Operation::Bad(1),
    Operation::Silent(0),
    Operation::Silent(1),
    Operation::CooldownOver,
    Operation::Early,
    Operation::ListDone,
    Operation::Reset,
    Operation::Rest,
    Operation::Away,
];

/// A breaker with the calls in flight of two callers, each with the opening number at its submission.
#[derive(Debug, Clone)]
struct Model {
    breaker: Breaker,
    in_flight: [Option<u64>; 2],
    list: u64,
    now: i64,
}

impl Model {
    /// Applies an operation if it is possible. Returns true if it changed the model.
    fn step(&mut self, operation: Operation) -> bool {
        let names = [subject("a"), subject("b")];
        self.now += 1;
        let now = Timestamp(self.now);
        let before = self.breaker.openings();
        let finish_call = |model: &mut Self, caller: usize, answer: CallOutcome<'_>| {
            if model.in_flight[caller].take().is_none() {
                return false;
            }
            model
                .breaker
                .on_result(&names[caller], answer, SETTINGS, "k", now);
            true
        };
        let is_applied = match operation {
            Operation::Call(caller) => {
                if self.in_flight[caller].is_some() || !self.breaker.allows_call(self.list) {
                    return false;
                }
                assert!(
                    !matches!(self.breaker.state(), CircuitState::Open { .. }),
                    "a call while open"
                );
                let half = matches!(self.breaker.state(), CircuitState::HalfOpen { .. });
                self.breaker.on_call(&names[caller]);
                self.in_flight[caller] = Some(self.breaker.openings());
                if half {
                    assert!(!self.breaker.allows_call(self.list), "a second test call");
                }
                true
            }
            Operation::Good(caller) => finish_call(self, caller, CallOutcome::Success),
            Operation::Bad(caller) => finish_call(self, caller, failure("no")),
            Operation::Silent(caller) => finish_call(self, caller, CallOutcome::Ignored),
            Operation::CooldownOver => match self.breaker.state() {
                CircuitState::Open { until } => {
                    self.now = until.0;
                    self.breaker.tick(self.list, *until)
                }
                _ => return false,
            },
            Operation::Early => {
                let was = self.breaker.state().clone();
                self.breaker.tick(self.list, now);
                assert_eq!(*self.breaker.state(), was, "only time ends a cooldown");
                return false;
            }
            Operation::ListDone => {
                self.list += 1;
                true
            }
            Operation::Reset => self.breaker.reset(self.list, now, "asked"),
            Operation::Rest => self.breaker.close_if_idle(self.list, now),
            Operation::Away => {
                self.breaker.force_open(now + Duration::from_secs(1), now, "gone");
                true
            }
        };
        assert!(self.breaker.openings() >= before);
        let probes = self
            .in_flight
            .iter()
            .zip(&names)
            .filter(|(in_flight, name)| {
                in_flight.is_some()
                    && matches!(self.breaker.state(), CircuitState::HalfOpen { test_call: Some(subject), .. } if subject == *name)
            })
            .count();
        assert!(probes <= 1);
        is_applied
    }

    /// Key of the model's state, without numbers that only increase.
    fn state_key(&self) -> String {
        let kind = match self.breaker.state() {
            CircuitState::Closed => format!("closed {}", self.breaker.failure_count()),
            CircuitState::Open { .. } => "open".to_owned(),
            CircuitState::HalfOpen {
                after_list,
                test_call,
            } => {
                format!("half {} {test_call:?}", self.list > *after_list)
            }
        };
        let current = self
            .in_flight
            .map(|in_flight| in_flight.map(|at| at == self.breaker.openings()));
        format!("{kind} {current:?} {}", self.breaker.consecutive_openings.min(6))
    }
}

/// Explores all reachable states: an open breaker allows no call, a half-open one allows one test call, and successes close
/// the breaker from every state.
#[test]
fn every_order_of_operations_allows_one_test_call_and_closes() {
    let start = Model {
        breaker: Breaker::default(),
        in_flight: [None, None],
        list: 0,
        now: 0,
    };
    let mut reached: BTreeMap<String, Model> = BTreeMap::new();
    let mut open_models = vec![start];
    let mut kinds = BTreeSet::new();
    while let Some(model) = open_models.pop() {
        let state_key = model.state_key();
        if reached.contains_key(&state_key) {
            continue;
        }
        kinds.insert(state_key.split(' ').next().unwrap().to_owned());
        reached.insert(state_key, model.clone());
        for operation in ALL_OPERATIONS {
            let mut next = model.clone();
            if next.step(operation) {
                open_models.push(next);
            }
        }
    }
    assert_eq!(kinds.len(), 3, "{kinds:?}");
    assert!(reached.len() > 50, "only {} states were reached", reached.len());
    for (state_key, model) in reached {
        let mut model = model;
        for _ in 0..4 {
            for operation in [
                Operation::CooldownOver,
                Operation::Silent(0),
                Operation::Silent(1),
                Operation::ListDone,
                Operation::Call(0),
                Operation::Good(0),
            ] {
                model.step(operation);
            }
        }
        assert!(model.breaker.is_closed(), "from {state_key}: {:?}", model.breaker);
    }
}

//! Every transition of a breaker, and every order of them.

use std::collections::{BTreeMap, BTreeSet};

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

fn bad(breaker: &mut Breaker, now: i64) {
    breaker.on_result(
        &subject("a"),
        CallOutcome::Failure("reset"),
        SETTINGS,
        "k",
        Timestamp(now),
    );
}

fn due(breaker: &Breaker) -> Timestamp {
    match breaker.state() {
        CircuitState::Open { until } => *until,
        other => panic!("{other:?} is not open"),
    }
}

#[test]
fn it_opens_at_the_threshold_and_not_before() {
    let mut breaker = Breaker::default();
    bad(&mut breaker, 1);
    bad(&mut breaker, 2);
    breaker.on_result(&subject("b"), CallOutcome::Success, SETTINGS, "k", Timestamp(3));
    bad(&mut breaker, 4);
    bad(&mut breaker, 5);
    assert!(breaker.is_closed(), "an answer in between begins a new row");
    bad(&mut breaker, 6);
    assert!(!breaker.allows_call(u64::MAX));
    assert_eq!(breaker.times_opened(), 1);
    assert_eq!(breaker.last_failure(), Some("reset"));
}

#[test]
fn its_cooldown_doubles_to_five_minutes_and_begins_anew_after_it_closed() {
    let mut breaker = Breaker::default();
    let mut now = 0;
    let mut spans = Vec::new();
    for _ in 0..3 {
        bad(&mut breaker, now);
    }
    for _ in 0..7 {
        let until = due(&breaker);
        spans.push(until.since(Timestamp(now)).as_secs_f64());
        now = until.0;
        assert!(breaker.tick(0, until));
        breaker.on_call(&subject("a"));
        bad(&mut breaker, now);
    }
    for (span, base) in spans.iter().zip([30.0, 60.0, 120.0, 240.0, 300.0, 300.0, 300.0]) {
        assert!((base * 0.85..=base * 1.15).contains(span), "{span} of {base}");
    }
    let until = due(&breaker);
    breaker.tick(0, until);
    breaker.on_call(&subject("a"));
    breaker.on_result(&subject("a"), CallOutcome::Success, SETTINGS, "k", until);
    assert!(breaker.is_closed());
    for _ in 0..3 {
        bad(&mut breaker, until.0);
    }
    assert!(due(&breaker).since(until) < Duration::from_secs(40));
}

#[test]
fn a_clock_that_is_set_back_does_not_keep_it_open() {
    let mut breaker = Breaker::default();
    for _ in 0..3 {
        bad(&mut breaker, 10_000_000);
    }
    assert!(breaker.tick(0, Timestamp(0)), "{:?}", breaker.state());
}

#[test]
fn a_list_comes_before_the_call_that_tries_it() {
    let mut breaker = Breaker::default();
    for _ in 0..3 {
        bad(&mut breaker, 0);
    }
    let until = due(&breaker);
    breaker.tick(7, until);
    assert!(!breaker.allows_call(7), "that list had begun before");
    assert!(breaker.allows_call(8));
    assert!(
        breaker.close_if_idle(8, until),
        "with nothing to call, the list is the answer"
    );
    assert!(breaker.is_closed());
}

/// Everything that can happen to a breaker with two callers.
#[derive(Debug, Clone, Copy)]
enum Happens {
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

const ALL: [Happens; 14] = [
    Happens::Call(0),
    Happens::Call(1),
    Happens::Good(0),
    Happens::Good(1),
    Happens::Bad(0),
    Happens::Bad(1),
    Happens::Silent(0),
    Happens::Silent(1),
    Happens::CooldownOver,
    Happens::Early,
    Happens::ListDone,
    Happens::Reset,
    Happens::Rest,
    Happens::Away,
];

/// A breaker with what a caller knows: which calls are on their way, and which of them were decided on when.
#[derive(Debug, Clone)]
struct Model {
    breaker: Breaker,
    flying: [Option<u64>; 2],
    list: u64,
    now: i64,
}

impl Model {
    /// Does it where it can happen; tells whether it could.
    fn step(&mut self, happens: Happens) -> bool {
        let names = [subject("a"), subject("b")];
        self.now += 1;
        let now = Timestamp(self.now);
        let before = self.breaker.times_opened();
        let back = |model: &mut Self, who: usize, answer: CallOutcome<'_>| {
            if model.flying[who].take().is_none() {
                return false;
            }
            model.breaker.on_result(&names[who], answer, SETTINGS, "k", now);
            true
        };
        let possible = match happens {
            Happens::Call(who) => {
                if self.flying[who].is_some() || !self.breaker.allows_call(self.list) {
                    return false;
                }
                assert!(
                    !matches!(self.breaker.state(), CircuitState::Open { .. }),
                    "a call while open"
                );
                let half = matches!(self.breaker.state(), CircuitState::HalfOpen { .. });
                self.breaker.on_call(&names[who]);
                self.flying[who] = Some(self.breaker.times_opened());
                if half {
                    assert!(!self.breaker.allows_call(self.list), "a second probe");
                }
                true
            }
            Happens::Good(who) => back(self, who, CallOutcome::Success),
            Happens::Bad(who) => back(self, who, CallOutcome::Failure("no")),
            Happens::Silent(who) => back(self, who, CallOutcome::Ignored),
            Happens::CooldownOver => match self.breaker.state() {
                CircuitState::Open { until } => {
                    self.now = until.0;
                    self.breaker.tick(self.list, *until)
                }
                _ => return false,
            },
            Happens::Early => {
                let was = self.breaker.state().clone();
                self.breaker.tick(self.list, now);
                assert_eq!(*self.breaker.state(), was, "nothing but time ends a cooldown");
                return false;
            }
            Happens::ListDone => {
                self.list += 1;
                true
            }
            Happens::Reset => self.breaker.reset(self.list, now, "asked"),
            Happens::Rest => self.breaker.close_if_idle(self.list, now),
            Happens::Away => {
                self.breaker.force_open(now + Duration::from_secs(1), now, "gone");
                true
            }
        };
        assert!(self.breaker.times_opened() >= before);
        let probes = self
            .flying
            .iter()
            .zip(&names)
            .filter(|(flying, name)| {
                flying.is_some()
                    && matches!(self.breaker.state(), CircuitState::HalfOpen { probe: Some(probe), .. } if probe == *name)
            })
            .count();
        assert!(probes <= 1);
        possible
    }

    /// What tells one state of the model from another, without the numbers that only grow.
    fn shape(&self) -> String {
        let kind = match self.breaker.state() {
            CircuitState::Closed { failures } => format!("closed {failures}"),
            CircuitState::Open { .. } => "open".to_owned(),
            CircuitState::HalfOpen { after_list, probe } => {
                format!("half {} {probe:?}", self.list > *after_list)
            }
        };
        let current = self
            .flying
            .map(|flying| flying.map(|at| at == self.breaker.times_opened()));
        format!("{kind} {current:?} {}", self.breaker.consecutive_failures.min(6))
    }
}

/// Every state that can be reached, from every state on: never a call while open, never two probes, and from anywhere good answers
/// close it again.
#[test]
fn no_order_of_happenings_makes_a_second_probe_or_a_breaker_that_never_closes() {
    let start = Model {
        breaker: Breaker::default(),
        flying: [None, None],
        list: 0,
        now: 0,
    };
    let mut seen: BTreeMap<String, Model> = BTreeMap::new();
    let mut left = vec![start];
    let mut kinds = BTreeSet::new();
    while let Some(model) = left.pop() {
        let shape = model.shape();
        if seen.contains_key(&shape) {
            continue;
        }
        kinds.insert(shape.split(' ').next().unwrap().to_owned());
        seen.insert(shape, model.clone());
        for happens in ALL {
            let mut next = model.clone();
            if next.step(happens) {
                left.push(next);
            }
        }
    }
    assert_eq!(kinds.len(), 3, "{kinds:?}");
    assert!(seen.len() > 50, "only {} states were reached", seen.len());
    for (shape, model) in seen {
        let mut model = model;
        for _ in 0..4 {
            for happens in [
                Happens::CooldownOver,
                Happens::Silent(0),
                Happens::Silent(1),
                Happens::ListDone,
                Happens::Call(0),
                Happens::Good(0),
            ] {
                model.step(happens);
            }
        }
        assert!(model.breaker.is_closed(), "from {shape}: {:?}", model.breaker);
    }
}

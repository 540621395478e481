//! Tests of the inspect queue: examples, and a property test against rules that do not know the implementation.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn id(name: &str) -> ObjectId {
    ObjectId::Volume(name.to_owned())
}

fn at(milliseconds: i64) -> Timestamp {
    Timestamp(milliseconds)
}

#[test]
fn many_events_of_one_object_cause_one_inspect() {
    let mut queue = InspectQueue::default();
    (0..1000).for_each(|_| queue.mark_changed(id("a"), at(0)));
    assert_eq!(queue.pop(at(0)), Some(id("a")));
    assert_eq!(queue.pop(at(0)), None);
}

#[test]
fn an_event_during_an_inspect_causes_another_inspect() {
    let mut queue = InspectQueue::default();
    queue.mark_changed(id("a"), at(0));
    assert_eq!(queue.pop(at(0)), Some(id("a")));
    queue.mark_changed(id("a"), at(1));
    assert_eq!(queue.pop(at(1)), None);
    queue.finish(&id("a"));
    assert_eq!(queue.pop(at(1)), Some(id("a")));
    queue.finish(&id("a"));
    assert_eq!((queue.pop(at(1)), queue.next_due()), (None, None));
}

#[test]
fn a_hung_object_backs_off_and_delays_no_other_object() {
    let mut queue = InspectQueue::default();
    queue.mark_changed(id("hung"), at(0));
    queue.mark_changed(id("other"), at(1));
    assert_eq!(queue.pop(at(1)), Some(id("hung")));
    assert_eq!(queue.fail(&id("hung"), at(1)), Duration::from_secs(1));
    assert_eq!(queue.pop(at(1)), Some(id("other")));
    queue.mark_changed(id("hung"), at(2));
    assert_eq!(queue.pop(at(1000)), None, "an event does not end the backoff");
    assert_eq!(queue.next_due(), Some(at(1001)));
    assert_eq!(queue.pop(at(1001)), Some(id("hung")));
    assert_eq!(queue.fail(&id("hung"), at(1001)), Duration::from_secs(2));
    for round in 1..=10 {
        assert_eq!(queue.pop(at(100_000 * round)), Some(id("hung")));
        queue.fail(&id("hung"), at(100_000 * round));
    }
    assert_eq!(queue.pop(at(2_000_000)), Some(id("hung")));
    assert_eq!(queue.fail(&id("hung"), at(2_000_000)), Duration::from_secs(30));
}

#[test]
fn the_number_of_parallel_inspects_is_limited() {
    let mut queue = InspectQueue::default();
    for (time, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        queue.mark_changed(id(name), at(i64::try_from(time).unwrap()));
    }
    for name in ["a", "b", "c", "d"] {
        assert_eq!(queue.pop(at(9)), Some(id(name)));
    }
    assert_eq!((queue.pop(at(9)), queue.next_due()), (None, None));
    queue.finish(&id("a"));
    assert_eq!(queue.pop(at(9)), Some(id("e")));
}

#[test]
fn an_event_shortens_a_delay_and_a_reported_creation_cancels_it() {
    let mut queue = InspectQueue::default();
    queue.require(id("created"), at(100));
    queue.require(id("changed"), at(100));
    queue.on_created(id("created"), at(1));
    assert_eq!(queue.pop(at(2)), None);
    queue.mark_changed(id("changed"), at(2));
    assert_eq!(queue.pop(at(2)), Some(id("changed")));
    assert_eq!((queue.pop(at(1000)), queue.next_due()), (None, None));
}

#[test]
fn all_events_of_a_call_cause_one_inspect_after_it() {
    let mut queue = InspectQueue::default();
    queue.suspend(id("a"));
    queue.mark_changed(id("a"), at(1));
    queue.mark_changed(id("a"), at(2));
    assert_eq!(queue.pop(at(1000)), None);
    assert!(queue.resume(id("a"), at(1005)), "it had an event");
    assert_eq!(queue.pop(at(1004)), None);
    assert_eq!(queue.pop(at(1005)), Some(id("a")));
    queue.finish(&id("a"));
    queue.suspend(id("a"));
    assert!(!queue.resume(id("a"), at(2005)));
    assert_eq!(queue.next_due(), Some(at(2005)));
}

#[test]
fn a_change_is_unannounced_if_only_a_list_shows_it() {
    for (marks, unannounced) in [
        (&[InspectQueue::mark_listed as fn(&mut _, _, _)][..], true),
        (&[InspectQueue::mark_listed, InspectQueue::mark_changed], false),
        (&[InspectQueue::mark_changed, InspectQueue::mark_listed], false),
    ] {
        let mut queue = InspectQueue::default();
        for mark in marks {
            mark(&mut queue, id("a"), at(1));
        }
        queue.pop(at(1));
        assert_eq!(queue.finish(&id("a")), unannounced);
    }
}

#[test]
fn an_inspected_object_is_newer_than_the_running_list_only() {
    let mut queue = InspectQueue::default();
    queue.mark_changed(id("inspected"), at(0));
    queue.mark_changed(id("failed"), at(1));
    queue.start_list();
    queue.pop(at(1));
    queue.pop(at(1));
    queue.finish(&id("inspected"));
    queue.fail(&id("failed"), at(1));
    queue.on_created(id("created"), at(1));
    let newer = ["inspected", "failed", "created", "other"];
    let newer = newer.map(|name| queue.is_newer_than_list(&id(name)));
    assert_eq!(newer, [true, false, true, false]);
    queue.start_list();
    assert!(!queue.is_newer_than_list(&id("inspected")));
    assert_eq!(queue.entries.len(), 1, "only the failed object has an entry");
}

/// One input of the queue, for one of few objects.
#[derive(Debug, Clone)]
enum Op {
    MarkChanged(u8),
    MarkListed(u8),
    Require(u8),
    Created(u8),
    Suspend(u8),
    Resume(u8),
    Pop,
    Finish(u8),
    Fail(u8),
    StartList,
    Advance(i64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let object = || 0..7_u8;
    let op = prop_oneof![
        4 => object().prop_map(Op::MarkChanged),
        2 => object().prop_map(Op::MarkListed),
        1 => object().prop_map(Op::Require),
        1 => object().prop_map(Op::Created),
        2 => object().prop_map(Op::Suspend),
        2 => object().prop_map(Op::Resume),
        8 => Just(Op::Pop),
        4 => object().prop_map(Op::Finish),
        2 => object().prop_map(Op::Fail),
        1 => Just(Op::StartList),
        4 => (0..2_000_i64).prop_map(Op::Advance),
    ];
    proptest::collection::vec(op, 0..200)
}

/// The rules of the queue, without its implementation.
#[derive(Default)]
struct Rules {
    now: i64,
    /// Objects with a change that no inspect has started after.
    dirty: BTreeSet<u8>,
    in_flight: BTreeSet<u8>,
    suspended: BTreeSet<u8>,
    /// Ends of backoffs.
    backoffs: BTreeMap<u8, i64>,
    /// Objects whose only need for an inspect is a delay that lies in the future.
    delayed: BTreeMap<u8, i64>,
}

impl Rules {
    fn mark(&mut self, object: u8) {
        self.dirty.insert(object);
        self.delayed.remove(&object);
    }

    fn require(&mut self, object: u8, span: i64) {
        let until = self.now + span;
        if self.dirty.insert(object) {
            self.delayed.insert(object, until);
        } else if let Some(earlier) = self.delayed.get_mut(&object) {
            *earlier = until.min(*earlier);
        }
    }

    fn on_popped(&mut self, object: u8) {
        assert!(self.in_flight.insert(object), "two inspects of one object");
        assert!(self.in_flight.len() <= MAX_IN_FLIGHT);
        assert!(!self.suspended.contains(&object), "an inspect during a call");
        assert!(self.dirty.remove(&object), "an inspect without a need");
        for waits in [&self.backoffs, &self.delayed] {
            assert!(waits.get(&object).is_none_or(|until| *until <= self.now));
        }
        self.delayed.remove(&object);
    }
}

fn name(object: u8) -> ObjectId {
    id(&object.to_string())
}

fn number(id: &ObjectId) -> u8 {
    let ObjectId::Volume(name) = id else {
        panic!("{id:?}")
    };
    name.parse().unwrap()
}

/// Applies one operation to the queue and to its rules.
fn apply(queue: &mut InspectQueue, rules: &mut Rules, op: &Op) {
    let now = at(rules.now);
    match *op {
        Op::MarkChanged(object) => {
            queue.mark_changed(name(object), now);
            rules.mark(object);
        }
        Op::MarkListed(object) => {
            queue.mark_listed(name(object), now);
            rules.mark(object);
        }
        Op::Require(object) => {
            queue.require(name(object), now + Duration::from_millis(100));
            rules.require(object, 100);
        }
        Op::Created(object) => {
            queue.on_created(name(object), now);
            let is_pending = rules.delayed.get(&object).is_some_and(|until| *until > rules.now);
            if is_pending && !rules.suspended.contains(&object) && !rules.backoffs.contains_key(&object) {
                rules.delayed.remove(&object);
                rules.dirty.remove(&object);
            }
        }
        Op::Suspend(object) => {
            queue.suspend(name(object));
            // The inspect after the call needs no other reason.
            rules.suspended.insert(object);
            rules.dirty.remove(&object);
            rules.delayed.remove(&object);
        }
        Op::Resume(object) => {
            queue.resume(name(object), now + Duration::from_millis(5));
            if rules.suspended.remove(&object) {
                rules.dirty.remove(&object);
            }
            rules.require(object, 5);
        }
        Op::Pop => {
            if let Some(popped) = queue.pop(now) {
                rules.on_popped(number(&popped));
            }
        }
        Op::Finish(object) => {
            queue.finish(&name(object));
            if rules.in_flight.remove(&object) {
                rules.backoffs.remove(&object);
            }
        }
        Op::Fail(object) => {
            let backoff = queue.fail(&name(object), now);
            if rules.in_flight.remove(&object) {
                rules.dirty.insert(object);
                let until = (now + backoff).0;
                rules.backoffs.insert(object, until);
            }
        }
        Op::StartList => queue.start_list(),
        Op::Advance(by) => rules.now += by,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_change_is_lost_and_no_object_is_inspected_twice_at_once(ops in ops()) {
        let (mut queue, mut rules) = (InspectQueue::default(), Rules::default());
        for op in &ops {
            apply(&mut queue, &mut rules, op);
        }
        // After the end of all calls, inspects and waits, every change leads to an inspect, and nothing else does.
        for object in rules.suspended.clone() {
            apply(&mut queue, &mut rules, &Op::Resume(object));
        }
        while !rules.dirty.is_empty() || !rules.in_flight.is_empty() {
            for object in rules.in_flight.clone() {
                apply(&mut queue, &mut rules, &Op::Finish(object));
            }
            if let Some(due) = queue.next_due() {
                rules.now = rules.now.max(due.0);
            }
            let before = rules.dirty.len();
            apply(&mut queue, &mut rules, &Op::Pop);
            prop_assert!(rules.dirty.len() < before || before == 0, "a lost change: {:?}", rules.dirty);
        }
        prop_assert_eq!((queue.next_due(), queue.in_flight), (None, 0));
    }
}

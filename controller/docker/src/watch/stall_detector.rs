//! Whether the event stream still tells: it can be stuck while everything else answers.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_core::ident::ContainerId;
use argus_core::observed::{Container, ObjectId};
use argus_core::time::Timestamp;

/// A change that is older and was told by no event shows that the stream is stuck.
const EVENTS_LATE: Duration = Duration::from_secs(5);

/// What speaks against one subscription.
#[derive(Debug)]
pub(super) struct StallDetector {
    subscribed_at: Timestamp,
    /// New or changed in a list although no event had told so.
    unconfirmed: BTreeSet<ContainerId>,
    /// Told of by events while a call of ours on them went on.
    confirmed: BTreeSet<ObjectId>,
    /// A call of ours had ended then, and no event has come since its beginning.
    silent_since: Option<Timestamp>,
}

impl StallDetector {
    /// A subscription made now.
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            subscribed_at: now,
            unconfirmed: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            silent_since: None,
        }
    }

    /// An event came.
    pub(super) fn on_event(&mut self) {
        self.silent_since = None;
    }

    /// An event told of what a call of ours goes on at.
    pub(super) fn on_event_during_call(&mut self, id: ObjectId) {
        self.confirmed.insert(id);
    }

    /// A call of ours on it has ended, which makes at least one event.
    pub(super) fn on_call_ended(&mut self, id: &ObjectId, now: Timestamp) {
        if !self.confirmed.remove(id) {
            self.silent_since.get_or_insert(now);
        }
    }

    /// A list shows a change that no event told of.
    pub(super) fn expect_event(&mut self, id: ContainerId) {
        self.unconfirmed.insert(id);
    }

    /// A look tells since when a suspect is as it is; whether the stream is stuck.
    pub(super) fn on_inspected(&mut self, container: &Container, now: Timestamp) -> bool {
        if !self.unconfirmed.remove(&container.id) {
            return false;
        }
        let facts = container.inspect.as_ref();
        let times = [
            facts.and_then(|facts| facts.started_at),
            facts.and_then(|facts| facts.finished_at),
        ];
        let changed = times
            .into_iter()
            .flatten()
            .fold(container.created_at, Timestamp::max);
        changed > self.subscribed_at && now.since(changed) > EVENTS_LATE
    }

    /// Whether a call of ours has gone unheard for too long.
    pub(super) fn is_stalled(&self, now: Timestamp) -> bool {
        self.silent_since
            .is_some_and(|since| now.since(since) > EVENTS_LATE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_no_event_tells_of_raises_doubt_after_a_while() {
        let id = ObjectId::Volume("a".into());
        let at = |seconds: i64| Timestamp(seconds * 1000);
        let mut doubt = StallDetector::new(at(0));
        doubt.on_event_during_call(id.clone());
        doubt.on_call_ended(&id, at(1));
        assert!(!doubt.is_stalled(at(100)));
        doubt.on_call_ended(&id, at(101));
        assert!(!doubt.is_stalled(at(106)));
        assert!(doubt.is_stalled(at(107)));
        doubt.on_event();
        assert!(!doubt.is_stalled(at(108)));
    }
}

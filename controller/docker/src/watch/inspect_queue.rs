//! Queue of objects to inspect: the only place that knows what happens next with an object of a session.
//!
//! It is the work queue of client-go (deduplication, one worker per object, backoff, `AddAfter`) with two additions: it
//! suspends the inspects of an object while a call of this backend changes it, and it knows which objects are newer than
//! the current list. Each object has one entry, so no number of events can overflow the queue.
//!
//! The queue is pure: the caller passes the time and performs the inspects. See
//! `docs/decisions/0018-the-inspect-queue-is-pure.md`.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::backoff::{Growth, delay};
use argus_core::observed::ObjectId;
use argus_core::time::Timestamp;

/// Maximum number of parallel inspects. More gain nothing, and older engines do not handle them well.
const MAX_IN_FLIGHT: usize = 4;
/// Delay after the first failed inspect of an object. It doubles with each further failure.
const BACKOFF: Duration = Duration::from_secs(1);
/// Maximum delay after a failed inspect.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Deduplicating queue with delays, suspensions and backoff.
///
/// At most one inspect of an object is in flight. A change during an inspect leads to another inspect, because the first
/// one may have started before the change.
#[derive(Debug, Default)]
pub(super) struct InspectQueue {
    entries: BTreeMap<ObjectId, Entry>,
    /// Number of entries with an inspect in flight.
    in_flight: usize,
}

#[derive(Debug, Default)]
struct Entry {
    /// An inspect is in flight. Then `state` says what follows it.
    in_flight: bool,
    state: State,
    /// Consecutive failed inspects.
    failures: u32,
    /// No inspect starts earlier. The time lies in the future only during the backoff after a failure.
    not_before: Timestamp,
    /// A list showed the change, but no event did.
    unannounced: bool,
    /// The object was inspected or created since the start of the list. The list may show an older state of it.
    newer_than_list: bool,
}

/// Need of an object for an inspect.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No inspect is needed.
    #[default]
    Idle,
    /// An inspect is needed: queued if the time has come, else delayed until then. The earliest time is served first.
    Due(Timestamp),
    /// A call of this backend changes the object. An inspect follows the end of the call.
    Suspended { had_event: bool },
}

impl Entry {
    /// Requires an inspect at this time or earlier, but not during a backoff. A suspended object is inspected when it
    /// resumes.
    fn require(&mut self, at: Timestamp) {
        let at = at.max(self.not_before);
        match &mut self.state {
            State::Idle => self.state = State::Due(at),
            State::Due(due) => *due = at.min(*due),
            State::Suspended { .. } => {}
        }
    }

    /// Time of the next inspect; `None` when none is needed, or when it must wait for a call or another inspect.
    fn due(&self) -> Option<Timestamp> {
        match self.state {
            State::Due(due) if !self.in_flight => Some(due),
            _ => None,
        }
    }
}

impl InspectQueue {
    /// Queues an object because of an event.
    pub(super) fn mark_changed(&mut self, id: ObjectId, now: Timestamp) {
        let entry = self.entries.entry(id).or_default();
        entry.unannounced = false;
        match &mut entry.state {
            State::Suspended { had_event } => *had_event = true,
            State::Idle | State::Due(_) => entry.require(now),
        }
    }

    /// Queues an object because a list shows a change. The queue remembers it as unannounced if no event explains it.
    pub(super) fn mark_listed(&mut self, id: ObjectId, now: Timestamp) {
        let entry = self.entries.entry(id).or_default();
        entry.unannounced |= match entry.state {
            State::Idle => !entry.in_flight,
            State::Due(_) => false,
            State::Suspended { had_event } => !had_event,
        };
        entry.require(now);
    }

    /// Requires an inspect at the given time or earlier.
    pub(super) fn require(&mut self, id: ObjectId, at: Timestamp) {
        self.entries.entry(id).or_default().require(at);
    }

    /// Records an object that a call of this backend created and that is known without an inspect. Cancels a delay.
    pub(super) fn on_created(&mut self, id: ObjectId, now: Timestamp) {
        let entry = self.entries.entry(id).or_default();
        entry.newer_than_list = true;
        if matches!(entry.state, State::Due(due) if due > now && entry.failures == 0) {
            entry.state = State::Idle;
        }
    }

    /// Suppresses inspects of an object until [`Self::resume`].
    pub(super) fn suspend(&mut self, id: ObjectId) {
        let entry = self.entries.entry(id).or_default();
        if !matches!(entry.state, State::Suspended { .. }) {
            entry.state = State::Suspended { had_event: false };
        }
    }

    /// Ends the suspension of an object and requires an inspect at the given time. Returns true if the object had an
    /// event during the suspension.
    pub(super) fn resume(&mut self, id: ObjectId, at: Timestamp) -> bool {
        let entry = self.entries.entry(id).or_default();
        let had_event = match entry.state {
            State::Suspended { had_event } => {
                entry.state = State::Idle;
                had_event
            }
            State::Idle | State::Due(_) => false,
        };
        entry.require(at);
        had_event
    }

    /// Starts the next inspect; `None` when none is due, or when [`MAX_IN_FLIGHT`] are in flight.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<ObjectId> {
        if self.in_flight >= MAX_IN_FLIGHT {
            return None;
        }
        let due = self
            .entries
            .iter_mut()
            .filter_map(|(id, entry)| Some((entry.due().filter(|due| *due <= now)?, id, entry)));
        let (_, id, entry) = due.min_by_key(|(due, ..)| *due)?;
        entry.state = State::Idle;
        entry.in_flight = true;
        self.in_flight += 1;
        Some(id.clone())
    }

    /// Time at which [`Self::pop`] can return an object; `None` when that depends on a call or an inspect.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        if self.in_flight >= MAX_IN_FLIGHT {
            return None;
        }
        self.entries.values().filter_map(Entry::due).min()
    }

    /// Records a successful inspect. Returns true if a list showed the change, but no event did.
    pub(super) fn finish(&mut self, id: &ObjectId) -> bool {
        let Some(entry) = self.end_inspect(id) else {
            return false;
        };
        entry.failures = 0;
        entry.newer_than_list = true;
        std::mem::take(&mut entry.unannounced)
    }

    /// Records a failed inspect and returns the backoff. Another inspect follows.
    pub(super) fn fail(&mut self, id: &ObjectId, now: Timestamp) -> Duration {
        let Some(entry) = self.end_inspect(id) else {
            return Duration::ZERO;
        };
        entry.failures = entry.failures.saturating_add(1);
        let backoff = delay(Growth::Exponential, BACKOFF, MAX_BACKOFF, entry.failures);
        entry.not_before = now + backoff;
        match &mut entry.state {
            State::Due(due) => *due = entry.not_before.max(*due),
            State::Idle | State::Suspended { .. } => entry.require(entry.not_before),
        }
        backoff
    }

    /// Ends the inspect of an object.
    fn end_inspect(&mut self, id: &ObjectId) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(id).filter(|entry| entry.in_flight)?;
        entry.in_flight = false;
        self.in_flight -= 1;
        Some(entry)
    }

    /// Starts a list: no object is newer than it.
    pub(super) fn start_list(&mut self) {
        self.entries.retain(|_, entry| {
            entry.newer_than_list = false;
            entry.in_flight || entry.state != State::Idle
        });
    }

    /// True while a call of this backend changes the object.
    pub(super) fn is_suspended(&self, id: &ObjectId) -> bool {
        let entry = self.entries.get(id);
        entry.is_some_and(|entry| matches!(entry.state, State::Suspended { .. }))
    }

    /// True when the object was inspected or created since the start of the list.
    pub(super) fn is_newer_than_list(&self, id: &ObjectId) -> bool {
        self.entries.get(id).is_some_and(|entry| entry.newer_than_list)
    }
}

#[cfg(test)]
#[path = "inspect_queue_tests.rs"]
mod tests;

//! Queue of objects to inspect. Each object is in it at most once, so no number of events can overflow it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use argus_core::backoff::{Growth, delay};
use argus_core::observed::ObjectId;

/// Delay after the first failed inspect of an object. It doubles with each further failure.
const BACKOFF: Duration = Duration::from_secs(1);
/// Maximum delay after a failed inspect.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// Deduplicating work queue with backoff, like the one of client-go.
///
/// At most one inspect of an object runs at a time. A change during an inspect queues the object again, because the
/// inspect may have started before the change.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    /// Order of the queued objects.
    waiting: VecDeque<ObjectId>,
    /// The objects in `waiting`, for a fast lookup.
    queued: BTreeSet<ObjectId>,
    /// Objects whose inspect is in progress.
    processing: BTreeSet<ObjectId>,
    /// Objects whose last inspect failed and that wait for their retry.
    backing_off: BTreeSet<ObjectId>,
    /// Consecutive failures by object.
    failures: BTreeMap<ObjectId, u32>,
}

impl WorkQueue {
    /// Queues an object that changed; has no effect on a queued object.
    pub(crate) fn mark(&mut self, id: ObjectId) {
        if self.queued.insert(id.clone()) {
            self.waiting.push_back(id);
        }
    }

    /// The next object to inspect; `None` when `limit` inspects are in progress, or when no object is ready.
    ///
    /// Objects that `skip` selects stay in the queue.
    pub(crate) fn next(&mut self, limit: usize, skip: impl Fn(&ObjectId) -> bool) -> Option<ObjectId> {
        if self.processing.len() >= limit {
            return None;
        }
        let is_ready =
            |id: &ObjectId| !self.processing.contains(id) && !self.backing_off.contains(id) && !skip(id);
        let at = self.waiting.iter().position(is_ready)?;
        let id = self.waiting.remove(at)?;
        self.queued.remove(&id);
        self.processing.insert(id.clone());
        Some(id)
    }

    /// Records a successful inspect.
    pub(crate) fn done(&mut self, id: &ObjectId) {
        self.processing.remove(id);
        self.failures.remove(id);
    }

    /// Records a failed inspect and returns the backoff. The object stays queued, and waits for [`Self::backoff_over`].
    pub(crate) fn failed(&mut self, id: &ObjectId) -> Duration {
        self.processing.remove(id);
        self.backing_off.insert(id.clone());
        self.mark(id.clone());
        let failures = self.failures.entry(id.clone()).or_default();
        *failures = failures.saturating_add(1);
        delay(Growth::Exponential, BACKOFF, LONGEST_BACKOFF, *failures)
    }

    /// Ends the backoff of an object.
    pub(crate) fn backoff_over(&mut self, id: &ObjectId) {
        self.backing_off.remove(id);
    }

    /// True when the object is queued or its inspect is in progress.
    pub(crate) fn contains(&self, id: &ObjectId) -> bool {
        self.queued.contains(id) || self.processing.contains(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ObjectId {
        ObjectId::Volume(name.to_owned())
    }

    #[test]
    fn many_events_of_one_object_cause_one_inspect() {
        let mut work_queue = WorkQueue::default();
        (0..1000).for_each(|_| work_queue.mark(id("a")));
        assert_eq!(work_queue.next(4, |_| false), Some(id("a")));
        assert_eq!(work_queue.next(4, |_| false), None);
    }

    #[test]
    fn an_event_during_an_inspect_causes_another_inspect() {
        let mut work_queue = WorkQueue::default();
        work_queue.mark(id("a"));
        assert_eq!(work_queue.next(4, |_| false), Some(id("a")));
        work_queue.mark(id("a"));
        assert_eq!(work_queue.next(4, |_| false), None);
        work_queue.done(&id("a"));
        assert_eq!(work_queue.next(4, |_| false), Some(id("a")));
        work_queue.done(&id("a"));
        assert!(!work_queue.contains(&id("a")));
    }

    #[test]
    fn a_hung_object_backs_off_and_delays_no_other_object() {
        let mut work_queue = WorkQueue::default();
        work_queue.mark(id("hung"));
        work_queue.mark(id("other"));
        assert_eq!(work_queue.next(4, |_| false), Some(id("hung")));
        assert_eq!(work_queue.failed(&id("hung")), Duration::from_secs(1));
        assert_eq!(work_queue.next(4, |_| false), Some(id("other")));
        assert_eq!(work_queue.next(4, |_| false), None);
        work_queue.backoff_over(&id("hung"));
        assert_eq!(work_queue.next(4, |_| false), Some(id("hung")));
        assert_eq!(work_queue.failed(&id("hung")), Duration::from_secs(2));
        assert!(work_queue.contains(&id("hung")));
        for _ in 0..10 {
            work_queue.backoff_over(&id("hung"));
            work_queue.next(4, |_| false);
            work_queue.failed(&id("hung"));
        }
        work_queue.backoff_over(&id("hung"));
        work_queue.next(4, |_| false);
        assert_eq!(work_queue.failed(&id("hung")), Duration::from_secs(30));
    }

    #[test]
    fn the_number_of_parallel_inspects_is_limited() {
        let mut work_queue = WorkQueue::default();
        for name in ["a", "b", "c"] {
            work_queue.mark(id(name));
        }
        assert!(work_queue.next(2, |_| false).is_some() && work_queue.next(2, |_| false).is_some());
        assert_eq!(work_queue.next(2, |_| false), None);
        work_queue.done(&id("a"));
        assert_eq!(work_queue.next(2, |_| false), Some(id("c")));
    }
}

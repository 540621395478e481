//! Which objects have to be looked at: a set, so that no number of events can overflow it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use argus_core::backoff::{Growth, delay};
use argus_core::observed::ObjectId;

/// First wait after a look that failed.
const BACKOFF: Duration = Duration::from_secs(1);
/// Longest wait after looks that failed.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// Objects that were said to have changed, those being looked at, and those that are left in peace for a while.
///
/// An object is looked at once at a time. What is said of it meanwhile makes it dirty again, because the look
/// may have begun before.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    waiting: VecDeque<ObjectId>,
    listed: BTreeSet<ObjectId>,
    processing: BTreeSet<ObjectId>,
    backing_off: BTreeSet<ObjectId>,
    failures: BTreeMap<ObjectId, u32>,
}

impl WorkQueue {
    /// Something happened to an object.
    pub(crate) fn mark(&mut self, id: ObjectId) {
        if self.listed.insert(id.clone()) {
            self.waiting.push_back(id);
        }
    }

    /// The next object to look at that is not to be left alone, if fewer than `most` are being looked at.
    pub(crate) fn next(&mut self, most: usize, leave: impl Fn(&ObjectId) -> bool) -> Option<ObjectId> {
        if self.processing.len() >= most {
            return None;
        }
        let free =
            |id: &ObjectId| !self.processing.contains(id) && !self.backing_off.contains(id) && !leave(id);
        let at = self.waiting.iter().position(free)?;
        let id = self.waiting.remove(at)?;
        self.listed.remove(&id);
        self.processing.insert(id.clone());
        Some(id)
    }

    /// A look succeeded.
    pub(crate) fn done(&mut self, id: &ObjectId) {
        self.processing.remove(id);
        self.failures.remove(id);
    }

    /// A look failed: the object is dirty still, and rests for the time returned, until [`Self::rested`].
    pub(crate) fn failed(&mut self, id: &ObjectId) -> Duration {
        self.processing.remove(id);
        self.backing_off.insert(id.clone());
        self.mark(id.clone());
        let failures = self.failures.entry(id.clone()).or_default();
        *failures = failures.saturating_add(1);
        delay(Growth::Exponential, BACKOFF, LONGEST_BACKOFF, *failures)
    }

    /// The rest of an object is over.
    pub(crate) fn backoff_over(&mut self, id: &ObjectId) {
        self.backing_off.remove(id);
    }

    /// Whether an object waits to be looked at or is being looked at.
    pub(crate) fn concerns(&self, id: &ObjectId) -> bool {
        self.listed.contains(id) || self.processing.contains(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ObjectId {
        ObjectId::Volume(name.to_owned())
    }

    #[test]
    fn many_events_about_one_object_make_one_look() {
        let mut dirty = WorkQueue::default();
        (0..1000).for_each(|_| dirty.mark(id("a")));
        assert_eq!(dirty.next(4, |_| false), Some(id("a")));
        assert_eq!(dirty.next(4, |_| false), None);
    }

    #[test]
    fn an_event_during_a_look_makes_another_look_after_it() {
        let mut dirty = WorkQueue::default();
        dirty.mark(id("a"));
        assert_eq!(dirty.next(4, |_| false), Some(id("a")));
        dirty.mark(id("a"));
        assert_eq!(dirty.next(4, |_| false), None);
        dirty.done(&id("a"));
        assert_eq!(dirty.next(4, |_| false), Some(id("a")));
        dirty.done(&id("a"));
        assert!(!dirty.concerns(&id("a")));
    }

    #[test]
    fn a_hung_object_rests_longer_and_longer_and_delays_no_other() {
        let mut dirty = WorkQueue::default();
        dirty.mark(id("hung"));
        dirty.mark(id("well"));
        assert_eq!(dirty.next(4, |_| false), Some(id("hung")));
        assert_eq!(dirty.failed(&id("hung")), Duration::from_secs(1));
        assert_eq!(dirty.next(4, |_| false), Some(id("well")));
        assert_eq!(dirty.next(4, |_| false), None);
        dirty.backoff_over(&id("hung"));
        assert_eq!(dirty.next(4, |_| false), Some(id("hung")));
        assert_eq!(dirty.failed(&id("hung")), Duration::from_secs(2));
        assert!(dirty.concerns(&id("hung")));
        for _ in 0..10 {
            dirty.backoff_over(&id("hung"));
            dirty.next(4, |_| false);
            dirty.failed(&id("hung"));
        }
        dirty.backoff_over(&id("hung"));
        dirty.next(4, |_| false);
        assert_eq!(dirty.failed(&id("hung")), Duration::from_secs(30));
    }

    #[test]
    fn at_most_so_many_are_looked_at_at_once() {
        let mut dirty = WorkQueue::default();
        for name in ["a", "b", "c"] {
            dirty.mark(id(name));
        }
        assert!(dirty.next(2, |_| false).is_some() && dirty.next(2, |_| false).is_some());
        assert_eq!(dirty.next(2, |_| false), None);
        dirty.done(&id("a"));
        assert_eq!(dirty.next(2, |_| false), Some(id("c")));
    }
}

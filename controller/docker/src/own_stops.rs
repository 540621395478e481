//! Which stops and kills are this backend's own, so that the others can be told from them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argus_core::ident::ContainerId;
use argus_core::time::Timestamp;

/// The events of a stop may be read a little after the call has returned.
const AFTERWARDS: Duration = Duration::from_secs(5);
/// An abandoned call goes on at the engine for as long as the longest usual grace.
const ABANDONED: Duration = Duration::from_secs(60);

/// Containers that are being stopped or were just stopped by us, and until when their events count as ours.
#[derive(Debug, Default)]
pub(crate) struct OwnStops {
    until: Mutex<HashMap<ContainerId, Timestamp>>,
}

impl OwnStops {
    /// From here on a stop of `id` is ours, until [`Stopping::done`] or for a while if that never comes.
    pub(crate) fn begin(&self, id: &ContainerId, grace: Duration, now: Timestamp) -> Stopping<'_> {
        let mut until = self.lock();
        until.retain(|_, end| *end >= now);
        until.insert(id.clone(), now + grace + ABANDONED);
        Stopping {
            stops: self,
            id: id.clone(),
        }
    }

    /// Whether a stop seen at this time is ours.
    pub(crate) fn is_ours(&self, id: &ContainerId, at: Timestamp) -> bool {
        self.lock().get(id).is_some_and(|end| at <= *end)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ContainerId, Timestamp>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stop of ours that is under way.
#[derive(Debug)]
#[must_use]
pub(crate) struct Stopping<'a> {
    stops: &'a OwnStops,
    id: ContainerId,
}

impl Stopping<'_> {
    /// The call has returned; events that are still on their way are ours, later ones are not.
    pub(crate) fn done(self, now: Timestamp) {
        self.stops.lock().insert(self.id.clone(), now + AFTERWARDS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_ours_while_it_runs_and_shortly_after() {
        let stops = OwnStops::default();
        let id = ContainerId::new("abc").unwrap();
        let at = |seconds: i64| Timestamp(seconds * 1000);
        assert!(!stops.is_ours(&id, at(1)));
        let stopping = stops.begin(&id, Duration::from_secs(10), at(1));
        assert!(stops.is_ours(&id, at(70)));
        assert!(!stops.is_ours(&id, at(72)));
        stopping.done(at(12));
        assert!(stops.is_ours(&id, at(17)));
        assert!(!stops.is_ours(&id, at(18)));
        assert!(!stops.is_ours(&ContainerId::new("other").unwrap(), at(2)));
    }
}

//! Stops and kills by this backend, so that the watch can distinguish them from those of other clients.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argus_core::ident::ContainerId;
use argus_core::time::Timestamp;

/// Time after the end of a stop in which its events still count as ours; events may arrive after the response.
const LATE_EVENT_GRACE: Duration = Duration::from_secs(5);
/// Time beyond the grace in which an abandoned stop still counts as ours; the engine may still perform it.
const ABANDONED_STOP_GRACE: Duration = Duration::from_secs(60);

/// Containers with a stop by this backend, and the time until which their stop events count as ours.
#[derive(Debug, Default)]
pub(crate) struct OwnStops {
    until: Mutex<HashMap<ContainerId, Timestamp>>,
}

impl OwnStops {
    /// Starts a stop of `id`. It counts as ours until [`StopGuard::finish`], or until a timeout when the call is abandoned.
    pub(crate) fn begin(&self, id: &ContainerId, grace: Duration, now: Timestamp) -> StopGuard<'_> {
        let mut until = self.lock();
        until.retain(|_, end| *end >= now);
        until.insert(id.clone(), now + grace + ABANDONED_STOP_GRACE);
        StopGuard {
            stops: self,
            id: id.clone(),
        }
    }

    /// True when a stop event with this time is ours.
    pub(crate) fn is_ours(&self, id: &ContainerId, at: Timestamp) -> bool {
        self.lock().get(id).is_some_and(|end| at <= *end)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ContainerId, Timestamp>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stop by this backend that is in progress.
#[derive(Debug)]
#[must_use]
pub(crate) struct StopGuard<'a> {
    stops: &'a OwnStops,
    id: ContainerId,
}

impl StopGuard<'_> {
    /// Ends the stop after the response. Events that arrive shortly afterwards still count as ours, later ones do not.
    pub(crate) fn finish(self, now: Timestamp) {
        self.stops.lock().insert(self.id.clone(), now + LATE_EVENT_GRACE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_ours_while_it_runs_and_shortly_afterwards() {
        let stops = OwnStops::default();
        let id = ContainerId::new("abc").unwrap();
        let at = |seconds: i64| Timestamp(seconds * 1000);
        assert!(!stops.is_ours(&id, at(1)));
        let stopping = stops.begin(&id, Duration::from_secs(10), at(1));
        assert!(stops.is_ours(&id, at(70)));
        assert!(!stops.is_ours(&id, at(72)));
        stopping.finish(at(12));
        assert!(stops.is_ours(&id, at(17)));
        assert!(!stops.is_ours(&id, at(18)));
        assert!(!stops.is_ours(&ContainerId::new("other").unwrap(), at(2)));
    }
}

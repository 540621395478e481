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

/// Stops by this backend, by container.
#[derive(Debug, Default)]
pub(crate) struct OwnStops {
    stops: Mutex<HashMap<ContainerId, OwnStop>>,
}

/// A stop by this backend.
#[derive(Debug)]
struct OwnStop {
    /// Start of the stopped run; `None` until the watch has reported it.
    run: Option<Timestamp>,
    /// Time until which stop events count as ours.
    until: Timestamp,
}

impl OwnStop {
    /// True if the stop is of this run. Before the first report of a run, it is.
    fn is_of(&mut self, run: Option<Timestamp>) -> bool {
        let Some(run) = run else { return true };
        *self.run.get_or_insert(run) == run
    }
}

impl OwnStops {
    /// Starts a stop of `id`. It counts as ours until [`StopGuard::finish`], or until a timeout when the call is abandoned.
    pub(crate) fn begin(&self, id: &ContainerId, grace: Duration, now: Timestamp) -> StopGuard<'_> {
        let mut stops = self.lock();
        stops.retain(|_, stop| stop.until >= now);
        let until = now + grace + ABANDONED_STOP_GRACE;
        stops.insert(id.clone(), OwnStop { run: None, until });
        drop(stops);
        StopGuard {
            stops: self,
            id: id.clone(),
        }
    }

    /// Records the newest run of the container that the watch knows. A stop by this backend ends with the run that it stopped.
    pub(crate) fn on_run(&self, id: &ContainerId, run: Option<Timestamp>) {
        let mut stops = self.lock();
        if stops.get_mut(id).is_some_and(|stop| !stop.is_of(run)) {
            stops.remove(id);
        }
    }

    /// True when a stop event with this time is ours. `run` is the start of the newest known run.
    pub(crate) fn is_ours(&self, id: &ContainerId, run: Option<Timestamp>, at: Timestamp) -> bool {
        let mut stops = self.lock();
        stops
            .get_mut(id)
            .is_some_and(|stop| at <= stop.until && stop.is_of(run))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ContainerId, OwnStop>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Ends the stop after the response. Events of the same run that arrive shortly afterwards still count as ours, later ones do not.
    pub(crate) fn finish(self, now: Timestamp) {
        if let Some(stop) = self.stops.lock().get_mut(&self.id) {
            stop.until = now + LATE_EVENT_GRACE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1000)
    }

    #[test]
    fn a_stop_is_ours_while_it_runs_and_shortly_afterwards() {
        let stops = OwnStops::default();
        let id = ContainerId::new("abc").unwrap();
        let run = Some(at(0));
        assert!(!stops.is_ours(&id, run, at(1)));
        let stopping = stops.begin(&id, Duration::from_secs(10), at(1));
        assert!(stops.is_ours(&id, run, at(70)));
        assert!(!stops.is_ours(&id, run, at(72)));
        stopping.finish(at(12));
        assert!(stops.is_ours(&id, run, at(17)));
        assert!(!stops.is_ours(&id, run, at(18)));
        assert!(!stops.is_ours(&ContainerId::new("other").unwrap(), run, at(2)));
    }

    #[test]
    fn stop_of_the_next_run_is_not_ours() {
        let stops = OwnStops::default();
        let id = ContainerId::new("abc").unwrap();
        for is_reported in [true, false] {
            let stopping = stops.begin(&id, Duration::from_secs(10), at(1));
            // The run is not inspected yet.
            assert!(stops.is_ours(&id, None, at(1)));
            assert!(stops.is_ours(&id, Some(at(0)), at(1)));
            stopping.finish(at(2));
            assert!(stops.is_ours(&id, Some(at(0)), at(3)), "a late event");
            if is_reported {
                stops.on_run(&id, Some(at(0)));
                assert!(stops.is_ours(&id, Some(at(0)), at(3)));
                stops.on_run(&id, Some(at(3)));
            }
            assert!(!stops.is_ours(&id, Some(at(3)), at(4)), "after a restart");
        }
        // The stop of a container that has ended already causes no event.
        stops.begin(&id, Duration::from_secs(10), at(20)).finish(at(20));
        stops.on_run(&id, Some(at(3)));
        assert!(!stops.is_ours(&id, Some(at(21)), at(22)));
    }
}

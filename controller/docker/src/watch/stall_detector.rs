//! Detection of a stalled event stream, which can stop while all other calls of the engine still succeed.
//!
//! Two observations prove a stall: a list shows a change that has had no event for [`MAX_EVENT_DELAY`], or a finished call
//! of this backend has had no event for that time.

use std::time::Duration;

use argus_core::observed::Container;
use argus_core::time::Timestamp;

/// Maximum delay of an event. An older change without an event proves that the stream is stalled.
const MAX_EVENT_DELAY: Duration = Duration::from_secs(5);

/// The evidence for a stall of one subscription.
#[derive(Debug)]
pub(super) struct StallDetector {
    subscribed_at: Timestamp,
    /// End of the oldest call that has had no event since its start; `None` if an event arrived after that end.
    silent_since: Option<Timestamp>,
}

impl StallDetector {
    /// A detector for a subscription that starts at `now`.
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            subscribed_at: now,
            silent_since: None,
        }
    }

    /// Records that an event arrived.
    pub(super) fn on_event(&mut self) {
        self.silent_since = None;
    }

    /// Records the end of a call of this backend, which must have caused at least one event.
    pub(super) fn on_call_ended(&mut self, had_event: bool, now: Timestamp) {
        if !had_event {
            self.silent_since.get_or_insert(now);
        }
    }

    /// Reports whether the last change of an inspected container is older than [`MAX_EVENT_DELAY`]. The caller calls this
    /// only for a container whose change had no event.
    pub(super) fn is_overdue(&self, container: &Container, now: Timestamp) -> bool {
        let info = container.inspect.as_ref();
        let times = [
            info.and_then(|info| info.started_at),
            info.and_then(|info| info.finished_at),
        ];
        let changed = times
            .into_iter()
            .flatten()
            .fold(container.created_at, Timestamp::max);
        changed > self.subscribed_at && now.since(changed) > MAX_EVENT_DELAY
    }

    /// True when a call of this backend has had no event for [`MAX_EVENT_DELAY`].
    pub(super) fn is_stalled(&self, now: Timestamp) -> bool {
        self.silent_since
            .is_some_and(|since| now.since(since) > MAX_EVENT_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_an_event_is_a_stall_after_five_seconds() {
        let at = |seconds: i64| Timestamp(seconds * 1000);
        let mut detector = StallDetector::new(at(0));
        detector.on_call_ended(true, at(1));
        assert!(!detector.is_stalled(at(100)));
        detector.on_call_ended(false, at(101));
        assert!(!detector.is_stalled(at(106)));
        assert!(detector.is_stalled(at(107)));
        detector.on_event();
        assert!(!detector.is_stalled(at(108)));
    }
}

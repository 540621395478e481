//! Times between the lists of a session. The interval of the periodic lists grows with their cost.

use std::time::Duration;

/// Minimum time between a list and a requested one.
pub(super) const MIN_LIST_DISTANCE: Duration = Duration::from_millis(50);
/// Delay of the next list after a list that failed while the engine responds to pings.
pub(super) const LIST_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Factor of the maximum interval of lists in addition to events.
const MAX_GROWTH: u32 = 3;
/// Minimum and maximum interval of lists without events, unless lists in addition to events are more frequent.
const INTERVALS_WITHOUT_EVENTS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(10));
/// Duration in milliseconds above which the interval grows.
const CHEAP_LIST_MS: u32 = 30;

/// Time until the next list: the minimum for a cheap list, and in proportion to the list's duration up to the maximum for an
/// expensive one. `shortest` is the minimum with events.
pub(super) fn list_interval(shortest: Duration, cost: Duration, has_events: bool) -> Duration {
    let (min, max) = if has_events {
        (shortest, shortest.saturating_mul(MAX_GROWTH))
    } else {
        let (min, max) = INTERVALS_WITHOUT_EVENTS;
        (min.min(shortest), max.min(shortest))
    };
    let cost = u32::try_from(cost.as_millis()).unwrap_or(u32::MAX);
    if cost <= CHEAP_LIST_MS {
        return min;
    }
    (min.saturating_mul(cost) / CHEAP_LIST_MS).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expensive_list_runs_less_often() {
        let every = |shortest, has_events| {
            let shortest = Duration::from_secs(shortest);
            [0, 30, 60, 90, 5000]
                .map(|ms| list_interval(shortest, Duration::from_millis(ms), has_events).as_secs())
        };
        let default = argus_core::delays::Delays::default().list_interval.as_secs();
        assert_eq!(every(default, true), [10, 10, 20, 30, 30]);
        assert_eq!(every(default, false), [2, 2, 4, 6, 10]);
        assert_eq!(every(1, true), [1, 1, 2, 3, 3]);
        assert_eq!(every(1, false), [1; 5], "not less often than with events");
    }
}

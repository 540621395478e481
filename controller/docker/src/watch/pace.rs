//! Times between the lists of a session. The interval of the periodic lists grows with their cost.

use std::time::Duration;

/// Minimum time between a list and a requested one.
pub(super) const MIN_LIST_DISTANCE: Duration = Duration::from_millis(50);
/// Delay of the next list after a list that failed while the engine responds to pings.
pub(super) const LIST_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Interval of lists that take at most [`CHEAP_LIST_MS`].
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum interval.
const MAX_LIST_INTERVAL: Duration = Duration::from_secs(30);
/// Duration in milliseconds above which the interval grows.
const CHEAP_LIST_MS: u32 = 30;

/// Time until the next list: 10 s, and in proportion to the list's duration up to 30 s for an expensive list.
pub(super) fn list_interval(cost: Duration) -> Duration {
    let cost = u32::try_from(cost.as_millis()).unwrap_or(u32::MAX);
    if cost <= CHEAP_LIST_MS {
        return MIN_LIST_INTERVAL;
    }
    (MIN_LIST_INTERVAL.saturating_mul(cost) / CHEAP_LIST_MS).min(MAX_LIST_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expensive_list_runs_less_often() {
        let every = |ms| list_interval(Duration::from_millis(ms)).as_secs();
        assert_eq!(
            [every(0), every(30), every(60), every(90), every(5000)],
            [10, 10, 20, 30, 30]
        );
    }
}

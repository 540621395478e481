//! Delays of a controller that only tests change.

use std::time::Duration;

/// Delays of the planner, of the watch and of the scans. Only tests change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// Time for which an external stop or pause is left alone.
    pub external_stop: Duration,
    /// Minimum age of an orphan, because a new controller may be about to declare it.
    pub orphan_age: Duration,
    /// Failures up to this long after an outage count as caused by it: the engine dates them when it returns.
    pub outage_margin: Duration,
    /// Minimum interval of the lists in addition to events.
    pub list_interval: Duration,
    /// Interval of the scans of spec files without notifications.
    pub scan_interval: Duration,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            external_stop: Duration::from_secs(10),
            orphan_age: Duration::from_secs(30),
            outage_margin: Duration::from_secs(2),
            list_interval: Duration::from_secs(10),
            scan_interval: Duration::from_secs(30),
        }
    }
}

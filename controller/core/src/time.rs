//! Points in time as plain numbers. Callers pass the current time; this crate never reads a clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, in UTC.
///
/// ```
/// use std::time::Duration;
///
/// use argus_core::time::Timestamp;
///
/// let start = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
/// let end = start + Duration::from_millis(1_500);
/// assert_eq!(end.to_string(), "2026-01-01T00:00:01.500Z");
/// assert_eq!(end.since(start), Duration::from_millis(1_500));
/// assert_eq!(start.since(end), Duration::ZERO);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Parses RFC 3339; returns `None` for invalid text and for the zero time of the engine (`0001-01-01…`).
    pub fn parse(text: &str) -> Option<Self> {
        let at: jiff::Timestamp = text.parse().ok()?;
        (at.as_millisecond() > 0).then(|| Self(at.as_millisecond()))
    }

    /// Returns the time that passed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

/// Formats as RFC 3339 with milliseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => write!(f, "{at:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

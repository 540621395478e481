//! Source of time. Invariant 11: only this file reads the system clock, so that tests can control the time everywhere else.

#![allow(
    clippy::disallowed_methods,
    reason = "this file is the only one that reads the system clock"
)]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use argus_core::time::Timestamp;
use tokio::time::Instant;

/// Wall-clock time that never goes back.
///
/// If the system clock is set back, the returned time continues from its last value. Otherwise everything that
/// waits for a time, or stores one, would wait for as long as the clock was set back.
pub fn now() -> Timestamp {
    static ANCHOR: Mutex<Option<MonotonicAnchor>> = Mutex::new(None);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall = Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let at = std::time::Instant::now();
    let mut anchor = ANCHOR.lock().unwrap_or_else(PoisonError::into_inner);
    anchor
        .get_or_insert(MonotonicAnchor { wall, at })
        .advance(wall, at)
}

/// CPU time of the current thread since its start.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Last reading at which the system clock was not behind the returned time.
#[derive(Debug, Clone, Copy)]
struct MonotonicAnchor {
    wall: Timestamp,
    at: std::time::Instant,
}

impl MonotonicAnchor {
    fn advance(&mut self, wall: Timestamp, at: std::time::Instant) -> Timestamp {
        let continued = self.wall + at.saturating_duration_since(self.at);
        if wall >= continued {
            *self = Self { wall, at };
        }
        wall.max(continued)
    }
}

/// Clock of a task: the system's or a virtual one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock(Source);

#[derive(Debug, Clone, Copy, Default)]
enum Source {
    /// System clock. It agrees with the engine's timestamps even after a suspend.
    #[default]
    System,
    /// Tokio's clock from a fixed start. It stops and jumps with the paused time of a test.
    Virtual { base: Timestamp, origin: Instant },
}

impl Clock {
    /// Returns the system clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// Returns a clock that shows `base` now and advances with tokio's time, which a test may pause.
    pub fn virtual_from(base: Timestamp) -> Self {
        Self(Source::Virtual {
            base,
            origin: Instant::now(),
        })
    }

    /// Current time in milliseconds since the epoch.
    pub fn now(&self) -> Timestamp {
        match self.0 {
            Source::System => now(),
            Source::Virtual { base, origin } => base + origin.elapsed(),
        }
    }

    /// Time left until `at`; zero if `at` has passed.
    pub fn until(&self, at: Timestamp) -> Duration {
        at.since(self.now())
    }

    /// Sleeps until `at`, or forever if `at` is `None`.
    pub async fn sleep_until(&self, at: Option<Timestamp>) {
        match at {
            // Tokio's timer fires within its millisecond, and a `Timestamp` has whole milliseconds. It never fires
            // early.
            Some(at) => tokio::time::sleep(self.until(at)).await,
            None => std::future::pending().await,
        }
    }
}

/// Measures a duration.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts a stopwatch.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Seconds since the start.
    pub fn seconds(self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_set_back_continues_until_the_system_catches_up() {
        let origin = std::time::Instant::now();
        let mut anchor = MonotonicAnchor {
            wall: Timestamp(100_000),
            at: origin,
        };
        let mut shown = |after: u64, wall: i64| {
            anchor
                .advance(Timestamp(wall), origin + Duration::from_millis(after))
                .0
        };
        assert_eq!(shown(1_000, 101_000), 101_000);
        // The system clock is set back by a minute: the returned time neither stops nor goes back.
        for after in 1_001..1_100_i64 {
            assert_eq!(shown(after.unsigned_abs(), 40_000 + after), 100_000 + after);
        }
        // The system clock is corrected, and then jumps ahead, as after a suspend.
        assert_eq!(shown(2_000, 102_000), 102_000);
        assert_eq!(shown(3_000, 200_000), 200_000);
        assert_eq!(shown(3_500, 200_500), 200_500);
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_clock_follows_paused_time() {
        let clock = Clock::virtual_from(Timestamp(1_000));
        assert_eq!(clock.now(), Timestamp(1_000));
        clock.sleep_until(Some(Timestamp(61_000))).await;
        assert!(clock.now() >= Timestamp(61_000) && clock.now() < Timestamp(61_010));
        assert_eq!(clock.until(Timestamp(5)), Duration::ZERO);
    }
}

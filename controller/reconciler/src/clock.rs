//! The time: the only file that asks for it, so that everything else can be told.

#![allow(
    clippy::disallowed_methods,
    reason = "somebody has to ask the system, and it is this file alone"
)]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use argus_core::time::Timestamp;
use tokio::time::Instant;

/// The time by the system's clock. Where that is set back it goes on from where it was: everything that waits for a
/// time, or remembers one, would otherwise wait for as long as the clock was set back.
pub fn now() -> Timestamp {
    static STEADY: Mutex<Option<Steady>> = Mutex::new(None);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall = Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let at = std::time::Instant::now();
    let mut steady = STEADY.lock().unwrap_or_else(PoisonError::into_inner);
    steady.get_or_insert(Steady { wall, at }).show(wall, at)
}

/// The last moment at which the system's clock was not behind itself.
#[derive(Debug, Clone, Copy)]
struct Steady {
    wall: Timestamp,
    at: std::time::Instant,
}

impl Steady {
    fn show(&mut self, wall: Timestamp, at: std::time::Instant) -> Timestamp {
        let going_on = self.wall + at.saturating_duration_since(self.at);
        if wall >= going_on {
            *self = Self { wall, at };
        }
        wall.max(going_on)
    }
}

/// Where a task gets the time from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock(Source);

#[derive(Debug, Clone, Copy, Default)]
enum Source {
    /// The system's clock: it agrees with the engine's timestamps even after a suspend.
    #[default]
    System,
    /// Tokio's clock from a fixed start: stands still and jumps with a paused test.
    Virtual { base: Timestamp, origin: Instant },
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that shows `base` now and goes with tokio's time, which a test may pause.
    pub fn virtual_from(base: Timestamp) -> Self {
        Self(Source::Virtual {
            base,
            origin: Instant::now(),
        })
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        match self.0 {
            Source::System => now(),
            Source::Virtual { base, origin } => base + origin.elapsed(),
        }
    }

    /// How long it is until `at`; zero when it has passed.
    pub fn until(&self, at: Timestamp) -> Duration {
        at.since(self.now())
    }

    /// Sleeps until `at`, or for ever when there is no such time.
    pub async fn sleep_until(&self, at: Option<Timestamp>) {
        match at {
            // A timer of tokio fires within its millisecond, ours counts whole ones: never wake before the time.
            Some(at) => tokio::time::sleep(self.until(at)).await,
            None => std::future::pending().await,
        }
    }
}

/// Measures how long something takes.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// One that begins now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// How long it has been, in seconds.
    pub fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_goes_on_until_it_is_caught_up() {
        let origin = std::time::Instant::now();
        let mut steady = Steady {
            wall: Timestamp(100_000),
            at: origin,
        };
        let mut shown = |after: u64, wall: i64| {
            steady
                .show(Timestamp(wall), origin + Duration::from_millis(after))
                .0
        };
        assert_eq!(shown(1_000, 101_000), 101_000);
        // Set back by a minute: time neither stands still nor goes back.
        for after in 1_001..1_100_i64 {
            assert_eq!(shown(after.unsigned_abs(), 40_000 + after), 100_000 + after);
        }
        // Set right again, and after that ahead, as after a suspend.
        assert_eq!(shown(2_000, 102_000), 102_000);
        assert_eq!(shown(3_000, 200_000), 200_000);
        assert_eq!(shown(3_500, 200_500), 200_500);
    }

    #[tokio::test(start_paused = true)]
    async fn a_virtual_clock_goes_with_paused_time() {
        let clock = Clock::virtual_from(Timestamp(1_000));
        assert_eq!(clock.now(), Timestamp(1_000));
        clock.sleep_until(Some(Timestamp(61_000))).await;
        assert!(clock.now() >= Timestamp(61_000) && clock.now() < Timestamp(61_010));
        assert_eq!(clock.until(Timestamp(5)), Duration::ZERO);
    }
}

//! Attempts of a case, and the pauses between them.

use std::time::Duration;

use argus_crds::suite::{RetryBackoff, TestRetry};

/// Maximum pause between attempts.
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// Attempts of a case, and the pauses between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retry {
    /// Maximum number of attempts, at least 1.
    pub max_attempts: u32,
    /// Pause after the first attempt.
    pub delay: Duration,
    /// Growth of the pauses.
    pub growth: Growth,
    /// Factor of the growth.
    pub multiplier: f64,
}

/// Growth of the pauses between attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Growth {
    /// All pauses are equal.
    #[default]
    Constant,
    /// The pauses of attempts from the second on are multiples of the delay.
    Linear,
    /// The pauses of attempts from the third on grow by the factor.
    Exponential,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 1,
            delay: Duration::ZERO,
            growth: Growth::default(),
            multiplier: 2.0,
        }
    }
}

impl Retry {
    /// Returns the pause after a failed attempt, counted from 1. `None` after the last one.
    pub fn pause_after(&self, attempt: u32) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        let further = attempt.saturating_sub(1);
        let factor = match self.growth {
            _ if further == 0 => 1.0,
            Growth::Constant => 1.0,
            Growth::Linear => f64::from(further) * self.multiplier,
            Growth::Exponential => self
                .multiplier
                .powi(i32::try_from(further).unwrap_or(i32::MAX).saturating_sub(1)),
        };
        let seconds = self.delay.as_secs_f64() * factor;
        // A negative or undefined factor gives no pause.
        let seconds = seconds.max(0.0).min(MAX_PAUSE.as_secs_f64());
        Some(Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }
}

impl From<TestRetry> for Retry {
    fn from(retry: TestRetry) -> Self {
        Self {
            max_attempts: retry.max_attempts.max(1),
            delay: retry.delay.get(),
            growth: match retry.backoff {
                RetryBackoff::Linear => Growth::Linear,
                RetryBackoff::Exponential => Growth::Exponential,
            },
            multiplier: retry.backoff_multiplier,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_after_the_last_attempt() {
        let pauses = |growth, multiplier| {
            let retry = Retry {
                max_attempts: 5,
                delay: Duration::from_millis(10),
                growth,
                multiplier,
            };
            let all = (1..=6).map_while(|attempt| retry.pause_after(attempt));
            all.map(|pause| pause.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(pauses(Growth::Constant, 2.0), [10, 10, 10, 10]);
        assert_eq!(pauses(Growth::Linear, 2.0), [10, 20, 40, 60]);
        assert_eq!(pauses(Growth::Exponential, 2.0), [10, 10, 20, 40]);
        assert_eq!(
            pauses(Growth::Exponential, f64::INFINITY),
            [10, 10, 600_000, 600_000]
        );
        assert_eq!(pauses(Growth::Linear, -1.0), [10, 0, 0, 0]);
        assert_eq!(Retry::default().pause_after(1), None);
    }
}

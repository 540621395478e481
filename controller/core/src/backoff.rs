//! Delays between attempts, with a cap and a deterministic jitter.

use std::time::Duration;

/// Growth of the delay from one attempt to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// base, 2 × base, 4 × base …
    Exponential,
    /// base, 2 × base, 3 × base …
    Linear,
}

/// Returns the delay before attempt number `attempt` (the first is 1), without jitter and at most `cap`.
///
/// ```
/// use std::time::Duration;
///
/// use argus_core::backoff::{Growth, delay};
///
/// let seconds = |growth, attempt| delay(growth, Duration::from_secs(2), Duration::from_secs(60), attempt).as_secs();
/// assert_eq!([1, 2, 3, 4].map(|attempt| seconds(Growth::Exponential, attempt)), [2, 4, 8, 16]);
/// assert_eq!([1, 2, 3, 4].map(|attempt| seconds(Growth::Linear, attempt)), [2, 4, 6, 8]);
/// assert_eq!(seconds(Growth::Exponential, 100), 60);
/// ```
pub fn delay(growth: Growth, base: Duration, cap: Duration, attempt: u32) -> Duration {
    let factor = match growth {
        Growth::Exponential => 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX),
        Growth::Linear => attempt.max(1),
    };
    base.checked_mul(factor).unwrap_or(cap).min(cap)
}

/// Spreads a delay by up to ±15 %.
///
/// The spread depends on `jitter_key` and `attempt` only, because this crate has no randomness.
///
/// ```
/// use std::time::Duration;
///
/// use argus_core::backoff::jittered;
///
/// let delay = jittered(Duration::from_secs(10), "engine", 1);
/// assert!(delay >= Duration::from_millis(8_500) && delay <= Duration::from_millis(11_500));
/// assert_eq!(delay, jittered(Duration::from_secs(10), "engine", 1));
/// ```
pub fn jittered(delay: Duration, jitter_key: &str, attempt: u32) -> Duration {
    let mut seed = 0xcbf2_9ce4_8422_2325_u64;
    for byte in jitter_key.bytes().chain(attempt.to_le_bytes()) {
        seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let per_mille = u32::try_from(850 + seed % 301).unwrap_or(1000);
    delay * per_mille / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_grows_by_its_sequence_up_to_the_cap() {
        let secs = |growth, n| delay(growth, Duration::from_secs(2), Duration::from_secs(60), n).as_secs();
        let take = |growth| (1..=7).map(|n| secs(growth, n)).collect::<Vec<_>>();
        assert_eq!(take(Growth::Exponential), [2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(take(Growth::Linear), [2, 4, 6, 8, 10, 12, 14]);
        assert_eq!(secs(Growth::Exponential, u32::MAX), 60);
    }

    #[test]
    fn jitter_stays_within_15_percent_and_repeats() {
        let base = Duration::from_secs(10);
        let spread = |attempt| jittered(base, "engine", attempt);
        let all: Vec<Duration> = (0..1000).map(spread).collect();
        let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
        // The bounds are reached, up to a percent.
        let millis = Duration::from_millis;
        assert!((millis(8500)..millis(8600)).contains(least), "{least:?}");
        assert!((millis(11401)..=millis(11500)).contains(most), "{most:?}");
        assert_eq!(all, (0..1000).map(spread).collect::<Vec<_>>());
    }
}

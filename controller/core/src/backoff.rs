//! How long to wait before the next try.

use std::time::Duration;

/// How delays grow from try to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// base, 2 × base, 4 × base …
    Exponential,
    /// base, 2 × base, 3 × base …
    Linear,
}

/// The delay before try `attempt` (counted from 1), never above `cap`, without jitter.
pub fn delay(growth: Growth, base: Duration, cap: Duration, attempt: u32) -> Duration {
    let factor = match growth {
        Growth::Exponential => 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX),
        Growth::Linear => attempt.max(1),
    };
    base.checked_mul(factor).unwrap_or(cap).min(cap)
}

/// Spreads a delay by up to ±15 %, the same for the same key: randomness is an argument here.
pub fn jittered(delay: Duration, key: &str, attempt: u32) -> Duration {
    let mut seed = 0xcbf2_9ce4_8422_2325_u64;
    for byte in key.bytes().chain(attempt.to_le_bytes()) {
        seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let per_mille = u32::try_from(850 + seed % 301).unwrap_or(1000);
    delay * per_mille / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_follow_the_golden_sequences() {
        let secs = |growth, n| delay(growth, Duration::from_secs(2), Duration::from_secs(60), n).as_secs();
        let take = |growth| (1..=7).map(|n| secs(growth, n)).collect::<Vec<_>>();
        assert_eq!(take(Growth::Exponential), [2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(take(Growth::Linear), [2, 4, 6, 8, 10, 12, 14]);
        assert_eq!(secs(Growth::Exponential, u32::MAX), 60);
    }

    #[test]
    fn jitter_stays_within_fifteen_per_cent_and_is_repeatable() {
        let base = Duration::from_secs(10);
        for attempt in 0..1000 {
            let spread = jittered(base, "engine", attempt);
            assert!(spread >= Duration::from_millis(8500) && spread <= Duration::from_millis(11500));
            assert_eq!(spread, jittered(base, "engine", attempt));
        }
    }
}

//! Random numbers from a seed: the same seed gives the same numbers on every machine.

use std::time::Duration;

/// A small random number generator (splitmix64); not suitable for secrets.
#[derive(Debug, Clone, Default)]
pub struct Rng(u64);

impl Rng {
    /// A generator whose numbers `seed` determines.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let drawn = self.draw();
        if end == 0 { 0 } else { drawn % end }
    }

    /// True with a probability of `share` percent.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// A duration from `span.0` to `span.1` milliseconds, both included.
    pub fn millis(&mut self, span: (u64, u64)) -> Duration {
        Duration::from_millis(span.0 + self.below(span.1.saturating_sub(span.0) + 1))
    }

    /// One element of `from`; `None` when it is empty.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = self.below(u64::try_from(from.len()).unwrap_or(u64::MAX));
        from.get(usize::try_from(at).unwrap_or(0))
    }
}

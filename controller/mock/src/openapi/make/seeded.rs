//! Deterministic random numbers: equal seeds and pointers give equal numbers.

/// Seed of the random numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeededRng(pub(super) u64);

impl SeededRng {
    /// Returns the number of a JSON pointer for a retry.
    pub(super) fn of(self, pointer: &str, retry: usize) -> u64 {
        let start = self.0 ^ (retry as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // FNV-1a over the pointer. The mixing of splitmix64 makes the low bits as random as the high ones.
        let folded = pointer.bytes().fold(start ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let mixed = (folded ^ (folded >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

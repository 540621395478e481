//! When what failed may be tried again.

use std::time::Duration;

use super::Failure;
use crate::backoff::{self, Growth};
use crate::outcome::ActError;
use crate::time::Timestamp;

impl Failure {
    /// When the same act may be tried again; `None`: repeating does not mend it.
    pub fn retry_at(&self, key: &str) -> Option<Timestamp> {
        let grow = |base: u64, cap: u64| {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
            let delay = backoff::delay(Growth::Exponential, base, cap, self.attempts);
            Some(self.at + backoff::jittered(delay, key, self.attempts))
        };
        match &self.error {
            ActError::Unknown(_)
            | ActError::TimedOut(_)
            | ActError::ConnectionLost(_)
            | ActError::Unreachable(_)
            | ActError::Engine(_) => grow(500, 60_000),
            ActError::Gone | ActError::NetworkGone(_) | ActError::NetworkInUse(_) | ActError::Busy(_) => {
                grow(500, 30_000)
            }
            ActError::StartFailed(_) | ActError::PullFailed(_) => grow(2_000, 60_000),
            ActError::ImageNotFound(_) | ActError::AuthRequired(_) => grow(10_000, 60_000),
            ActError::RateLimited { retry_after, .. } => {
                let asked = retry_after.map(|span| self.at + span);
                grow(10_000, 300_000).max(asked)
            }
            ActError::NameTaken { .. } | ActError::PoolExhausted(_) | ActError::DiskFull(_) => {
                Some(self.at + Duration::from_secs(10))
            }
            // Assignment decides about ports, the image's own subject about images.
            ActError::PortTaken(_)
            | ActError::ImageMissing
            | ActError::CircuitOpen
            | ActError::JournalUnwritable(_) => Some(self.at),
            ActError::BuildFailed { .. }
            | ActError::EntrypointNotFound(_)
            | ActError::BadMount(_)
            | ActError::NotOurs(_)
            | ActError::Rejected(_) => None,
        }
    }
}

//! When what failed may be tried again.

use std::time::Duration;

use super::ActionFailure;
use crate::backoff::{self, Growth};
use crate::outcome::ActionError;
use crate::time::Timestamp;

impl ActionFailure {
    /// When the same act may be tried again; `None`: repeating does not mend it.
    pub fn retry_at(&self, key: &str) -> Option<Timestamp> {
        let grow = |base: u64, cap: u64| {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
            let delay = backoff::delay(Growth::Exponential, base, cap, self.attempts);
            Some(self.at + backoff::jittered(delay, key, self.attempts))
        };
        match &self.error {
            ActionError::Unknown(_)
            | ActionError::TimedOut(_)
            | ActionError::ConnectionLost(_)
            | ActionError::Unreachable(_)
            | ActionError::Engine(_) => grow(500, 60_000),
            ActionError::Gone
            | ActionError::NetworkGone(_)
            | ActionError::NetworkInUse(_)
            | ActionError::Busy(_) => grow(500, 30_000),
            ActionError::StartFailed(_) | ActionError::PullFailed(_) => grow(2_000, 60_000),
            ActionError::ImageNotFound(_) | ActionError::AuthRequired(_) | ActionError::MountRefused(_) => {
                grow(10_000, 60_000)
            }
            ActionError::RateLimited { retry_after, .. } => {
                let asked = retry_after.map(|span| self.at + span);
                grow(10_000, 300_000).max(asked)
            }
            ActionError::NameTaken { .. } | ActionError::PoolExhausted(_) | ActionError::DiskFull(_) => {
                Some(self.at + Duration::from_secs(10))
            }
            // Assignment decides about ports, the image's own subject about images.
            ActionError::PortTaken(_)
            | ActionError::ImageMissing
            | ActionError::CircuitOpen
            | ActionError::JournalUnwritable(_) => Some(self.at),
            ActionError::BuildFailed { .. }
            | ActionError::EntrypointNotFound(_)
            | ActionError::BadMount(_)
            | ActionError::NotOurs(_)
            | ActionError::Rejected(_) => None,
        }
    }
}

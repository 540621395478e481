//! Failures of actions and their retry delays.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ActionKind;
use crate::backoff::{self, Growth};
use crate::outcome::ActionError;
use crate::time::Timestamp;

/// Last failure of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionFailure {
    /// Kind of the action.
    pub verb: ActionKind,
    /// Error of the call.
    pub error: ActionError,
    /// Time of the last failure.
    pub at: Timestamp,
    /// Number of failures in a row.
    pub attempts: u32,
    /// Arguments of the call.
    #[serde(default)]
    pub call: Box<CallArgs>,
}

/// Arguments of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallArgs {
    /// Arguments without values of variables.
    pub arguments: Map<String, Value>,
    /// Deadline of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
}

impl ActionFailure {
    /// Earliest time of the next attempt; `None` if repeating cannot succeed. Different jitter keys spread the attempts.
    pub fn retry_at(&self, jitter_key: &str) -> Option<Timestamp> {
        let grow = |base: u64, cap: u64| {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
            let delay = backoff::delay(Growth::Exponential, base, cap, self.attempts);
            Some(self.at + backoff::jittered(delay, jitter_key, self.attempts))
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
                let requested = retry_after.map(|span| self.at + span);
                grow(10_000, 300_000).max(requested)
            }
            ActionError::NameTaken { .. } | ActionError::PoolExhausted(_) | ActionError::DiskFull(_) => {
                Some(self.at + Duration::from_secs(10))
            }
            // The port assignment decides about ports, and the image's own subject about images.
            ActionError::PortTaken(_)
            | ActionError::ImageMissing
            | ActionError::CircuitOpen
            | ActionError::JournalUnwritable(_) => Some(self.at),
            ActionError::BuildFailed { .. }
            | ActionError::EntrypointNotFound(_)
            | ActionError::BadMount(_)
            | ActionError::NotOwned(_)
            | ActionError::Rejected(_) => None,
        }
    }
}

//! Signs of a failed action: its meaning for the engine and for the observed state, one row per kind of error.

use crate::outcome::ActionError;

/// Validity of the observed state after a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObservedStateAfterFailure {
    /// It may be valid, and a repeated call may succeed a moment later.
    Unknown,
    /// It cannot be valid: only a full list shows the real state.
    Stale,
    /// It is still valid.
    Unchanged,
}

/// Meaning of an error for the engine itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineSign<'a> {
    /// It failed, for this reason.
    Failed(&'a str),
    /// It answered: an engine that refuses a call is reachable.
    Answered,
    /// Nothing: one container's call hangs although the engine answers pings, or Argus sent or ended the call itself.
    Nothing,
}

/// Signs of an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailureSigns<'a> {
    pub(crate) observed: ObservedStateAfterFailure,
    pub(crate) engine: EngineSign<'a>,
    /// True if only a change outside Argus ends the failure.
    pub(crate) needs_change: bool,
}

impl ActionError {
    /// Signs of this error.
    pub(crate) fn signs(&self) -> FailureSigns<'_> {
        use EngineSign::{Answered, Failed, Nothing};
        use ObservedStateAfterFailure::{Stale, Unchanged, Unknown};
        let (observed, engine, needs_change) = match self {
            Self::Unknown(_) | Self::TimedOut(_) => (Unknown, Nothing, false),
            Self::ConnectionLost(why) | Self::Unreachable(why) | Self::Engine(why) => {
                (Unknown, Failed(why), false)
            }
            Self::Busy(_) => (Unknown, Answered, false),
            Self::Gone | Self::NetworkGone(_) | Self::NetworkInUse(_) => (Stale, Answered, false),
            Self::NotOwned(_) => (Stale, Nothing, true),
            // Its container was removed.
            Self::MountRefused(_) => (Stale, Answered, true),
            Self::CircuitOpen | Self::Cancelled | Self::JournalUnwritable(_) => (Unchanged, Nothing, false),
            Self::NameTaken { .. }
            | Self::ImageNotFound(_)
            | Self::AuthRequired(_)
            | Self::BadMount(_)
            | Self::VolumeNotFound(_)
            | Self::NetworkNotFound(_)
            | Self::PoolExhausted(_)
            | Self::DiskFull(_)
            | Self::BuildFailed { .. }
            | Self::EntrypointNotFound(_)
            | Self::Rejected(_) => (Unchanged, Answered, true),
            Self::PortTaken(_)
            | Self::ImageMissing
            | Self::RateLimited { .. }
            | Self::PullFailed(_)
            | Self::BuildInterrupted { .. }
            | Self::StartFailed(_) => (Unchanged, Answered, false),
        };
        FailureSigns {
            observed,
            engine,
            needs_change,
        }
    }
}

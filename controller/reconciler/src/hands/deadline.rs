//! How long a call may take before nobody knows what came of it.

use std::future::Future;
use std::time::Duration;

use argus_core::outcome::ActError;
use argus_core::plan::Act;

/// What a failed run left must not hold up the next one for longer.
const EVIDENCE: Duration = Duration::from_secs(5);

/// Deadlines by the weight of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For calls that an engine answers at once (`ARGUS_TIMEOUT_QUICK`).
    pub quick: Duration,
    /// No call but a pull or a build takes longer (`ARGUS_TIMEOUT_HEAVY`).
    pub heavy: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            quick: Duration::from_secs(10),
            heavy: Duration::from_secs(120),
        }
    }
}

impl Deadlines {
    /// The deadline of an act; `None` for pulls and builds, whose backend watches for progress instead.
    pub fn of(&self, act: &Act) -> Option<Duration> {
        let medium = Duration::from_secs(30).clamp(self.quick.min(self.heavy), self.heavy);
        match act {
            Act::PullImage { .. } | Act::BuildImage(_) => None,
            // A restart waits for it.
            Act::KeepEvidence { .. } => Some(EVIDENCE),
            Act::CreateContainer { .. }
            | Act::StartContainer { .. }
            | Act::CreateNetwork { .. }
            | Act::RemoveNetwork { .. }
            | Act::ConnectNetwork { .. }
            | Act::DisconnectNetwork { .. } => Some(medium),
            Act::StopContainer { grace, .. } => Some(*grace + Duration::from_secs(10)),
            Act::RemoveContainer { .. } => Some(medium * 2),
            Act::CreateVolume { .. }
            | Act::RemoveVolume { .. }
            | Act::UnpauseContainer { .. }
            | Act::PlaceFile { .. }
            | Act::RenameContainer { .. } => Some(self.quick),
        }
    }
}

/// Waits for the call, but not beyond its deadline: then its outcome is unknown.
pub async fn within<T>(
    deadline: Option<Duration>,
    verb: &str,
    call: impl Future<Output = Result<T, ActError>>,
) -> Result<T, ActError> {
    let Some(deadline) = deadline else {
        return call.await;
    };
    match tokio::time::timeout(deadline, call).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ActError::TimedOut(format!(
            "{verb} did not answer within {} s",
            deadline.as_secs_f32()
        ))),
    }
}

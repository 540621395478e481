//! Permits: how many acts of a kind are on their way at once.

use std::sync::Arc;

use argus_core::plan::Action;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::Stopwatch;
use crate::metrics::Tally;

/// Mutations at once; an engine was once seen to hang under more, and more than 8 gain nothing.
const MUTATIONS: usize = 4;
/// Pulls and builds at once; they last minutes and shall not keep a start waiting.
const HEAVY: usize = 2;
/// Stops at once: a stop mostly waits for the container's own grace, which costs the engine nothing.
const PATIENT: usize = 8;

/// Takings of evidence at once; each is a few reads.
const LOOKS: usize = 4;

/// What an act costs the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallClass {
    /// A short call that changes something.
    Mutation,
    /// A pull or a build.
    LongRunning,
    /// A call that waits for a container to end.
    Stopping,
    /// A read of what is there.
    Read,
}

impl CallClass {
    /// The class of an act.
    pub fn of(act: &Action) -> Self {
        match act {
            Action::PullImage { .. } | Action::BuildImage(_) => Self::LongRunning,
            // A wedged container can hold its removal up for a minute; the others' starts do not wait for that.
            Action::StopContainer { .. } | Action::RemoveContainer { .. } => Self::Stopping,
            Action::CollectEvidence { .. } => Self::Read,
            Action::CreateNetwork { .. }
            | Action::RemoveNetwork { .. }
            | Action::CreateVolume { .. }
            | Action::RemoveVolume { .. }
            | Action::CreateContainer { .. }
            | Action::StartContainer { .. }
            | Action::UnpauseContainer { .. }
            | Action::RenameContainer { .. }
            | Action::CopyFile { .. }
            | Action::ConnectNetwork { .. }
            | Action::DisconnectNetwork { .. } => Self::Mutation,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Mutation => "mutation",
            Self::LongRunning => "long",
            Self::Stopping => "stop",
            Self::Read => "read",
        }
    }
}

/// The permits of one engine.
#[derive(Debug, Clone)]
pub struct ConcurrencyLimits {
    mutations: Arc<Semaphore>,
    long_running: Arc<Semaphore>,
    stopping: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    tally: Tally,
}

impl ConcurrencyLimits {
    /// All permits free; how they are waited for is told to `tally`.
    pub fn new(tally: Tally) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self {
            mutations: permits(MUTATIONS),
            long_running: permits(HEAVY),
            stopping: permits(PATIENT),
            reads: permits(LOOKS),
            tally,
        }
    }

    /// Waits for a permit, first come first served; the act may go on while it is held.
    pub async fn acquire(&self, class: CallClass) -> Option<OwnedSemaphorePermit> {
        let permits = match class {
            CallClass::Mutation => &self.mutations,
            CallClass::LongRunning => &self.long_running,
            CallClass::Stopping => &self.stopping,
            CallClass::Read => &self.reads,
        };
        let (watch, waits) = (Stopwatch::start(), self.tally.track_wait(class.word()));
        // The semaphores are never closed, so there always is one.
        let permit = permits.clone().acquire_owned().await.ok();
        drop(waits);
        let waited = self.tally.permit_seconds.with_label_values(&[class.word()]);
        waited.observe(watch.seconds());
        permit
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_permit_is_counted_until_it_has_one_or_is_abandoned() {
        let tally = Tally::default();
        let gate = ConcurrencyLimits::new(tally.clone());
        let queued = || tally.waiting.with_label_values(&["long"]).get();
        let mut permits = Vec::new();
        for _ in 0..HEAVY {
            permits.push(gate.acquire(CallClass::LongRunning).await);
        }
        assert_eq!(queued(), 0);
        let mut patient = Box::pin(gate.acquire(CallClass::LongRunning));
        let mut abandoned = Box::pin(gate.acquire(CallClass::LongRunning));
        assert!((&mut patient).now_or_never().is_none() && (&mut abandoned).now_or_never().is_none());
        assert_eq!(queued(), 2);
        drop(abandoned);
        assert_eq!(queued(), 1);
        permits.clear();
        assert!(patient.await.is_some());
        assert_eq!(queued(), 0);
        let waited = tally.permit_seconds.with_label_values(&["long"]);
        assert_eq!(
            waited.get_sample_count(),
            HEAVY as u64 + 1,
            "who gave up got none"
        );
    }
}

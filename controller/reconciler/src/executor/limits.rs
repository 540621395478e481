//! Concurrency limits: the number of actions of each class that run in parallel.

use std::sync::Arc;

use argus_core::action::Action;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::Stopwatch;
use crate::metrics::TaskMetrics;

/// Maximum parallel mutations. In tests, engines hung with more than 4, and more than 8 saved no time.
const MAX_MUTATIONS: usize = 4;
/// Maximum parallel pulls and builds. They take minutes, and have their own limit so that starts do not wait for
/// them.
const MAX_LONG_RUNNING: usize = 2;
/// Maximum parallel stops. A stop mostly waits for the grace period of its container, which costs the engine
/// nothing.
const MAX_STOPPING: usize = 8;

/// Maximum parallel collections of evidence. Each is a few reads, but can wait for the engine to write the end of a log. The
/// restarts of other services do not wait for that.
const MAX_READS: usize = 16;

/// Cost class of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallClass {
    /// Short call that changes something.
    Mutation,
    /// Pull or build.
    LongRunning,
    /// Call that waits for a container to end.
    Stopping,
    /// Call that changes nothing.
    Read,
}

impl CallClass {
    /// Returns the class of an action.
    pub fn of(action: &Action) -> Self {
        match action {
            Action::PullImage { .. } | Action::BuildImage(_) => Self::LongRunning,
            // The removal of a container that does not stop can take a minute. The starts of other containers do not
            // wait for it.
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

    fn label(self) -> &'static str {
        match self {
            Self::Mutation => "mutation",
            Self::LongRunning => "long",
            Self::Stopping => "stop",
            Self::Read => "read",
        }
    }
}

/// Permits of one engine.
#[derive(Debug, Clone)]
pub struct ConcurrencyLimits {
    mutations: Arc<Semaphore>,
    long_running: Arc<Semaphore>,
    stopping: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    metrics: TaskMetrics,
}

impl ConcurrencyLimits {
    /// Creates limits with all permits free. Waits for a permit are counted in `metrics`.
    pub fn new(metrics: TaskMetrics) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self {
            mutations: permits(MAX_MUTATIONS),
            long_running: permits(MAX_LONG_RUNNING),
            stopping: permits(MAX_STOPPING),
            reads: permits(MAX_READS),
            metrics,
        }
    }

    /// Waits for a permit in FIFO order; the action may run while the permit exists.
    pub async fn acquire(&self, class: CallClass) -> Option<OwnedSemaphorePermit> {
        let permits = match class {
            CallClass::Mutation => &self.mutations,
            CallClass::LongRunning => &self.long_running,
            CallClass::Stopping => &self.stopping,
            CallClass::Read => &self.reads,
        };
        let (stopwatch, waits) = (Stopwatch::start(), self.metrics.track_wait(class.label()));
        // The semaphores are never closed, so `acquire_owned` always succeeds.
        let permit = permits.clone().acquire_owned().await.ok();
        drop(waits);
        let waited = self.metrics.permit_seconds.with_label_values(&[class.label()]);
        waited.observe(stopwatch.seconds());
        permit
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn waits_for_a_permit_are_counted_until_granted_or_dropped() {
        let metrics = TaskMetrics::default();
        let limits = ConcurrencyLimits::new(metrics.clone());
        let queued = || metrics.waiting.with_label_values(&["long"]).get();
        let mut permits = Vec::new();
        for _ in 0..MAX_LONG_RUNNING {
            permits.push(limits.acquire(CallClass::LongRunning).await);
        }
        assert_eq!(queued(), 0);
        let mut waiting = Box::pin(limits.acquire(CallClass::LongRunning));
        let mut abandoned = Box::pin(limits.acquire(CallClass::LongRunning));
        assert!((&mut waiting).now_or_never().is_none() && (&mut abandoned).now_or_never().is_none());
        assert_eq!(queued(), 2);
        drop(abandoned);
        assert_eq!(queued(), 1);
        permits.clear();
        assert!(waiting.await.is_some());
        assert_eq!(queued(), 0);
        let waited = metrics.permit_seconds.with_label_values(&["long"]);
        assert_eq!(
            waited.get_sample_count(),
            MAX_LONG_RUNNING as u64 + 1,
            "a dropped wait gets no permit"
        );
    }
}

//! Permits: how many acts of a kind are on their way at once.

use std::sync::Arc;

use argus_core::plan::Act;
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
pub enum Class {
    /// A short call that changes something.
    Mutation,
    /// A pull or a build.
    Heavy,
    /// A call that waits for a container to end.
    Patient,
    /// A read of what is there.
    Look,
}

impl Class {
    /// The class of an act.
    pub fn of(act: &Act) -> Self {
        match act {
            Act::PullImage { .. } | Act::BuildImage(_) => Self::Heavy,
            // A wedged container can hold its removal up for a minute; the others' starts do not wait for that.
            Act::StopContainer { .. } | Act::RemoveContainer { .. } => Self::Patient,
            Act::KeepEvidence { .. } => Self::Look,
            Act::CreateNetwork { .. }
            | Act::RemoveNetwork { .. }
            | Act::CreateVolume { .. }
            | Act::RemoveVolume { .. }
            | Act::CreateContainer { .. }
            | Act::StartContainer { .. }
            | Act::UnpauseContainer { .. }
            | Act::RenameContainer { .. }
            | Act::PlaceFile { .. }
            | Act::ConnectNetwork { .. }
            | Act::DisconnectNetwork { .. } => Self::Mutation,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Mutation => "mutation",
            Self::Heavy => "heavy",
            Self::Patient => "patient",
            Self::Look => "look",
        }
    }
}

/// The permits of one engine.
#[derive(Debug, Clone)]
pub struct Gate {
    mutations: Arc<Semaphore>,
    heavy: Arc<Semaphore>,
    patient: Arc<Semaphore>,
    looks: Arc<Semaphore>,
    tally: Tally,
}

impl Gate {
    /// All permits free; how they are waited for is told to `tally`.
    pub fn new(tally: Tally) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self {
            mutations: permits(MUTATIONS),
            heavy: permits(HEAVY),
            patient: permits(PATIENT),
            looks: permits(LOOKS),
            tally,
        }
    }

    /// Waits for a permit, first come first served; the act may go on while it is held.
    pub async fn enter(&self, class: Class) -> Option<OwnedSemaphorePermit> {
        let permits = match class {
            Class::Mutation => &self.mutations,
            Class::Heavy => &self.heavy,
            Class::Patient => &self.patient,
            Class::Look => &self.looks,
        };
        let (watch, waits) = (Stopwatch::start(), self.tally.waits(class.word()));
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
        let gate = Gate::new(tally.clone());
        let queued = || tally.waiting.with_label_values(&["heavy"]).get();
        let mut permits = Vec::new();
        for _ in 0..HEAVY {
            permits.push(gate.enter(Class::Heavy).await);
        }
        assert_eq!(queued(), 0);
        let mut patient = Box::pin(gate.enter(Class::Heavy));
        let mut abandoned = Box::pin(gate.enter(Class::Heavy));
        assert!((&mut patient).now_or_never().is_none() && (&mut abandoned).now_or_never().is_none());
        assert_eq!(queued(), 2);
        drop(abandoned);
        assert_eq!(queued(), 1);
        permits.clear();
        assert!(patient.await.is_some());
        assert_eq!(queued(), 0);
        let waited = tally.permit_seconds.with_label_values(&["heavy"]);
        assert_eq!(
            waited.get_sample_count(),
            HEAVY as u64 + 1,
            "who gave up got none"
        );
    }
}

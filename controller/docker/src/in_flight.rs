//! What the hands tell the eyes: which containers they are at, and what they have just made.
//!
//! A call on a container makes several events, and none of them is worth a look while the call goes on: one look when
//! it has ended shows all that they tell. What a call has made is known without any look.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use argus_core::ident::ContainerId;
use argus_core::observed::Object;
use tokio::sync::Notify;

/// Shared by hands and eyes of one engine. It holds no more than the acts in flight make.
#[derive(Debug, Default)]
pub(crate) struct InFlightCalls {
    state: Mutex<Calls>,
    told: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    held: BTreeSet<ContainerId>,
    news: Updates,
}

/// What happened since it was asked for last.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Updates {
    /// The calls on these have ended.
    pub(crate) released: Vec<ContainerId>,
    /// Made by calls that have ended, as they were then.
    pub(crate) created: Vec<Object>,
}

impl InFlightCalls {
    /// Until the guard is dropped the container is not looked at; then it is, once.
    pub(crate) fn hold(&self, id: &ContainerId) -> CallGuard<'_> {
        self.lock().held.insert(id.clone());
        CallGuard {
            in_flight: self,
            id: id.clone(),
        }
    }

    /// Whether a call on it goes on.
    pub(crate) fn holds(&self, id: &ContainerId) -> bool {
        self.lock().held.contains(id)
    }

    /// A call has made this.
    pub(crate) fn made(&self, object: Object) {
        self.lock().news.created.push(object);
        self.told.notify_one();
    }

    /// Takes the news.
    pub(crate) fn news(&self) -> Updates {
        std::mem::take(&mut self.lock().news)
    }

    /// Waits until there is news; one that nobody waited for is kept.
    pub(crate) async fn told(&self) {
        self.told.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call on a container that goes on, or was abandoned when this is dropped early.
#[derive(Debug)]
#[must_use]
pub(crate) struct CallGuard<'a> {
    in_flight: &'a InFlightCalls,
    id: ContainerId,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.in_flight.lock();
        state.held.remove(&self.id);
        state.news.released.push(self.id.clone());
        drop(state);
        self.in_flight.told.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_container_is_told_of_when_the_call_on_it_has_ended() {
        let in_flight = InFlightCalls::default();
        let id = ContainerId::new("abc").unwrap();
        let hold = in_flight.hold(&id);
        assert!(in_flight.holds(&id));
        assert_eq!(in_flight.news(), Updates::default());
        drop(hold);
        assert!(!in_flight.holds(&id));
        in_flight.told().await;
        assert_eq!(in_flight.news().released, [id]);
        assert_eq!(in_flight.news(), Updates::default());
    }
}

//! Calls of this backend that are in flight, and the objects that finished calls created.
//!
//! The actions write here, and the watch reads. A call on a container causes several events. The watch does not inspect
//! the container for each of them: one inspect after the end of the call shows all their effects. An object that a call
//! created is known without an inspect.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use argus_core::ident::ContainerId;
use argus_core::observed::Object;
use tokio::sync::Notify;

/// State shared by the actions and the watch of one engine. Its size is bounded by the number of calls in flight.
#[derive(Debug, Default)]
pub(crate) struct InFlightCalls {
    state: Mutex<Calls>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    /// Containers with a call in flight.
    containers: BTreeSet<ContainerId>,
    updates: Updates,
}

/// Changes since the last [`InFlightCalls::take_updates`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Updates {
    /// Containers whose call has ended.
    pub(crate) released: Vec<ContainerId>,
    /// Objects that calls created, in their state right after the creation.
    pub(crate) created: Vec<Object>,
}

impl InFlightCalls {
    /// Suppresses inspects of the container until the guard is dropped. The watch then inspects it once.
    pub(crate) fn start(&self, id: &ContainerId) -> CallGuard<'_> {
        self.lock().containers.insert(id.clone());
        CallGuard {
            in_flight: self,
            id: id.clone(),
        }
    }

    /// True while a call on the container is in flight.
    pub(crate) fn contains(&self, id: &ContainerId) -> bool {
        self.lock().containers.contains(id)
    }

    /// Records an object that a call has created.
    pub(crate) fn on_created(&self, object: Object) {
        self.lock().updates.created.push(object);
        self.changed.notify_one();
    }

    /// Takes all updates since the last call.
    pub(crate) fn take_updates(&self) -> Updates {
        std::mem::take(&mut self.lock().updates)
    }

    /// Waits until there are updates. A notification without a waiter is kept for the next one.
    pub(crate) async fn updated(&self) {
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call on a container. A drop ends the call, also when the call was abandoned.
#[derive(Debug)]
#[must_use]
pub(crate) struct CallGuard<'a> {
    in_flight: &'a InFlightCalls,
    id: ContainerId,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.in_flight.lock();
        state.containers.remove(&self.id);
        state.updates.released.push(self.id.clone());
        drop(state);
        self.in_flight.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_container_is_released_when_its_call_ends() {
        let in_flight = InFlightCalls::default();
        let id = ContainerId::new("abc").unwrap();
        let call = in_flight.start(&id);
        assert!(in_flight.contains(&id));
        assert_eq!(in_flight.take_updates(), Updates::default());
        drop(call);
        assert!(!in_flight.contains(&id));
        in_flight.updated().await;
        assert_eq!(in_flight.take_updates().released, [id]);
        assert_eq!(in_flight.take_updates(), Updates::default());
    }
}

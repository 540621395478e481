//! Calls of this backend on containers, and the objects that calls created: a mailbox from the actions to the watch.
//!
//! A call on a container causes several events. The watch does not inspect the container for each of them: one inspect
//! after the end of the call shows all their effects. An object that a call created is known without an inspect.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use argus_core::ident::ContainerId;
use argus_core::observed::Object;
use tokio::sync::Notify;

/// Mailbox from the actions to the watch of one engine.
#[derive(Debug, Default)]
pub(crate) struct InFlightCalls {
    state: Mutex<Calls>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    /// Containers with a call in flight.
    containers: BTreeSet<ContainerId>,
    /// Updates that the watch has not taken yet.
    updates: Vec<CallUpdate>,
}

/// Update from a call to the watch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CallUpdate {
    /// A call on the container starts. It has not been sent yet, so its events follow.
    Started(ContainerId),
    /// The call on the container has ended, or was abandoned.
    Ended(ContainerId),
    /// A call created the object, which is in its state right after the creation.
    Created(Object),
}

impl InFlightCalls {
    /// Suppresses inspects of the container until the guard is dropped. The watch then inspects it once.
    pub(crate) fn start(&self, id: &ContainerId) -> CallGuard<'_> {
        let mut state = self.lock();
        state.containers.insert(id.clone());
        // Without a notification: the watch takes the update before the first event of the call.
        state.updates.push(CallUpdate::Started(id.clone()));
        CallGuard {
            in_flight: self,
            id: id.clone(),
        }
    }

    /// Records an object that a call has created.
    pub(crate) fn on_created(&self, object: Object) {
        self.lock().updates.push(CallUpdate::Created(object));
        self.changed.notify_one();
    }

    /// Takes all updates since the last call, in their order.
    pub(crate) fn take_updates(&self) -> Vec<CallUpdate> {
        std::mem::take(&mut self.lock().updates)
    }

    /// Discards all updates and returns the containers with a call in flight.
    pub(crate) fn reset(&self) -> Vec<ContainerId> {
        let mut state = self.lock();
        state.updates.clear();
        state.containers.iter().cloned().collect()
    }

    /// Waits until a call has ended or created an object. A notification without a waiter is kept for the next one.
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
        state.updates.push(CallUpdate::Ended(self.id.clone()));
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
        assert_eq!(in_flight.take_updates(), [CallUpdate::Started(id.clone())]);
        assert_eq!(in_flight.reset(), std::slice::from_ref(&id));
        assert_eq!(in_flight.take_updates(), []);
        drop(call);
        assert_eq!(in_flight.reset(), []);
        assert_eq!(in_flight.take_updates(), [], "a new session knows the end");
        let call = in_flight.start(&id);
        drop(call);
        in_flight.updated().await;
        assert_eq!(
            in_flight.take_updates(),
            [CallUpdate::Started(id.clone()), CallUpdate::Ended(id)]
        );
        assert_eq!(in_flight.take_updates(), []);
    }
}

//! Short delays before inspects, for objects about which more information is about to arrive.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_core::observed::ObjectId;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::sleep;

/// Delayed objects and their timers.
#[derive(Default)]
pub(super) struct DelayQueue {
    waiting: BTreeSet<ObjectId>,
    /// One timer per insert; a timer whose object no longer waits has no effect.
    timers: FuturesUnordered<BoxFuture<'static, ObjectId>>,
}

impl DelayQueue {
    /// Delays an object by `span`.
    pub(super) fn insert(&mut self, id: ObjectId, span: Duration) {
        self.waiting.insert(id.clone());
        self.timers.push(Box::pin(async move {
            sleep(span).await;
            id
        }));
    }

    /// Cancels the delay of an object.
    pub(super) fn remove(&mut self, id: &ObjectId) {
        self.waiting.remove(id);
    }

    /// The next object whose delay has expired. Pending while no object is delayed.
    pub(super) async fn next_expired(&mut self) -> ObjectId {
        loop {
            match self.timers.next().await {
                Some(id) if self.waiting.remove(&id) => return id,
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_removed_object_never_expires() {
        let id = |name: &str| ObjectId::Volume(name.to_owned());
        let mut delays = DelayQueue::default();
        delays.insert(id("soon"), Duration::from_millis(5));
        delays.insert(id("late"), Duration::from_millis(100));
        delays.remove(&id("soon"));
        assert_eq!(delays.next_expired().await, id("late"));
        let never = tokio::time::timeout(Duration::from_secs(60), delays.next_expired()).await;
        assert!(never.is_err());
    }
}

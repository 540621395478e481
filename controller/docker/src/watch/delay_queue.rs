//! Objects that are left alone for a moment before they are looked at, because more of them is about to be known.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_core::observed::ObjectId;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::sleep;

/// What waits, and the timers that end the waits.
#[derive(Default)]
pub(super) struct DelayQueue {
    waiting: BTreeSet<ObjectId>,
    timers: FuturesUnordered<BoxFuture<'static, ObjectId>>,
}

impl DelayQueue {
    /// Leaves an object alone for a while.
    pub(super) fn insert(&mut self, id: ObjectId, span: Duration) {
        self.waiting.insert(id.clone());
        self.timers.push(Box::pin(async move {
            sleep(span).await;
            id
        }));
    }

    /// What was waited for came; the timer does nothing any more.
    pub(super) fn remove(&mut self, id: &ObjectId) {
        self.waiting.remove(id);
    }

    /// The next object whose time ran out; waits for ever while there is none.
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
    async fn what_came_in_time_is_not_told_of() {
        let id = |name: &str| ObjectId::Volume(name.to_owned());
        let mut linger = DelayQueue::default();
        linger.insert(id("soon"), Duration::from_millis(5));
        linger.insert(id("late"), Duration::from_millis(100));
        linger.remove(&id("soon"));
        assert_eq!(linger.next_expired().await, id("late"));
        let never = tokio::time::timeout(Duration::from_secs(60), linger.next_expired()).await;
        assert!(never.is_err());
    }
}

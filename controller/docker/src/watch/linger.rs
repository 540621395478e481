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
pub(super) struct Linger {
    waiting: BTreeSet<ObjectId>,
    timers: FuturesUnordered<BoxFuture<'static, ObjectId>>,
}

impl Linger {
    /// Leaves an object alone for a while.
    pub(super) fn begin(&mut self, id: ObjectId, span: Duration) {
        self.waiting.insert(id.clone());
        self.timers.push(Box::pin(async move {
            sleep(span).await;
            id
        }));
    }

    /// What was waited for came; the timer does nothing any more.
    pub(super) fn end(&mut self, id: &ObjectId) {
        self.waiting.remove(id);
    }

    /// The next object whose time ran out; waits for ever while there is none.
    pub(super) async fn over(&mut self) -> ObjectId {
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
        let mut linger = Linger::default();
        linger.begin(id("soon"), Duration::from_millis(5));
        linger.begin(id("late"), Duration::from_millis(100));
        linger.end(&id("soon"));
        assert_eq!(linger.over().await, id("late"));
        let never = tokio::time::timeout(Duration::from_secs(60), linger.over()).await;
        assert!(never.is_err());
    }
}

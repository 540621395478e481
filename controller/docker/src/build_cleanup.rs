//! Removal of what builds leave, after each build. It runs one at a time in a task of the controller, so that no build waits for it. Then it
//! measures the cache that stays.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::image::build::control;
use crate::{Shared, prune};

/// Tags of new builds, from the actions to the task.
#[derive(Debug, Default)]
pub(crate) struct BuildCleanup {
    tags: Mutex<BTreeSet<String>>,
    added: Notify,
}

impl BuildCleanup {
    /// Requests the removal of the builds that a new build of this tag replaces.
    pub(crate) fn request(&self, tag: &str) {
        let mut tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        tags.insert(tag.to_owned());
        drop(tags);
        self.added.notify_one();
    }

    /// Waits for requests, and takes all of them.
    async fn next(&self) -> BTreeSet<String> {
        loop {
            let tags = std::mem::take(&mut *self.tags.lock().unwrap_or_else(PoisonError::into_inner));
            if !tags.is_empty() {
                return tags;
            }
            // A notification without a waiter is kept for the next one.
            self.added.notified().await;
        }
    }
}

/// Handles the requests of all builds, without end. Reports the size of the unused build cache after each.
pub(crate) async fn run(shared: &Shared, report: impl Fn(u64)) {
    loop {
        let tags = shared.build_cleanup.next().await;
        prune::limit(shared, &tags).await;
        match control::unused_cache(shared).await {
            Ok(bytes) => report(bytes),
            Err(error) => tracing::debug!(%error, "cannot measure the build cache"),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn requests_before_a_cleanup_become_one() {
        let cleanup = BuildCleanup::default();
        for tag in ["shop:1", "pay:1", "shop:1"] {
            cleanup.request(tag);
        }
        let taken = cleanup.next().await;
        assert_eq!(taken.iter().collect::<Vec<_>>(), ["pay:1", "shop:1"]);
        assert!(cleanup.next().now_or_never().is_none());
        cleanup.request("shop:1");
        assert_eq!(cleanup.next().await.len(), 1);
    }
}

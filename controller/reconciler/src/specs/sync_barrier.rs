//! Sync barrier: a command takes effect after all spec edits that were made before it.
//!
//! A requester increments a counter and waits until a scan that started later is complete.

use std::time::Duration;

use tokio::sync::watch;

/// Maximum wait. A folder with continuous writes does not block commands longer.
pub const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

/// Requester side of the barrier; cheap to clone.
#[derive(Debug, Clone)]
pub struct SyncRequester {
    requested: watch::Sender<u64>,
    read: watch::Receiver<u64>,
}

/// Responder side, for the specs task; cheap to clone.
#[derive(Debug, Clone)]
pub struct SyncResponder {
    requested: watch::Receiver<u64>,
    read: watch::Sender<u64>,
}

/// Creates both sides.
pub fn channel() -> (SyncRequester, SyncResponder) {
    let (requested, requests) = watch::channel(0);
    let (read_sender, read) = watch::channel(0);
    let responder = SyncResponder {
        requested: requests,
        read: read_sender,
    };
    (SyncRequester { requested, read }, responder)
}

impl SyncRequester {
    /// Waits until all files that exist at the call are accepted or refused, at most [`SYNC_TIMEOUT`]. Returns false if they are not.
    pub async fn wait(&self) -> bool {
        let mut own = 0;
        self.requested.send_modify(|requested| {
            *requested += 1;
            own = *requested;
        });
        let mut read = self.read.clone();
        let reached = tokio::time::timeout(SYNC_TIMEOUT, read.wait_for(|read| *read >= own)).await;
        matches!(reached, Ok(Ok(_)))
    }
}

impl SyncResponder {
    /// Starts a scan, and returns the generation of the requests that it serves.
    pub(super) fn begin(&mut self) -> u64 {
        *self.requested.borrow_and_update()
    }

    /// Completes a scan after which no file waits for a second read.
    pub(super) fn completed(&self, generation: u64) {
        self.read.send_replace(generation);
    }

    /// Waits for an unserved request.
    pub(super) async fn requested(&mut self) {
        if self.requested.changed().await.is_err() {
            // No requester is left.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn request_is_served_by_a_later_scan() {
        let (requester, mut responder) = channel();
        let early = responder.begin();
        let mut waiting = std::pin::pin!(requester.wait());
        assert!(futures::poll!(&mut waiting).is_pending());
        responder.completed(early);
        assert!(
            futures::poll!(&mut waiting).is_pending(),
            "that scan started before the request"
        );
        responder.requested().await;
        let generation = responder.begin();
        responder.completed(generation);
        assert!(waiting.await);
        assert!(!requester.wait().await, "a scan that lasts longer ends the wait");
    }
}

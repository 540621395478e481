//! Whether the spec folder was read since somebody asked: what is written before a command counts before it.

use std::time::Duration;

use tokio::sync::watch;

/// A folder that is being written to for longer than this holds nobody up.
pub const SYNC_LIMIT: Duration = Duration::from_secs(2);

/// The side of those who ask; cheap to clone.
#[derive(Debug, Clone)]
pub struct SyncRequester {
    requested: watch::Sender<u64>,
    read: watch::Receiver<u64>,
}

/// The side of the task that reads the folder; cheap to clone.
#[derive(Debug, Clone)]
pub struct SyncResponder {
    asked: watch::Receiver<u64>,
    read: watch::Sender<u64>,
}

/// Both sides.
pub fn sides() -> (SyncRequester, SyncResponder) {
    let (asked, hears) = watch::channel(0);
    let (tells, read) = watch::channel(0);
    let reader = SyncResponder {
        asked: hears,
        read: tells,
    };
    (
        SyncRequester {
            requested: asked,
            read,
        },
        reader,
    )
}

impl SyncRequester {
    /// Returns when all that lies in the folder at the call counts, or was refused; at the latest after [`PATIENCE`].
    pub async fn wait(&self) {
        let mut mine = 0;
        self.requested.send_modify(|asked| {
            *asked += 1;
            mine = *asked;
        });
        let mut read = self.read.clone();
        // Whoever is not told goes on with what is known, as before.
        drop(tokio::time::timeout(SYNC_LIMIT, read.wait_for(|read| *read >= mine)).await);
    }
}

impl SyncResponder {
    /// A reading begins; those who asked up to now are served by it.
    pub(super) fn begin(&mut self) -> u64 {
        *self.asked.borrow_and_update()
    }

    /// The reading is done, and nothing in the folder waits to be read again.
    pub(super) fn settled(&self, begun: u64) {
        self.read.send_replace(begun);
    }

    /// Somebody asks who has not been served.
    pub(super) async fn asked(&mut self) {
        if self.asked.changed().await.is_err() {
            // Nobody is left who could.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_asks_is_served_by_a_reading_that_began_later() {
        let (asker, mut reader) = sides();
        let early = reader.begin();
        let mut waiting = std::pin::pin!(asker.wait());
        assert!(futures::poll!(&mut waiting).is_pending());
        reader.settled(early);
        assert!(
            futures::poll!(&mut waiting).is_pending(),
            "that one had begun before"
        );
        reader.asked().await;
        let begun = reader.begin();
        reader.settled(begun);
        assert!(futures::poll!(&mut waiting).is_ready());
        // Nobody reads any more: it ends all the same.
        asker.wait().await;
    }
}

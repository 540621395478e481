//! Reads along in the journal and enters what happened into the ledger: every record once, however slow it is.

use argus_reconciler::journal::Feed;
use tokio_util::sync::CancellationToken;

use super::counters::Counters;

/// Records that are taken up at once.
const PAGE: usize = 256;

/// The one who reads along; cheap to clone, and each clone goes on where the last one was.
#[derive(Debug, Clone)]
pub(crate) struct JournalConsumer {
    feed: Feed,
    counters: Counters,
}

impl JournalConsumer {
    /// One that begins with what was written after this record.
    pub(super) fn new(feed: Feed, begun: u64, counters: Counters) -> Self {
        counters.begin_after(begun);
        Self { feed, counters }
    }

    /// Reads until it is stopped.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut newest = self.feed.newest();
        loop {
            let last = self.counters.last();
            let page = self.feed.after(last, PAGE).await;
            for record in &page.records {
                self.counters.enter(record);
            }
            if !page.records.is_empty() {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                newer = newest.wait_for(|newest| *newest > last) => if newer.is_err() { return },
            }
        }
    }
}

#[cfg(test)]
#[path = "journal_consumer_tests.rs"]
mod tests;

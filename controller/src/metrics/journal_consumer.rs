//! Consumer of the journal that updates the counters: it counts every record once, even if it is slow.

use argus_reconciler::journal::Feed;
use tokio_util::sync::CancellationToken;

use super::counters::Counters;

/// Maximum number of records per read.
const PAGE_SIZE: usize = 256;

/// The consumer; cheap to clone. Each clone continues after the last counted record.
#[derive(Debug, Clone)]
pub(crate) struct JournalConsumer {
    feed: Feed,
    counters: Counters,
}

impl JournalConsumer {
    /// Creates a consumer that starts after record `previous_newest`.
    pub(super) fn new(feed: Feed, previous_newest: u64, counters: Counters) -> Self {
        counters.start_after(previous_newest);
        Self { feed, counters }
    }

    /// Counts records until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut newest = self.feed.newest();
        loop {
            let last = self.counters.last_seq();
            let page = self.feed.after(last, PAGE_SIZE).await;
            for record in &page.records {
                self.counters.count_record(record);
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

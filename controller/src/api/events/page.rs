//! Pages of journal records.

use std::collections::VecDeque;
use std::sync::Arc;

use argus_core::journal::{EventFilter, Record};
use argus_reconciler::journal::Feed;

/// Maximum number of records per read of the feed.
const PAGE: usize = 1_000;

/// A page of records.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Records, oldest first.
    pub(crate) records: VecDeque<Arc<Record>>,
    /// Sequence number to continue after.
    pub(crate) last: u64,
    /// Number of skipped records that are no longer stored.
    pub(crate) missed: Option<u64>,
}

/// Returns the newest `most` matching records, or with `after` the first `most` after that number.
pub(crate) async fn read_page(feed: &Feed, wanted: &EventFilter, after: Option<u64>, most: usize) -> Page {
    let mut records: VecDeque<Arc<Record>> = VecDeque::new();
    let (mut last, mut missed) = (after.unwrap_or(0), 0);
    loop {
        let page = feed.after(last, PAGE).await;
        missed += page.missed;
        let Some(newest) = page.records.last().map(|record| record.seq) else {
            break;
        };
        for record in page.records.iter().filter(|record| wanted.matches(record)) {
            if records.len() == most && after.is_none() {
                records.pop_front();
            }
            if records.len() < most {
                records.push_back(record.clone());
            }
        }
        last = newest;
        if after.is_some() && records.len() == most {
            // The next call returns the records after these.
            last = records.back().map_or(last, |record| record.seq);
            break;
        }
    }
    Page {
        records,
        last,
        missed: (after.is_some() && missed > 0).then_some(missed),
    }
}

//! What happened, a page at a time: the same over every surface.

use std::collections::VecDeque;
use std::sync::Arc;

use argus_core::journal::{EventFilter, Record};
use argus_reconciler::journal::Feed;
use serde::Serialize;
use serde_json::{Value, json};

/// Records that are taken up at once.
const PAGE: usize = 1_000;

/// What happened, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventsPage {
    /// The records as they stand in the journal, each with its name as `event`; the oldest first.
    pub(crate) items: Vec<Value>,
    /// The number to go on after.
    pub(crate) last: u64,
    /// How many between are kept nowhere any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missed: Option<u64>,
}

/// Some of what happened.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The oldest first.
    pub(crate) records: VecDeque<Arc<Record>>,
    /// The number to go on after.
    pub(crate) last: u64,
    /// How many between are kept nowhere any more.
    pub(crate) missed: Option<u64>,
}

/// The newest `most` of what is wanted, or with `after` the first that came since.
pub(crate) async fn page(feed: &Feed, wanted: &EventFilter, after: Option<u64>, most: usize) -> Page {
    let mut kept: VecDeque<Arc<Record>> = VecDeque::new();
    let (mut last, mut missed) = (after.unwrap_or(0), 0);
    loop {
        let page = feed.after(last, PAGE).await;
        missed += page.missed;
        let Some(newest) = page.records.last().map(|record| record.seq) else {
            break;
        };
        for record in page.records.iter().filter(|record| wanted.matches(record)) {
            if kept.len() == most && after.is_none() {
                kept.pop_front();
            }
            if kept.len() < most {
                kept.push_back(record.clone());
            }
        }
        last = newest;
        if after.is_some() && kept.len() == most {
            // What comes after is told when it is asked for.
            last = kept.back().map_or(last, |record| record.seq);
            break;
        }
    }
    Page {
        records: kept,
        last,
        missed: (after.is_some() && missed > 0).then_some(missed),
    }
}

/// The record as it stands in the journal, with its name.
pub(crate) fn value(record: &Record) -> Value {
    // Our own types have text keys and no foreign serializers: they can always be written.
    let mut value = serde_json::to_value(record).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("event".to_owned(), json!(record.name()));
    }
    value
}

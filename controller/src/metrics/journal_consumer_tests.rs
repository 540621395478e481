//! A late or restarted consumer counts every record once.

use std::time::Duration;

use argus_core::journal::Event;
use argus_reconciler::clock::Clock;
use argus_reconciler::journal::handle;
use tokio::task::JoinSet;

use super::*;

/// More records than the feed keeps in memory.
const MANY: u64 = 6_000;
/// Fewer records than the journal accepts in one batch.
const SOME: u64 = 1_000;

async fn wait_until_counted(counters: &Counters, last: u64) {
    let all = async {
        while counters.last_seq() < last {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all).await.unwrap();
}

#[tokio::test]
async fn late_and_restarted_consumer_counts_each_record_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    let (journal, writer, ..) = handle::open(&path, "RUN", Clock::system(), handle::DEFAULT_MAX_SIZE);
    let mut tasks = JoinSet::new();
    tasks.spawn(writer.run());
    let feed = journal.feed();
    let mut newest = feed.newest();
    // Records of a previous run are not counted.
    journal.record_event(Event::Resumed);
    newest.wait_for(|newest| *newest == 1).await.unwrap();
    let consumer = JournalConsumer::new(feed, 1, Counters::default());
    let mut last = 1;
    while last < 1 + MANY {
        for _ in 0..SOME {
            journal.record_event(Event::Writable);
        }
        last += SOME;
        newest.wait_for(|newest| *newest == last).await.unwrap();
    }
    assert_eq!(journal.dropped(), 0);

    let stop = CancellationToken::new();
    let first = tasks.spawn(consumer.clone().run(stop.clone()));
    wait_until_counted(&consumer.counters, last).await;
    assert_eq!(consumer.counters.records_counter("event"), MANY);
    first.abort();
    tasks.spawn(consumer.clone().run(stop));
    journal.record_event(Event::Writable);
    wait_until_counted(&consumer.counters, last + 1).await;
    assert_eq!(consumer.counters.records_counter("event"), MANY + 1);
}

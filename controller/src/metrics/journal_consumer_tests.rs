//! Whoever reads along late, or anew, enters every record once.

use std::time::Duration;

use argus_core::journal::Event;
use argus_reconciler::clock::Clock;
use argus_reconciler::journal::handle;
use tokio::task::JoinSet;

use super::*;

/// More than the feed keeps in memory.
const MANY: u64 = 6_000;
/// Fewer than the journal takes at once.
const SOME: u64 = 1_000;

async fn entered(counters: &Counters, last: u64) {
    let all = async {
        while counters.last() < last {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), all).await.unwrap();
}

#[tokio::test]
async fn one_that_comes_late_and_is_started_anew_counts_every_record_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    let (journal, writer, ..) = handle::open(&path, "RUN", Clock::system(), handle::LIMIT);
    let mut tasks = JoinSet::new();
    tasks.spawn(writer.run());
    let feed = journal.feed();
    let mut newest = feed.newest();
    // What another run wrote is not counted.
    journal.record_event(Event::Resumed);
    newest.wait_for(|newest| *newest == 1).await.unwrap();
    let meter = JournalConsumer::new(feed, 1, Counters::default());
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
    let first = tasks.spawn(meter.clone().run(stop.clone()));
    entered(&meter.counters, last).await;
    assert_eq!(meter.counters.records_of("event"), MANY);
    first.abort();
    tasks.spawn(meter.clone().run(stop));
    journal.record_event(Event::Writable);
    entered(&meter.counters, last + 1).await;
    assert_eq!(meter.counters.records_of("event"), MANY + 1);
}

//! Feed of journal records for readers within the process: the newest from memory, older ones from the files.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argus_core::journal::Record;
use tokio::sync::watch;

use super::log_file;

/// Number of records in memory. A reader that keeps up never reads the disk, and a slow reader does not affect
/// others.
const MAX_RECORDS_IN_MEMORY: usize = 4_096;

/// Number of records per read from the files.
const MAX_CHUNK_RECORDS: usize = 4_096;

/// Reader of the written records; cheap to clone. Readers pull, so the feed stores no position per reader.
#[derive(Debug, Clone)]
pub struct Feed {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    ring: Mutex<VecDeque<Arc<Record>>>,
    newest: watch::Sender<u64>,
    /// Last chunk that was read from the files. One slow reader reads at a time, so that many of them do not load
    /// the disk.
    read: tokio::sync::Mutex<Chunk>,
}

/// Consecutive records.
#[derive(Debug, Default)]
struct Chunk {
    /// Number of the record before the first one.
    after: u64,
    records: Vec<Arc<Record>>,
}

/// Consecutive records of a feed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Records, oldest first.
    pub records: Vec<Arc<Record>>,
    /// Number of earlier records that are no longer stored.
    pub missed: u64,
}

impl Page {
    /// Page of the records after `seq`. Missing numbers count as missed.
    fn of(records: Vec<Arc<Record>>, seq: u64) -> Self {
        let last = records.last().map_or(seq, |record| record.seq);
        let missed = (last - seq).saturating_sub(records.len() as u64);
        Self { records, missed }
    }
}

impl Feed {
    /// Creates a feed of the journal at `path`, whose last record has the number `last`.
    pub(crate) fn new(path: PathBuf, last: u64) -> Self {
        let shared = Shared {
            path,
            ring: Mutex::default(),
            newest: watch::channel(last).0,
            read: tokio::sync::Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Creates a feed of the journal files at `path`, for processes other than the controller.
    pub fn from_files(path: PathBuf) -> Self {
        // No last number is known: the files alone decide whether there are more records.
        Self::new(path, u64::MAX)
    }

    /// Publishes records after their write.
    pub(crate) fn publish(&self, records: Vec<Record>) {
        let Some(last) = records.last().map(|record| record.seq) else {
            return;
        };
        let mut ring = self.ring();
        ring.extend(records.into_iter().map(Arc::new));
        let surplus = ring.len().saturating_sub(MAX_RECORDS_IN_MEMORY);
        ring.drain(..surplus);
        drop(ring);
        self.shared.newest.send_replace(last);
    }

    /// Number of the newest record, as a channel.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.shared.newest.subscribe()
    }

    /// Returns at most `most` records after `seq`, oldest first.
    pub async fn after(&self, seq: u64, most: usize) -> Page {
        let first_in_memory = {
            let ring = self.ring();
            match ring.front() {
                Some(first) if first.seq <= seq + 1 => {
                    let start = ring.partition_point(|record| record.seq <= seq);
                    let records = ring.iter().skip(start).take(most).cloned().collect();
                    return Page::of(records, seq);
                }
                Some(first) => first.seq,
                None => u64::MAX,
            }
        };
        if *self.shared.newest.borrow() <= seq {
            return Page::default();
        }
        let mut records = self.read(seq, first_in_memory, most).await;
        if records.is_empty() {
            // The records in between are no longer on disk either.
            let ring = self.ring();
            let start = ring.partition_point(|record| record.seq <= seq);
            records = ring.iter().skip(start).take(most).cloned().collect();
        }
        Page::of(records, seq)
    }

    async fn read(&self, seq: u64, before: u64, most: usize) -> Vec<Arc<Record>> {
        let mut chunk = self.shared.read.lock().await;
        let last = chunk.records.last().map_or(0, |record| record.seq);
        if seq < chunk.after || seq >= last {
            let path = self.shared.path.clone();
            let read =
                tokio::task::spawn_blocking(move || log_file::between(&path, seq, before, MAX_CHUNK_RECORDS));
            *chunk = Chunk {
                after: seq,
                records: read.await.unwrap_or_default().into_iter().map(Arc::new).collect(),
            };
        }
        let start = chunk.records.partition_point(|record| record.seq <= seq);
        chunk.records.iter().skip(start).take(most).cloned().collect()
    }

    fn ring(&self) -> MutexGuard<'_, VecDeque<Arc<Record>>> {
        self.shared.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Records as they are written, for everybody who reads along: the newest from memory, older ones from the files.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argus_core::journal::Record;
use tokio::sync::watch;

use super::log_file;

/// Records in memory: a reader that keeps up never touches the disk, and one that does not costs nobody else anything.
const NEWEST: usize = 4_096;

/// Records that are read from the files at once.
const CHUNK: usize = 4_096;

/// The way to what was written; cheap to clone. Readers pull, so nothing is kept for any of them.
#[derive(Debug, Clone)]
pub struct Feed {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    ring: Mutex<VecDeque<Arc<Record>>>,
    newest: watch::Sender<u64>,
    /// What was read from the files last; one reader at a time reads on, so that many who are late hold nobody else up.
    read: tokio::sync::Mutex<Chunk>,
}

/// Records in a row.
#[derive(Debug, Default)]
struct Chunk {
    /// They come after this number.
    after: u64,
    records: Vec<Arc<Record>>,
}

/// Some records in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The records.
    pub records: Vec<Arc<Record>>,
    /// How many before them are kept nowhere any more.
    pub missed: u64,
}

impl Page {
    /// These come after a number; what is not among them is kept nowhere.
    fn of(records: Vec<Arc<Record>>, seq: u64) -> Self {
        let last = records.last().map_or(seq, |record| record.seq);
        let missed = (last - seq).saturating_sub(records.len() as u64);
        Self { records, missed }
    }
}

impl Feed {
    /// A feed of the journal at this path, whose last record has the number `last`.
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

    /// What lies in the files of the journal at this path, for those who are not the controller.
    pub fn of_files(path: PathBuf) -> Self {
        // Whether there are more is told by the files alone.
        Self::new(path, u64::MAX)
    }

    /// These were written.
    pub(crate) fn publish(&self, records: Vec<Record>) {
        let Some(last) = records.last().map(|record| record.seq) else {
            return;
        };
        let mut ring = self.ring();
        ring.extend(records.into_iter().map(Arc::new));
        let surplus = ring.len().saturating_sub(NEWEST);
        ring.drain(..surplus);
        drop(ring);
        self.shared.newest.send_replace(last);
    }

    /// The number of the newest record, as it grows.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.shared.newest.subscribe()
    }

    /// The records after this number, oldest first, `most` of them at most.
    pub async fn after(&self, seq: u64, most: usize) -> Page {
        let first_in_memory = {
            let ring = self.ring();
            match ring.front() {
                Some(first) if first.seq <= seq + 1 => {
                    let known = ring.partition_point(|record| record.seq <= seq);
                    let records = ring.iter().skip(known).take(most).cloned().collect();
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
            // What was between is gone from the disk as well.
            let ring = self.ring();
            let known = ring.partition_point(|record| record.seq <= seq);
            records = ring.iter().skip(known).take(most).cloned().collect();
        }
        Page::of(records, seq)
    }

    async fn read(&self, seq: u64, before: u64, most: usize) -> Vec<Arc<Record>> {
        let mut chunk = self.shared.read.lock().await;
        let last = chunk.records.last().map_or(0, |record| record.seq);
        if seq < chunk.after || seq >= last {
            let path = self.shared.path.clone();
            let read = tokio::task::spawn_blocking(move || log_file::between(&path, seq, before, CHUNK));
            *chunk = Chunk {
                after: seq,
                records: read.await.unwrap_or_default().into_iter().map(Arc::new).collect(),
            };
        }
        let known = chunk.records.partition_point(|record| record.seq <= seq);
        chunk.records.iter().skip(known).take(most).cloned().collect()
    }

    fn ring(&self) -> MutexGuard<'_, VecDeque<Arc<Record>>> {
        self.shared.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

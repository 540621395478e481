//! Records as they are written, for everybody who reads along: the newest from memory, older ones from the files.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argus_core::record::Record;
use tokio::sync::watch;

use super::segment;

/// Records in memory: a reader that keeps up never touches the disk, and one that does not costs nobody else anything.
const NEWEST: usize = 4_096;

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
}

/// Some records in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The records.
    pub records: Vec<Arc<Record>>,
    /// How many before them are kept nowhere any more.
    pub missed: u64,
}

impl Feed {
    /// A feed of the journal at this path, whose last record has the number `last`.
    pub(crate) fn new(path: PathBuf, last: u64) -> Self {
        let shared = Shared {
            path,
            ring: Mutex::default(),
            newest: watch::channel(last).0,
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
                    let skipped = usize::try_from(seq + 1 - first.seq).unwrap_or(usize::MAX);
                    let records: Vec<_> = ring.iter().skip(skipped).take(most).cloned().collect();
                    return Page { records, missed: 0 };
                }
                Some(first) => first.seq,
                None => u64::MAX,
            }
        };
        if *self.shared.newest.borrow() <= seq {
            return Page::default();
        }
        let path = self.shared.path.clone();
        let read = tokio::task::spawn_blocking(move || segment::between(&path, seq, first_in_memory, most));
        let mut records: Vec<_> = read.await.unwrap_or_default().into_iter().map(Arc::new).collect();
        if records.is_empty() {
            // What was between is gone from the disk as well.
            records = self.ring().iter().take(most).cloned().collect();
        }
        let missed = records
            .first()
            .map_or(0, |first| first.seq.saturating_sub(seq + 1));
        Page { records, missed }
    }

    fn ring(&self) -> MutexGuard<'_, VecDeque<Arc<Record>>> {
        self.shared.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Handle of the journal: an action runs only after its intent is on disk.

use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::action::Step;
use argus_core::journal::{Entry, Event, Intent, Outcome, outcome_of};
use argus_core::outcome::{ActionError, Done};
use argus_core::time::Timestamp;
use argus_crds::error::Code;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::feed::Feed;
use super::log_file::{JournalContents, LogFile};
use super::writer::{JournalWriter, WriteRequest};
use crate::blocking;
use crate::clock::Clock;
use crate::metrics::TaskMetrics;
use crate::quarantine::{self, Quarantined};

/// Capacity of the request channel. A few dozen actions are in flight, and each has two lines.
const REQUEST_CAPACITY: usize = 4_096;
/// Maximum number of lines per write and sync.
const MAX_BATCH_LINES: usize = 512;
/// Delay before another write to a journal that cannot be written.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Size at which the journal file is rotated, in bytes.
pub const DEFAULT_MAX_SIZE: u64 = 8 * 1024 * 1024;

/// State of the journal. Any of its problems puts the controller into mode `Safe`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalHealth {
    /// Reason why the journal cannot be written now.
    pub unwritable: Option<String>,
    /// Corrupt part of the state that could not be quarantined.
    pub corrupt: Option<String>,
    /// Reason for mode `Safe`; it stays until a person resumes the controller.
    pub safe: Option<String>,
}

/// Handle of the journal; cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal {
    requests: mpsc::Sender<WriteRequest>,
    health: watch::Receiver<JournalHealth>,
    metrics: TaskMetrics,
    feed: Feed,
    clock: Clock,
}

/// Task that owns the journal file and is its only writer.
#[derive(Debug)]
pub struct WriterTask {
    requests: mpsc::Receiver<WriteRequest>,
    pub(crate) writer: JournalWriter,
    health: watch::Receiver<JournalHealth>,
    closing: CancellationToken,
    clock: Clock,
}

/// Intent on disk whose action has not completed. A drop without a result records an unknown outcome.
#[derive(Debug)]
pub(crate) struct StartedAction {
    journal: Journal,
    seq: u64,
    step: Step,
    at: Timestamp,
    finished: bool,
}

/// Reads the journal at `path` and returns its handle, its writer task and its content. A file that cannot be read
/// is quarantined, or causes mode `Safe`.
pub fn open(
    path: &Path,
    run: &str,
    clock: Clock,
    limit: u64,
) -> (Journal, WriterTask, JournalContents, Vec<Quarantined>) {
    let now = clock.now();
    let mut quarantined: Vec<Quarantined> = quarantine::move_unless_file(path, now).into_iter().collect();
    let mut log_file = LogFile::new(path.to_path_buf());
    let contents = log_file.read().unwrap_or_else(|error| {
        quarantined.push(quarantine::move_file(path, &error.to_string(), now));
        JournalContents::default()
    });
    let mut contents = contents;
    if contents.next == 0 {
        // The newest file is lost: the numbers continue from the older files.
        let older = super::log_file::between(path, 0, u64::MAX, usize::MAX);
        contents.next = older.last().map_or(0, |record| record.seq + 1);
    }
    let (health, health_receiver) = watch::channel(JournalHealth::default());
    // Bounded: an intent waits for room. Everything else is dropped and counted if there is none.
    let (sender, requests) = mpsc::channel(REQUEST_CAPACITY);
    let feed = Feed::new(path.to_path_buf(), contents.next.saturating_sub(1));
    let metrics = TaskMetrics::default();
    let writer = JournalWriter::new(
        log_file,
        run.to_owned(),
        limit,
        &contents,
        health,
        feed.clone(),
        metrics.clone(),
    );
    let journal = Journal {
        requests: sender,
        health: health_receiver.clone(),
        metrics,
        feed,
        clock,
    };
    let writer = WriterTask {
        requests,
        writer,
        health: health_receiver,
        closing: CancellationToken::new(),
        clock,
    };
    (journal, writer, contents, quarantined)
}

impl Journal {
    /// Receiver of the journal's state.
    pub fn health(&self) -> watch::Receiver<JournalHealth> {
        self.health.clone()
    }

    /// Reader of the written records.
    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// Number of lines that were dropped because the channel was full.
    pub fn dropped(&self) -> u64 {
        self.metrics.journal_dropped.get()
    }

    /// Metrics of the controller. They travel with the journal, because every task has its handle.
    pub fn metrics(&self) -> &TaskMetrics {
        &self.metrics
    }

    /// Writes an intent, and returns once it is on disk.
    pub(crate) async fn intend(&self, step: &Step, id: &str) -> Result<StartedAction, ActionError> {
        let (reply, replied) = oneshot::channel();
        let at = self.clock.now();
        let request = WriteRequest::Intend {
            at,
            intent: Box::new(Intent::of(step, id)),
            reply,
        };
        let closed = || ActionError::JournalUnwritable("it is closed".to_owned());
        self.requests.send(request).await.map_err(|_| closed())?;
        let seq = replied
            .await
            .map_err(|_| closed())?
            .map_err(ActionError::JournalUnwritable)?;
        Ok(StartedAction {
            journal: self.clone(),
            seq,
            step: step.clone(),
            at,
            finished: false,
        })
    }

    /// Refuses actions in mode `Safe`.
    pub(crate) fn check_writable(&self) -> Result<(), ActionError> {
        match &self.health.borrow().safe {
            None => Ok(()),
            Some(why) => Err(ActionError::JournalUnwritable(why.clone())),
        }
    }

    /// Records an event. The write is asynchronous.
    pub fn record_event(&self, event: Event) {
        self.record(Entry::Event(event));
    }

    /// Writes a separate file asynchronously. Its folder retains the newest `max_files` files.
    pub(crate) fn write_file(&self, path: PathBuf, text: String, max_files: usize) {
        self.send(WriteRequest::WriteFile {
            path,
            text,
            max_files,
        });
    }

    /// Leaves mode `Safe` on the request of a person.
    ///
    /// # Errors
    /// Reason why mode `Safe` continues.
    pub async fn leave_safe_mode(&self) -> Result<(), String> {
        let (reply, replied) = oneshot::channel();
        let at = self.clock.now();
        let closed = || "the journal is closed".to_owned();
        let sent = self.requests.send(WriteRequest::Resume { at, reply }).await;
        sent.map_err(|_| closed())?;
        replied.await.map_err(|_| closed())?
    }

    fn record(&self, entry: Entry) {
        let at = self.clock.now();
        self.send(WriteRequest::Event {
            at,
            entry: Box::new(entry),
        });
    }

    fn send(&self, request: WriteRequest) {
        if self.requests.try_send(request).is_err() {
            // The next controller resolves an intent whose result is missing.
            self.metrics.journal_dropped.inc();
        }
    }
}

impl StartedAction {
    /// Records the outcome of the action.
    pub(crate) fn record_outcome(mut self, outcome: &Result<Done, ActionError>) {
        let (end, code) = outcome_of(outcome);
        self.record_end(end, code);
    }

    fn record_end(&mut self, end: Outcome, code: Option<Code>) {
        self.finished = true;
        let took = self.journal.clock.now().since(self.at);
        let entry = result_of(self.seq, &self.step, (end, code), took);
        self.journal.record(entry);
    }
}

/// Result of the intent with this number.
pub(super) fn result_of(seq: u64, step: &Step, end: (Outcome, Option<Code>), took: Duration) -> Entry {
    let (outcome, code) = end;
    Entry::Result {
        of: seq,
        environment: step.subject.environment().cloned(),
        verb: step.action.kind(),
        outcome,
        code,
        ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    }
}

impl Drop for StartedAction {
    fn drop(&mut self) {
        if !self.finished {
            self.record_end(Outcome::Unknown, None);
        }
    }
}

impl WriterTask {
    /// Returns a guard that closes the journal when it is dropped, after all earlier requests are written.
    pub(crate) fn closer(&self) -> DropGuard {
        self.closing.clone().drop_guard()
    }

    /// Writes until the journal is closed.
    pub async fn run(self) {
        let Self {
            mut requests,
            mut writer,
            health,
            closing,
            clock,
        } = self;
        let mut again: Option<Timestamp> = None;
        loop {
            let unwritable = health.borrow().unwritable.is_some();
            again = unwritable.then(|| again.unwrap_or_else(|| clock.now() + RETRY_DELAY));
            let first = tokio::select! {
                biased;
                first = requests.recv() => first,
                () = closing.cancelled() => None,
                () = clock.sleep_until(again) => {
                    again = None;
                    writer = with_writer(writer, move |writer| writer.try_again(clock.now())).await;
                    continue;
                }
            };
            let Some(first) = first else { break };
            let mut batch = vec![first];
            while batch.len() < MAX_BATCH_LINES
                && let Ok(next) = requests.try_recv()
            {
                batch.push(next);
            }
            writer = with_writer(writer, move |writer| writer.execute(batch)).await;
        }
        with_writer(writer, JournalWriter::finish).await;
    }
}

/// Runs `work` on a thread that may block. A panic of it ends the controller, with its message.
async fn with_writer(
    mut writer: JournalWriter,
    work: impl FnOnce(&mut JournalWriter) + Send + 'static,
) -> JournalWriter {
    blocking::run(move || {
        work(&mut writer);
        writer
    })
    .await
}

#[cfg(test)]
mod tests {
    use argus_core::action::{Action, Cause, Subject};
    use argus_core::ident::ContainerId;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hanging_disk_delays_actions_and_no_other_task() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::virtual_from(Timestamp(1_000));
        let path = dir.path().join("journal.jsonl");
        // The writer never runs, as if its first write did not return.
        let (journal, writer, ..) = open(&path, "RUN", clock, DEFAULT_MAX_SIZE);
        let id = ContainerId::new("c").unwrap();
        let step = Step {
            subject: Subject::ExtraContainer { id: id.clone() },
            action: Action::StartContainer { id },
            cause: Cause::Missing,
        };
        let held = tokio::time::timeout(Duration::from_secs(60), journal.intend(&step, "A")).await;
        assert!(held.is_err(), "an action waits for its intent");
        // Events are never delayed; those beyond the capacity are counted.
        for _ in 0..REQUEST_CAPACITY + 100 {
            journal.record_event(Event::Stop);
        }
        assert_eq!(journal.dropped(), 101);
        drop(writer);
        assert!(matches!(
            journal.intend(&step, "A").await,
            Err(ActionError::JournalUnwritable(_))
        ));
    }
}

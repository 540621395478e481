//! The journal: an act is done when its intent is on disk, and not before.

use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::journal::{Entry, Event, Intent, Outcome, end, environment};
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::Step;
use argus_core::time::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::feed::Feed;
use super::log_file::{JournalContents, LogFile};
use super::quarantine;
use super::writer::{JournalWriter, WriteRequest};
use crate::clock::Clock;
use crate::journal::Quarantined;
use crate::metrics::Tally;

/// What waits to be written: acts in flight are a few dozen, and each has two lines.
const WAITING: usize = 4_096;
/// Lines that are written and synced together.
const BATCH: usize = 512;
/// How often a journal that could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// A file becomes this large before another one is begun.
pub const LIMIT: u64 = 8 * 1024 * 1024;

/// Whether the journal, and with it the controller, can do its work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalHealth {
    /// Why the journal cannot be written at present.
    pub unwritable: Option<String>,
    /// What of the state is corrupt and in the way.
    pub corrupt: Option<String>,
    /// Why nothing is done until a person resumes the controller.
    pub safe: Option<String>,
}

/// The way to the journal; cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal {
    requests: mpsc::Sender<WriteRequest>,
    health: watch::Receiver<JournalHealth>,
    tally: Tally,
    feed: Feed,
    clock: Clock,
}

/// The one task that writes.
#[derive(Debug)]
pub struct WriterTask {
    requests: mpsc::Receiver<WriteRequest>,
    desk: JournalWriter,
    health: watch::Receiver<JournalHealth>,
    closing: CancellationToken,
    clock: Clock,
}

/// An intent on disk whose act has not come back; dropped without a result, nobody knows what came of it.
#[derive(Debug)]
pub(crate) struct StartedAction {
    journal: Journal,
    seq: u64,
    step: Step,
    at: Timestamp,
    finished: bool,
}

/// Reads the journal of this file, and opens the way to it. What cannot be read is put aside, or is a reason for mode `Safe`.
pub fn open(
    path: &Path,
    run: &str,
    clock: Clock,
    limit: u64,
) -> (Journal, WriterTask, JournalContents, Vec<Quarantined>) {
    let now = clock.now();
    let mut asides: Vec<Quarantined> = quarantine::unless_file(path, now).into_iter().collect();
    let mut segment = LogFile::at(path.to_path_buf());
    let past = segment.read().unwrap_or_else(|error| {
        asides.push(quarantine::set(path, &error.to_string(), now));
        JournalContents::default()
    });
    let mut past = past;
    if past.next == 0 {
        // The newest file is lost: what the older ones hold keeps its numbers.
        let older = super::log_file::between(path, 0, u64::MAX, usize::MAX);
        past.next = older.last().map_or(0, |record| record.seq + 1);
    }
    let (health, seen) = watch::channel(JournalHealth::default());
    // Bounded: an intent waits for room, everything else is dropped and counted where there is none.
    let (sender, requests) = mpsc::channel(WAITING);
    let feed = Feed::new(path.to_path_buf(), past.next.saturating_sub(1));
    let tally = Tally::default();
    let desk = JournalWriter::new(
        segment,
        run.to_owned(),
        limit,
        &past,
        health,
        feed.clone(),
        tally.clone(),
    );
    let journal = Journal {
        requests: sender,
        health: seen.clone(),
        tally,
        feed,
        clock,
    };
    let writer = WriterTask {
        requests,
        desk,
        health: seen,
        closing: CancellationToken::new(),
        clock,
    };
    (journal, writer, past, asides)
}

impl Journal {
    /// Whether it can be written, as it changes.
    pub fn health(&self) -> watch::Receiver<JournalHealth> {
        self.health.clone()
    }

    /// What is written, for those who read along.
    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// How many lines were dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.tally.journal_dropped.get()
    }

    /// How often things happen and how long they take; beside the journal, for it goes wherever something happens.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns when the intent is on disk.
    pub(crate) async fn intend(&self, step: &Step) -> Result<StartedAction, ActionError> {
        let (reply, answer) = oneshot::channel();
        let at = self.clock.now();
        let order = WriteRequest::Intend {
            at,
            intent: Box::new(Intent::of(step)),
            reply,
        };
        let closed = || ActionError::JournalUnwritable("it is closed".to_owned());
        self.requests.send(order).await.map_err(|_| closed())?;
        let seq = answer
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

    /// The controller is in mode `Safe`: what was not begun yet is not begun.
    pub(crate) fn check_writable(&self) -> Result<(), ActionError> {
        match &self.health.borrow().safe {
            None => Ok(()),
            Some(why) => Err(ActionError::JournalUnwritable(why.clone())),
        }
    }

    /// Writes a note, some time; nobody waits for it.
    pub fn record_event(&self, note: Event) {
        self.say(Entry::Event(note));
    }

    /// Writes a file of its own, some time; of its folder the newest `most` files stay.
    pub(crate) fn keep(&self, path: PathBuf, text: String, most: usize) {
        self.order(WriteRequest::WriteFile { path, text, most });
    }

    /// A person says that the controller may go on.
    ///
    /// # Errors
    /// Why it may not yet.
    pub async fn resume(&self) -> Result<(), String> {
        let (reply, answer) = oneshot::channel();
        let at = self.clock.now();
        let closed = || "the journal is closed".to_owned();
        let sent = self.requests.send(WriteRequest::Resume { at, reply }).await;
        sent.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    fn say(&self, entry: Entry) {
        let at = self.clock.now();
        self.order(WriteRequest::Event {
            at,
            entry: Box::new(entry),
        });
    }

    fn order(&self, order: WriteRequest) {
        if self.requests.try_send(order).is_err() {
            // A result that is missing is looked up by the next controller.
            self.tally.journal_dropped.inc();
        }
    }
}

impl StartedAction {
    /// The act came back.
    pub(crate) fn record_outcome(mut self, outcome: &Result<Done, ActionError>) {
        let (end, code) = end(outcome);
        self.tell(end, code);
    }

    fn tell(&mut self, end: Outcome, code: Option<argus_crds::error::Code>) {
        self.finished = true;
        let took = self.journal.clock.now().since(self.at);
        self.journal.say(Entry::Result {
            of: self.seq,
            environment: environment(&self.step.subject).cloned(),
            verb: self.step.action.verb().to_owned(),
            outcome: end,
            code,
            ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
    }
}

impl Drop for StartedAction {
    fn drop(&mut self) {
        if !self.finished {
            self.tell(Outcome::Unknown, None);
        }
    }
}

impl WriterTask {
    /// Something of the state is corrupt and cannot be put aside: nothing is done before a person has seen to it.
    pub(crate) fn blocked_by(&mut self, stuck: Vec<(PathBuf, String)>) {
        let Some((path, why)) = stuck.first() else { return };
        self.desk.blocked(format!("`{}`: {why}", path.display()));
        self.desk.stuck(stuck.into_iter().map(|(path, _)| path).collect());
    }

    /// Dropping it closes the journal, once everything that was ordered before is written.
    pub(crate) fn closer(&self) -> DropGuard {
        self.closing.clone().drop_guard()
    }

    /// Writes until it is closed.
    pub async fn run(self) {
        let Self {
            mut requests,
            mut desk,
            health,
            closing,
            clock,
        } = self;
        let mut again: Option<Timestamp> = None;
        loop {
            let unwritable = health.borrow().unwritable.is_some();
            again = unwritable.then(|| again.unwrap_or_else(|| clock.now() + AGAIN));
            let first = tokio::select! {
                biased;
                first = requests.recv() => first,
                () = closing.cancelled() => None,
                () = clock.sleep_until(again) => {
                    again = None;
                    desk = blocking(desk, move |desk| desk.try_again(clock.now())).await;
                    continue;
                }
            };
            let Some(first) = first else { break };
            let mut batch = vec![first];
            while batch.len() < BATCH
                && let Ok(next) = requests.try_recv()
            {
                batch.push(next);
            }
            desk = blocking(desk, move |desk| desk.carry_out(batch)).await;
        }
        blocking(desk, JournalWriter::finish).await;
    }
}

/// Lets the desk work on a thread that may block.
async fn blocking(
    desk: JournalWriter,
    work: impl FnOnce(&mut JournalWriter) + Send + 'static,
) -> JournalWriter {
    let worked = tokio::task::spawn_blocking(move || {
        let mut desk = desk;
        work(&mut desk);
        desk
    });
    match worked.await {
        Ok(desk) => desk,
        Err(error) => match error.try_into_panic() {
            // The supervisor ends the controller with what it says.
            Ok(payload) => std::panic::resume_unwind(payload),
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use argus_core::ident::ContainerId;
    use argus_core::plan::{Action, Cause, Subject};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_holds_acts_back_and_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::virtual_from(Timestamp(1_000));
        let path = dir.path().join("journal.jsonl");
        // The writer never runs: as if its first write did not return.
        let (journal, writer, ..) = open(&path, "RUN", clock, LIMIT);
        let id = ContainerId::new("c").unwrap();
        let step = Step {
            subject: Subject::ExtraContainer { id: id.clone() },
            action: Action::StartContainer { id },
            cause: Cause::Missing,
        };
        let held = tokio::time::timeout(Duration::from_secs(60), journal.intend(&step)).await;
        assert!(held.is_err(), "an act waits for its intent");
        // Whoever only tells something is never held up, and what is too much is counted.
        for _ in 0..WAITING + 100 {
            journal.record_event(Event::Stop);
        }
        assert_eq!(journal.dropped(), 101);
        drop(writer);
        assert!(matches!(
            journal.intend(&step).await,
            Err(ActionError::JournalUnwritable(_))
        ));
    }
}

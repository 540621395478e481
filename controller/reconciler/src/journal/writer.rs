//! Journal writer: writes lines in batches with one sync each, and handles failed writes.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use argus_backend::host_path::folder;
use argus_core::journal::{Entry, Event, Intent, JOURNAL_VERSION, Record};
use argus_core::quoting::PathText as _;
use argus_core::time::Timestamp;
use tokio::sync::{oneshot, watch};

use super::checksum::with_checksum;
use super::feed::Feed;
use super::handle::JournalHealth;
use super::log_file::{JournalContents, LogFile};
use crate::clock::Stopwatch;
use crate::metrics::TaskMetrics;
use crate::quarantine::{self, Quarantined};
use crate::state_dir::write_private;

/// Maximum number of results and events that wait for a writable journal; the oldest are dropped.
const MAX_PENDING_EVENTS: usize = 1_000;

/// Request to the writer.
#[derive(Debug)]
pub(crate) enum WriteRequest {
    /// Write an intent, and reply once it is on disk.
    Intend {
        at: Timestamp,
        intent: Box<Intent>,
        reply: oneshot::Sender<Result<u64, String>>,
    },
    /// Write an entry without a reply.
    Event { at: Timestamp, entry: Box<Entry> },
    /// Write a separate file.
    WriteFile {
        path: PathBuf,
        text: String,
        max_files: usize,
    },
    /// Leave mode `Safe` on the request of a person.
    Resume {
        at: Timestamp,
        reply: oneshot::Sender<Result<(), String>>,
    },
}

/// Only writer of the journal. All methods block on the disk.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    log_file: LogFile,
    run: String,
    next: u64,
    limit: u64,
    /// Lines of the intents without a result.
    open: BTreeMap<u64, String>,
    pending_events: VecDeque<(Timestamp, Entry)>,
    health: watch::Sender<JournalHealth>,
    /// Files that could not be quarantined at start.
    unquarantined: Vec<PathBuf>,
    feed: Feed,
    /// Numbered records that are not on disk yet.
    unpublished: Vec<Record>,
    metrics: TaskMetrics,
}

impl JournalWriter {
    /// Creates a writer that continues after `contents`.
    pub(crate) fn new(
        log_file: LogFile,
        run: String,
        limit: u64,
        contents: &JournalContents,
        health: watch::Sender<JournalHealth>,
        feed: Feed,
        metrics: TaskMetrics,
    ) -> Self {
        Self {
            feed,
            metrics,
            unpublished: Vec::new(),
            log_file,
            run,
            next: contents.next.max(1),
            limit,
            open: contents
                .open
                .iter()
                .map(|(seq, open)| (*seq, open.line.clone()))
                .collect(),
            pending_events: VecDeque::new(),
            health,
            unquarantined: Vec::new(),
        }
    }

    /// Enters mode `Safe` until a person resumes the controller.
    pub(crate) fn require_resume(&mut self, why: String) {
        self.health.send_modify(|health| {
            health.safe.get_or_insert(why);
        });
    }

    /// Enters mode `Safe` because these parts of the state are corrupt and could not be quarantined. A person must resolve it.
    pub(crate) fn enter_safe_mode(&mut self, stuck: &[&Quarantined]) {
        let Some(first) = stuck.first() else { return };
        let why = format!("`{}`: {}", first.path.shown(), first.why);
        self.health.send_modify(|health| {
            health.safe.get_or_insert(format!("the state is corrupt: {why}"));
            health.corrupt = Some(why);
        });
        self.unquarantined = stuck.iter().map(|file| file.path.clone()).collect();
    }

    /// Waits until all lines are on disk.
    pub(crate) fn finish(&mut self) {
        if let Err(error) = self.log_file.sync() {
            tracing::warn!(%error, "cannot sync the journal");
        }
    }

    /// Executes a batch with one write, and one sync if an intent is in it.
    pub(crate) fn execute(&mut self, batch: Vec<WriteRequest>) {
        let mut lines = String::new();
        let mut waiting = Vec::new();
        let mut entries = Vec::new();
        let mut resumes = Vec::new();
        let (open, next) = (self.open.clone(), self.next);
        for request in batch {
            match request {
                WriteRequest::Intend { at, intent, reply } => {
                    if let Some(why) = self.health.borrow().safe.clone() {
                        // The requester may be gone.
                        let _receiver_gone = reply.send(Err(why));
                        continue;
                    }
                    let (seq, line) = self.line(at, Entry::Intent(*intent));
                    self.open.insert(seq, line.trim_end().to_owned());
                    lines.push_str(&line);
                    waiting.push((seq, reply));
                }
                WriteRequest::Event { at, entry } => entries.push((at, *entry)),
                WriteRequest::WriteFile {
                    path,
                    text,
                    max_files,
                } => write_file(&path, &text, max_files),
                WriteRequest::Resume { at, reply } => resumes.push((at, reply)),
            }
        }
        for (at, entry) in &entries {
            lines.push_str(&self.line(*at, entry.clone()).1);
        }
        match self.write(&lines, !waiting.is_empty()) {
            Ok(()) => {
                for (_, entry) in &entries {
                    self.close_intent(entry);
                }
                for (seq, reply) in waiting {
                    let _receiver_gone = reply.send(Ok(seq));
                }
            }
            Err(why) => {
                (self.open, self.next) = (open, next);
                self.pending_events.extend(entries);
                let surplus = self.pending_events.len().saturating_sub(MAX_PENDING_EVENTS);
                self.pending_events.drain(..surplus);
                for (_, reply) in waiting {
                    let _receiver_gone = reply.send(Err(why.clone()));
                }
            }
        }
        for (at, reply) in resumes {
            let _receiver_gone = reply.send(self.leave_safe_mode(at));
        }
    }

    /// Tries to write again after a failure.
    pub(crate) fn try_again(&mut self, at: Timestamp) {
        if self.health.borrow().unwritable.is_none() {
            return;
        }
        let (open, next) = (self.open.clone(), self.next);
        let mut lines = String::new();
        let pending: Vec<_> = self.pending_events.iter().cloned().collect();
        for (then, entry) in &pending {
            lines.push_str(&self.line(*then, entry.clone()).1);
        }
        lines.push_str(&self.line(at, Entry::Event(Event::Writable)).1);
        match self.write_lines(&lines, true) {
            Ok(()) => {
                for (_, entry) in &pending {
                    self.close_intent(entry);
                }
                self.pending_events.clear();
                tracing::info!("journal is writable again; `argus resume` ends mode Safe");
                self.health.send_modify(|health| health.unwritable = None);
            }
            Err(why) => {
                (self.open, self.next) = (open, next);
                let differs = self.health.borrow().unwritable.as_ref() != Some(&why);
                if differs {
                    self.health.send_modify(|health| health.unwritable = Some(why));
                }
            }
        }
    }

    fn leave_safe_mode(&mut self, at: Timestamp) -> Result<(), String> {
        self.try_again(at);
        self.unquarantined.retain(|path| {
            quarantine::move_file(path, "it was unreadable at start", at)
                .to
                .is_none()
        });
        if self.unquarantined.is_empty() {
            self.health.send_modify(|health| health.corrupt = None);
        }
        let health = self.health.borrow().clone();
        if let Some(why) = health.unwritable.or(health.corrupt) {
            return Err(why);
        }
        if health.safe.is_none() {
            return Err("the controller is not in mode `Safe`".to_owned());
        }
        let next = self.next;
        let line = self.line(at, Entry::Event(Event::Resumed)).1;
        if let Err(why) = self.write(&line, true) {
            // The number was not written. Readers would wait for it, so it is used again.
            self.next = next;
            return Err(why);
        }
        self.health.send_modify(|health| health.safe = None);
        Ok(())
    }

    /// Writes lines. A failure is published and puts the controller into mode `Safe`.
    fn write(&mut self, lines: &str, sync: bool) -> Result<(), String> {
        let failure = self.health.borrow().unwritable.clone();
        let written = match failure {
            // After a failure only `try_again` and `resume` write; each line would fail.
            Some(why) => {
                self.unpublished.clear();
                Err(why)
            }
            None => self.write_lines(lines, sync),
        };
        let Err(why) = &written else { return written };
        if self.health.borrow().unwritable.is_none() {
            self.set_unwritable(why.clone());
        }
        written
    }

    /// Enters mode `Safe` because the journal or the state directory cannot be written, such as on a full disk.
    pub(crate) fn set_unwritable(&mut self, why: String) {
        tracing::error!(
            why,
            "cannot write the journal: mode Safe, no action runs before `argus resume`"
        );
        let safe = format!("cannot write the journal: {why}");
        self.health.send_modify(|health| {
            health.unwritable = Some(why);
            health.safe.get_or_insert(safe);
        });
    }

    fn write_lines(&mut self, lines: &str, sync: bool) -> Result<(), String> {
        let unpublished = std::mem::take(&mut self.unpublished);
        if lines.is_empty() {
            return Ok(());
        }
        let stopwatch = Stopwatch::start();
        let result = self.append_or_rotate(lines, sync);
        if result.is_ok() {
            self.metrics.journal_seconds.observe(stopwatch.seconds());
            let size = i64::try_from(self.log_file.len()).unwrap_or(i64::MAX);
            self.metrics.journal_bytes.set(size);
            self.feed.publish(unpublished);
        } else {
            self.metrics.journal_failures.inc();
        }
        result
    }

    fn append_or_rotate(&mut self, lines: &str, sync: bool) -> Result<(), String> {
        let path = self.log_file.path().display().to_string();
        let describe = |error: std::io::Error| format!("`{path}`: {error}");
        let full = self.log_file.len() + lines.len() as u64 > self.limit && !self.log_file.is_empty();
        if full || !self.log_file.is_at_its_path() {
            // The open intents of this batch are already in its lines.
            let mut head = String::new();
            for line in self.open.values().filter(|line| !lines.contains(line.as_str())) {
                head.push_str(line);
                head.push('\n');
            }
            head.push_str(lines);
            return self.log_file.rotate(head.as_bytes()).map_err(describe);
        }
        self.log_file.append(lines.as_bytes(), sync).map_err(describe)
    }

    fn close_intent(&mut self, entry: &Entry) {
        if let Entry::Result { of, .. } | Entry::Event(Event::IntentResolved { of, .. }) = entry {
            self.open.remove(of);
        }
    }

    fn line(&mut self, at: Timestamp, entry: Entry) -> (u64, String) {
        let seq = self.next;
        self.next += 1;
        let record = Record {
            v: JOURNAL_VERSION,
            seq,
            at: at.to_string(),
            run: self.run.clone(),
            entry,
        };
        // These types have string keys and derived serializers: serialization cannot fail.
        let text = serde_json::to_string(&record).unwrap_or_default();
        self.unpublished.push(record);
        (seq, with_checksum(&text) + "\n")
    }
}

/// Writes a file, and removes the oldest files of its folder. The names are ULIDs and sort by time.
fn write_file(path: &Path, text: &str, max_files: usize) {
    if let Err(error) = write_private(path, text.as_bytes()) {
        tracing::error!(path = %path.shown(), %error, "cannot write the incident");
    }
    let Some(parent) = path.parent() else {
        return;
    };
    let mut files = folder::list(parent).unwrap_or_default();
    files.retain(|name| Path::new(name).extension().is_some_and(|ext| ext == "json"));
    let surplus = files.len().saturating_sub(max_files);
    for old in &files[..surplus] {
        drop(folder::remove(&parent.join(old)));
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;

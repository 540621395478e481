//! Where the journal is written: lines in batches, each with one sync, and what becomes of them when that fails.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use argus_core::journal::{Entry, Event, Intent, JOURNAL_VERSION, Record};
use argus_core::time::Timestamp;
use tokio::sync::{oneshot, watch};

use super::checksum::with_checksum;
use super::feed::Feed;
use super::handle::JournalHealth;
use super::log_file::{JournalContents, LogFile};
use super::quarantine;
use crate::clock::Stopwatch;
use crate::metrics::Tally;
use crate::state_dir::write_public;

/// Results and notes that are written later, when the journal can be written again; the oldest go.
const PENDING_LIMIT: usize = 1_000;

/// What the desk is told.
#[derive(Debug)]
pub(crate) enum WriteRequest {
    /// To write an intent, and to answer when it is on disk.
    Intend {
        at: Timestamp,
        intent: Box<Intent>,
        reply: oneshot::Sender<Result<u64, String>>,
    },
    /// To write something that nobody waits for.
    Event { at: Timestamp, entry: Box<Entry> },
    /// To write a file of its own.
    WriteFile {
        path: PathBuf,
        text: String,
        most: usize,
    },
    /// A person says that it may go on.
    Resume {
        at: Timestamp,
        reply: oneshot::Sender<Result<(), String>>,
    },
}

/// The only writer of the journal. Everything here blocks on the disk.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    segment: LogFile,
    run: String,
    next: u64,
    limit: u64,
    /// Intents without a result, as they were written.
    open: BTreeMap<u64, String>,
    pending_events: VecDeque<(Timestamp, Entry)>,
    health: watch::Sender<JournalHealth>,
    /// What was to be put aside at start and could not be.
    stuck: Vec<PathBuf>,
    feed: Feed,
    /// Numbered, and not on disk yet.
    fresh: Vec<Record>,
    tally: Tally,
}

impl JournalWriter {
    /// A desk that goes on from what was read.
    pub(crate) fn new(
        segment: LogFile,
        run: String,
        limit: u64,
        past: &JournalContents,
        health: watch::Sender<JournalHealth>,
        feed: Feed,
        tally: Tally,
    ) -> Self {
        Self {
            feed,
            tally,
            fresh: Vec::new(),
            segment,
            run,
            next: past.next.max(1),
            limit,
            open: past
                .open
                .iter()
                .map(|(seq, open)| (*seq, open.line.clone()))
                .collect(),
            pending_events: VecDeque::new(),
            health,
            stuck: Vec::new(),
        }
    }

    /// These could not be put aside.
    pub(crate) fn stuck(&mut self, paths: Vec<PathBuf>) {
        self.stuck = paths;
    }

    /// Something is in the way, and nothing is done before a person has seen to it.
    pub(crate) fn blocked(&mut self, why: String) {
        self.health.send_modify(|health| {
            health.safe.get_or_insert(format!("kept state is corrupt: {why}"));
            health.corrupt = Some(why);
        });
    }

    /// Waits until all of it is on disk.
    pub(crate) fn finish(&mut self) {
        if let Err(error) = self.segment.sync() {
            tracing::warn!(%error, "cannot sync the journal");
        }
    }

    /// Carries a batch out: one write, and one sync where somebody waits for it.
    pub(crate) fn carry_out(&mut self, batch: Vec<WriteRequest>) {
        let mut lines = String::new();
        let mut waiting = Vec::new();
        let mut said = Vec::new();
        let mut resumes = Vec::new();
        let (open, next) = (self.open.clone(), self.next);
        for order in batch {
            match order {
                WriteRequest::Intend { at, intent, reply } => {
                    if let Some(why) = self.health.borrow().safe.clone() {
                        // Whoever asked may have been abandoned.
                        let _nobody_waits = reply.send(Err(why));
                        continue;
                    }
                    let (seq, line) = self.line(at, Entry::Intent(*intent));
                    self.open.insert(seq, line.trim_end().to_owned());
                    lines.push_str(&line);
                    waiting.push((seq, reply));
                }
                WriteRequest::Event { at, entry } => said.push((at, *entry)),
                WriteRequest::WriteFile { path, text, most } => keep(&path, &text, most),
                WriteRequest::Resume { at, reply } => resumes.push((at, reply)),
            }
        }
        for (at, entry) in &said {
            lines.push_str(&self.line(*at, entry.clone()).1);
        }
        match self.write(&lines, !waiting.is_empty()) {
            Ok(()) => {
                for (_, entry) in &said {
                    self.close(entry);
                }
                for (seq, reply) in waiting {
                    let _nobody_waits = reply.send(Ok(seq));
                }
            }
            Err(why) => {
                (self.open, self.next) = (open, next);
                self.pending_events.extend(said);
                let surplus = self.pending_events.len().saturating_sub(PENDING_LIMIT);
                self.pending_events.drain(..surplus);
                for (_, reply) in waiting {
                    let _nobody_waits = reply.send(Err(why.clone()));
                }
            }
        }
        for (at, reply) in resumes {
            let _nobody_waits = reply.send(self.resume(at));
        }
    }

    /// Tries whether it can be written again, where it could not.
    pub(crate) fn try_again(&mut self, at: Timestamp) {
        if self.health.borrow().unwritable.is_none() {
            return;
        }
        let (open, next) = (self.open.clone(), self.next);
        let mut lines = String::new();
        let owed: Vec<_> = self.pending_events.iter().cloned().collect();
        for (then, entry) in &owed {
            lines.push_str(&self.line(*then, entry.clone()).1);
        }
        lines.push_str(&self.line(at, Entry::Event(Event::Writable)).1);
        match self.put(&lines, true) {
            Ok(()) => {
                for (_, entry) in &owed {
                    self.close(entry);
                }
                self.pending_events.clear();
                tracing::info!("journal can be written again; `argus resume` ends mode Safe");
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

    fn resume(&mut self, at: Timestamp) -> Result<(), String> {
        self.try_again(at);
        self.stuck.retain(|path| {
            quarantine::set(path, "it could not be read at start", at)
                .to
                .is_none()
        });
        if self.stuck.is_empty() {
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
            // A number that nothing has would be looked for by those who read along.
            self.next = next;
            return Err(why);
        }
        self.health.send_modify(|health| health.safe = None);
        Ok(())
    }

    /// Writes, and says to everybody when that is not possible: from then on nothing is done.
    fn write(&mut self, lines: &str, sync: bool) -> Result<(), String> {
        let known = self.health.borrow().unwritable.clone();
        let written = match known {
            // What cannot be written is looked at now and then, not with every line.
            Some(why) => {
                self.fresh.clear();
                Err(why)
            }
            None => self.put(lines, sync),
        };
        let Err(why) = &written else { return written };
        if self.health.borrow().unwritable.is_none() {
            tracing::error!(
                why,
                "journal cannot be written: mode Safe, nothing is done before `argus resume`"
            );
            let safe = format!("cannot write the journal: {why}");
            self.health.send_modify(|health| {
                health.unwritable = Some(why.clone());
                health.safe.get_or_insert(safe);
            });
        }
        written
    }

    fn put(&mut self, lines: &str, sync: bool) -> Result<(), String> {
        let fresh = std::mem::take(&mut self.fresh);
        if lines.is_empty() {
            return Ok(());
        }
        let watch = Stopwatch::start();
        let put = self.put_down(lines, sync);
        if put.is_ok() {
            self.tally.journal_seconds.observe(watch.seconds());
            let size = i64::try_from(self.segment.len()).unwrap_or(i64::MAX);
            self.tally.journal_bytes.set(size);
            self.feed.publish(fresh);
        } else {
            self.tally.journal_failures.inc();
        }
        put
    }

    fn put_down(&mut self, lines: &str, sync: bool) -> Result<(), String> {
        let path = self.segment.path().display().to_string();
        let told = |error: std::io::Error| format!("`{path}`: {error}");
        let full = self.segment.len() + lines.len() as u64 > self.limit && !self.segment.is_empty();
        if full || !self.segment.is_at_its_path() {
            // The open intents of this very batch stand in its lines.
            let mut head = String::new();
            for line in self.open.values().filter(|line| !lines.contains(line.as_str())) {
                head.push_str(line);
                head.push('\n');
            }
            head.push_str(lines);
            return self.segment.rotate(head.as_bytes()).map_err(told);
        }
        self.segment.append(lines.as_bytes(), sync).map_err(told)
    }

    fn close(&mut self, entry: &Entry) {
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
        // Our own types have text keys and no foreign serializers: they can always be written.
        let text = serde_json::to_string(&record).unwrap_or_default();
        self.fresh.push(record);
        (seq, with_checksum(&text) + "\n")
    }
}

/// Names are ULIDs, so that the oldest is the first.
fn keep(path: &Path, text: &str, most: usize) {
    if let Err(error) = write_public(path, text.as_bytes()) {
        tracing::error!(path = %path.display(), %error, "cannot write the incident");
    }
    let entries = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let files = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
        .collect();
    files.sort();
    let surplus = files.len().saturating_sub(most);
    for old in &files[..surplus] {
        drop(std::fs::remove_file(old));
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;

//! Journal file: append, sync, truncation of a torn tail, and rotation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use argus_core::action::ActionKind;
use argus_core::ident::ContainerId;
use argus_core::journal::{ActionRecord, Entry, Event, Intent, JOURNAL_VERSION, Record};
use argus_core::time::Timestamp;

use super::checksum;
use crate::state_file;

/// Number of rotated files that are retained.
const MAX_ROTATED_FILES: usize = 4;
/// Maximum size of a saved torn tail, in bytes.
const MAX_TORN: usize = 64 * 1024;

/// Time after the start of a run within which the end of a critical task counts as a crash of the run.
const EARLY: Duration = Duration::from_secs(600);

/// Summary of a journal at start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalContents {
    /// Intents without a result, by number.
    pub open: BTreeMap<u64, OpenIntent>,
    /// Containers that were stopped, or were about to be, and not started since. Their exit is not a failure.
    pub stopped: BTreeSet<ContainerId>,
    /// Number of the next record.
    pub next: u64,
    /// Run that wrote the last record, and its time.
    pub last: Option<(String, String)>,
    /// Last identity of the controller on this directory.
    pub controller: Option<String>,
    /// Number of runs in a row that a critical task ended soon after their start.
    crashes: u32,
    /// True if the last of them is the last run.
    has_crashed: bool,
    /// Start of the last run.
    started: Option<Timestamp>,
    /// Number of valid records that this version knows.
    pub records: u64,
    /// Number of lines in the middle with a wrong checksum.
    pub damaged: u64,
    /// Number of lines of a newer version.
    pub newer: u64,
    /// Number of bytes that were cut off the end.
    pub torn: u64,
}

/// Intent without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIntent {
    /// Line in the file, without its end.
    pub line: String,
    /// Time of the intent (RFC 3339).
    pub at: String,
    /// Planned action.
    pub intent: Intent,
}

/// Journal file that is open for appends.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Option<File>,
    /// Length of the valid content, in bytes.
    valid_len: u64,
}

impl LogFile {
    /// Creates an unread file. The first append opens or creates it.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            valid_len: 0,
        }
    }

    /// Reads the file and cuts off a torn tail.
    ///
    /// # Errors
    /// The file cannot be read; it is unchanged.
    pub fn read(&mut self) -> io::Result<JournalContents> {
        let unfinished = sibling(&self.path, "new");
        if !self.path.exists() && unfinished.exists() {
            fs::rename(&unfinished, &self.path)?;
        }
        let bytes = match state_file::read(&self.path, state_file::MAX_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
            Ok(bytes) => bytes,
        };
        let (contents, valid_len) = parse_all(&bytes);
        self.valid_len = valid_len as u64;
        if contents.torn > 0 {
            let tail = &bytes[valid_len..];
            let saved = &tail[..tail.len().min(MAX_TORN)];
            // The torn tail is saved for people; the journal does not need it.
            drop(crate::state_dir::write_private(
                &sibling(&self.path, "torn"),
                saved,
            ));
        }
        Ok(contents)
    }

    /// Appends whole lines after the valid content. With `sync`, it returns once they are on disk.
    ///
    /// # Errors
    /// The append failed as a whole; the next append starts at the same offset.
    pub fn append(&mut self, lines: &[u8], sync: bool) -> io::Result<()> {
        let valid_len = self.valid_len;
        let file = self.opened()?;
        let result = file
            .write_all_at(lines, valid_len)
            .and_then(|()| if sync { file.sync_data() } else { Ok(()) });
        match result {
            Ok(()) => {
                self.valid_len += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // After a failed sync the content on disk is unknown: the next append opens the file again and cuts
                // it.
                self.file = None;
                Err(error)
            }
        }
    }

    /// Reports whether the open file is still the one at its path.
    pub fn is_at_its_path(&self) -> bool {
        let Some(file) = &self.file else {
            return self.valid_len == 0
                || fs::metadata(&self.path).is_ok_and(|there| there.len() >= self.valid_len);
        };
        match (file.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(own), Ok(there)) => (own.dev(), own.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until all lines are on disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// Length of the valid content, in bytes.
    pub fn len(&self) -> u64 {
        self.valid_len
    }

    /// Reports whether the file has no valid content.
    pub fn is_empty(&self) -> bool {
        self.valid_len == 0
    }

    /// Starts a new file with these lines. The current file becomes the first rotated one, and the oldest one is
    /// removed.
    ///
    /// # Errors
    /// The rotation failed; the current file stays.
    pub fn rotate(&mut self, lines: &[u8]) -> io::Result<()> {
        let new = sibling(&self.path, "new");
        let mut file = state_file::open_or_create(&new, 0o600)?;
        file.set_len(0)?;
        file.write_all(lines)?;
        file.sync_data()?;
        if self.path.is_file() {
            for number in (1..MAX_ROTATED_FILES).rev() {
                drop(fs::rename(
                    numbered(&self.path, number),
                    numbered(&self.path, number + 1),
                ));
            }
            let first = numbered(&self.path, 1);
            drop(fs::remove_file(&first));
            // A link and not a rename: at every moment a journal exists.
            fs::hard_link(&self.path, &first)?;
        }
        fs::rename(&new, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        self.valid_len = lines.len() as u64;
        self.file = Some(file);
        Ok(())
    }

    fn opened(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let mut file = state_file::open_or_create(&self.path, 0o600)?;
            file.set_len(self.valid_len)?;
            file.seek(io::SeekFrom::End(0))?;
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("not open"))
    }
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    path.with_extension(ending)
}

/// Path of the rotated file with this number; 1 is the newest.
pub(crate) fn numbered(path: &Path, number: usize) -> PathBuf {
    path.with_extension(format!("{number}.jsonl"))
}

/// Returns records of the journal at `path` with numbers between `after` and `before` (exclusive), oldest first, at
/// most `most`. Unreadable files are skipped.
pub(crate) fn between(path: &Path, after: u64, before: u64, most: usize) -> Vec<Record> {
    let older = (1..=MAX_ROTATED_FILES).map(|number| numbered(path, number));
    // The newest file is opened first, so that a concurrent rotation hides no file.
    let files = [path.to_path_buf()].into_iter().chain(older);
    let files: Vec<File> = files.filter_map(|file| state_file::open(&file).ok()).collect();
    let mut last = after;
    let mut records = Vec::new();
    for file in files.into_iter().rev() {
        let mut bytes = Vec::new();
        if file.take(state_file::MAX_BYTES).read_to_end(&mut bytes).is_err() {
            continue;
        }
        for line in bytes.split(|byte| *byte == b'\n') {
            // The number at the start of a line is enough to skip most lines.
            let of_interest = number(line).is_some_and(|seq| seq > last && seq < before);
            let Some(record) = of_interest.then(|| parse_line(line)).flatten() else {
                continue;
            };
            // Open intents are copied at a rotation, so their numbers may repeat.
            if record.seq <= last || record.seq >= before {
                continue;
            }
            if records.len() == most {
                return records;
            }
            last = record.seq;
            records.push(record);
        }
    }
    records
}

/// Parses a line with a valid checksum and a known format.
pub(super) fn parse_line(line: &[u8]) -> Option<Record> {
    checksum::has_valid_checksum(line).then(|| serde_json::from_slice(line).ok())?
}

/// Parses the record number at the start of a line.
fn number(line: &[u8]) -> Option<u64> {
    let head = line.get(..line.len().min(64))?;
    let head = std::str::from_utf8(head).ok()?;
    let (_, rest) = head.strip_prefix("{\"v\":")?.split_once(",\"seq\":")?;
    rest.split(',').next()?.parse().ok()
}

/// Parses all lines. Returns their summary and the length of the valid content.
fn parse_all(bytes: &[u8]) -> (JournalContents, usize) {
    let mut contents = JournalContents::default();
    let mut valid_len = 0;
    let mut at = 0;
    let mut damaged = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        let Some(line) = line.strip_suffix(b"\n") else {
            break;
        };
        if !checksum::has_valid_checksum(line) {
            damaged += 1;
            continue;
        }
        // Damaged lines before a valid line are in the middle, and stay in the file.
        contents.damaged += std::mem::take(&mut damaged);
        valid_len = at;
        match serde_json::from_slice::<Record>(line) {
            Ok(record) if record.v <= JOURNAL_VERSION => {
                contents.records += 1;
                contents.fold(record, line);
            }
            Ok(_) | Err(_) => contents.newer += 1,
        }
    }
    contents.torn = (bytes.len() - valid_len) as u64;
    (contents, valid_len)
}

impl JournalContents {
    fn fold(&mut self, record: Record, line: &[u8]) {
        self.next = self.next.max(record.seq + 1);
        let at = Timestamp::parse(&record.at);
        self.last = Some((record.run, record.at.clone()));
        match record.entry {
            Entry::Intent(intent) => {
                self.track_stop(&intent.action);
                let open = OpenIntent {
                    line: String::from_utf8_lossy(line).into_owned(),
                    at: record.at,
                    intent,
                };
                self.open.insert(record.seq, open);
            }
            Entry::Result { of, .. } | Entry::Event(Event::IntentResolved { of, .. }) => {
                drop(self.open.remove(&of));
            }
            Entry::Event(Event::Start { controller, .. }) => {
                self.controller = Some(controller);
                self.crashes = self.crashes_in_a_row();
                self.has_crashed = false;
                self.started = at;
            }
            Entry::Event(Event::TaskEnded { critical: true, .. }) if !self.has_crashed => {
                let ran = at.zip(self.started).map(|(at, started)| at.since(started));
                if ran.is_some_and(|ran| ran < EARLY) {
                    self.has_crashed = true;
                    self.crashes += 1;
                }
            }
            Entry::Event(Event::Resumed) => {
                self.crashes = 0;
                self.has_crashed = false;
            }
            Entry::Event(_) => {}
        }
    }

    fn track_stop(&mut self, action: &ActionRecord) {
        let Some(id) = action
            .id
            .as_ref()
            .and_then(|id| ContainerId::new(id.clone()).ok())
        else {
            return;
        };
        if action.verb.ends_run() {
            self.stopped.insert(id);
        } else if action.verb == ActionKind::StartContainer {
            self.stopped.remove(&id);
        }
    }

    /// Number of runs in a row, up to the last one, that a critical task ended within ten minutes of their start.
    pub fn crashes_in_a_row(&self) -> u32 {
        if self.has_crashed { self.crashes } else { 0 }
    }

    /// Reports whether the journal is new.
    pub fn is_fresh(&self) -> bool {
        self.records == 0 && self.damaged == 0 && self.newer == 0 && self.torn == 0
    }
}

impl OpenIntent {
    /// Time of the intent.
    pub fn time(&self) -> Timestamp {
        Timestamp::parse(&self.at).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "log_file_tests.rs"]
mod tests;

//! The journal's file: appended to, synced, cut where it is torn, rotated.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use argus_core::ident::ContainerId;
use argus_core::journal::{ActionRecord, Entry, Event, Intent, JOURNAL_VERSION, Record};
use argus_core::time::Timestamp;

use super::checksum;

/// Older files beside the one that is written.
const KEPT: usize = 4;
/// What is kept of a torn tail.
const TORN: usize = 64 * 1024;
/// A file that is larger than any that we wrote is not read into memory.
const LARGEST: u64 = 256 * 1024 * 1024;

/// What a journal tells of the runs before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalContents {
    /// Intents without a result, by number.
    pub open: BTreeMap<u64, OpenIntent>,
    /// Containers that were stopped, or were to be, and not started since: their end is nobody's failure.
    pub stopped: BTreeSet<ContainerId>,
    /// The number of the next record.
    pub next: u64,
    /// The run that wrote last, and when.
    pub last: Option<(String, String)>,
    /// The last identity that a controller on this directory had.
    pub controller: Option<String>,
    /// Whole records that were understood.
    pub records: u64,
    /// Lines in the middle that are not as they were written.
    pub damaged: u64,
    /// Lines that a newer version wrote.
    pub newer: u64,
    /// Bytes that were cut off the end.
    pub torn: u64,
}

/// An intent without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIntent {
    /// The line as it was written.
    pub line: String,
    /// When.
    pub at: String,
    /// What was to be done.
    pub intent: Intent,
}

/// The file that is written.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Option<File>,
    /// Up to here lines are whole.
    good: u64,
}

impl LogFile {
    /// A file that nothing is known of yet; it is opened or made by the first append.
    pub fn at(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            good: 0,
        }
    }

    /// Reads what is there, and cuts a torn tail off.
    ///
    /// # Errors
    /// The file cannot be read; nothing was changed.
    pub fn read(&mut self) -> io::Result<JournalContents> {
        let unfinished = beside(&self.path, "new");
        if !self.path.exists() && unfinished.exists() {
            fs::rename(&unfinished, &self.path)?;
        }
        let bytes = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
            Ok(meta) if meta.len() > LARGEST => {
                return Err(io::Error::other("it is larger than any journal"));
            }
            Ok(_) => fs::read(&self.path)?,
        };
        let (past, good) = understood(&bytes);
        self.good = good as u64;
        if past.torn > 0 {
            let tail = &bytes[good..];
            let kept = &tail[..tail.len().min(TORN)];
            // For whoever wants to know; the journal does without.
            drop(crate::state_dir::write_private(&beside(&self.path, "torn"), kept));
        }
        Ok(past)
    }

    /// Writes whole lines after what is good; `sync`: and waits until they are on disk.
    ///
    /// # Errors
    /// Nothing of it counts; the next append begins where this one did.
    pub fn append(&mut self, lines: &[u8], sync: bool) -> io::Result<()> {
        let good = self.good;
        let file = self.opened()?;
        let written = file
            .write_all_at(lines, good)
            .and_then(|()| if sync { file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.good += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // After a failed sync nobody knows what is on disk: the file is opened again and cut.
                self.file = None;
                Err(error)
            }
        }
    }

    /// The file is still the one at its path.
    pub fn is_at_its_path(&self) -> bool {
        let Some(file) = &self.file else {
            return self.good == 0 || fs::metadata(&self.path).is_ok_and(|there| there.len() >= self.good);
        };
        match (file.metadata(), fs::symlink_metadata(&self.path)) {
            (Ok(mine), Ok(there)) => (mine.dev(), mine.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until all of it is on disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// How long it is.
    pub fn len(&self) -> u64 {
        self.good
    }

    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.good == 0
    }

    /// Begins a new file with these lines; the one before is kept, and the oldest goes.
    ///
    /// # Errors
    /// The file that is written stays.
    pub fn rotate(&mut self, lines: &[u8]) -> io::Result<()> {
        let new = beside(&self.path, "new");
        let mut file = options().truncate(true).create(true).open(&new)?;
        file.write_all(lines)?;
        file.sync_data()?;
        if self.path.is_file() {
            for number in (1..KEPT).rev() {
                drop(fs::rename(
                    numbered(&self.path, number),
                    numbered(&self.path, number + 1),
                ));
            }
            let first = numbered(&self.path, 1);
            drop(fs::remove_file(&first));
            // Linked and not renamed: at no time there is no journal.
            fs::hard_link(&self.path, &first)?;
        }
        fs::rename(&new, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        self.good = lines.len() as u64;
        self.file = Some(file);
        Ok(())
    }

    fn opened(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let mut file = options().create(true).truncate(false).open(&self.path)?;
            file.set_len(self.good)?;
            file.seek(io::SeekFrom::End(0))?;
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("not open"))
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    path.with_extension(ending)
}

/// The older file of this number; 1 is the youngest of them.
pub(crate) fn numbered(path: &Path, number: usize) -> PathBuf {
    path.with_extension(format!("{number}.jsonl"))
}

/// Records of the journal at this path that come after one number and before another, oldest first, `most` at most; what
/// cannot be read is not there.
pub(crate) fn between(path: &Path, after: u64, before: u64, most: usize) -> Vec<Record> {
    let older = (1..=KEPT).map(|number| numbered(path, number));
    // The youngest is opened first: a rotation meanwhile then hides none.
    let files = [path.to_path_buf()].into_iter().chain(older);
    let files: Vec<File> = files.filter_map(|file| File::open(file).ok()).collect();
    let mut last = after;
    let mut found = Vec::new();
    for mut file in files.into_iter().rev() {
        let mut bytes = Vec::new();
        if file.read_to_end(&mut bytes).is_err() {
            continue;
        }
        for line in bytes.split(|byte| *byte == b'\n') {
            // Most lines are told by their number, and need no closer look.
            let of_interest = number(line).is_some_and(|seq| seq > last && seq < before);
            let Some(record) = of_interest.then(|| whole(line)).flatten() else {
                continue;
            };
            // Open intents come along into a new file, and have been told.
            if record.seq <= last || record.seq >= before {
                continue;
            }
            if found.len() == most {
                return found;
            }
            last = record.seq;
            found.push(record);
        }
    }
    found
}

/// What a line says that is whole and of our time.
pub(super) fn whole(line: &[u8]) -> Option<Record> {
    checksum::is_sound(line).then(|| serde_json::from_slice(line).ok())?
}

/// The number that a line begins with.
fn number(line: &[u8]) -> Option<u64> {
    let head = line.get(..line.len().min(64))?;
    let head = std::str::from_utf8(head).ok()?;
    let (_, rest) = head.strip_prefix("{\"v\":")?.split_once(",\"seq\":")?;
    rest.split(',').next()?.parse().ok()
}

/// What the lines say, and up to which byte they are to be kept.
fn understood(bytes: &[u8]) -> (JournalContents, usize) {
    let mut past = JournalContents::default();
    let mut good = 0;
    let mut at = 0;
    let mut damaged = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        let Some(whole) = line.strip_suffix(b"\n") else {
            break;
        };
        if !checksum::is_sound(whole) {
            damaged += 1;
            continue;
        }
        // What is damaged before a whole line is in the middle, and stays where it is.
        past.damaged += std::mem::take(&mut damaged);
        good = at;
        match serde_json::from_slice::<Record>(whole) {
            Ok(record) if record.v <= JOURNAL_VERSION => {
                past.records += 1;
                past.take(record, whole);
            }
            Ok(_) | Err(_) => past.newer += 1,
        }
    }
    past.torn = (bytes.len() - good) as u64;
    (past, good)
}

impl JournalContents {
    fn take(&mut self, record: Record, line: &[u8]) {
        self.next = self.next.max(record.seq + 1);
        self.last = Some((record.run, record.at.clone()));
        match record.entry {
            Entry::Intent(intent) => {
                self.stop_or_start(&intent.action);
                let open = OpenIntent {
                    line: String::from_utf8_lossy(line).into_owned(),
                    at: record.at,
                    intent,
                };
                self.open.insert(record.seq, open);
            }
            Entry::Result { of, .. } | Entry::Event(Event::IntentResolved { of, .. }) => {
                drop(self.open.remove(&of))
            }
            Entry::Event(Event::Start { controller, .. }) => self.controller = Some(controller),
            Entry::Event(_) => {}
        }
    }

    fn stop_or_start(&mut self, act: &ActionRecord) {
        let Some(id) = act.id.as_ref().and_then(|id| ContainerId::new(id.clone()).ok()) else {
            return;
        };
        match act.verb.as_str() {
            "stop-container" | "remove-container" => {
                self.stopped.insert(id);
            }
            "start-container" => {
                self.stopped.remove(&id);
            }
            _ => {}
        }
    }

    /// Nobody wrote here before.
    pub fn is_fresh(&self) -> bool {
        self.records == 0 && self.damaged == 0 && self.newer == 0 && self.torn == 0
    }
}

impl OpenIntent {
    /// When it was written.
    pub fn time(&self) -> Timestamp {
        Timestamp::parse(&self.at).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "log_file_tests.rs"]
mod tests;

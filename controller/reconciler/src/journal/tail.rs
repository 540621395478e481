//! Journal reader for other processes: it follows the files while the controller writes, rotates, dies or is
//! absent.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use argus_core::journal::Record;

use super::log_file;
use crate::state_file;

/// Reader with a position.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    /// Number of the last record that was returned.
    last: u64,
    /// File that is followed, and the number of bytes already read.
    file: Option<Position>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    file: (u64, u64),
    read: u64,
}

impl Tail {
    /// Creates a reader at the start of the journal at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            last: 0,
            file: None,
        }
    }

    /// Returns the records since the last call, each once, oldest first. The first call returns all stored records.
    ///
    /// # Errors
    /// The journal exists and cannot be read.
    pub fn read_new(&mut self) -> io::Result<Vec<Record>> {
        loop {
            let Some(now) = identity(&self.path)? else {
                return Ok(Vec::new());
            };
            match self.file {
                Some(position) if position.file == now => return self.read_appended(position),
                Some(position) if identity(&log_file::numbered(&self.path, 1))? != Some(position.file) => {
                    // The file is not the successor of the followed one: the numbers of a lost journal do not apply
                    // to it.
                    self.last = 0;
                }
                Some(_) | None => {}
            }
            let records = log_file::between(&self.path, self.last, u64::MAX, usize::MAX);
            if identity(&self.path)? != Some(now) {
                // The file was rotated during the read, and some records may have been in neither of the two.
                continue;
            }
            self.file = Some(Position { file: now, read: 0 });
            self.last = records.last().map_or(self.last, |record| record.seq);
            return Ok(records);
        }
    }

    /// Returns the records that were appended to the followed file.
    fn read_appended(&mut self, mut position: Position) -> io::Result<Vec<Record>> {
        let mut file = state_file::open(&self.path)?;
        let meta = file.metadata()?;
        if (meta.dev(), meta.ino()) != position.file || meta.len() == position.read {
            // Either nothing is new, or another file took its place, which the next call detects.
            return Ok(Vec::new());
        }
        if meta.len() < position.read {
            // A torn tail was cut off. Known records are skipped by their number.
            position.read = 0;
        }
        file.seek(SeekFrom::Start(position.read))?;
        let mut bytes = Vec::new();
        file.take(state_file::MAX_BYTES).read_to_end(&mut bytes)?;
        let complete = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        position.read += complete as u64;
        self.file = Some(position);
        let mut records = Vec::new();
        let lines = bytes[..complete].split(|byte| *byte == b'\n');
        for record in lines.filter_map(log_file::parse_line) {
            if record.seq > self.last {
                self.last = record.seq;
                records.push(record);
            }
        }
        Ok(records)
    }
}

fn identity(path: &Path) -> io::Result<Option<(u64, u64)>> {
    match fs::metadata(path) {
        Ok(meta) => Ok(Some((meta.dev(), meta.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use argus_core::journal::{Entry, Event, JOURNAL_VERSION};

    use super::super::checksum;
    use super::super::log_file::LogFile;
    use super::*;

    fn lines(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
        let line = |seq| {
            let record = Record {
                v: JOURNAL_VERSION,
                seq,
                at: "2026-01-01T00:00:00.000Z".to_owned(),
                run: "RUN".to_owned(),
                entry: Entry::Event(Event::Stop),
            };
            checksum::with_checksum(&serde_json::to_string(&record).unwrap()) + "\n"
        };
        numbers.into_iter().map(line).collect::<String>().into_bytes()
    }

    fn next_numbers(tail: &mut Tail) -> Vec<u64> {
        tail.read_new().unwrap().iter().map(|record| record.seq).collect()
    }

    fn none() -> Vec<u64> {
        Vec::new()
    }

    #[test]
    fn records_are_returned_once_through_rotation_and_loss() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut tail = Tail::new(path.clone());
        assert_eq!(next_numbers(&mut tail), none());
        let mut journal = LogFile::new(path.clone());
        journal.append(&lines(1..=3), true).unwrap();
        assert_eq!(next_numbers(&mut tail), [1, 2, 3]);
        assert_eq!(next_numbers(&mut tail), none());
        journal.append(&lines(4..=4), true).unwrap();
        assert_eq!(next_numbers(&mut tail), [4]);

        // The end of the old file, a copied open intent, and the new file.
        journal.append(&lines(5..=6), true).unwrap();
        journal.rotate(&lines([4, 7])).unwrap();
        assert_eq!(next_numbers(&mut tail), [5, 6, 7]);
        journal.append(&lines([8]), true).unwrap();
        assert_eq!(next_numbers(&mut tail), [8]);

        // A controller dies within a line; the next one cuts it off and writes its own.
        let torn = lines([9]);
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, &torn[..20]))
            .unwrap();
        assert_eq!(next_numbers(&mut tail), none());
        let mut next = LogFile::new(path.clone());
        next.read().unwrap();
        next.append(&lines([9]), true).unwrap();
        assert_eq!(next_numbers(&mut tail), [9]);

        fs::rename(&path, dir.path().join("aside")).unwrap();
        assert_eq!(next_numbers(&mut tail), none());
        LogFile::new(path).append(&lines(1..=2), true).unwrap();
        fs::remove_file(dir.path().join("journal.1.jsonl")).unwrap();
        assert_eq!(next_numbers(&mut tail), [1, 2]);
    }
}

//! The journal's files read along from outside: by those who are not the controller, while it writes, rotates, dies, or is away.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use argus_core::journal::Record;

use super::log_file;

/// A reader that knows how far it is.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    /// The last record that was given out.
    last: u64,
    /// The file that is read along, and how many bytes of it are behind us.
    file: Option<Position>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    file: (u64, u64),
    read: u64,
}

impl Tail {
    /// A reader of the journal at this path that has read nothing.
    pub fn of(path: PathBuf) -> Self {
        Self {
            path,
            last: 0,
            file: None,
        }
    }

    /// The records that came since the last call, each once, oldest first; the first call gives all that are kept.
    ///
    /// # Errors
    /// The journal is there and cannot be read.
    pub fn more(&mut self) -> io::Result<Vec<Record>> {
        loop {
            let Some(now) = identity(&self.path)? else {
                return Ok(Vec::new());
            };
            match self.file {
                Some(place) if place.file == now => return self.rest(place),
                Some(place) if identity(&log_file::numbered(&self.path, 1))? != Some(place.file) => {
                    // It is not the next one after ours: the numbers of a journal that was lost mean nothing in this one.
                    self.last = 0;
                }
                Some(_) | None => {}
            }
            let records = log_file::between(&self.path, self.last, u64::MAX, usize::MAX);
            if identity(&self.path)? != Some(now) {
                // It was rotated while it was read, and some of it may have been in neither of the two.
                continue;
            }
            self.file = Some(Position { file: now, read: 0 });
            self.last = records.last().map_or(self.last, |record| record.seq);
            return Ok(records);
        }
    }

    /// What was written to the file since.
    fn rest(&mut self, mut place: Position) -> io::Result<Vec<Record>> {
        let mut file = File::open(&self.path)?;
        let meta = file.metadata()?;
        if (meta.dev(), meta.ino()) != place.file || meta.len() == place.read {
            // Nothing is new, or all of it is another file: then the next call finds it so.
            return Ok(Vec::new());
        }
        if meta.len() < place.read {
            // A torn tail was cut off; what is known is told by its number.
            place.read = 0;
        }
        file.seek(SeekFrom::Start(place.read))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        place.read += whole as u64;
        self.file = Some(place);
        let mut found = Vec::new();
        let lines = bytes[..whole].split(|byte| *byte == b'\n');
        for record in lines.filter_map(log_file::whole) {
            if record.seq > self.last {
                self.last = record.seq;
                found.push(record);
            }
        }
        Ok(found)
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

    fn told(tail: &mut Tail) -> Vec<u64> {
        tail.more().unwrap().iter().map(|record| record.seq).collect()
    }

    fn nothing() -> Vec<u64> {
        Vec::new()
    }

    #[test]
    fn each_record_is_told_once_through_rotations_torn_tails_and_a_lost_journal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let mut tail = Tail::of(path.clone());
        assert_eq!(told(&mut tail), nothing());
        let mut journal = LogFile::at(path.clone());
        journal.append(&lines(1..=3), true).unwrap();
        assert_eq!(told(&mut tail), [1, 2, 3]);
        assert_eq!(told(&mut tail), nothing());
        journal.append(&lines(4..=4), true).unwrap();
        assert_eq!(told(&mut tail), [4]);

        // The end of the old file, an open intent that comes along, and the new file.
        journal.append(&lines(5..=6), true).unwrap();
        journal.rotate(&lines([4, 7])).unwrap();
        assert_eq!(told(&mut tail), [5, 6, 7]);
        journal.append(&lines([8]), true).unwrap();
        assert_eq!(told(&mut tail), [8]);

        // A controller dies in the middle of a line; the next one cuts it off, and writes its own.
        let torn = lines([9]);
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, &torn[..20]))
            .unwrap();
        assert_eq!(told(&mut tail), nothing());
        let mut next = LogFile::at(path.clone());
        next.read().unwrap();
        next.append(&lines([9]), true).unwrap();
        assert_eq!(told(&mut tail), [9]);

        fs::rename(&path, dir.path().join("aside")).unwrap();
        assert_eq!(told(&mut tail), nothing());
        LogFile::at(path).append(&lines(1..=2), true).unwrap();
        fs::remove_file(dir.path().join("journal.1.jsonl")).unwrap();
        assert_eq!(told(&mut tail), [1, 2]);
    }
}

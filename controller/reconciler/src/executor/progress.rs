//! What pulls and builds say while they go on: the newest line for everybody, all lines for the log.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use argus_backend::Progress;
use argus_core::plan::Subject;
use argus_core::time::Timestamp;
use tokio::sync::watch;

use crate::clock::Clock;

/// The newest line by subject; a subject that is done has none.
pub type ProgressMap = BTreeMap<Subject, String>;

/// Nobody reads faster than this.
const PACE: Duration = Duration::from_millis(200);
/// Most bytes of a log that are kept; of a longer one its end.
const MAX_LOG: usize = 1024 * 1024;

/// Tells the board and keeps the log of one act.
#[derive(Debug)]
pub(super) struct ProgressReporter {
    subject: Subject,
    board: watch::Sender<ProgressMap>,
    log: Mutex<String>,
}

impl ProgressReporter {
    pub(super) fn new(subject: Subject, board: watch::Sender<ProgressMap>) -> Self {
        Self {
            subject,
            board,
            log: Mutex::default(),
        }
    }

    /// All that was said, as far as it is kept.
    pub(super) fn log(&self) -> String {
        self.log
            .lock()
            .map(|mut log| std::mem::take(&mut *log))
            .unwrap_or_default()
    }
}

impl Progress for ProgressReporter {
    fn report_line(&self, line: &str) {
        let Ok(mut log) = self.log.lock() else { return };
        log.push_str(line);
        log.push('\n');
        if log.len() > 2 * MAX_LOG {
            // The first line end after the cut, so that no line is torn.
            let cut = log.len() - MAX_LOG;
            let from = log
                .bytes()
                .skip(cut)
                .position(|byte| byte == b'\n')
                .map_or(cut, |at| cut + at + 1);
            if log.is_char_boundary(from) {
                log.drain(..from);
            }
        }
        drop(log);
        self.report_status(line);
    }

    fn report_status(&self, line: &str) {
        self.board
            .send_modify(|board| drop(board.insert(self.subject.clone(), line.to_owned())));
    }
}

impl Drop for ProgressReporter {
    fn drop(&mut self) {
        self.board
            .send_if_modified(|board| board.remove(&self.subject).is_some());
    }
}

/// The board, read at a pace: lines in between are not seen, the newest always is, however long nothing follows it.
#[derive(Debug)]
pub struct ProgressReader {
    board: watch::Receiver<ProgressMap>,
    clock: Clock,
    next: Timestamp,
}

impl ProgressReader {
    pub(super) fn new(board: watch::Receiver<ProgressMap>, clock: Clock) -> Self {
        let next = clock.now();
        Self { board, clock, next }
    }

    /// Waits until there is something that was not read; may be dropped and called again.
    ///
    /// # Errors
    /// Nobody says anything any more.
    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.clock.sleep_until(Some(self.next)).await;
        self.board.changed().await?;
        self.next = self.clock.now() + PACE;
        Ok(())
    }

    /// What stands there now.
    pub fn read(&mut self) -> ProgressMap {
        self.board.borrow_and_update().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_newest_line_is_read_though_it_came_right_after_another_and_nothing_follows() {
        let clock = Clock::virtual_from(Timestamp(0));
        let (board, boards) = watch::channel(ProgressMap::new());
        let mut reader = ProgressReader::new(boards, clock);
        let subject = Subject::Image {
            key: "db:1".to_owned(),
        };
        let teller = ProgressReporter::new(subject.clone(), board);
        teller.report_line("one");
        reader.changed().await.unwrap();
        assert_eq!(reader.read()[&subject], "one");
        let before = clock.now();
        teller.report_line("two");
        teller.report_status("three");
        reader.changed().await.unwrap();
        assert_eq!(reader.read()[&subject], "three");
        assert!(clock.now().since(before) >= PACE, "not faster than one reads");
        assert_eq!(teller.log(), "one\ntwo\n");
    }
}

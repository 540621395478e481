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
pub type Board = BTreeMap<Subject, String>;

/// Lines that follow each other faster are only logged: nobody reads that fast.
const PACE: Duration = Duration::from_millis(200);
/// Most bytes of a log that are kept; of a longer one its end.
const MAX_LOG: usize = 1024 * 1024;

/// Tells the board and keeps the log of one act.
#[derive(Debug)]
pub(super) struct Teller {
    subject: Subject,
    board: watch::Sender<Board>,
    clock: Clock,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    last: Option<Timestamp>,
    log: String,
}

impl Teller {
    pub(super) fn new(subject: Subject, board: watch::Sender<Board>, clock: Clock) -> Self {
        Self {
            subject,
            board,
            clock,
            said: Mutex::default(),
        }
    }

    /// All that was said, as far as it is kept.
    pub(super) fn log(&self) -> String {
        self.said
            .lock()
            .map(|mut said| std::mem::take(&mut said.log))
            .unwrap_or_default()
    }
}

impl Progress for Teller {
    fn say(&self, line: &str) {
        let now = self.clock.now();
        let Ok(mut said) = self.said.lock() else { return };
        said.log.push_str(line);
        said.log.push('\n');
        if said.log.len() > 2 * MAX_LOG {
            // The first line end after the cut, so that no line is torn.
            let cut = said.log.len() - MAX_LOG;
            let from = said
                .log
                .bytes()
                .skip(cut)
                .position(|byte| byte == b'\n')
                .map_or(cut, |at| cut + at + 1);
            if said.log.is_char_boundary(from) {
                said.log.drain(..from);
            }
        }
        if said.last.is_some_and(|last| now.since(last) < PACE) {
            return;
        }
        said.last = Some(now);
        self.board
            .send_modify(|board| drop(board.insert(self.subject.clone(), line.to_owned())));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.board
            .send_if_modified(|board| board.remove(&self.subject).is_some());
    }
}

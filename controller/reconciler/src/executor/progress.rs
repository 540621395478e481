//! Progress of pulls and builds: the newest one for all readers, and all lines for the log.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use argus_backend::Progress;
use argus_core::action::{ActionProgress, Subject};
use argus_core::time::Timestamp;
use tokio::sync::watch;

use crate::clock::Clock;

/// Newest progress by subject; a completed subject has no entry.
pub type ProgressMap = BTreeMap<Subject, ActionProgress>;

/// Minimum time between two reads: no reader needs more.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum size of a stored log, in bytes. Of a longer log, the end is stored.
const MAX_LOG_BYTES: usize = 1024 * 1024;

/// Publishes the progress of one action, and collects its log.
#[derive(Debug)]
pub(super) struct ProgressReporter {
    subject: Subject,
    progress: watch::Sender<ProgressMap>,
    log: Mutex<String>,
}

impl ProgressReporter {
    pub(super) fn new(subject: Subject, progress: watch::Sender<ProgressMap>) -> Self {
        Self {
            subject,
            progress,
            log: Mutex::default(),
        }
    }

    /// Takes the collected log lines.
    pub(super) fn log(&self) -> String {
        self.log
            .lock()
            .map(|mut log| std::mem::take(&mut *log))
            .unwrap_or_default()
    }
}

impl Progress for ProgressReporter {
    fn report_step(&self, progress: ActionProgress) {
        let Ok(mut log) = self.log.lock() else { return };
        log.push_str(&progress.line);
        log.push('\n');
        if log.len() > 2 * MAX_LOG_BYTES {
            // The cut is moved to the next line end, so that no line is torn.
            let cut = log.len() - MAX_LOG_BYTES;
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
        self.report_status(progress);
    }

    fn report_status(&self, progress: ActionProgress) {
        self.progress
            .send_modify(|newest| drop(newest.insert(self.subject.clone(), progress)));
    }
}

impl Drop for ProgressReporter {
    fn drop(&mut self) {
        self.progress
            .send_if_modified(|progress| progress.remove(&self.subject).is_some());
    }
}

/// Rate-limited reader of the [`ProgressMap`]. It may skip lines in between, but it always returns the newest one.
#[derive(Debug)]
pub struct ProgressReader {
    progress: watch::Receiver<ProgressMap>,
    clock: Clock,
    next: Timestamp,
}

impl ProgressReader {
    pub(super) fn new(progress: watch::Receiver<ProgressMap>, clock: Clock) -> Self {
        let next = clock.now();
        Self {
            progress,
            clock,
            next,
        }
    }

    /// Waits for an unread change. The future is cancel-safe.
    ///
    /// # Errors
    /// All reporters and the executor are gone.
    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.clock.sleep_until(Some(self.next)).await;
        self.progress.changed().await?;
        self.next = self.clock.now() + MIN_INTERVAL;
        Ok(())
    }

    /// Returns the current progress.
    pub fn read(&mut self) -> ProgressMap {
        self.progress.borrow_and_update().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn newest_line_is_read_even_without_a_later_one() {
        let clock = Clock::virtual_from(Timestamp(0));
        let (progress, receiver) = watch::channel(ProgressMap::new());
        let mut reader = ProgressReader::new(receiver, clock);
        let subject = Subject::Image {
            key: "db:1".to_owned(),
        };
        let reporter = ProgressReporter::new(subject.clone(), progress);
        reporter.report_step("one".to_owned().into());
        reader.changed().await.unwrap();
        assert_eq!(reader.read()[&subject].line, "one");
        let before = clock.now();
        reporter.report_step("two".to_owned().into());
        reporter.report_status("three".to_owned().into());
        reader.changed().await.unwrap();
        assert_eq!(reader.read()[&subject].line, "three");
        assert!(
            clock.now().since(before) >= MIN_INTERVAL,
            "reads are rate limited"
        );
        assert_eq!(reporter.log(), "one\ntwo\n");
    }
}

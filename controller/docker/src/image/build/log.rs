//! The last lines of a build, and its last step.

use std::collections::VecDeque;

use argus_backend::Progress;
use argus_core::action::{ActionProgress, Amount};
use argus_core::outcome::ActionError;
use argus_core::secrets::Secrets;

/// Number of log lines that the error of a failed build contains.
const MAX_LOG_LINES: usize = 50;
/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// Message of a program that found the disk full.
const DISK_FULL: &str = "no space left on device";

/// The last lines of a build.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) lines: VecDeque<String>,
    pub(super) unfinished: String,
    /// Line of the last started step, such as `Step 3/4 : RUN make`.
    pub(super) step: Option<String>,
    /// Values that no line shows; `None` for a build without secrets.
    pub(super) secrets: Option<Secrets>,
}

impl Log {
    /// Appends output of the builder; reports each complete line that starts a step.
    pub(super) fn append(&mut self, text: &str, progress: &dyn Progress) {
        self.read_lines(text, |log, line| log.push_line(line, progress));
    }

    /// Appends output of a step.
    pub(super) fn append_output(&mut self, text: &str) {
        self.read_lines(text, Self::store_line);
    }

    fn read_lines(&mut self, text: &str, mut add: impl FnMut(&mut Self, &str)) {
        self.unfinished.push_str(text);
        while let Some(end) = self.unfinished.find(['\n', '\r']) {
            let rest = self.unfinished.split_off(end + 1);
            let line = std::mem::replace(&mut self.unfinished, rest);
            add(self, line.trim_end());
        }
        // A step that draws a progress bar without line ends must not fill the memory.
        if self.unfinished.len() > MAX_LINE_BYTES {
            self.unfinished.clear();
        }
    }

    fn push_line(&mut self, line: &str, progress: &dyn Progress) {
        if line.starts_with("Step ") {
            return self.start_step(line, completed_steps(line), progress);
        }
        self.store_line(line);
    }

    /// Appends the line of a step that starts, and reports it.
    pub(super) fn start_step(&mut self, line: &str, steps: Option<Amount>, progress: &dyn Progress) {
        let line = self.redacted(line);
        progress.report_step(ActionProgress {
            steps,
            ..line.clone().into()
        });
        self.store_line(&line);
        self.step = Some(line);
    }

    pub(super) fn store_line(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        if self.lines.len() == MAX_LOG_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(self.redacted(line));
    }

    /// Returns the text without the secrets of the build.
    pub(super) fn redacted(&self, text: &str) -> String {
        match &self.secrets {
            Some(secrets) => secrets.redacted(text),
            None => text.to_owned(),
        }
    }

    /// Adds the step and the last lines of the log to the error of a build.
    pub(super) fn complete(&self, error: ActionError) -> ActionError {
        let log = self.text();
        let at_step = |message: String| match &self.step {
            Some(step) => format!("{step}: {message}"),
            None => message,
        };
        let is_disk_full = log.to_ascii_lowercase().contains(DISK_FULL);
        match error {
            ActionError::BuildFailed { message, .. } if is_disk_full => {
                ActionError::DiskFull(format!("{}: {DISK_FULL}", at_step(message)))
            }
            ActionError::BuildFailed { message, .. } => ActionError::BuildFailed {
                message: at_step(message),
                log,
                instruction: None,
            },
            ActionError::BuildInterrupted { message, .. } => ActionError::BuildInterrupted {
                message: at_step(message),
                log,
            },
            other => other,
        }
    }

    pub(super) fn text(&self) -> String {
        let unfinished = Some(self.unfinished.trim_end()).filter(|rest| !rest.is_empty());
        // Its line can end in the middle of a secret.
        let unfinished = unfinished.map(|rest| match &self.secrets {
            Some(secrets) => secrets.redacted_fragment(rest),
            None => rest.to_owned(),
        });
        let lines: Vec<String> = self.lines.iter().cloned().chain(unfinished).collect();
        lines.join("\n")
    }
}

/// Steps before the one that a line such as `Step 3/4 : RUN make` begins.
fn completed_steps(line: &str) -> Option<Amount> {
    let (step, total) = line.strip_prefix("Step ")?.split(' ').next()?.split_once('/')?;
    let step: u64 = step.parse().ok()?;
    Some(Amount {
        done: step.saturating_sub(1),
        total: total.parse().ok()?,
    })
}

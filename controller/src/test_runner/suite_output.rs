//! Output of a run: progress for people and for CI, and the output of each suite.

use std::cell::RefCell;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use argus_core::secrets::Secrets;

use super::report::{Outcome, SuiteResult, format_outcome};
use crate::api::Context;
use crate::output;

/// Maximum stored output of a suite in bytes. The end is kept.
const MAX_STORED: usize = 8 << 20;

/// Settings of the output of a run.
#[derive(Debug, Clone)]
pub(crate) struct OutputSettings {
    pub(crate) progress: Progress,
    /// True if stdout contains only a report for programs. Everything else goes to stderr.
    pub(crate) is_for_programs: bool,
    /// Folder of the files of the report.
    pub(crate) folder: Option<PathBuf>,
}

impl OutputSettings {
    /// Prints a note, or reports it to the caller.
    pub(super) fn note(&self, text: &str) {
        match &self.progress {
            Progress::Reported(caller) => report(caller, text),
            Progress::Cases | Progress::Suites | Progress::Silent => output::print_note(text),
        }
    }
}

/// Amount of output during a run.
#[derive(Debug, Clone)]
pub(crate) enum Progress {
    /// Each case as it ends, and the output of commands as it is written.
    Cases,
    /// One line per suite, and the complete output of failed suites.
    Suites,
    /// Nothing but the output of a command.
    Silent,
    /// Each case and each suite, as progress of a call; nothing on stdout and stderr.
    Reported(Context),
}

impl Progress {
    /// Returns the progress for the terminal of this process. CI systems set the variable `CI`.
    pub(crate) fn detect() -> Self {
        let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
        if std::io::stderr().is_terminal() && !is_ci {
            Self::Cases
        } else {
            Self::Suites
        }
    }
}

/// Stream of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// Output of one suite.
pub(super) struct SuiteOutput<'a> {
    settings: &'a OutputSettings,
    /// `None` if output is written immediately.
    stored: Option<RefCell<Stored>>,
}

/// Stored output, for the end of the suite.
#[derive(Default)]
struct Stored {
    bytes: Vec<u8>,
    /// Number of bytes that were cut at the beginning.
    cut: usize,
}

impl<'a> SuiteOutput<'a> {
    /// Creates the output of a suite. Output is stored if others run in parallel, so that it never interleaves.
    pub(super) fn new(settings: &'a OutputSettings, is_immediate: bool) -> Self {
        Self {
            settings,
            stored: (!is_immediate).then(RefCell::default),
        }
    }

    /// Writes, stores or reports the results of cases, which contain no secrets.
    pub(super) fn write_cases(&self, text: &str) {
        match &self.settings.progress {
            Progress::Reported(caller) => report(caller, text),
            Progress::Cases | Progress::Suites | Progress::Silent => {
                self.write(text.as_bytes(), Stream::Stderr);
            }
        }
    }

    /// Writes or stores a part of the output. The caller of an operation receives none, because it can contain secrets.
    pub(super) fn write(&self, bytes: &[u8], stream: Stream) {
        if matches!(self.settings.progress, Progress::Reported(_)) {
            return;
        }
        let Some(stored) = &self.stored else {
            let is_aside = self.settings.is_for_programs;
            print(bytes, if is_aside { Stream::Stderr } else { stream });
            return;
        };
        let mut stored = stored.borrow_mut();
        stored.bytes.extend_from_slice(bytes);
        let above = stored.bytes.len().saturating_sub(MAX_STORED);
        stored.cut += above;
        stored.bytes.drain(..above);
    }

    /// Prints the result of the suite, after its stored output without secrets.
    pub(super) fn finish(self, outcome: &Outcome, secrets: &Secrets) {
        let is_shown = matches!(self.settings.progress, Progress::Cases)
            || outcome.flaky
            || outcome.result == SuiteResult::Failed;
        if let Some(stored) = self.stored.filter(|_| is_shown) {
            let Stored { bytes, cut } = stored.into_inner();
            if cut > 0 {
                output::print_note(&format!("note: the first {cut} bytes of the output are cut"));
            }
            let text = secrets.redacted(&String::from_utf8_lossy(&bytes));
            print(text.as_bytes(), Stream::Stderr);
            if !text.is_empty() && !text.ends_with('\n') {
                print(b"\n", Stream::Stderr);
            }
        }
        print_outcome(outcome, self.settings);
    }
}

/// Prints the result of a suite.
pub(super) fn print_outcome(outcome: &Outcome, settings: &OutputSettings) {
    let text = format_outcome(outcome);
    match &settings.progress {
        Progress::Silent => {}
        Progress::Reported(caller) => report(caller, &text),
        Progress::Cases | Progress::Suites if settings.is_for_programs => output::print_note(text.trim_end()),
        // A closed stdout does not stop the run.
        Progress::Cases | Progress::Suites => drop(output::print(&text)),
    }
}

/// Reports lines of a text without colour.
fn report(caller: &Context, text: &str) {
    caller.report(anstream::adapter::strip_str(text.trim()).to_string());
}

fn print(bytes: &[u8], stream: Stream) {
    // A closed output of this process does not stop the suite.
    match stream {
        Stream::Stderr => drop(anstream::stderr().lock().write_all(bytes)),
        Stream::Stdout => {
            let mut out = anstream::stdout().lock();
            drop(out.write_all(bytes).and_then(|()| out.flush()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_output_keeps_its_end() {
        let settings = OutputSettings {
            progress: Progress::Suites,
            is_for_programs: false,
            folder: None,
        };
        let output = SuiteOutput::new(&settings, false);
        output.write(b"begin", Stream::Stdout);
        output.write(&vec![b'x'; MAX_STORED], Stream::Stderr);
        output.write(b"end", Stream::Stdout);
        let stored = output.stored.unwrap().into_inner();
        assert_eq!((stored.bytes.len(), stored.cut), (MAX_STORED, 8));
        assert!(stored.bytes.starts_with(b"x") && stored.bytes.ends_with(b"end"));
    }
}

//! Output of a run: progress for people and for CI, and the output of each suite.

use std::cell::RefCell;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use argus_core::secrets::Secrets;

use super::report::{Outcome, TestVerdict, format_outcome};
use crate::api::Context;
use crate::render::ci_system::CiSystem;
use crate::render::output;

/// Maximum stored output of a suite in bytes. The end is kept.
const MAX_STORED: usize = 8 << 20;
/// Length in bytes at which a line of immediate output is printed although it has not ended.
const MAX_OPEN: usize = 64 << 10;

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
    /// Ends of the immediate output on stdout and stderr.
    open: [RefCell<OpenLine>; 2],
}

/// Line that has not ended. A CI system receives only whole lines, because it decides by the beginning of a line.
#[derive(Debug, Default)]
struct OpenLine(Vec<u8>);

impl OpenLine {
    /// Adds bytes, and returns the lines that have ended. A line that is too long ends.
    fn add(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        if self.0.len() > MAX_OPEN && !self.0.contains(&b'\n') {
            self.0.push(b'\n');
        }
        let end = self.0.iter().rposition(|byte| *byte == b'\n');
        let rest = self.0.split_off(end.map_or(0, |end| end + 1));
        String::from_utf8_lossy(&std::mem::replace(&mut self.0, rest)).into_owned()
    }
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
            open: [RefCell::default(), RefCell::default()],
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
            self.print(bytes, stream);
            return;
        };
        let mut stored = stored.borrow_mut();
        stored.bytes.extend_from_slice(bytes);
        let above = stored.bytes.len().saturating_sub(MAX_STORED);
        stored.cut += above;
        stored.bytes.drain(..above);
    }

    /// Prints a part of the immediate output: as it is, or for a CI system.
    fn print(&self, bytes: &[u8], stream: Stream) {
        let is_aside = self.settings.is_for_programs;
        let to = if is_aside { Stream::Stderr } else { stream };
        match output::ci_system() {
            CiSystem::Other => print(bytes, to),
            system => {
                let ended = self.open[stream as usize].borrow_mut().add(bytes);
                print(system.protect(&ended).as_bytes(), to);
            }
        }
    }

    /// Prints the result of the suite, after its stored output without secrets.
    pub(super) fn finish(self, outcome: &Outcome, secrets: &Secrets) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if !self.open[stream as usize].borrow().0.is_empty() {
                self.print(b"\n", stream);
            }
        }
        let is_shown = matches!(self.settings.progress, Progress::Cases)
            || outcome.flaky
            || outcome.result == TestVerdict::Failed;
        if let Some(stored) = self.stored.filter(|_| is_shown) {
            let Stored { bytes, cut } = stored.into_inner();
            if cut > 0 {
                output::print_note(&format!("note: the first {cut} bytes of the output are cut"));
            }
            let text = secrets.redacted(&String::from_utf8_lossy(&bytes));
            let text = output::ci_system().protect(&text);
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

    /// Log of GitHub after the parts of an output.
    fn log<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
        let variables = [("GITHUB_ACTIONS".to_owned(), "true".to_owned())];
        let system = CiSystem::detect(&variables.into());
        let mut open = OpenLine::default();
        let mut log = String::new();
        for part in parts {
            let ended = system.protect(&open.add(part));
            assert!(ended.is_empty() || ended.ends_with('\n'), "{ended:?}");
            log.push_str(&ended);
        }
        if open.0.is_empty() {
            return log;
        }
        log + &system.protect(&open.add(b"\n"))
    }

    #[test]
    fn borders_of_parts_hide_no_command() {
        let output =
            b"a::b\n::error::x\r::warning::y\r\n ##[error]z\n\xc3\xa9\x1b[31m\n \t:\x1b[0m:group::end";
        let expected = "a::b\n  | ::error::x\n  | ::warning::y\n ## [error]z\né\n  |  \t::group::end\n";
        for first in 0..=output.len() {
            for second in first..=output.len() {
                let parts = [&output[..first], &output[first..second], &output[second..]];
                assert_eq!(log(parts), expected, "{first} {second}");
            }
        }
        assert_eq!(log(output.chunks(1)), expected);
    }

    #[test]
    fn line_without_an_end_is_printed_in_parts() {
        let part = vec![b'#'; MAX_OPEN + 1];
        let log = log([
            &part[..],
            &b"#[error]::error::x\n"[..],
            &part[..],
            &b"::error::y\n"[..],
        ]);
        let lines: Vec<_> = log.lines().map(|line| line.trim_start_matches('#')).collect();
        assert_eq!(lines, ["", "[error]::error::x", "", "  | ::error::y"]);
    }
}

//! The line of an output that names the cause: chosen by its class and position, not the last one.

use crate::failed_run::FailedRun;
use crate::outcome::Evidence;

/// Lines at the end of a stream that can contain the cause.
const LINES: usize = 200;
/// Lines without a class that do not end a burst.
const GAP: usize = 3;
/// Parts of lines about the end of a process, in lower case.
const CRASH: [&str; 6] = [
    "panic",
    "fatal",
    "emerg",
    "segmentation fault",
    "core dumped",
    "illegal instruction",
];
/// Parts of lines about an error, in lower case.
const ERROR: [&str; 18] = [
    "error",
    "exception",
    "cannot",
    "can't",
    "could not",
    "denied",
    "no such",
    "not found",
    "refused",
    "unknown",
    "usage:",
    "not set",
    "must be set",
    "must name",
    "missing",
    "required",
    "read-only",
    "failed",
];
/// Parts of lines that contain such a word without an error, in lower case.
const HARMLESS: [&str; 8] = [
    "0 errors",
    "no error",
    "without error",
    "errors=0",
    "error_log",
    "traceback (most recent",
    "loglevel=error",
    "log level",
];
/// Openings of lines about an ordinary end, in lower case.
const CLOSING: [&str; 7] = [
    "bye",
    "goodbye",
    "shutting down",
    "shutdown",
    "closing",
    "exiting",
    "stopping",
];

/// Line with the cause of a failed run; the last line on stderr if none has a class.
pub(crate) fn cause_line(evidence: &Evidence) -> Option<&String> {
    in_stream(&evidence.stderr)
        .or_else(|| in_stream(&evidence.stdout))
        .or_else(|| evidence.stderr.iter().rev().find(|line| !is_closing(line)))
        .or_else(|| evidence.stderr.last())
}

/// Returns whether an invalid instruction or memory access ended the program: the image or the platform is the cause.
pub(crate) fn is_crash(failed_run: &FailedRun) -> bool {
    let reported = failed_run.evidence.as_ref().and_then(cause_line);
    matches!(failed_run.exit_code, 132 | 135 | 136 | 139)
        || reported.is_some_and(|line| {
            let lower = line.to_lowercase();
            ["segmentation fault", "illegal instruction", "sigsegv"]
                .iter()
                .any(|part| lower.contains(part))
        })
}

/// First line of the highest class in the last burst of a stream.
fn in_stream(lines: &[String]) -> Option<&String> {
    let lines = &lines[lines.len().saturating_sub(LINES)..];
    let mut burst = Vec::new();
    let mut gap = 0;
    for line in lines.iter().rev() {
        match class(line) {
            0 if line.starts_with(char::is_whitespace) => {}
            0 => gap += 1,
            found => {
                burst.push((found, line));
                gap = 0;
            }
        }
        if !burst.is_empty() && gap > GAP {
            break;
        }
    }
    // The last maximum of the reversed lines is the first line in the output.
    burst
        .into_iter()
        .max_by_key(|(found, _)| *found)
        .map(|(_, line)| line)
}

fn class(line: &str) -> u8 {
    let lower = line.to_lowercase();
    let contains = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    if is_closing(line) {
        0
    } else if contains(&CRASH) {
        2
    } else if contains(&HARMLESS) {
        0
    } else {
        u8::from(contains(&ERROR))
    }
}

fn is_closing(line: &str) -> bool {
    let lower = line.to_lowercase();
    let text = lower.trim_start_matches(|c: char| !c.is_alphabetic());
    CLOSING.iter().any(|word| text.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_wins_over_the_last_line() {
        for (lines, chosen) in [
            (
                &["config.yaml:3: parse error: unexpected `}`", "closing", "bye"][..],
                0,
            ),
            (
                &["listening", "FATAL: no pg_hba.conf entry", "LOG:  shutting down"],
                1,
            ),
            (
                &[
                    "cannot reach db",
                    "cannot reach db",
                    "Segmentation fault (core dumped)",
                ],
                2,
            ),
            (
                &[
                    "panic: boom",
                    "",
                    "goroutine 1 [running]:",
                    "main.main()",
                    "exit status 2",
                ],
                0,
            ),
            (
                &[
                    "Traceback (most recent call last):",
                    "  File \"a.py\"",
                    "KeyError: 'A'",
                ],
                2,
            ),
            (&["started", "stopped"], 1),
            (&["started", "bye"], 0),
            (&["error: old, handled", "a", "b", "c", "d", "error: new"], 5),
            (&["checked: 0 errors", "ready"], 1),
        ] {
            let stderr: Vec<String> = lines.iter().map(ToString::to_string).collect();
            let evidence = Evidence {
                stderr,
                ..Evidence::default()
            };
            assert_eq!(cause_line(&evidence).unwrap(), lines[chosen], "{lines:?}");
        }
    }

    #[test]
    fn cause_on_stdout_wins_over_a_farewell_on_stderr() {
        let evidence = Evidence {
            stdout: vec!["Error: Cannot find module 'x'".to_owned()],
            stderr: vec!["bye".to_owned()],
            ..Evidence::default()
        };
        assert_eq!(cause_line(&evidence).unwrap(), "Error: Cannot find module 'x'");
        assert_eq!(cause_line(&Evidence::default()), None);
    }
}

//! The line of an output that names the cause: chosen by its class and position, not the last one.

use crate::failed_run::{FailedRun, FailureCause};
use crate::outcome::Evidence;

/// Lines at the end of a stream that can contain the cause.
const LINES: usize = 200;
/// Lines without a class that do not end a burst.
const GAP: usize = 3;
parts! {
    /// Parts of lines about the end of a process, in lower case.
    CRASH: "panic" "fatal" "emerg" "segmentation fault" "core dumped" "illegal instruction";
    /// Parts of lines about an error, in lower case.
    ERROR: "error" "exception" "cannot" "can't" "could not" "denied" "no such" "not found" "refused"
        "unknown" "usage:" "not set" "must be set" "must name" "missing" "required" "read-only" "failed"
        "unrecognized" "invalid" "unable to" "not permitted" "not allowed" "must be" "must specify"
        "need to specify" "not defined" "undefined" "unbound variable" "incompatible" "downgrade"
        "bad option" "does not appear" "not valid" "unsupported";
    /// Parts of requests in access logs, which are the fault of a client, in lower case.
    REQUEST: ", client: " "[client " " http/1.0\"" " http/1.1\"" " http/2.0\"";
    /// Parts of lines whose level is below a warning, in lower case.
    LEVEL: "[info]" "[debug]" "[trace]" "[notice]" "[note]" "level=info" "level=debug" "\"level\":\"info\""
        "\"level\":\"debug\"" "\"level\":30" "\"severity\":\"info\"" "\"severity\":\"debug\"";
}
/// Such levels as one word.
const LEVEL_WORDS: [&str; 3] = ["INFO", "DEBUG", "TRACE"];
parts! {
    /// Words of lines about a setting that need not be set, in lower case.
    UNNEEDED: "using" "default" "fallback" "falling" "disabled" "optional" "ignored" "skipping";
    /// Parts of lines after which earlier errors are history, in lower case.
    SUCCESS: "connected to " "reconnected" "connection established" "ready to accept connections"
        "listening on " "listening at " "server started" "startup complete" "retry succeeded" "recovered";
    /// Parts of lines that contain such a word without an error, in lower case.
    HARMLESS: "0 errors" "no error" "without error" "errors=0" "error_log" "traceback (most recent"
        "loglevel=error" "log level";
    /// Openings of lines about an ordinary end, in lower case.
    CLOSING: "bye" "goodbye" "shutting down" "shutdown" "closing" "exiting" "stopping";
}

/// Lines around the cause that belong to it: those after it, and those before it.
const NEIGHBOURS: (usize, usize) = (20, 3);

/// Line with the cause of a failed run; the last line on stderr if none has a class.
pub(crate) fn cause_line(evidence: &Evidence) -> Option<&String> {
    let (lines, index) = place(&evidence.stderr, &evidence.stdout)?;
    lines.get(index)
}

/// Line with the cause, then the lines after it and before it. Errors before a success are not among them.
pub(super) fn neighbourhood(evidence: &Evidence) -> Vec<&str> {
    let (stderr, stdout) = (after_success(&evidence.stderr), after_success(&evidence.stdout));
    let Some((lines, index)) = place(stderr, stdout) else {
        return Vec::new();
    };
    let after = lines[index..].iter().take(NEIGHBOURS.0);
    let before = lines[..index].iter().rev().take(NEIGHBOURS.1);
    after.chain(before).map(String::as_str).collect()
}

/// Lines after the last success of a stream; all without one.
pub(super) fn after_success(lines: &[String]) -> &[String] {
    let is_success = |line: &String| {
        let lower = line.to_lowercase();
        SUCCESS.iter().any(|part| lower.contains(part))
            && !["disconnected", "not "].iter().any(|part| lower.contains(part))
            && !ERROR.iter().chain(CRASH).any(|part| lower.contains(part))
    };
    let from = lines.iter().rposition(is_success).map_or(0, |index| index + 1);
    &lines[from..]
}

/// Returns whether the program reported a success before its end.
pub(super) fn has_served(evidence: &Evidence) -> bool {
    let streams = [&evidence.stderr, &evidence.stdout];
    streams
        .iter()
        .any(|lines| after_success(lines).len() < lines.len())
}

/// Returns whether a line only reports a request or an unneeded setting, or has a level below a warning.
pub(super) fn is_noise(line: &str) -> bool {
    let text = plain(line);
    let lower = text.to_lowercase();
    let has_level = LEVEL.iter().any(|part| lower.contains(part))
        || LEVEL_WORDS.iter().any(|level| {
            let is_column = line
                .to_lowercase()
                .contains(&format!("\t{}\t", level.to_lowercase()));
            let is_first = text
                .trim_start()
                .strip_prefix(level)
                .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
            is_column || is_first || text.contains(&format!(" {level} "))
        });
    let is_json_request = lower.contains("\"method\":") && lower.contains("\"status\":");
    has_level || is_json_request || is_unneeded(&lower) || REQUEST.iter().any(|part| lower.contains(part))
}

/// Returns whether a line in lower case reports a setting that need not be set.
fn is_unneeded(lower: &str) -> bool {
    let mut words = lower.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut is_default = || lower.contains("not set, setting") || words.any(|word| UNNEEDED.contains(&word));
    lower.contains("not set") && is_default()
}

/// A line without colors, with spaces for tabs, and without spaces after the keys of JSON.
fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // A sequence ends with a letter, such as `[32m`.
        let rest = part.split_once(|c: char| c.is_ascii_alphabetic());
        text.push_str(rest.map_or("", |(_, rest)| rest));
    }
    text.replace('\t', " ").replace("\": ", "\":")
}

/// Returns whether a line is a warning, which the program survived.
pub(super) fn is_warning(line: &str) -> bool {
    parts! {
        WARNING: "warn " "warn:" "warning:" "[warn" "level=warn" "\"level\":\"warn" "\"level\":40"
            "\"severity\":\"warn" " warning ";
    }
    let lower = plain(line).to_lowercase();
    WARNING.iter().any(|part| lower.contains(part))
}

/// Stream and index of the line with the cause.
fn place<'a>(stderr: &'a [String], stdout: &'a [String]) -> Option<(&'a [String], usize)> {
    let in_streams = [stderr, stdout]
        .into_iter()
        .find_map(|lines| Some((lines, in_stream(lines)?)));
    let last = || {
        stderr
            .iter()
            .rposition(|line| !is_closing(line))
            .or(stderr.len().checked_sub(1))
    };
    in_streams.or_else(|| Some((stderr, last()?)))
}

/// Returns whether an invalid instruction or memory access ended the program: the image or the platform is the cause.
pub(crate) fn is_crash(failed_run: &FailedRun) -> bool {
    let is_ended = failed_run.exit_code != 0
        && !failed_run.oom_killed
        && !matches!(failed_run.cause, FailureCause::Unhealthy);
    let evidence = failed_run.evidence.as_ref().filter(|_| is_ended);
    // Errors before a success are history.
    let reported = evidence.and_then(|evidence| neighbourhood(evidence).first().copied());
    matches!(failed_run.exit_code, 132 | 135 | 136 | 139)
        || reported.is_some_and(|line| {
            let lower = line.to_lowercase();
            ["segmentation fault", "illegal instruction", "sigsegv"]
                .iter()
                .any(|part| lower.contains(part))
        })
}

/// Index of the first line of the highest class in the last burst of a stream.
fn in_stream(lines: &[String]) -> Option<usize> {
    let mut burst = Vec::new();
    let mut gap = 0;
    for (index, line) in lines.iter().enumerate().rev().take(LINES) {
        match class(line) {
            0 if line.starts_with(char::is_whitespace) => {}
            0 => gap += 1,
            found => {
                burst.push((found, index));
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
        .map(|(_, index)| index)
}

fn class(line: &str) -> u8 {
    let lower = line.to_lowercase();
    let contains = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    if is_closing(line) || is_noise(line) || is_warning(line) {
        0
    } else if contains(CRASH) {
        2
    } else if contains(HARMLESS) {
        0
    } else {
        u8::from(contains(ERROR))
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

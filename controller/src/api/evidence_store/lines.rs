//! Lines of stored log files, with the engine's timestamps.

use std::cmp::Ordering;

use argus_core::time::Timestamp;
use serde::Serialize;

/// One line of a stored stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct Line {
    /// Timestamp of the engine (RFC 3339). `None` for lines without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    /// Text of the line.
    pub(crate) text: String,
    /// True for stderr, false for stdout.
    #[serde(skip)]
    pub(crate) stderr: bool,
    /// Sort key: the timestamp with all nine digits of the fraction.
    #[serde(skip)]
    place: String,
}

impl Line {
    /// Text of the line, with or without its timestamp.
    pub(crate) fn format(&self, timestamps: bool) -> String {
        match &self.at {
            Some(at) if timestamps => format!("{at} {}", self.text),
            Some(_) | None => self.text.clone(),
        }
    }
}

/// Parses the stored file of one stream.
pub(super) fn parse_lines(file: &str, stderr: bool) -> Vec<Line> {
    let mut place = String::new();
    let line = |line: &str| {
        let (stamp, text) = line.split_once(' ').unwrap_or((line, ""));
        let known = Timestamp::parse(stamp).is_some();
        if known {
            place = pad_timestamp(stamp);
        }
        Line {
            at: known.then(|| stamp.to_owned()),
            text: if known { text } else { line }.to_owned(),
            stderr,
            // A line without a timestamp sorts with the previous line.
            place: place.clone(),
        }
    };
    file.lines().map(line).collect()
}

/// Pads the fraction of a timestamp to nine digits, because the engine omits trailing zeros. Padded timestamps compare
/// as text.
fn pad_timestamp(stamp: &str) -> String {
    let stamp = stamp.trim_end_matches('Z');
    let (seconds, fraction) = stamp.split_once('.').unwrap_or((stamp, ""));
    format!("{seconds}.{fraction:0<9}")
}

/// Merges both streams by timestamp. The order within a stream never changes, even if its clock went back.
pub(super) fn merge_streams(stdout: Vec<Line>, stderr: Vec<Line>) -> Vec<Line> {
    let mut all = Vec::with_capacity(stdout.len() + stderr.len());
    let (mut stdout, mut stderr) = (stdout.into_iter().peekable(), stderr.into_iter().peekable());
    while let (Some(out), Some(err)) = (stdout.peek(), stderr.peek()) {
        let next = match err.place.cmp(&out.place) {
            Ordering::Less => stderr.next(),
            Ordering::Equal | Ordering::Greater => stdout.next(),
        };
        all.extend(next);
    }
    all.extend(stdout);
    all.extend(stderr);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stdout: &str, stderr: &str, expected: &[&str]) {
        let all = merge_streams(parse_lines(stdout, false), parse_lines(stderr, true));
        let texts: Vec<_> = all.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn streams_are_merged_by_timestamp() {
        check(
            "2026-11-21T10:00:00.000000001Z a\n2026-11-21T10:00:00.5Z c\n2026-11-21T10:00:02Z e\n",
            "2026-11-21T10:00:00.10Z b\nno time\n2026-11-21T10:00:01.999999999Z d\n",
            &["a", "b", "no time", "c", "d", "e"],
        );
    }

    #[test]
    fn clock_going_back_does_not_reorder_a_stream() {
        check(
            "2026-11-21T10:00:05Z a\n2026-11-21T10:00:01Z b\n",
            "2026-11-21T10:00:03Z x\n",
            &["x", "a", "b"],
        );
    }

    #[test]
    fn timestamp_is_shown_on_request_if_present() {
        let lines = parse_lines(
            "2026-11-21T10:00:00Z a b\n2026-11-21T10:00:00Z\nplain text\n",
            false,
        );
        let format = |timestamps| -> Vec<_> { lines.iter().map(|line| line.format(timestamps)).collect() };
        assert_eq!(format(false), ["a b", "", "plain text"]);
        assert_eq!(
            format(true),
            ["2026-11-21T10:00:00Z a b", "2026-11-21T10:00:00Z ", "plain text"]
        );
    }
}

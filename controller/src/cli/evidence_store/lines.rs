//! What a failed run wrote, line by line, with the engine's times.

use std::cmp::Ordering;

use argus_core::time::Timestamp;
use serde::Serialize;

/// One line of a run that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub(crate) struct Line {
    /// When the engine took it, in its own words; `None` where it has no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    /// What was written.
    pub(crate) text: String,
    /// Which stream it came from.
    #[serde(skip)]
    pub(crate) stderr: bool,
    /// What it is sorted by.
    #[serde(skip)]
    place: String,
}

impl Line {
    /// With or without its time in front.
    pub(crate) fn shown(&self, timestamps: bool) -> String {
        match &self.at {
            Some(at) if timestamps => format!("{at} {}", self.text),
            Some(_) | None => self.text.clone(),
        }
    }
}

/// The lines of one stream's file.
pub(super) fn parse(file: &str, stderr: bool) -> Vec<Line> {
    let mut place = String::new();
    let line = |line: &str| {
        let (stamp, text) = line.split_once(' ').unwrap_or((line, ""));
        let known = Timestamp::parse(stamp).is_some();
        if known {
            place = whole(stamp);
        }
        Line {
            at: known.then(|| stamp.to_owned()),
            text: if known { text } else { line }.to_owned(),
            stderr,
            // One without a time belongs to the one before.
            place: place.clone(),
        }
    };
    file.lines().map(line).collect()
}

/// A time of the engine with all nine digits of its second, so that times compare as text: it may leave out zeros.
fn whole(stamp: &str) -> String {
    let stamp = stamp.trim_end_matches('Z');
    let (seconds, fraction) = stamp.split_once('.').unwrap_or((stamp, ""));
    format!("{seconds}.{fraction:0<9}")
}

/// Both streams in the order of the engine's times; what one stream wrote stays in its own order whatever its clock did.
pub(super) fn merged(stdout: Vec<Line>, stderr: Vec<Line>) -> Vec<Line> {
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
        let all = merged(parse(stdout, false), parse(stderr, true));
        let texts: Vec<_> = all.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn two_streams_become_one_by_their_times() {
        check(
            "2026-11-21T10:00:00.000000001Z a\n2026-11-21T10:00:00.5Z c\n2026-11-21T10:00:02Z e\n",
            "2026-11-21T10:00:00.10Z b\nno time\n2026-11-21T10:00:01.999999999Z d\n",
            &["a", "b", "no time", "c", "d", "e"],
        );
    }

    #[test]
    fn a_clock_that_goes_back_does_not_reorder_a_stream() {
        check(
            "2026-11-21T10:00:05Z a\n2026-11-21T10:00:01Z b\n",
            "2026-11-21T10:00:03Z x\n",
            &["x", "a", "b"],
        );
    }

    #[test]
    fn a_time_is_shown_on_request_and_only_where_there_is_one() {
        let lines = parse(
            "2026-11-21T10:00:00Z a b\n2026-11-21T10:00:00Z\nplain text\n",
            false,
        );
        let shown = |timestamps| -> Vec<_> { lines.iter().map(|line| line.shown(timestamps)).collect() };
        assert_eq!(shown(false), ["a b", "", "plain text"]);
        assert_eq!(
            shown(true),
            ["2026-11-21T10:00:00Z a b", "2026-11-21T10:00:00Z ", "plain text"]
        );
    }
}

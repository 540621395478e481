//! Times of log lines: a selection such as `--since 10m`, and the timestamps of the engine.

use std::collections::VecDeque;

use argus_backend::{Backend as _, LogLine, LogQuery};
use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;
use argus_core::time::Timestamp;
use argus_docker::Docker;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};

use crate::settings::parse_duration;

/// Accepted forms of a time, for help texts and errors.
const FORMS: &str = "write a duration such as `10m`, or a time such as `2026-01-31T12:00:00Z`";

/// A time with the nanoseconds of the engine's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    second: i64,
    nanosecond: u32,
}

impl Stamp {
    /// Parses RFC 3339 with any number of digits in the fraction.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let second = Timestamp::parse(text)?.0.div_euclid(1_000);
        let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
        Some(Self {
            second,
            nanosecond: parse_fraction(fraction),
        })
    }

    /// Parses a time before `now`, such as `10m`, an RFC 3339 time, or seconds since 1970.
    pub(crate) fn parse_argument(text: &str, now: Timestamp) -> Result<Self, String> {
        if let Some(at) = Self::parse(text) {
            return Ok(at);
        }
        if let Ok(span) = parse_duration(text) {
            return Ok(Self::from(now - span));
        }
        let (second, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_number = fraction.bytes().all(|byte| byte.is_ascii_digit());
        match second.parse() {
            Ok(second) if is_number => Ok(Self {
                second,
                nanosecond: parse_fraction(fraction),
            }),
            _ => Err(FORMS.to_owned()),
        }
    }

    /// The millisecond that contains this time.
    pub(crate) fn timestamp(self) -> Timestamp {
        Timestamp(
            self.second
                .saturating_mul(1_000)
                .saturating_add(i64::from(self.nanosecond / 1_000_000)),
        )
    }
}

impl From<Timestamp> for Stamp {
    fn from(at: Timestamp) -> Self {
        let millisecond = u32::try_from(at.0.rem_euclid(1_000)).unwrap_or(0);
        Self {
            second: at.0.div_euclid(1_000),
            nanosecond: millisecond * 1_000_000,
        }
    }
}

/// Nanoseconds of the digits at the start of a text.
fn parse_fraction(text: &str) -> u32 {
    let digits = text
        .bytes()
        .map_while(|byte| char::from(byte).to_digit(10))
        .chain(std::iter::repeat(0));
    digits.take(9).fold(0, |all, digit| all * 10 + digit)
}

/// Splits a line into the engine's timestamp and the text. A line without a timestamp is text only.
pub(crate) fn split_stamp(line: &str) -> (Option<Stamp>, &str) {
    let (first, text) = line.split_once(' ').unwrap_or((line, ""));
    match Stamp::parse(first) {
        Some(stamp) => (Some(stamp), text),
        None => (None, line),
    }
}

/// Oldest and newest time of the lines; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) since: Option<Stamp>,
    pub(crate) until: Option<Stamp>,
}

impl TimeRange {
    /// Parses the two limits.
    pub(crate) fn parse(since: Option<&str>, until: Option<&str>, now: Timestamp) -> Result<Self, String> {
        let parse = |name: &str, text: Option<&str>| {
            let parsed = text.map(|text| Stamp::parse_argument(text, now));
            parsed
                .transpose()
                .map_err(|forms| format!("`{name}` is not a time: {forms}"))
        };
        Ok(Self {
            since: parse("since", since)?,
            until: parse("until", until)?,
        })
    }

    /// Returns true without limits.
    pub(crate) fn is_unlimited(self) -> bool {
        self == Self::default()
    }

    /// Returns true for a line of this time. A line without a time is always selected.
    pub(crate) fn contains(self, stamp: Option<Stamp>) -> bool {
        stamp.is_none_or(|stamp| {
            self.since.is_none_or(|since| stamp >= since) && self.until.is_none_or(|until| stamp <= until)
        })
    }

    /// Returns a line with its timestamp if it is selected, with or without the timestamp.
    fn select(self, mut line: LogLine, timestamps: bool) -> Option<LogLine> {
        let (stamp, text) = split_stamp(&line.text);
        if !self.contains(stamp) {
            return None;
        }
        if !timestamps {
            line.text = text.to_owned();
        }
        Some(line)
    }

    /// Reads the selected lines of a container.
    pub(crate) fn read(
        self,
        docker: &Docker,
        id: &ContainerId,
        query: &LogQuery,
    ) -> BoxStream<'static, Result<LogLine, ActionError>> {
        if self.is_unlimited() {
            return docker.logs(id, query.clone());
        }
        let timestamps = query.timestamps;
        // The engine would count the last lines before the selection.
        let tail = query.tail.filter(|_| self.until.is_some());
        // The engine starts with the first line of a second, and `select` is exact.
        let query = LogQuery {
            tail: query.tail.filter(|_| tail.is_none()),
            timestamps: true,
            since: self.since.map(Stamp::timestamp),
            ..query.clone()
        };
        let select = move |line| match line {
            Ok(line) => self.select(line, timestamps).map(Ok),
            Err(error) => Some(Err(error)),
        };
        let lines = docker
            .logs(id, query)
            .filter_map(move |line| std::future::ready(select(line)));
        match tail {
            None => lines.boxed(),
            Some(tail) => keep_last(lines.boxed(), tail),
        }
    }
}

/// The last lines of a stream, after its end.
fn keep_last<T: Send + 'static, E: Send + 'static>(
    mut lines: BoxStream<'static, Result<T, E>>,
    tail: u32,
) -> BoxStream<'static, Result<T, E>> {
    let tail = usize::try_from(tail).unwrap_or(usize::MAX);
    let last = async move {
        let mut last = VecDeque::new();
        while let Some(line) = lines.next().await {
            if line.is_ok() && last.len() >= tail {
                last.pop_front();
            }
            if line.is_err() || tail > 0 {
                last.push_back(line);
            }
        }
        stream::iter(last)
    };
    stream::once(last).flatten().boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn stamp(text: &str) -> Stamp {
        Stamp::parse(text).unwrap()
    }

    #[test]
    fn times_are_durations_dates_or_seconds() {
        let parse = |text| Stamp::parse_argument(text, NOW).ok();
        let at = |second, nanosecond| Some(Stamp { second, nanosecond });
        assert_eq!(parse("10m"), at(1_799_999_400, 0));
        assert_eq!(parse("1h30m"), at(1_799_994_600, 0));
        assert_eq!(parse("300ms"), at(1_799_999_999, 700_000_000));
        assert_eq!(parse("1700000000.25"), at(1_700_000_000, 250_000_000));
        assert_eq!(parse("2023-11-14T22:13:20.000000007Z"), at(1_700_000_000, 7));
        assert_eq!(
            parse("2023-11-15T00:13:20.5+02:00"),
            at(1_700_000_000, 500_000_000)
        );
        for wrong in ["", "yesterday", "2023-11-14T22:13", "1.x", "-5m"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        let error = TimeRange::parse(None, Some("soon"), NOW).unwrap_err();
        assert!(error.starts_with("`until` is not a time"), "{error}");
    }

    #[test]
    fn order_of_stamps_is_exact_to_the_nanosecond() {
        assert!(stamp("2026-11-21T10:00:00.123456788Z") < stamp("2026-11-21T10:00:00.123456789Z"));
        assert!(stamp("2026-11-21T10:00:00.2Z") > stamp("2026-11-21T10:00:00.123456789Z"));
        assert_eq!(
            stamp("2026-11-21T10:00:00.1Z"),
            stamp("2026-11-21T11:00:00.100000000+01:00")
        );
    }

    #[test]
    fn range_selects_lines_between_its_limits() {
        let range =
            TimeRange::parse(Some("2026-11-21T10:00:00.5Z"), Some("2026-11-21T10:00:01Z"), NOW).unwrap();
        let select = |text: &str, timestamps| {
            let line = LogLine {
                stderr: false,
                text: text.to_owned(),
            };
            range.select(line, timestamps).map(|line| line.text)
        };
        assert_eq!(select("2026-11-21T10:00:00.499999999Z early", false), None);
        assert_eq!(
            select("2026-11-21T10:00:00.5Z first", false).as_deref(),
            Some("first")
        );
        assert_eq!(
            select("2026-11-21T10:00:01Z last", true).as_deref(),
            Some("2026-11-21T10:00:01Z last")
        );
        assert_eq!(select("2026-11-21T10:00:01.000000001Z late", false), None);
        assert_eq!(select("without a time", false).as_deref(), Some("without a time"));
    }
    #[tokio::test]
    async fn last_lines_are_those_of_the_selection() {
        let last = async |tail, lines: &[Result<u32, &'static str>]| -> Vec<_> {
            let lines = stream::iter(lines.to_vec()).boxed();
            keep_last(lines, tail).collect().await
        };
        assert_eq!(last(2, &[Ok(1), Ok(2), Ok(3)]).await, [Ok(2), Ok(3)]);
        assert_eq!(last(5, &[Ok(1)]).await, [Ok(1)]);
        assert_eq!(last(0, &[Ok(1), Err("lost")]).await, [Err("lost")]);
    }
}

//! Beginning and end of a run in the log of its container, which also contains other runs.

use std::time::Duration;

use super::{FailedRun, FailureCause};
use crate::time::Timestamp;

/// Time before the recorded start from which lines belong to the run. The engine records a start after the process has started,
/// and a short-lived process has already written its output by then.
const START_TOLERANCE: Duration = Duration::from_millis(500);

/// Returns the time from which lines belong to a run that started at `started`, after a run of the same container that ended at `earlier`.
///
/// The engine can record the last lines of a run after its end, so the first half of the time between both runs belongs to it.
pub fn first_line_of(started: Timestamp, earlier: Option<Timestamp>) -> Timestamp {
    let tolerated = started - START_TOLERANCE;
    let between = earlier.map(|earlier| started - started.since(earlier) / 2);
    between.map_or(tolerated, |between| tolerated.max(between))
}

/// Returns the last lines of an output, at most `most`, without space and empty lines at the end. Equal lines in a row become one with
/// their number, because a program that repeats one line must not displace the lines before it.
pub fn last_lines<'a>(lines: impl DoubleEndedIterator<Item = &'a str>, most: usize) -> Vec<String> {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    let newest_first = lines.rev().map(str::trim_end);
    for line in newest_first.skip_while(|line| line.is_empty()) {
        if let Some((_, count)) = groups.last_mut().filter(|(last, _)| *last == line) {
            *count += 1;
        } else if groups.len() < most {
            groups.push((line, 1));
        } else {
            break;
        }
    }
    let oldest_first = groups.into_iter().rev();
    oldest_first
        .map(|(line, count)| match count {
            1 => line.to_owned(),
            _ if line.is_empty() => String::new(),
            _ => format!("{line} ({count} times)"),
        })
        .collect()
}

impl FailedRun {
    /// Returns the time from which lines belong to this run; `None` if its start is unknown.
    ///
    /// `earlier` is the failed run before it in the same container.
    pub fn first_line_at(&self, earlier: Option<&Self>) -> Option<Timestamp> {
        // Under load, the engine can record the start of a short-lived process after its end.
        let started = self.started_at?.min(self.at);
        Some(first_line_of(started, earlier.map(|earlier| earlier.at)))
    }

    /// Returns the end of this run; `None` while its container runs, in this run or in a later one.
    pub fn ended_at(&self) -> Option<Timestamp> {
        (self.cause == FailureCause::Exited && !self.followed_by_run).then_some(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::ContainerId;

    #[test]
    fn quick_restart_leaves_lines_to_the_earlier_run() {
        let run = |started, ended| FailedRun {
            started_at: Some(Timestamp(started)),
            ..FailedRun::new(ContainerId::new("c").unwrap(), Timestamp(ended))
        };
        let second = run(10_000, 12_000);
        let first_line = |ended: i64| second.first_line_at(Some(&run(1_000, ended)));
        assert_eq!(second.first_line_at(None), Some(Timestamp(9_500)));
        assert_eq!(first_line(5_000), Some(Timestamp(9_500)));
        assert_eq!(first_line(9_600), Some(Timestamp(9_800)));
        assert_eq!(first_line(10_000), Some(Timestamp(10_000)));
        let recorded_late = run(10_000, 8_000);
        assert_eq!(recorded_late.first_line_at(None), Some(Timestamp(7_500)));
        let unknown = FailedRun::new(ContainerId::new("c").unwrap(), Timestamp(1));
        assert_eq!(unknown.first_line_at(None), None);
    }

    #[test]
    fn run_of_a_container_that_runs_has_no_end() {
        let run = FailedRun::new(ContainerId::new("c").unwrap(), Timestamp(1));
        assert_eq!(run.ended_at(), Some(Timestamp(1)));
        let followed = FailedRun {
            followed_by_run: true,
            ..run.clone()
        };
        let unhealthy = FailedRun {
            cause: FailureCause::Unhealthy,
            ..run
        };
        assert_eq!((followed.ended_at(), unhealthy.ended_at()), (None, None));
    }

    #[test]
    fn equal_lines_in_a_row_are_one_with_their_number() {
        let last = |text: &str, most| last_lines(text.lines(), most);
        assert_eq!(last("a\nb\nb \nb\nc\n\n", 3), ["a", "b (3 times)", "c"]);
        assert_eq!(last("a\nb\nb\n", 1), ["b (2 times)"]);
        assert_eq!(last("a\n\n\nb\na", 9), ["a", "", "b", "a"]);
        assert!(last("\n \n", 3).is_empty());
    }
}

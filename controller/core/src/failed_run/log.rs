//! Beginning of a run in the log of its container, which also contains earlier runs.

use std::time::Duration;

use super::FailedRun;
use crate::time::Timestamp;

/// Time before the recorded start from which lines belong to the run. The engine records a start after the process has started,
/// and a short-lived process has already written its output by then.
const START_TOLERANCE: Duration = Duration::from_millis(500);

impl FailedRun {
    /// Returns the time from which lines belong to this run; `None` if its start is unknown.
    ///
    /// `earlier` is the failed run before it in the same container. The engine can record its last lines after its end, so the
    /// first half of the time between both runs belongs to it.
    pub fn first_line_at(&self, earlier: Option<&Self>) -> Option<Timestamp> {
        // Under load, the engine can record the start of a short-lived process after its end.
        let started = self.started_at?.min(self.at);
        let tolerated = started - START_TOLERANCE;
        let between = earlier.map(|earlier| started - started.since(earlier.at) / 2);
        Some(between.map_or(tolerated, |between| tolerated.max(between)))
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
            ..FailedRun::of(ContainerId::new("c").unwrap(), Timestamp(ended))
        };
        let second = run(10_000, 12_000);
        let first_line = |ended: i64| second.first_line_at(Some(&run(1_000, ended)));
        assert_eq!(second.first_line_at(None), Some(Timestamp(9_500)));
        assert_eq!(first_line(5_000), Some(Timestamp(9_500)));
        assert_eq!(first_line(9_600), Some(Timestamp(9_800)));
        assert_eq!(first_line(10_000), Some(Timestamp(10_000)));
        let recorded_late = run(10_000, 8_000);
        assert_eq!(recorded_late.first_line_at(None), Some(Timestamp(7_500)));
        let unknown = FailedRun::of(ContainerId::new("c").unwrap(), Timestamp(1));
        assert_eq!(unknown.first_line_at(None), None);
    }
}

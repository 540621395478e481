//! What ended a run, from what the engine says of it and from what it wrote.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::state::FailedRun;

/// Repetitions of one failure that show that another try brings nothing.
pub const HALT_AFTER: usize = 3;

/// How a run of a container came to be a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureCause {
    /// Its main process ended.
    #[default]
    Exited,
    /// Its process lived on, and its probe failed past its retries.
    Unhealthy,
}

/// The kinds of failure, by what helps against them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// Ended with an exit code.
    Exit,
    /// Ended by a signal.
    Signal,
    /// The kernel ended it for want of memory; there is evidence.
    OutOfMemory,
    /// The entry point or a command in it does not exist or may not be run.
    NotRunnable,
    /// The probe failed past its retries.
    Unhealthy,
}

/// The kind of a failure.
///
/// Memory is blamed with evidence only: the engine's flag, or an event of the kernel in this run. An exit code of 0 is
/// no death of memory, whatever became of a child.
pub fn kind(failed_run: &FailedRun) -> FailureKind {
    match failed_run.cause {
        FailureCause::Unhealthy => FailureKind::Unhealthy,
        FailureCause::Exited
            if (failed_run.oom_killed || failed_run.oom_event) && failed_run.exit_code != 0 =>
        {
            FailureKind::OutOfMemory
        }
        FailureCause::Exited if matches!(failed_run.exit_code, 126 | 127) => FailureKind::NotRunnable,
        FailureCause::Exited if signal(failed_run.exit_code).is_some() => FailureKind::Signal,
        FailureCause::Exited => FailureKind::Exit,
    }
}

/// It looks like a want of memory, and nothing proves it: killed without a word, with its peak at the limit.
pub fn oom_suspected(failed_run: &FailedRun) -> bool {
    let at_limit = match (failed_run.memory_limit, failed_run.peak()) {
        (Some(limit), Some(peak)) => peak >= limit,
        (Some(_) | None, _) => false,
    };
    failed_run.exit_code == 137 && at_limit && kind(failed_run) != FailureKind::OutOfMemory
}

/// The signal behind an exit code above 128.
pub fn signal(exit_code: i64) -> Option<&'static str> {
    match exit_code {
        129 => Some("SIGHUP"),
        130 => Some("SIGINT"),
        131 => Some("SIGQUIT"),
        132 => Some("SIGILL"),
        133 => Some("SIGTRAP"),
        134 => Some("SIGABRT"),
        135 => Some("SIGBUS"),
        136 => Some("SIGFPE"),
        137 => Some("SIGKILL"),
        139 => Some("SIGSEGV"),
        141 => Some("SIGPIPE"),
        143 => Some("SIGTERM"),
        _ => None,
    }
}

/// What makes two failures the same: how it ended, the last thing it said, about how long it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fingerprint {
    /// Exit code.
    pub exit_code: i64,
    /// Last line of stderr without its numbers.
    pub line: String,
    /// About how long it ran.
    pub ran: Ran,
}

/// About how long something ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ran {
    /// Less than 10 s.
    Seconds,
    /// Less than a minute.
    UnderAMinute,
    /// Less than ten minutes.
    Minutes,
}

/// The fingerprint of a failure; `None` where it said nothing, because silence does not show that it is the same again,
/// and where it ran for ten minutes, because that is progress.
pub fn fingerprint(failed_run: &FailedRun) -> Option<Fingerprint> {
    let last = failed_run.evidence.as_ref()?.stderr.last()?;
    let line = normalised(last);
    let ran = failed_run.ran_for();
    let ran = if ran < Duration::from_secs(10) {
        Ran::Seconds
    } else if ran < Duration::from_secs(60) {
        Ran::UnderAMinute
    } else if ran < Duration::from_secs(600) {
        Ran::Minutes
    } else {
        return None;
    };
    (!line.is_empty()).then_some(Fingerprint {
        exit_code: failed_run.exit_code,
        line,
        ran,
    })
}

/// How often in a row the last of these failed in the same way.
pub fn repetitions<'a>(failures: impl DoubleEndedIterator<Item = &'a FailedRun>) -> usize {
    let mut newest_first = failures.rev().map(fingerprint);
    let Some(last) = newest_first.next().flatten() else {
        return 0;
    };
    1 + newest_first
        .take_while(|found| found.as_ref() == Some(&last))
        .count()
}

/// A line without what differs from run to run: numbers, addresses, times, ids.
pub(crate) fn normalised(line: &str) -> String {
    const LONGEST: usize = 200;
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        let hex = word.trim_matches(|c: char| c.is_ascii_punctuation());
        let hex = hex.strip_prefix("0x").unwrap_or(hex);
        let id = hex.len() >= 8 && hex.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if id {
            words.push("#".to_owned());
            continue;
        }
        let mut kept = String::new();
        for c in word.chars() {
            match (c.is_ascii_digit(), kept.ends_with('#')) {
                (true, true) => {}
                (true, false) => kept.push('#'),
                (false, _) => kept.push(c),
            }
        }
        words.push(kept);
    }
    words.join(" ").chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::ContainerId;
    use crate::outcome::Evidence;
    use crate::time::Timestamp;

    fn failed_run(exit_code: i64, last_line: &str) -> FailedRun {
        FailedRun {
            exit_code,
            evidence: Some(Evidence {
                stderr: vec![last_line.to_owned()],
                ..Evidence::default()
            }),
            ..FailedRun::of(ContainerId::new("c1").unwrap(), Timestamp(0))
        }
    }

    #[test]
    fn the_kind_follows_from_the_evidence() {
        let plain = |exit_code| failed_run(exit_code, "");
        let flagged = |exit_code| FailedRun {
            oom_killed: true,
            ..plain(exit_code)
        };
        for (failed_run, expected) in [
            (plain(1), FailureKind::Exit),
            (plain(0), FailureKind::Exit),
            (plain(255), FailureKind::Exit),
            (plain(137), FailureKind::Signal),
            (plain(139), FailureKind::Signal),
            (plain(126), FailureKind::NotRunnable),
            (plain(127), FailureKind::NotRunnable),
            (flagged(137), FailureKind::OutOfMemory),
            (flagged(1), FailureKind::OutOfMemory),
            // A child ran out of memory, its parent ended well.
            (flagged(0), FailureKind::Exit),
            (
                FailedRun {
                    oom_event: true,
                    ..plain(137)
                },
                FailureKind::OutOfMemory,
            ),
            (
                FailedRun {
                    cause: FailureCause::Unhealthy,
                    ..plain(0)
                },
                FailureKind::Unhealthy,
            ),
        ] {
            assert_eq!(kind(&failed_run), expected, "{failed_run:?}");
        }
    }

    #[test]
    fn a_kill_at_the_limit_is_a_suspicion_and_no_verdict() {
        let peaked = |peak| FailedRun {
            memory_limit: Some(100),
            evidence: Some(Evidence {
                memory_peak: Some(peak),
                ..Evidence::default()
            }),
            ..failed_run(137, "")
        };
        assert!(oom_suspected(&peaked(100)));
        assert!(!oom_suspected(&peaked(99)));
        assert!(!oom_suspected(&failed_run(137, "")));
        assert!(!oom_suspected(&FailedRun {
            oom_killed: true,
            ..peaked(100)
        }));
    }

    #[test]
    fn numbers_and_ids_do_not_make_another_failure() {
        let same = [
            "2026-11-21T10:00:01Z error: connect 10.0.0.7:5432 refused (req 0xdeadbeef01)",
            "2026-11-21T10:00:09Z error: connect 10.0.0.19:5433 refused (req 0xfeedbeef22)",
        ];
        assert_eq!(normalised(same[0]), normalised(same[1]));
        assert_ne!(normalised("no such table a"), normalised("no such table b"));
    }

    #[test]
    fn only_the_same_failure_in_a_row_counts() {
        let row = |lines: &[&str]| lines.iter().map(|line| failed_run(1, line)).collect::<Vec<_>>();
        for (lines, expected) in [
            (&["a", "a", "a"][..], 3),
            (&["a", "b", "a"], 1),
            (&["a", "b", "b"], 2),
            (&["", "", ""], 0),
            (&[], 0),
        ] {
            assert_eq!(repetitions(row(lines).iter()), expected, "{lines:?}");
        }
        let mut other_code = row(&["a", "a", "a"]);
        other_code[1].exit_code = 2;
        assert_eq!(repetitions(other_code.iter()), 1);
    }
}

//! Tests of the diagnosis of failed runs.

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
        ..FailedRun::new(ContainerId::new("c1").unwrap(), Timestamp(0))
    }
}

#[test]
fn kind_follows_exit_code_and_memory_evidence() {
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
        (
            failed_run(255, "exec /app: Exec format error"),
            FailureKind::NotRunnable,
        ),
        (
            failed_run(255, "exec /run.sh: no such file or directory"),
            FailureKind::NotRunnable,
        ),
        (
            failed_run(255, "open /run.sh: no such file or directory"),
            FailureKind::Exit,
        ),
        (flagged(137), FailureKind::OutOfMemory),
        (flagged(1), FailureKind::OutOfMemory),
        // A child ran out of memory, and its parent exited with 0.
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
fn kill_in_the_control_group_is_a_proof() {
    let killed = |exit_code, kills| FailedRun {
        memory_limit: Some(100),
        evidence: Some(Evidence {
            oom_kills: kills,
            ..Evidence::default()
        }),
        ..failed_run(exit_code, "")
    };
    for (failed_run, expected, confidence) in [
        (
            killed(137, Some(1)),
            FailureKind::OutOfMemory,
            Some(OomConfidence::Certain),
        ),
        // A child was killed, and its parent ended with a code of its own.
        (
            killed(1, Some(2)),
            FailureKind::OutOfMemory,
            Some(OomConfidence::Likely),
        ),
        (killed(0, Some(2)), FailureKind::Exit, None),
        (killed(137, Some(0)), FailureKind::Signal, None),
        (killed(137, None), FailureKind::Signal, None),
    ] {
        assert_eq!(kind(&failed_run), expected, "{failed_run:?}");
        assert_eq!(oom_confidence(&failed_run), confidence, "{failed_run:?}");
        let facts = RunFacts::from_run(&failed_run, false);
        assert_eq!(
            (facts.oom_kills, facts.oom_confidence),
            (failed_run.oom_kills(), confidence)
        );
    }
    let mut at_limit = killed(137, None);
    at_limit.evidence.as_mut().unwrap().memory_peak = Some(100);
    assert_eq!(oom_confidence(&at_limit), Some(OomConfidence::Likely));
    assert_eq!(killed(137, Some(1)).peak(), Some(100));
}

#[test]
fn kill_at_the_memory_limit_is_only_suspected_oom() {
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
fn numbers_and_ids_do_not_change_the_fingerprint() {
    let same = [
        "2026-11-21T10:00:01Z error: connect 10.0.0.7:5432 refused (req 0xdeadbeef01)",
        "2026-11-21T10:00:09Z error: connect 10.0.0.19:5433 refused (req 0xfeedbeef22)",
    ];
    assert_eq!(normalised(same[0]), normalised(same[1]));
    assert_ne!(normalised("no such table a"), normalised("no such table b"));
}

#[test]
fn repetitions_counts_only_equal_consecutive_failures() {
    let row = |lines: &[&str]| lines.iter().map(|line| failed_run(1, line)).collect::<Vec<_>>();
    for (lines, expected) in [
        (&["a", "a", "a"][..], 3),
        (&["a", "b", "a"], 1),
        (&["a", "b", "b"], 2),
        (&["", "", ""], 3),
        (&[], 0),
    ] {
        assert_eq!(repetitions(&row(lines)), expected, "{lines:?}");
    }
    let mut other_code = row(&["a", "a", "a"]);
    other_code[1].exit_code = 2;
    assert_eq!(repetitions(&other_code), 1);
}

//! Tests of the completeness of logs.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// End of the run.
const END: Timestamp = Timestamp(1_763_000_000_000);

fn line(text: &str) -> LogLine {
    LogLine {
        stderr: false,
        text: text.to_owned(),
    }
}

/// Reads the log of a run that ended. `times` returns the times of the lines on stdout, in milliseconds after the end of the
/// run, for the number of the read. Returns the evidence and the number of reads of stdout.
async fn read_log(times: impl Fn(u32) -> Vec<i64> + Sync) -> (Evidence, u32) {
    let reads = AtomicU32::new(0);
    let open = |query: LogQuery| {
        let times = match query.only {
            Some(Stream::Stdout) => times(reads.fetch_add(1, Ordering::Relaxed) + 1),
            _ => Vec::new(),
        };
        let lines = times.into_iter().map(|millis| {
            let at = Timestamp(END.0 + millis);
            Ok::<_, ActionError>(line(&format!("{at} at {millis}")))
        });
        futures::stream::iter(lines.collect::<Vec<_>>()).boxed()
    };
    let log = RunLog {
        open,
        since: None,
        ended_at: Some(END),
        deadline: Deadline::start(COLLECTION_TIMEOUT),
    };
    let mut evidence = Evidence::default();
    log.add_to(&mut evidence).await.unwrap();
    (evidence, reads.load(Ordering::Relaxed))
}

fn last_text(evidence: &Evidence) -> Option<&str> {
    let (_, text) = evidence.stdout.last()?.split_once(' ')?;
    Some(text)
}

#[tokio::test(start_paused = true)]
async fn log_without_a_backlog_is_read_once() {
    for times in [vec![], vec![-5_000, -1]] {
        let (evidence, reads) = read_log(|_| times.clone()).await;
        assert_eq!(reads, 1, "{times:?}");
        assert_eq!(evidence.stdout.len(), times.len());
        assert_eq!(evidence.missing, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn backlog_is_read_until_it_no_longer_changes() {
    let (evidence, reads) = read_log(|read| (0..i64::from(read.min(4))).collect()).await;
    assert_eq!(last_text(&evidence), Some("at 3"));
    assert_eq!(reads, 5, "the fifth read finds no further line");
    assert_eq!(evidence.missing, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn backlog_without_an_end_is_truncated_at_the_deadline() {
    let (evidence, reads) = read_log(|read| (0..i64::from(read)).collect()).await;
    let reads_in_time = COLLECTION_TIMEOUT.as_millis() / REREAD_INTERVAL.as_millis();
    assert!((2..=reads_in_time + 1).contains(&u128::from(reads)), "{reads}");
    assert!(evidence.stdout.len() > 1, "the lines of the last read are kept");
    for (stream, missing) in ["stdout", "stderr"].into_iter().zip(&evidence.missing) {
        let expected = format!("{stream}: truncated: the engine had not written its end yet");
        assert_eq!(*missing, expected);
    }
    assert_eq!(evidence.missing.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn log_written_near_the_limit_of_the_engine_is_truncated() {
    for (last, is_truncated) in [(1_499, false), (1_500, true)] {
        let (evidence, _) = read_log(|_| vec![0, last]).await;
        assert_eq!(evidence.stdout.len(), 2);
        let reason = "the engine still wrote it 1.5 s after the end of the run and may have dropped the rest";
        let expected = is_truncated.then(|| format!("stdout: truncated: {reason}"));
        assert_eq!(evidence.missing, Vec::from_iter(expected));
    }
}

#[test]
fn lines_of_an_earlier_run_are_left_out() {
    let since = Timestamp::parse("2026-11-21T10:00:00.5Z");
    for (line, of_this_run) in [
        ("2026-11-21T10:00:00.499999999Z old", false),
        ("2026-11-21T10:00:00.500000001Z new", true),
        ("no time at all", true),
    ] {
        assert_eq!(is_of_this_run(line, since), of_this_run, "{line}");
    }
    assert!(is_of_this_run("2026-11-21T10:00:00.1Z x", None));
}

#[tokio::test(start_paused = true)]
async fn lines_before_a_cut_or_an_error_are_kept() {
    let broken = || Err(ActionError::Unknown("reset".to_owned()));
    let slow = futures::stream::iter([Ok(line("one")), Ok(line("two"))]).chain(futures::stream::pending());
    let silent = futures::stream::pending();
    let tail = gather_lines(slow.boxed(), None, Deadline::start(COLLECTION_TIMEOUT))
        .await
        .unwrap();
    assert_eq!(tail.lines, ["one", "two"]);
    assert_eq!(tail.cut.as_deref(), Some("outcome unknown: no answer within 4 s"));
    let torn = futures::stream::iter([Ok(line("one")), broken()]);
    let tail = gather_lines(torn, None, Deadline::start(COLLECTION_TIMEOUT))
        .await
        .unwrap();
    assert_eq!((tail.lines.len(), tail.cut.is_some()), (1, true));
    let whole = gather_lines(
        futures::stream::iter([Ok(line("one"))]),
        None,
        Deadline::start(COLLECTION_TIMEOUT),
    )
    .await;
    assert_eq!(whole.unwrap().cut, None);
    // No response is not an empty log: the caller retries.
    assert!(
        gather_lines(silent.boxed(), None, Deadline::start(COLLECTION_TIMEOUT))
            .await
            .is_err()
    );
    assert!(
        gather_lines(
            futures::stream::iter([broken()]),
            None,
            Deadline::start(COLLECTION_TIMEOUT)
        )
        .await
        .is_err()
    );
    let empty = gather_lines(
        futures::stream::empty().boxed(),
        None,
        Deadline::start(COLLECTION_TIMEOUT),
    )
    .await;
    assert!(empty.unwrap().lines.is_empty());
}

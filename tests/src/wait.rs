//! Waiting for a condition with a limit: the only place of the tests that sleeps or asks the time.
#![allow(
    clippy::disallowed_methods,
    reason = "tests wait for real processes, in real time, with a limit"
)]

use std::thread::sleep;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(10);

/// Asks `question` every 10 ms until it answers; `None` when `limit` is over.
pub fn poll<T>(limit: Duration, mut question: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = question() {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        sleep(STEP);
    }
}

/// Like [`poll`], but a question without an answer ends the test and names `what` was waited for.
pub fn until<T>(limit: Duration, what: &str, question: impl FnMut() -> Option<T>) -> T {
    poll(limit, question).unwrap_or_else(|| panic!("waited {limit:?} in vain: {what}"))
}

/// Watches for the whole of `span` that `holds` never stops being true; ends the test when it does.
pub fn all_the_while(span: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let broken = poll(span, || (!holds()).then_some(()));
    assert!(broken.is_none(), "did not stay so for {span:?}: {what}");
}

/// How long `work` took, with its result.
pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// Waits until `due`: a load keeps its pace, however late the answer before was.
pub fn until_due(due: Instant) {
    sleep(due.saturating_duration_since(Instant::now()));
}

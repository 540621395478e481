//! Waiting for a condition with a limit. Only this module of the tests sleeps or reads the clock.
#![allow(
    clippy::disallowed_methods,
    reason = "tests wait for real processes, in real time, with a limit"
)]

use std::thread::sleep;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(25);

/// Calls `question` every 25 ms until it returns a value; `None` after `limit`.
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

/// Like [`poll`], but a timeout ends the test and names `what`.
pub fn until<T>(limit: Duration, what: &str, question: impl FnMut() -> Option<T>) -> T {
    poll(limit, question).unwrap_or_else(|| panic!("timed out after {limit:?}: {what}"))
}

/// Checks for the whole `span` that `holds` stays true; otherwise ends the test.
pub fn all_the_while(span: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let broken = poll(span, || (!holds()).then_some(()));
    assert!(broken.is_none(), "did not stay true for {span:?}: {what}");
}

/// Runs `work`. Returns its duration and its result.
pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// Time of an observation, for measurements.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits until `due`, so that a load keeps its pace even if a response was late.
pub fn until_due(due: Instant) {
    sleep(due.saturating_duration_since(Instant::now()));
}

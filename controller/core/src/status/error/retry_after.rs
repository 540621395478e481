//! Time of the next automatic attempt; repeated reports of the same attempt are equal.

use argus_crds::error::StructuredError;
use serde_json::{Value, json};

use crate::time::Timestamp;

/// Name of the detail with the time.
const NEXT_ATTEMPT: &str = "nextTry";

/// Adds the time of the next attempt to an error.
///
/// The seconds count from the error's own time. Without one they count from now, and a repeated report of the same attempt
/// keeps them, see [`keep_retry_after`].
pub(super) fn with_next_attempt(error: StructuredError, until: Timestamp, now: Timestamp) -> StructuredError {
    if !error.retryable {
        return error;
    }
    let error = error.details(json!({ NEXT_ATTEMPT: until.to_string() }));
    if error.retry_after.is_some() {
        return error;
    }
    let at = error.timestamp.as_deref().and_then(Timestamp::parse);
    error.retry_after_span(until.since(at.unwrap_or(now)))
}

/// Keeps the seconds of `old` if both errors have the same next attempt.
pub(super) fn keep_retry_after(error: StructuredError, old: &StructuredError) -> StructuredError {
    let next_attempt = |error: &StructuredError| {
        error
            .details
            .get(NEXT_ATTEMPT)
            .filter(|at| **at != Value::Null)
            .cloned()
    };
    if next_attempt(&error).is_some() && next_attempt(&error) == next_attempt(old) {
        let retry_after = old.retry_after;
        StructuredError { retry_after, ..error }
    } else {
        error
    }
}

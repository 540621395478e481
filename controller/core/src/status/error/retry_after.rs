//! When what failed is tried again by itself, told so that it is the same at every look.

use argus_crds::error::StructuredError;
use serde_json::{Value, json};

use crate::time::Timestamp;

/// The detail that says when.
const NEXT: &str = "nextTry";

/// An error of something that waits until then.
///
/// The seconds are counted from the error's own time. Where it has none, they are counted from now, and who tells it
/// again for the same next try keeps them ([`lasting`]).
pub(super) fn told(error: StructuredError, until: Timestamp, now: Timestamp) -> StructuredError {
    if !error.retryable {
        return error;
    }
    let error = error.details(json!({ NEXT: until.to_string() }));
    if error.retry_after.is_some() {
        return error;
    }
    let at = error.timestamp.as_deref().and_then(Timestamp::parse);
    error.retry_after_span(until.since(at.unwrap_or(now)))
}

/// The same error with the seconds that `old` tells, where both tell of the same next try.
pub(super) fn lasting(error: StructuredError, old: &StructuredError) -> StructuredError {
    let next = |error: &StructuredError| error.details.get(NEXT).filter(|at| **at != Value::Null).cloned();
    if next(&error).is_some() && next(&error) == next(old) {
        let retry_after = old.retry_after;
        StructuredError { retry_after, ..error }
    } else {
        error
    }
}

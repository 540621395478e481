//! Test of an error: the one that ran at its time, also after its end.

use argus_crds::error::StructuredError;
use serde_json::json;

use super::StatusInput;
use crate::outcome::one_line;
use crate::time::Timestamp;

/// Key of the details with the test.
pub(in crate::status) const TEST: &str = "test";

/// Adds the test that ran at the time of an error: its name, which is that of the suite for `argus test run`, and its lease.
pub(super) fn with_test(input: &StatusInput<'_>, mut error: StructuredError) -> StructuredError {
    let at = error.timestamp.as_deref().and_then(Timestamp::parse);
    let leases = input.requests.test_leases.iter();
    let mut running = leases.filter(|lease| {
        let is_during = at.is_some_and(|at| (lease.since..=lease.until).contains(&at));
        lease.environment == *input.env && is_during
    });
    let test = running.next().map(|lease| {
        json!({
            "case": one_line(&lease.case),
            "holder": lease.holder.as_deref().map(one_line),
            "purpose": lease.purpose.as_deref().map(one_line),
            "since": lease.since.to_string(),
        })
    });
    // An ended lease is no longer known.
    let reported = || {
        let previous = input.previous?;
        let rows = previous.services.iter().filter_map(|row| row.last_error.as_ref());
        let mut all = rows.chain(&previous.errors);
        let same = all.find(|old| old.error_id.is_some() && old.error_id == error.error_id)?;
        same.details.get(TEST).cloned()
    };
    if let Some(test) = test.or_else(reported) {
        error.details.insert(TEST.to_owned(), test);
    }
    error
}

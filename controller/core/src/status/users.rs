//! Current users of an environment: tests and holds.

use argus_crds::status::{ActiveHold, RunningTest};

use super::StatusInput;
use crate::outcome::one_line;

/// Running tests, the earliest end first.
pub(super) fn tests(input: &StatusInput<'_>) -> Vec<RunningTest> {
    let leases = input.requests.test_leases.iter();
    let mut running: Vec<_> = leases
        .filter(|lease| lease.environment == *input.env && lease.until > input.now)
        .collect();
    running.sort_by_key(|lease| lease.until);
    let reported = running.into_iter().map(|lease| RunningTest {
        case: one_line(&lease.case),
        holder: optional_line(lease.holder.as_ref()),
        purpose: optional_line(lease.purpose.as_ref()),
        since: lease.since.to_string(),
        until: lease.until.to_string(),
    });
    reported.collect()
}

/// Active holds of the environment.
pub(super) fn holds(input: &StatusInput<'_>) -> Vec<ActiveHold> {
    let is_active = |until: Option<crate::time::Timestamp>| until.is_none_or(|until| until > input.now);
    let holds = input.requests.holds.iter();
    let reported = holds
        .filter(|hold| hold.environment == *input.env && is_active(hold.until))
        .map(|hold| ActiveHold {
            service: hold.service.as_ref().map(ToString::to_string),
            holder: optional_line(hold.holder.as_ref()),
            reason: one_line(&hold.reason),
            since: hold.since.to_string(),
            until: hold.until.map(|until| until.to_string()),
        });
    reported.collect()
}

fn optional_line(text: Option<&String>) -> Option<String> {
    text.map(|text| one_line(text)).filter(|text| !text.is_empty())
}

//! Current users of an environment: tests and holds.

use argus_crds::status::{ActiveHold, RunningTest};

use super::StatusInput;
use super::wait::one_line;

/// Running tests, the earliest end first.
pub(super) fn tests(input: &StatusInput<'_>) -> Vec<RunningTest> {
    let leases = input.requests.leases.iter();
    let mut running: Vec<_> = leases
        .filter(|lease| lease.environment == *input.env && lease.until > input.now)
        .collect();
    running.sort_by_key(|lease| lease.until);
    let told = running.into_iter().map(|lease| RunningTest {
        case: one_line(&lease.case),
        holder: words(lease.holder.as_ref()),
        purpose: words(lease.purpose.as_ref()),
        since: lease.since.to_string(),
        until: lease.until.to_string(),
    });
    told.collect()
}

/// Active holds of the environment.
pub(super) fn holds(input: &StatusInput<'_>) -> Vec<ActiveHold> {
    let lasts = |until: Option<crate::time::Timestamp>| until.is_none_or(|until| until > input.now);
    let holds = input.requests.holds.iter();
    let told = holds
        .filter(|hold| hold.environment == *input.env && lasts(hold.until))
        .map(|hold| ActiveHold {
            service: hold.service.as_ref().map(ToString::to_string),
            holder: words(hold.holder.as_ref()),
            reason: one_line(&hold.reason),
            since: hold.since.to_string(),
            until: hold.until.map(|until| until.to_string()),
        });
    told.collect()
}

fn words(text: Option<&String>) -> Option<String> {
    text.map(|text| one_line(text)).filter(|text| !text.is_empty())
}

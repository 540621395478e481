//! Users of an environment: running tests, results of tests, and holds.

use argus_crds::status::{ActiveHold, EarlierRun, RunningTest, SuiteStatus};

use super::StatusInput;
use crate::outcome::one_line;
use crate::test_results::{SuiteRun, TestRun};

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

/// Maximum number of earlier runs and of failed cases per suite.
const MAX_SHOWN: usize = 20;

/// Last results of all suites.
pub(super) fn test_results(input: &StatusInput<'_>) -> Vec<SuiteStatus> {
    let Some(history) = input.requests.test_results.get(input.env) else {
        return Vec::new();
    };
    let suite = |(name, runs): (&str, Vec<(&TestRun, &SuiteRun)>)| {
        let ((run, last), earlier) = runs.split_first()?;
        Some(SuiteStatus {
            suite: one_line(name),
            result: last.result.name().to_owned(),
            at: run.at.to_string(),
            revision: run.revision.clone(),
            failed_cases: last.failed_cases().take(MAX_SHOWN).map(one_line).collect(),
            earlier: earlier
                .iter()
                .take(MAX_SHOWN)
                .map(|(run, suite)| EarlierRun {
                    result: suite.result.name().to_owned(),
                    at: run.at.to_string(),
                })
                .collect(),
        })
    };
    history.suites().into_iter().filter_map(suite).collect()
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

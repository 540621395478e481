//! Restart policy: decides if and when a failed service starts again.
//! Invariant 17: no service restarts more often than its budget and the limit of the host allow.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff;
use crate::desired::{RestartMode, RestartPolicy};
use crate::failed_run::{self, FailedRun, FailureCause, Fingerprint};
use crate::observed::{Container, Outage};
use crate::state::observe::RunObserver;
use crate::state::{RESTART_RATE_WINDOW, ServiceHistory};
use crate::time::Timestamp;

/// Window in which health transitions are counted.
const FLAP_WINDOW: Duration = Duration::from_secs(600);
/// More transitions than this within the window are flapping.
const HEALTH_TRANSITIONS_ALLOWED: usize = 3;
/// Ended budgets kept per service; no limit is larger.
const MAX_ENDED_BUDGETS: usize = 16;

/// Decision of the restart policy about a failed service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartDecision {
    /// Start it at this time; number of the attempt, from 1.
    StartAt(Timestamp, u32),
    /// The budget is spent: start it once per interval; time of the failure, and number of the attempt.
    StartSlowly(Timestamp, u32),
    /// The engine stopped it, or it has no failure: start it as soon as its dependencies are ready.
    WhenDependenciesReady,
    /// The budget is spent; number of restarts.
    GaveUp(u32),
    /// It failed in the same way in this many budgets in a row.
    Halted(u32),
    /// The command cannot run; its exit code.
    NotRunnable(i64),
    /// The image does not have the program of the health check.
    ProbeNotRunnable,
    /// The policy disables restarts, or does not restart this exit code.
    Disabled,
}

/// Decides about the last failure of a service.
pub fn decide_restart(
    policy: &RestartPolicy,
    history: &ServiceHistory,
    outages: &[Outage],
) -> RestartDecision {
    let failures = history.failures.as_slice();
    let Some(last) = failures.last() else {
        return RestartDecision::WhenDependenciesReady;
    };
    if is_caused_by_engine(last, outages) {
        return RestartDecision::WhenDependenciesReady;
    }
    if last.has_missing_probe() {
        return RestartDecision::ProbeNotRunnable;
    }
    if failed_run::kind(last) == failed_run::FailureKind::NotRunnable {
        return RestartDecision::NotRunnable(last.exit_code);
    }
    if !policy.enabled || policy.mode == RestartMode::Never || is_final(policy, last) {
        return RestartDecision::Disabled;
    }
    let attempt = count_attempts(policy, failures, outages, last);
    if last.explaining_dependency().is_some() {
        // The dependency has its own delays, and the start waits for it.
        return RestartDecision::StartAt(last.seen() + policy.delay, attempt.max(1));
    }
    let is_spent = attempt > policy.max_restarts;
    if let Some(budgets) = equal_budgets(policy, history, last, is_spent) {
        return RestartDecision::Halted(budgets);
    }
    if is_spent {
        return match policy.mode {
            RestartMode::SlowRetry => RestartDecision::StartSlowly(last.seen(), attempt),
            RestartMode::GiveUp | RestartMode::Never => RestartDecision::GaveUp(attempt - 1),
        };
    }
    // Flapping makes the delay longer.
    let delay_step = attempt.saturating_add(
        u32::try_from(excess_transitions(&history.health_transitions, last.seen())).unwrap_or(u32::MAX),
    );
    let delay = backoff::delay(policy.growth, policy.delay, policy.max_delay, delay_step);
    RestartDecision::StartAt(last.seen() + delay, attempt)
}

/// True for an exit code that the policy does not restart. Argus itself ends an unhealthy run, so its exit code means nothing.
fn is_final(policy: &RestartPolicy, last: &FailedRun) -> bool {
    let code = u8::try_from(last.exit_code);
    last.cause == FailureCause::Exited && code.is_ok_and(|code| policy.never.contains(&code))
}

/// Number of budgets in a row with the failure of this run, if it ends the restarts. A budget after a request to retry is
/// always used up.
fn equal_budgets(
    policy: &RestartPolicy,
    history: &ServiceHistory,
    last: &FailedRun,
    is_spent: bool,
) -> Option<u32> {
    let is_retried = history.ended_budgets.last().is_none_or(|budget| budget.retried);
    let budgets = history.equal_budgets(last) + usize::from(is_spent);
    let budgets = u32::try_from(budgets).unwrap_or(u32::MAX);
    let is_halted = |limit| (is_spent || !is_retried) && budgets >= limit;
    policy.halt_after_same.is_some_and(is_halted).then_some(budgets)
}

/// True if the last of these failures begins a new budget, because its predecessors left the window, were followed by a
/// long run, or had spent their budget.
pub(super) fn begins_budget(policy: &RestartPolicy, failures: &[FailedRun], outages: &[Outage]) -> bool {
    let Some((last, earlier)) = failures.split_last() else {
        return false;
    };
    if has_other_cause(last, outages) {
        return false;
    }
    let attempt = count_attempts(policy, failures, outages, last);
    let before = earlier
        .last()
        .map_or(0, |before| count_attempts(policy, earlier, outages, before));
    attempt <= before || before > policy.max_restarts
}

/// Number of failures that count against the restart budget, up to and including the last one.
fn count_attempts(
    policy: &RestartPolicy,
    failures: &[FailedRun],
    outages: &[Outage],
    last: &FailedRun,
) -> u32 {
    let since = last.at - policy.window;
    // Failures before a run that was healthy for long enough do not count.
    let reset_at = failures
        .iter()
        .rposition(|failed_run| healthy_or_run_duration(failed_run) >= policy.reset_after)
        .unwrap_or(0);
    // With a health check, old failures count even outside the window, because a probe may need longer than the window to fail.
    let health_checked_since = failures
        .iter()
        .rposition(|failed_run| failed_run.healthy_duration.is_none())
        .unwrap_or(0);
    let counted = failures
        .iter()
        .enumerate()
        .skip(reset_at)
        .filter(|(at, failed_run)| *at >= health_checked_since || failed_run.at >= since)
        .filter(|(_, failed_run)| !has_other_cause(failed_run, outages))
        .count();
    u32::try_from(counted).unwrap_or(u32::MAX)
}

/// Number of restarts that the failures have used of the budget. `None` if the policy disables restarts.
pub fn used_restarts(policy: &RestartPolicy, failures: &[FailedRun], outages: &[Outage]) -> Option<u32> {
    if !policy.enabled || policy.mode == RestartMode::Never {
        return None;
    }
    let last = failures.last().filter(|last| !last.budget_reset);
    let used = last.map_or(0, |last| count_attempts(policy, failures, outages, last));
    Some(used.min(policy.max_restarts))
}

/// True if the policy gave up after the last of these failures. False if the policy disables restarts.
pub fn has_given_up(policy: &RestartPolicy, history: &ServiceHistory, outages: &[Outage]) -> bool {
    match decide_restart(policy, history, outages) {
        RestartDecision::GaveUp(_)
        | RestartDecision::Halted(_)
        | RestartDecision::NotRunnable(_)
        | RestartDecision::ProbeNotRunnable => true,
        RestartDecision::StartAt(..)
        | RestartDecision::StartSlowly(..)
        | RestartDecision::WhenDependenciesReady
        | RestartDecision::Disabled => false,
    }
}

/// True if the last failed run began with a restart, less than a minute before its failure. The time after the failure does not
/// count, so a restart that waits for the rate limit stays a repeated one.
pub(crate) fn is_repeated(failures: &[FailedRun], outages: &[Outage]) -> bool {
    let [.., before, last] = failures else {
        return false;
    };
    // Neither a recovery nor the engine's return needs a restart.
    let was_restarted = before.recovered_at.is_none() && !is_caused_by_engine(before, outages);
    was_restarted && last.run_duration() < RESTART_RATE_WINDOW
}

/// Duration for which the run was healthy, or ran at all if it has no health check.
fn healthy_or_run_duration(failed_run: &FailedRun) -> Duration {
    failed_run
        .healthy_duration
        .unwrap_or_else(|| failed_run.run_duration())
}

/// Number of health transitions within ten minutes beyond the allowed number.
pub fn excess_transitions(health_transitions: &[Timestamp], now: Timestamp) -> usize {
    let since = now - FLAP_WINDOW;
    let recent = health_transitions.iter().filter(|at| **at >= since).count();
    recent.saturating_sub(HEALTH_TRANSITIONS_ALLOWED)
}

/// True for a failure that the service did not cause: it uses no budget.
pub(super) fn has_other_cause(failed_run: &FailedRun, outages: &[Outage]) -> bool {
    is_caused_by_engine(failed_run, outages) || failed_run.explaining_dependency().is_some()
}

/// True for a failure close to an outage: the engine caused it, unless the run started afterwards.
pub fn is_caused_by_engine(failed_run: &FailedRun, outages: &[Outage]) -> bool {
    let started_later = |until| failed_run.started_at.is_some_and(|started| started > until);
    let ended_by =
        |outage: &Outage| outage.is_near(failed_run.at) && !outage.until.is_some_and(started_later);
    outages.iter().any(ended_by)
}

/// Marks the last failure of a given-up service if its image was replaced.
pub(super) fn record_retag(history: &mut ServiceHistory, container: &Container, observer: &RunObserver<'_>) {
    if !observer.observed.image_retagged.contains(&container.id) {
        return;
    }
    let is_final = has_given_up(&observer.desired.restart, history, observer.context.outages);
    if let Some(last) = history.failures.last_mut()
        && is_final
        && last.container == container.id
        && !last.followed_by_run
    {
        last.image_retagged = true;
    }
}

/// Forgets the failures of the replaced image when the new image fails.
pub(super) fn clear_replaced_image(history: &mut ServiceHistory) {
    if history.failures.last().is_some_and(|last| last.image_retagged) {
        history.failures.clear();
        history.ended_budgets.clear();
        history.health_transitions.clear();
    }
}

/// A restart budget that ended, although its service failed. It shows if a failure stays the same, whatever resets the budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedBudget {
    /// Time of its last failure.
    pub at: Timestamp,
    /// Fingerprint of its last failure.
    pub fingerprint: Option<Fingerprint>,
    /// True if a request to retry ended it.
    pub retried: bool,
}

impl ServiceHistory {
    /// Records the end of the budget of all failures but the newest ones, of which there are `newer`.
    pub(super) fn end_budget(&mut self, newer: usize, retried: bool, outages: &[Outage]) {
        let failures = &self.failures[..self.failures.len().saturating_sub(newer)];
        let is_own = |failed_run: &&FailedRun| {
            failed_run.recovered_at.is_none() && !has_other_cause(failed_run, outages)
        };
        let Some(last) = failures.iter().rfind(is_own) else {
            return;
        };
        self.ended_budgets.push(EndedBudget {
            at: last.at,
            fingerprint: failed_run::fingerprint(last),
            retried,
        });
        let surplus = self.ended_budgets.len().saturating_sub(MAX_ENDED_BUDGETS);
        self.ended_budgets.drain(..surplus);
    }

    /// Number of ended budgets in a row, up to the last one, whose failure has the fingerprint of this one.
    pub(super) fn equal_budgets(&self, failed_run: &FailedRun) -> usize {
        let Some(fingerprint) = failed_run::fingerprint(failed_run) else {
            return 0;
        };
        let newest_first = self.ended_budgets.iter().rev();
        newest_first
            .take_while(|budget| budget.fingerprint.as_ref() == Some(&fingerprint))
            .count()
    }
}

#[cfg(test)]
#[path = "restart_tests.rs"]
mod tests;

//! Snapshot of the last preflight facts, and the decision whether they block the creation of objects.

use std::time::Duration;

use argus_crds::error::Code;
use argus_crds::status::{CheckName, CheckResult, PreflightReport};

use super::host_facts::HostFacts;
use super::{CheckOutcome, Fact, check, report};
use crate::desired::PreflightSettings;
use crate::time::Timestamp;
use crate::wait::WaitReason;

/// Maximum age of the facts at a build, at the first creation of a revision, and at a replacement, which must not stop what
/// runs.
pub const MAX_FACT_AGE: Duration = Duration::from_secs(5);
/// Delay between two checks while a check blocks creation.
pub const RECHECK_DELAY: Duration = Duration::from_secs(10);
/// Delay between two checks while the disk is nearly full.
const LOW_DISK_RECHECK: Duration = Duration::from_secs(60);
/// Delay between two checks while it is not. No event reports a disk that fills.
const DISK_RECHECK: Duration = Duration::from_secs(300);
/// Time that a disk-full report of the engine counts, if the disk cannot be checked.
pub const DISK_FULL_MEMORY: Duration = Duration::from_secs(10);

/// Facts of the last preflight run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PreflightSnapshot {
    /// Time of the run; `None` before the first one.
    pub at: Option<Timestamp>,
    /// Facts about the engine and its host.
    pub host: HostFacts,
    /// Result of writing to the state directory.
    pub journal: Fact<Result<(), String>>,
}

impl PreflightSnapshot {
    /// True if the facts are new enough for a decision about a create.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.at.is_some_and(|at| now.since(at) <= MAX_FACT_AGE)
    }

    /// Checks whether Argus may create an object now. Facts older than `max_age`, if any, are collected again first.
    ///
    /// # Errors
    /// Returns the wait reason of the blocking check. A wait without `until` requests a new preflight run.
    pub fn check_creation(
        &self,
        settings: &PreflightSettings,
        max_age: Option<Duration>,
        disk_full: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), WaitReason> {
        if !settings.enabled {
            return Ok(());
        }
        let not_checked = || WaitReason::Preflight {
            check: CheckName::Engine,
            code: None,
            why: "a check of the engine and its disk".to_owned(),
            until: None,
        };
        let Some(at) = self.at else {
            return Err(not_checked());
        };
        let blocking = self
            .outcomes(settings, disk_full, now)
            .into_iter()
            .find(blocks_creation);
        if let Some(outcome) = blocking {
            let next = self.next_check(outcome.name, at, disk_full);
            return Err(WaitReason::Preflight {
                check: outcome.name,
                code: outcome.code,
                why: outcome.message,
                until: (next > now).then_some(next),
            });
        }
        if max_age.is_some_and(|max_age| now.since(at) > max_age) {
            return Err(not_checked());
        }
        Ok(())
    }

    /// Returns the end of the wait: the end of a disk-full report, or the next preflight run.
    fn next_check(&self, name: CheckName, at: Timestamp, disk_full: Option<Timestamp>) -> Timestamp {
        match (name, &self.host.disk, disk_full) {
            (CheckName::Disk, Fact::Unknown(_) | Fact::NotApplicable(_), Some(full)) => {
                full + DISK_FULL_MEMORY
            }
            _ => at + RECHECK_DELAY,
        }
    }

    /// Time of the next check if no decision needs one earlier: the warning of a nearly full disk begins and ends with a check, and so
    /// does shedding. `None` before the first run, and if every policy disables the checks.
    pub(crate) fn recheck_at<'a>(
        &self,
        policies: impl Iterator<Item = &'a PreflightSettings>,
        sheds: bool,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let at = self.at?;
        // The policy with the highest threshold warns first.
        let enabled = policies.filter(|settings| settings.enabled);
        let first = enabled.max_by_key(|settings| settings.disk_space_threshold)?;
        // A measurement of this host needs no helper container.
        if sheds && self.host.memory_stall.is_some() {
            return Some(at + RECHECK_DELAY);
        }
        Some(
            at + match self.disk(first, None, now)?.result {
                CheckResult::Warn | CheckResult::Fail => LOW_DISK_RECHECK,
                CheckResult::Pass | CheckResult::Skipped => DISK_RECHECK,
            },
        )
    }

    /// Evaluates the disk check under a policy; `None` before the first run, or if the policy disables the checks.
    pub(crate) fn disk(
        &self,
        settings: &PreflightSettings,
        disk_full: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<CheckOutcome> {
        self.at.filter(|_| settings.enabled)?;
        let threshold = settings.disk_space_threshold;
        Some(check::disk(&self.host.disk, threshold, disk_full, now))
    }

    /// Evaluates the checks that need only these facts, under a policy.
    pub fn outcomes(
        &self,
        settings: &PreflightSettings,
        disk_full: Option<Timestamp>,
        now: Timestamp,
    ) -> Vec<CheckOutcome> {
        vec![
            check::engine(&self.host.engine),
            check::api(&self.host.engine),
            check::disk(&self.host.disk, settings.disk_space_threshold, disk_full, now),
            check::networks(&self.host.engine, &self.host.networks),
            check::journal(&self.journal),
            check::clock(&self.host.engine),
        ]
    }

    /// Returns the report with further outcomes; `None` before the first run, or if the policy disables the checks.
    ///
    /// `unreachable` holds the reason of a current outage and overrides the facts of the engine. A report with the same
    /// checks as `previous` keeps the time of that one.
    pub fn report(
        &self,
        settings: &PreflightSettings,
        unreachable: Option<&str>,
        disk_full: Option<Timestamp>,
        more: Vec<CheckOutcome>,
        previous: Option<&PreflightReport>,
        now: Timestamp,
    ) -> Option<PreflightReport> {
        let at = self.at.filter(|_| settings.enabled)?;
        let mut outcomes = match unreachable {
            None => self.outcomes(settings, disk_full, now),
            Some(why) => {
                let unreachable = Self {
                    host: HostFacts::unknown(why),
                    ..self.clone()
                };
                unreachable.outcomes(settings, None, now)
            }
        };
        outcomes.extend(more);
        let report = report(outcomes, at);
        Some(match previous {
            Some(previous) if previous.checks == report.checks => previous.clone(),
            Some(_) | None => report,
        })
    }
}

/// Returns whether a failed check blocks creation.
///
/// That holds only for problems that would otherwise surface late. An unreachable engine, an unwritable state directory
/// and exhausted address pools block the actions that they affect.
fn blocks_creation(outcome: &CheckOutcome) -> bool {
    let is_blocking_code = matches!(
        outcome.code,
        Some(Code::DiskSpaceLow | Code::ApiTooOld | Code::PrereqMissing)
    );
    is_blocking_code && outcome.result == CheckResult::Fail
}

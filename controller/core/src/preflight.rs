//! Preflight checks: results derived from facts about the engine and its host.
//!
//! The preflight task collects [`PreflightFacts`]. [`evaluate`] evaluates them, [`report`] converts the results for the
//! status, and [`PreflightSnapshot::check_creation`] blocks the creation of objects that would fail later.
//!
//! Invariant 21: below the disk threshold, Argus creates nothing new, still repairs, and resumes automatically.

use argus_crds::error::Code;
use argus_crds::status::{
    CheckName, CheckResult, Orphan, PREFLIGHT_VERSION, PreflightCheck, PreflightOverall, PreflightReport,
};
use serde_json::Value;

use crate::desired::PreflightSettings;
use crate::time::Timestamp;

mod check;
mod host_facts;
pub mod snapshot;

#[cfg(test)]
mod tests;

pub(crate) use check::disk_details;
pub use check::{MIN_API, size};
pub use host_facts::{
    DiskFact, EngineFact, Fact, HostFacts, ImageFact, ListenerFact, ListenersFact, NetworksFact, PortFact,
    Reclaimable,
};
pub use snapshot::PreflightSnapshot;

/// Inputs of all checks.
#[derive(Debug, Clone, PartialEq)]
pub struct PreflightFacts {
    /// Facts about the engine and its host.
    pub host: HostFacts,
    /// Orphans of dead controllers and runs.
    pub orphans: Fact<Vec<Orphan>>,
    /// Host ports that spec files request.
    pub ports: Fact<Vec<PortFact>>,
    /// Images that spec files name.
    pub images: Fact<Vec<ImageFact>>,
    /// Result of writing to the state directory; `Err` holds the cause of a failure.
    pub journal: Fact<Result<(), String>>,
    /// Time of the last report of the engine that no space is left; `None` without a recent one.
    pub disk_full: Option<Timestamp>,
}

/// Outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOutcome {
    /// Check that ran.
    pub name: CheckName,
    /// Result of the check.
    pub result: CheckResult,
    /// Finding as text.
    pub message: String,
    /// Error code of a warning or failure.
    pub code: Option<Code>,
    /// Finding as structured data.
    pub details: Option<Value>,
    /// True if the check could not be performed although it was required.
    pub unknown: bool,
}

/// Message of a check that the caller skips.
const SKIPPED: &str = "skipped on request";

impl CheckOutcome {
    fn new(name: CheckName, result: CheckResult, message: impl Into<String>) -> Self {
        Self {
            name,
            result,
            message: message.into(),
            code: None,
            details: None,
            unknown: false,
        }
    }

    fn pass(name: CheckName, message: impl Into<String>) -> Self {
        Self::new(name, CheckResult::Pass, message)
    }

    fn warn(name: CheckName, code: Code, message: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            ..Self::new(name, CheckResult::Warn, message)
        }
    }

    fn fail(name: CheckName, code: Code, message: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            ..Self::new(name, CheckResult::Fail, message)
        }
    }

    /// Creates a skipped outcome: there is nothing to check, or the check was not requested.
    fn skipped(name: CheckName, why: impl Into<String>) -> Self {
        Self::new(name, CheckResult::Skipped, why)
    }

    /// Creates a skipped outcome of a required check that could not be performed.
    fn unknown(name: CheckName, why: impl Into<String>) -> Self {
        Self {
            unknown: true,
            ..Self::new(name, CheckResult::Skipped, why)
        }
    }

    fn details(self, details: Value) -> Self {
        Self {
            details: Some(details),
            ..self
        }
    }
}

/// Evaluates every check under a policy, in the order of the report; checks in `skip` are skipped.
pub fn evaluate(
    facts: &PreflightFacts,
    settings: &PreflightSettings,
    skip: &[CheckName],
    now: Timestamp,
) -> Vec<CheckOutcome> {
    let one = |name: &CheckName| {
        if skip.contains(name) {
            return CheckOutcome::skipped(*name, SKIPPED);
        }
        match name {
            CheckName::Engine => check::engine(&facts.host.engine),
            CheckName::Api => check::api(&facts.host.engine),
            CheckName::Disk => check::disk(
                &facts.host.disk,
                settings.disk_space_threshold,
                facts.disk_full,
                now,
            ),
            CheckName::Orphans => check::orphans(&facts.orphans),
            CheckName::Ports => check::ports(&facts.ports),
            CheckName::Networks => check::networks(&facts.host.engine, &facts.host.networks),
            CheckName::Images => check::images(&facts.images),
            CheckName::Journal => check::journal(&facts.journal),
            CheckName::Clock => check::clock(&facts.host.engine),
        }
    };
    CheckName::ALL.iter().map(one).collect()
}

/// Returns the worst result. A required check that could not be performed counts as a warning.
pub fn overall(outcomes: &[CheckOutcome]) -> PreflightOverall {
    if outcomes.iter().any(|outcome| outcome.result == CheckResult::Fail) {
        PreflightOverall::Unhealthy
    } else if outcomes
        .iter()
        .any(|outcome| outcome.unknown || outcome.result == CheckResult::Warn)
    {
        PreflightOverall::Degraded
    } else {
        PreflightOverall::Healthy
    }
}

/// Returns a report in which the checks in `skip` are skipped.
pub fn skip_checks(report: PreflightReport, skip: &[CheckName]) -> PreflightReport {
    if !report.checks.iter().any(|check| skip.contains(&check.name)) {
        return report;
    }
    let outcome = |check: PreflightCheck| {
        if skip.contains(&check.name) {
            return CheckOutcome::skipped(check.name, SKIPPED);
        }
        CheckOutcome {
            code: check.code,
            details: check.details,
            ..CheckOutcome::new(check.name, check.result, check.message)
        }
    };
    let outcomes = report.checks.into_iter().map(outcome).collect();
    PreflightReport {
        as_of: report.as_of,
        ..self::report(outcomes, Timestamp(0))
    }
}

/// Converts check outcomes into the report of the status.
pub fn report(outcomes: Vec<CheckOutcome>, at: Timestamp) -> PreflightReport {
    let overall = overall(&outcomes);
    let check = |outcome: CheckOutcome| PreflightCheck {
        name: outcome.name,
        result: outcome.result,
        message: outcome.message,
        code: outcome.code,
        details: outcome.details,
    };
    PreflightReport {
        schema_version: PREFLIGHT_VERSION,
        overall,
        checks: outcomes.into_iter().map(check).collect(),
        as_of: at.to_string(),
        ..PreflightReport::default()
    }
}

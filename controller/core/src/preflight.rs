//! Whether the ground is fit to build on: what was found out about the engine and its host, as verdicts.

use argus_crds::error::Code;
use argus_crds::status::{
    CheckName, CheckResult, Orphan, PREFLIGHT_VERSION, PreflightCheck, PreflightOverall, PreflightReport,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::Timestamp;

mod check;
mod host_facts;
pub mod snapshot;

#[cfg(test)]
mod tests;

pub(crate) use check::disk_details;
pub use check::{LEAST_API, size};
pub use host_facts::{Disk, Engine, HostFacts, Image, Networks, Observation, Port, Reclaimable};
pub use snapshot::PreflightSnapshot;

/// What a file says about the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// Whether they are made, and keep anything from being created.
    pub enabled: bool,
    /// Bytes that must be free on the engine's data root; below twice as many is a warning.
    pub disk_space_threshold: u64,
}

impl Default for Policy {
    fn default() -> Self {
        let written = argus_crds::Preflight::default();
        Self {
            enabled: written.enabled,
            disk_space_threshold: written.disk_space_threshold.bytes(),
        }
    }
}

/// All that a report is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct PreflightFacts {
    /// What the engine says of itself and of its host.
    pub ground: HostFacts,
    /// What dead runs left behind.
    pub orphans: Observation<Vec<Orphan>>,
    /// The host ports that files want.
    pub ports: Observation<Vec<Port>>,
    /// The images that files name.
    pub images: Observation<Vec<Image>>,
    /// Whether the state directory takes what is written to it; why it does not.
    pub journal: Observation<Result<(), String>>,
    /// The engine said lately that no space is left.
    pub disk_full: Option<Timestamp>,
}

/// How one check came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOutcome {
    /// Which check.
    pub name: CheckName,
    /// How it came out.
    pub result: CheckResult,
    /// What was found, in words.
    pub message: String,
    /// The error that it raises.
    pub code: Option<Code>,
    /// What was found, for programs.
    pub details: Option<Value>,
    /// It was to be checked and could not be.
    pub unknown: bool,
}

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

    /// There is nothing to check, or nobody wants to know.
    fn idle(name: CheckName, why: impl Into<String>) -> Self {
        Self::new(name, CheckResult::Skipped, why)
    }

    /// It could not be found out.
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

/// Every check under a policy, in the order in which a person asks; those in `skip` are not made.
pub fn verdicts(
    facts: &PreflightFacts,
    policy: &Policy,
    skip: &[CheckName],
    now: Timestamp,
) -> Vec<CheckOutcome> {
    let one = |name: &CheckName| {
        if skip.contains(name) {
            return CheckOutcome::idle(*name, "it was asked to be skipped");
        }
        match name {
            CheckName::Engine => check::engine(&facts.ground.engine),
            CheckName::Api => check::api(&facts.ground.engine),
            CheckName::Disk => check::disk(
                &facts.ground.disk,
                policy.disk_space_threshold,
                facts.disk_full,
                now,
            ),
            CheckName::Orphans => check::orphans(&facts.orphans),
            CheckName::Ports => check::ports(&facts.ports),
            CheckName::Networks => check::networks(&facts.ground.engine, &facts.ground.networks),
            CheckName::Images => check::images(&facts.images),
            CheckName::Journal => check::journal(&facts.journal),
            CheckName::Clock => check::clock(&facts.ground.engine),
        }
    };
    CheckName::ALL.iter().map(one).collect()
}

/// The worst of them. What should have been checked and could not be is as good as a warning.
pub fn overall(verdicts: &[CheckOutcome]) -> PreflightOverall {
    if verdicts.iter().any(|verdict| verdict.result == CheckResult::Fail) {
        PreflightOverall::Unhealthy
    } else if verdicts
        .iter()
        .any(|verdict| verdict.unknown || verdict.result == CheckResult::Warn)
    {
        PreflightOverall::Degraded
    } else {
        PreflightOverall::Healthy
    }
}

/// The report of these verdicts.
pub fn report(verdicts: Vec<CheckOutcome>, at: Timestamp) -> PreflightReport {
    let overall = overall(&verdicts);
    let check = |verdict: CheckOutcome| PreflightCheck {
        name: verdict.name,
        result: verdict.result,
        message: verdict.message,
        code: verdict.code,
        details: verdict.details,
    };
    PreflightReport {
        schema_version: PREFLIGHT_VERSION,
        overall,
        checks: verdicts.into_iter().map(check).collect(),
        as_of: at.to_string(),
        ..PreflightReport::default()
    }
}

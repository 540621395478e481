//! What of the last look keeps an environment from making anything new.

use std::time::Duration;

use argus_crds::error::Code;
use argus_crds::status::{CheckName, CheckResult, PreflightReport};

use super::host_facts::HostFacts;
use super::{CheckOutcome, Observation, Policy, check, report};
use crate::plan::WaitingOn;
use crate::time::Timestamp;

/// Before the first thing of an environment is made the last look may not be older than this.
pub const FRESH: Duration = Duration::from_secs(30);
/// While something is in the way it is looked at again after this.
pub const AGAIN: Duration = Duration::from_secs(10);
/// Where the disk cannot be looked at, the engine's word that it is full counts for so long.
pub const REMEMBERED: Duration = Duration::from_secs(10);

/// The last look at the ground.
#[derive(Debug, Clone, PartialEq)]
pub struct PreflightSnapshot {
    /// When it was taken; `None`: not yet.
    pub at: Option<Timestamp>,
    /// What it showed.
    pub host: HostFacts,
    /// Whether the state directory takes what is written to it.
    pub journal: Observation<Result<(), String>>,
}

impl Default for PreflightSnapshot {
    fn default() -> Self {
        Self {
            at: None,
            host: HostFacts::default(),
            journal: Observation::unknown("it was not looked at"),
        }
    }
}

impl PreflightSnapshot {
    /// Whether something new may be made now. `first`: it would be the first thing of its environment.
    ///
    /// A wait without an end asks for a look.
    pub fn check_creation(
        &self,
        policy: &Policy,
        first: bool,
        disk_full: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), WaitingOn> {
        if !policy.enabled {
            return Ok(());
        }
        let not_looked = || WaitingOn::Preflight {
            check: CheckName::Engine,
            code: None,
            why: "a look at the engine and its disk".to_owned(),
            until: None,
        };
        let Some(at) = self.at else {
            return Err(not_looked());
        };
        let in_the_way = self
            .outcomes(policy, disk_full, now)
            .into_iter()
            .find(is_in_the_way);
        if let Some(verdict) = in_the_way {
            let next = self.next_check(verdict.name, at, disk_full);
            return Err(WaitingOn::Preflight {
                check: verdict.name,
                code: verdict.code,
                why: verdict.message,
                until: (next > now).then_some(next),
            });
        }
        if first && now.since(at) > FRESH {
            return Err(not_looked());
        }
        Ok(())
    }

    /// What is only remembered ends by itself, what was looked at is looked at again.
    fn next_check(&self, name: CheckName, at: Timestamp, disk_full: Option<Timestamp>) -> Timestamp {
        match (name, &self.host.disk, disk_full) {
            (CheckName::Disk, Observation::Unknown(_) | Observation::NotApplicable(_), Some(full)) => {
                full + REMEMBERED
            }
            _ => at + AGAIN,
        }
    }

    /// What the look comes to under a policy: those checks that need no more than it.
    pub fn outcomes(
        &self,
        policy: &Policy,
        disk_full: Option<Timestamp>,
        now: Timestamp,
    ) -> Vec<CheckOutcome> {
        vec![
            check::engine(&self.host.engine),
            check::api(&self.host.engine),
            check::disk(&self.host.disk, policy.disk_space_threshold, disk_full, now),
            check::networks(&self.host.engine, &self.host.networks),
            check::journal(&self.journal),
            check::clock(&self.host.engine),
        ]
    }

    /// The look as a report, with further verdicts; `None` before the first look, or where the policy wants none.
    ///
    /// An engine that does not answer now is told as that, whatever it said before. A report that says the same as the
    /// last one keeps its time.
    pub fn report(
        &self,
        policy: &Policy,
        unreachable: Option<&str>,
        disk_full: Option<Timestamp>,
        more: Vec<CheckOutcome>,
        previous: Option<&PreflightReport>,
        now: Timestamp,
    ) -> Option<PreflightReport> {
        let at = self.at.filter(|_| policy.enabled)?;
        let mut verdicts = match unreachable {
            None => self.outcomes(policy, disk_full, now),
            Some(why) => {
                let away = Self {
                    host: HostFacts::unknown(why),
                    ..self.clone()
                };
                away.outcomes(policy, None, now)
            }
        };
        verdicts.extend(more);
        let report = report(verdicts, at);
        Some(match previous {
            Some(previous) if previous.checks == report.checks => previous.clone(),
            Some(_) | None => report,
        })
    }
}

/// An engine that does not answer, a state directory that cannot be written and pools without room are met where
/// they arise; this is about what would only fail after much work.
fn is_in_the_way(verdict: &CheckOutcome) -> bool {
    let met_here = matches!(
        verdict.code,
        Some(Code::DiskSpaceLow | Code::ApiTooOld | Code::PrereqMissing)
    );
    met_here && verdict.result == CheckResult::Fail
}

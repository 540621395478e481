//! Ends of failed runs: from status files, from the saved state of the controller, and from evidence.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::failed_run::{FailedRun, FailureKind, RunFacts, Stopper};
use argus_core::time::Timestamp;
use argus_crds::error::StructuredError;
use argus_crds::status::EnvironmentStatus;
use argus_reconciler::executor::evidence_store::EvidenceFacts;
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::state_dir::StateDir;
use serde::{Deserialize, Serialize};

use crate::render::output;

/// End of one failed run. It has the shape of the `details` of errors about failed runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RunSummary {
    /// Kind of failure.
    #[schemars(with = "Option<String>")]
    pub(crate) kind: Option<FailureKind>,
    /// Number of the failed run, counted per service from 1. It identifies the evidence.
    pub(crate) run: u64,
    /// Revision of the environment at the creation of the container.
    pub(crate) revision: Option<String>,
    /// Spec hash of the container.
    pub(crate) spec_hash: Option<String>,
    /// Image reference of the container.
    pub(crate) image: Option<String>,
    /// Id of its image.
    pub(crate) image_id: Option<String>,
    /// Start of the run (RFC 3339).
    pub(crate) started_at: Option<String>,
    /// End of the run, or the time at which its health check had failed too often (RFC 3339).
    pub(crate) ended_at: Option<String>,
    /// Time between start and end, in milliseconds.
    pub(crate) duration_ms: Option<u64>,
    /// First failed probe of a run whose health check failed (RFC 3339).
    pub(crate) failing_since: Option<String>,
    /// Exit code, as the engine reports it; `null` if the container still ran.
    pub(crate) exit_code: Option<i64>,
    /// False if the engine lost the exit code of the process.
    pub(crate) exit_code_known: Option<bool>,
    /// Name of the signal behind the exit code, such as `SIGKILL`.
    pub(crate) signal: Option<String>,
    /// Party that stopped the container: `argus`, `otherClient` or `engine`; `null` if the process ended without a stop.
    #[schemars(with = "Option<String>")]
    pub(crate) stopped_by: Option<Stopper>,
    /// Time of this stop (RFC 3339).
    pub(crate) stopped_at: Option<String>,
    /// Out-of-memory flag of the engine.
    pub(crate) oom_killed: bool,
    /// True if the kernel reported an out-of-memory event.
    pub(crate) oom_event: bool,
    /// True if memory exhaustion is likely, without proof.
    pub(crate) oom_suspected: bool,
    /// Memory limit in bytes.
    pub(crate) memory_limit: Option<u64>,
    /// Highest measured memory use in bytes.
    pub(crate) memory_peak: Option<u64>,
    /// Error that the engine recorded for the container.
    pub(crate) engine_error: Option<String>,
    /// Dependency that was not ready when the run failed, and that explains the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed_dependency: Option<String>,
    /// Last lines on stderr, at most five, without secrets.
    pub(crate) last_lines: Vec<String>,
    /// Responses of its ports after the failure, by request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(rename = "probeAnswers")]
    pub(crate) network_diagnostics: BTreeMap<String, String>,
}

impl From<&FailedRun> for RunSummary {
    fn from(failed_run: &FailedRun) -> Self {
        Self {
            // The saved state contains no effects of engine outages, and texts without redaction.
            exit_code_known: None,
            image: None,
            engine_error: None,
            ..Self::from_facts(&RunFacts::from_run(failed_run, false))
        }
    }
}

impl RunSummary {
    /// Summary from the evidence alone, for runs that neither status nor saved state contain.
    pub(crate) fn from_evidence(facts: &EvidenceFacts) -> Option<Self> {
        let is_known = facts.run.kind.is_some() || facts.run.exit_code.is_some();
        is_known.then(|| Self::from_facts(&facts.run))
    }

    /// Adds what only the evidence contains: texts without secrets.
    pub(crate) fn with_evidence(self, facts: &EvidenceFacts) -> Self {
        Self {
            image: self.image.or_else(|| facts.run.image.clone()),
            engine_error: self.engine_error.or_else(|| facts.run.engine_error.clone()),
            ..self
        }
    }

    /// The facts have the same names as the fields of this type.
    fn from_facts(facts: &RunFacts) -> Self {
        let value = serde_json::to_value(facts).unwrap_or_default();
        serde_json::from_value(value).unwrap_or_default()
    }

    /// Party that stopped the container in words, such as `another client at 2026-11-21T10:00:00Z`.
    pub(crate) fn format_stop(&self) -> Option<String> {
        let by = match self.stopped_by? {
            Stopper::Argus => "Argus",
            Stopper::OtherClient => "another client",
            Stopper::Engine => "the engine",
        };
        let at = self.stopped_at.as_deref();
        Some(by.to_owned() + &at.map_or_else(String::new, |at| format!(" at {at}")))
    }

    /// End in words, such as `exit code 3 after 7s`.
    pub(crate) fn format_end(&self) -> String {
        let how = self.format_kind();
        let how = match self.uptime() {
            Some(uptime) => format!("{how} after {}", output::format_span(uptime)),
            None => how,
        };
        self.with_dependency(how)
    }

    /// End in words without the time, such as `exit code 3`.
    pub(crate) fn format_cause(&self) -> String {
        self.with_dependency(self.format_kind())
    }

    fn with_dependency(&self, how: String) -> String {
        match &self.failed_dependency {
            Some(dependency) => format!("{how} while its dependency `{dependency}` was not ready"),
            None => how,
        }
    }

    fn format_kind(&self) -> String {
        let code = match self.exit_code {
            Some(_) if self.exit_code_known == Some(false) => "exit code lost by the engine".to_owned(),
            Some(code) => format!("exit code {code}"),
            None => "unknown exit code".to_owned(),
        };
        match (self.kind, self.signal.as_deref()) {
            (Some(FailureKind::OutOfMemory), _) => format!("out of memory ({code})"),
            (Some(FailureKind::Unhealthy), _) => {
                "health check failed more often than its `retries` allow".to_owned()
            }
            (Some(FailureKind::NotRunnable), _) => format!("command not found or not executable ({code})"),
            (Some(FailureKind::Signal), Some(signal)) => format!("killed by {signal} ({code})"),
            (Some(FailureKind::Signal | FailureKind::Exit) | None, _) => code,
        }
    }

    /// Memory use and signs of exhaustion in words, if anything is known.
    ///
    /// A command that could not be executed used no memory: a sample contains that of the container runtime.
    pub(crate) fn format_memory(&self) -> Option<String> {
        let verdict = if self.oom_killed {
            Some("the engine reports out of memory")
        } else if self.oom_event {
            Some("the kernel reported out of memory")
        } else if self.oom_suspected {
            Some("out of memory is suspected, not proven")
        } else if self.signal.as_deref() == Some("SIGKILL") {
            Some("no sign of out of memory")
        } else {
            None
        };
        let used = match (self.memory_peak, self.memory_limit) {
            _ if verdict.is_none() && self.kind == Some(FailureKind::NotRunnable) => None,
            (Some(peak), Some(limit)) => Some(format!(
                "memory peak {} of {}",
                format_size(peak),
                format_size(limit)
            )),
            (Some(peak), None) => Some(format!("memory peak {}, no limit", format_size(peak))),
            (None, Some(limit)) => Some(format!("memory limit {}, peak not measured", format_size(limit))),
            (None, None) => None,
        };
        let parts: Vec<String> = verdict.map(str::to_owned).into_iter().chain(used).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn uptime(&self) -> Option<Duration> {
        let started = Timestamp::parse(self.started_at.as_deref()?)?;
        let ran = Timestamp::parse(self.ended_at.as_deref()?)?.since(started);
        // Milliseconds are only shown for runs shorter than a second.
        Some(if ran < Duration::from_secs(1) {
            ran
        } else {
            Duration::from_secs(ran.as_secs())
        })
    }
}

/// Summaries of the failed runs in the details of an error, oldest first.
pub(crate) fn summaries_in_error(error: &StructuredError) -> Vec<RunSummary> {
    let details = serde_json::Value::Object(error.details.clone());
    let one = |value: &serde_json::Value| {
        value["run"].as_u64()?;
        serde_json::from_value(value.clone()).ok()
    };
    match details["attempts"].as_array() {
        Some(attempts) => attempts.iter().filter_map(one).collect(),
        None => one(&details).into_iter().collect(),
    }
}

/// Summaries of the known failed runs of a service, by number.
pub(crate) fn known_summaries(
    state: &StateDir,
    status: Option<&EnvironmentStatus>,
    env: &str,
    service: &str,
) -> BTreeMap<u64, RunSummary> {
    let persisted = PersistedState::peek(state);
    let planner_state = persisted
        .environments
        .iter()
        .find(|(name, _)| name.as_str() == env)
        .and_then(|(_, planner_state)| {
            let mut services = planner_state.services.iter();
            services.find(|(name, _)| name.as_str() == service)
        });
    let failures = planner_state.map(|(_, service)| service.failures.as_slice());
    let row = status.and_then(|status| status.services.iter().find(|row| row.name == service));
    let error = row.and_then(|row| row.last_error.as_ref());
    // The status also contains effects of engine outages on the run, so it replaces the saved state.
    let endings = failures.unwrap_or_default().iter().map(RunSummary::from);
    endings
        .chain(error.map(summaries_in_error).unwrap_or_default())
        .map(|ending| (ending.run, ending))
        .collect()
}

/// Memory use and its limit, such as `59 MiB of the memory limit of 64 MiB (92%)`.
pub(crate) fn format_share(used: u64, limit: u64) -> String {
    let percent = u128::from(used) * 100 / u128::from(limit.max(1));
    let (used, limit) = (format_size(used), format_size(limit));
    format!("{used} of the memory limit of {limit} ({percent}%)")
}

/// Size with a unit, such as `63.4 MiB`.
pub(crate) fn format_size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return format!("{bytes} B");
    };
    let tenths = bytes.saturating_mul(10) / unit;
    match tenths % 10 {
        0 => format!("{} {name}", tenths / 10),
        part => format!("{}.{part} {name}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use argus_core::ident::{ContainerId, ServiceName};

    use super::*;

    #[test]
    fn sizes_have_units() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1 << 20, "1 MiB"),
            (66_412_544, "63.3 MiB"),
            (3 << 29, "1.5 GiB"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }

    #[test]
    fn summary_contains_exit_and_memory() {
        let ending = RunSummary {
            kind: Some(FailureKind::Signal),
            exit_code: Some(137),
            signal: Some("SIGKILL".to_owned()),
            started_at: Some("2026-11-21T10:00:00.000Z".to_owned()),
            ended_at: Some("2026-11-21T10:01:07.900Z".to_owned()),
            memory_limit: Some(64 << 20),
            memory_peak: Some(64 << 20),
            oom_suspected: true,
            ..RunSummary::default()
        };
        assert_eq!(
            ending.format_end(),
            "killed by SIGKILL (exit code 137) after 1m 7s"
        );
        assert_eq!(
            ending.format_memory().unwrap(),
            "out of memory is suspected, not proven; memory peak 64 MiB of 64 MiB"
        );
        let failed = FailedRun {
            exit_code: 3,
            failed_dependency: Some(ServiceName::new("db").unwrap()),
            started_at: Some(Timestamp(1_000)),
            ..FailedRun::new(ContainerId::new("c1").unwrap(), Timestamp(5_000))
        };
        let blameless = RunSummary::from(&failed);
        assert_eq!(
            [blameless.format_end(), blameless.format_cause()],
            [
                "exit code 3 after 4s while its dependency `db` was not ready",
                "exit code 3 while its dependency `db` was not ready"
            ]
        );
        let never_ran = RunSummary {
            kind: Some(FailureKind::NotRunnable),
            exit_code: Some(127),
            memory_peak: Some(3 << 20),
            ..RunSummary::default()
        };
        assert_eq!(never_ran.format_memory(), None);
        let nothing = RunSummary::default();
        assert_eq!(
            (nothing.format_end().as_str(), nothing.format_memory()),
            ("unknown exit code", None)
        );
    }
}

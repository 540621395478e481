//! Ends of failed runs: from status files, from the saved state of the controller, and from evidence.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::failed_run;
use argus_core::failed_run::FailedRun;
use argus_core::failed_run::FailureKind;
use argus_core::time::Timestamp;
use argus_crds::error::StructuredError;
use argus_crds::status::EnvironmentStatus;
use argus_reconciler::executor::evidence_store::EvidenceFacts;
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::state_dir::StateDir;
use serde::{Deserialize, Serialize};

use crate::status;

/// End of one failed run. It has the shape of the `details` of errors about failed runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RunSummary {
    /// Kind of failure.
    #[schemars(with = "Option<String>")]
    pub(crate) kind: Option<FailureKind>,
    /// Number of the failed run, counted per service from 1. It identifies the evidence.
    pub(crate) run: u64,
    /// Start of the run (RFC 3339).
    pub(crate) started_at: Option<String>,
    /// End of the run (RFC 3339).
    pub(crate) ended_at: Option<String>,
    /// Exit code, as the engine reports it.
    pub(crate) exit_code: Option<i64>,
    /// False if the engine lost the exit code of the process.
    pub(crate) exit_code_known: Option<bool>,
    /// Name of the signal behind the exit code, such as `SIGKILL`.
    pub(crate) signal: Option<String>,
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
    /// Last line on stderr, without secrets.
    pub(crate) last_line: Option<String>,
    /// Responses of its ports after the failure, by request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(rename = "probeAnswers")]
    pub(crate) network_diagnostics: BTreeMap<String, String>,
}

impl From<&FailedRun> for RunSummary {
    fn from(failed_run: &FailedRun) -> Self {
        Self {
            kind: Some(failed_run::kind(failed_run)),
            run: failed_run.number,
            started_at: failed_run.started_at.map(|at| at.to_string()),
            ended_at: Some(failed_run.at.to_string()),
            exit_code: Some(failed_run.exit_code),
            exit_code_known: None,
            signal: failed_run::signal(failed_run.exit_code).map(str::to_owned),
            oom_killed: failed_run.oom_killed,
            oom_event: failed_run.oom_event,
            oom_suspected: failed_run::oom_suspected(failed_run),
            memory_limit: failed_run.memory_limit,
            memory_peak: failed_run.peak(),
            // The saved state contains the line without redaction.
            last_line: None,
            network_diagnostics: BTreeMap::new(),
        }
    }
}

impl RunSummary {
    /// Summary from the evidence alone, for runs that neither status nor saved state contain.
    pub(crate) fn from_evidence(facts: &EvidenceFacts) -> Option<Self> {
        let exit_code = facts.exit_code?;
        Some(Self {
            run: facts.run,
            started_at: facts.started_at.clone(),
            exit_code: Some(exit_code),
            signal: failed_run::signal(exit_code).map(str::to_owned),
            ..Self::default()
        })
    }

    /// End in words, such as `exit code 3 after 7s`.
    pub(crate) fn format_end(&self) -> String {
        let how = self.format_cause();
        match self.uptime() {
            Some(uptime) => format!("{how} after {}", humantime::format_duration(uptime)),
            None => how,
        }
    }

    /// End in words without the time, such as `exit code 3`.
    pub(crate) fn format_cause(&self) -> String {
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
    let persisted: PersistedState = status::read_or_default(&state.state_json());
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
        let nothing = RunSummary::default();
        assert_eq!(
            (nothing.format_end().as_str(), nothing.format_memory()),
            ("unknown exit code", None)
        );
    }
}

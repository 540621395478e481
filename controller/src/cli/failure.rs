//! How a failed run ended, as far as status files and the controller's memory tell.

use std::collections::BTreeMap;
use std::time::Duration;

use argus_core::diagnose::{self, FailureKind};
use argus_core::state::FailedRun;
use argus_core::time::Timestamp;
use argus_crds::error::StructuredError;
use argus_crds::status::EnvironmentStatus;
use argus_reconciler::executor::evidence_store::EvidenceFacts;
use argus_reconciler::reconciler::PersistedState;
use argus_reconciler::state_dir::StateDir;
use serde::{Deserialize, Serialize};

use super::status;

/// The end of one run, in the shape of the details of errors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RunSummary {
    /// What kind of failure it was.
    #[schemars(with = "Option<String>")]
    pub(crate) kind: Option<FailureKind>,
    /// Which failure of the service, from 1; names its evidence.
    pub(crate) run: u64,
    /// When the run began (RFC 3339).
    pub(crate) started_at: Option<String>,
    /// When it ended (RFC 3339).
    pub(crate) ended_at: Option<String>,
    /// Exit code.
    pub(crate) exit_code: Option<i64>,
    /// Whether that is the process's own.
    pub(crate) is_exit_code_known: Option<bool>,
    /// The signal behind it.
    pub(crate) signal: Option<String>,
    /// The engine's flag.
    pub(crate) oom_killed: bool,
    /// The kernel told of want of memory.
    pub(crate) oom_event: bool,
    /// It looks like that, and nothing proves it.
    pub(crate) oom_suspected: bool,
    /// In bytes.
    pub(crate) memory_limit: Option<u64>,
    /// In bytes.
    pub(crate) memory_peak: Option<u64>,
    /// What it wrote last on stderr, without secrets.
    pub(crate) last_line: Option<String>,
    /// What its port answered, by what was asked.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) questions: BTreeMap<String, String>,
}

impl From<&FailedRun> for RunSummary {
    fn from(failed_run: &FailedRun) -> Self {
        Self {
            kind: Some(diagnose::kind(failed_run)),
            run: failed_run.number,
            started_at: failed_run.started_at.map(|at| at.to_string()),
            ended_at: Some(failed_run.at.to_string()),
            exit_code: Some(failed_run.exit_code),
            is_exit_code_known: None,
            signal: diagnose::signal(failed_run.exit_code).map(str::to_owned),
            oom_killed: failed_run.oom_killed,
            oom_event: failed_run.oom_event,
            oom_suspected: diagnose::oom_suspected(failed_run),
            memory_limit: failed_run.memory_limit,
            memory_peak: failed_run.peak(),
            // What a memory holds is raw.
            last_line: None,
            questions: BTreeMap::new(),
        }
    }
}

impl RunSummary {
    /// As far as the evidence itself tells, when nobody remembers the run any more.
    pub(crate) fn kept(facts: &EvidenceFacts) -> Option<Self> {
        let exit_code = facts.exit_code?;
        Some(Self {
            run: facts.run,
            started_at: facts.started_at.clone(),
            exit_code: Some(exit_code),
            signal: diagnose::signal(exit_code).map(str::to_owned),
            ..Self::default()
        })
    }

    /// In words, as in `exit code 3 after 7s`.
    pub(crate) fn words(&self) -> String {
        let code = match self.exit_code {
            Some(_) if self.is_exit_code_known == Some(false) => "exit code lost by the engine".to_owned(),
            Some(code) => format!("exit code {code}"),
            None => "exit code not known".to_owned(),
        };
        let how = match (self.kind, self.signal.as_deref()) {
            (Some(FailureKind::OutOfMemory), _) => format!("out of memory ({code})"),
            (Some(FailureKind::Unhealthy), _) => "health check failed past its retries".to_owned(),
            (Some(FailureKind::NotRunnable), _) => format!("command cannot be run ({code})"),
            (Some(FailureKind::Signal), Some(signal)) => format!("ended by {signal} ({code})"),
            (Some(FailureKind::Signal | FailureKind::Exit) | None, _) => code,
        };
        match self.uptime() {
            Some(uptime) => format!("{how} after {}", humantime::format_duration(uptime)),
            None => how,
        }
    }

    /// What is known of its memory; nothing where nothing is.
    pub(crate) fn memory(&self) -> Option<String> {
        let verdict = if self.oom_killed {
            Some("the engine says out of memory")
        } else if self.oom_event {
            Some("the kernel told of want of memory")
        } else if self.oom_suspected {
            Some("out of memory is suspected, not proven")
        } else if self.signal.as_deref() == Some("SIGKILL") {
            Some("no sign of out of memory")
        } else {
            None
        };
        let used = match (self.memory_peak, self.memory_limit) {
            (Some(peak), Some(limit)) => Some(format!("memory peak {} of {}", size(peak), size(limit))),
            (Some(peak), None) => Some(format!("memory peak {}, no limit", size(peak))),
            (None, Some(limit)) => Some(format!("memory limit {}, peak not measured", size(limit))),
            (None, None) => None,
        };
        let parts: Vec<String> = verdict.map(str::to_owned).into_iter().chain(used).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn uptime(&self) -> Option<Duration> {
        let started = Timestamp::parse(self.started_at.as_deref()?)?;
        let ran = Timestamp::parse(self.ended_at.as_deref()?)?.since(started);
        // Nobody counts the milliseconds of a minute.
        Some(if ran < Duration::from_secs(1) {
            ran
        } else {
            Duration::from_secs(ran.as_secs())
        })
    }
}

/// The ends that an error tells of, oldest first.
pub(crate) fn told(error: &StructuredError) -> Vec<RunSummary> {
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

/// The ends of the runs of a service by their numbers, as far as anything remembers them.
pub(crate) fn known(
    state: &StateDir,
    status: Option<&EnvironmentStatus>,
    env: &str,
    service: &str,
) -> BTreeMap<u64, RunSummary> {
    let persisted: PersistedState = status::peek(&state.state_json());
    let memory = persisted
        .environments
        .iter()
        .find(|(name, _)| name.as_str() == env)
        .and_then(|(_, memory)| {
            let mut services = memory.services.iter();
            services.find(|(name, _)| name.as_str() == service)
        });
    let failures = memory.map(|(_, memory)| memory.failures.as_slice());
    let row = status.and_then(|status| status.services.iter().find(|row| row.name == service));
    let error = row.and_then(|row| row.last_error.as_ref());
    // The status knows more of the same run: what the engine's outages did to it.
    let endings = failures.unwrap_or_default().iter().map(RunSummary::from);
    endings
        .chain(error.map(told).unwrap_or_default())
        .map(|ending| (ending.run, ending))
        .collect()
}

/// A size as people read it: `63.4 MiB`.
pub(crate) fn size(bytes: u64) -> String {
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
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn an_end_is_told_with_what_is_known_of_it() {
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
        assert_eq!(ending.words(), "ended by SIGKILL (exit code 137) after 1m 7s");
        assert_eq!(
            ending.memory().unwrap(),
            "out of memory is suspected, not proven; memory peak 64 MiB of 64 MiB"
        );
        let nothing = RunSummary::default();
        assert_eq!(
            (nothing.words().as_str(), nothing.memory()),
            ("exit code not known", None)
        );
    }
}

//! Failed runs and their diagnosis, from the state that the engine reports and from the output of the container.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ident::{ContainerId, ContainerSpecHash, ServiceName};
use crate::observed::Container;
use crate::outcome::Evidence;
use crate::time::Timestamp;

mod dependency;
mod facts;
pub mod host_view;
mod log;
mod memory;
pub(crate) mod probe_program;

pub use dependency::DependencyState;
pub use facts::{RunFacts, Stopper};
pub use host_view::similar_name;
pub use log::{first_line_of, last_lines};
pub use memory::{OomConfidence, oom_confidence, oom_suspected};

/// Number of last lines on stderr that an error contains.
pub const REPORTED_LINES: usize = 5;

/// A failed run: an unexpected end of a container, or a probe that failed more often than its `retries` allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct FailedRun {
    /// Container of the run.
    pub container: ContainerId,
    /// Start of the run.
    pub started_at: Option<Timestamp>,
    /// End of the run by the engine's clock, or the time of its observation.
    pub at: Timestamp,
    /// Time of the observation by the controller's clock. Delays count from here, because the clocks may differ.
    #[serde(default)]
    pub observed_at: Option<Timestamp>,
    /// Exit code; 255 may mean that the engine lost the real one.
    pub exit_code: i64,
    /// `OOMKilled` flag of the engine.
    pub oom_killed: bool,
    /// True if the kernel reported out of memory during this run.
    #[serde(default)]
    pub oom_event: bool,
    /// Event that made the run count as failed.
    #[serde(default)]
    pub cause: FailureCause,
    /// Spec hash of the container; another hash is another try.
    #[serde(default)]
    pub hash: Option<ContainerSpecHash>,
    /// Revision of the environment at the creation of the container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Image reference of the container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// Id of its image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Party that stopped the container after the failed health check, and the time of the stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<(Stopper, Timestamp)>,
    /// Number of the failure within its service, from 1; names its evidence.
    #[serde(default)]
    pub number: u64,
    /// Identifier of the action that started or created the container, as in the journal; `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by: Option<String>,
    /// Memory limit in bytes; `None` without a limit.
    #[serde(default)]
    pub memory_limit: Option<u64>,
    /// Error text of the engine.
    #[serde(default)]
    pub error: String,
    /// Last outputs of the probe, oldest first; empty unless the probe caused the failure.
    #[serde(default)]
    pub probe_output: Vec<String>,
    /// Time since which Argus' own probe failed; `None` for other failures and for the engine's health check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// Share of time in which tasks waited for a resource of the host while the probe failed, in percent; `None` for other
    /// failures and where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_pressure: Option<u8>,
    /// Time of a successful answer to a probe that had ended with its timeout; at most five times the timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_answer: Option<Duration>,
    /// Memory use in bytes above `argus.restart.memoryAbove`, which made the run unhealthy; `None` for other failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used: Option<u64>,
    /// Dependency that was not ready when the run failed, and that explains the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_dependency: Option<ServiceName>,
    /// State of that dependency; `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency_state: Option<DependencyState>,
    /// Saved evidence; `None` until it is collected.
    #[serde(default)]
    pub evidence: Option<Evidence>,
    /// True after a later run was observed.
    #[serde(default)]
    pub followed_by_run: bool,
    /// True if Argus gave up and the image name now refers to another image, which is tried like a first run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub image_retagged: bool,
    /// True after a later run lasted long enough to reset the restart budget.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub budget_reset: bool,
    /// Time of a recovery without a restart.
    #[serde(default)]
    pub recovered_at: Option<Timestamp>,
    /// Healthy time of the run before the failure; `None` for a service without a health check.
    #[serde(default)]
    pub healthy_duration: Option<Duration>,
}

impl FailedRun {
    /// Creates a failure whose time is the only known fact.
    pub fn new(container: ContainerId, at: Timestamp) -> Self {
        Self {
            container,
            started_at: None,
            at,
            observed_at: None,
            exit_code: 0,
            oom_killed: false,
            oom_event: false,
            cause: FailureCause::Exited,
            hash: None,
            revision: String::new(),
            image: String::new(),
            image_id: None,
            stopped: None,
            number: 0,
            started_by: None,
            memory_limit: None,
            error: String::new(),
            probe_output: Vec::new(),
            failing_since: None,
            host_pressure: None,
            late_answer: None,
            memory_used: None,
            failed_dependency: None,
            dependency_state: None,
            evidence: None,
            followed_by_run: false,
            image_retagged: false,
            budget_reset: false,
            recovered_at: None,
            healthy_duration: None,
        }
    }

    /// Creates a failure from the state of its container.
    pub fn observed(container: &Container, at: Timestamp) -> Self {
        let owner = container.owner();
        let failed_run = Self {
            oom_event: container.oom_at.is_some(),
            revision: owner
                .as_ref()
                .map(|owner| owner.revision.clone())
                .unwrap_or_default(),
            hash: owner.and_then(|owner| owner.spec_hash),
            image: container.image.clone(),
            ..Self::new(container.id.clone(), at)
        };
        match &container.inspect {
            Some(info) => Self {
                started_at: info.started_at,
                exit_code: info.exit_code,
                oom_killed: info.oom_killed,
                image_id: info.image_id.clone(),
                memory_limit: Some(info.config.memory).filter(|limit| *limit > 0),
                error: info.error.clone(),
                ..failed_run
            },
            None => failed_run,
        }
    }

    /// Time of the observation of the failure.
    pub fn seen(&self) -> Timestamp {
        self.observed_at.unwrap_or(self.at)
    }

    /// Duration of the run.
    pub fn run_duration(&self) -> Duration {
        self.started_at
            .map_or(Duration::ZERO, |start| self.at.since(start))
    }

    /// Returns whether the kernel rejected the format of the program, as it does for an image of another architecture.
    pub fn has_wrong_format(&self) -> bool {
        let last_line = self.evidence.as_ref().and_then(|evidence| evidence.stderr.last());
        self.exit_code != 0
            && (is_wrong_format(&self.error) || last_line.is_some_and(|line| is_wrong_format(line)))
    }

    /// Returns whether the engine could not run the program, and ended with a code of its own.
    fn was_not_executed(&self) -> bool {
        const ENDS: [&str; 2] = [": no such file or directory", ": permission denied"];
        let last_line = self.evidence.as_ref().and_then(|evidence| evidence.stderr.last());
        let is_of_engine =
            |line: &String| line.starts_with("exec /") && ENDS.iter().any(|end| line.ends_with(end));
        self.exit_code == 255 && last_line.is_some_and(is_of_engine)
    }

    /// Returns the dependency that explains the failure. A lack of memory, a signal, or a command that cannot run has a cause of
    /// its own.
    pub fn explaining_dependency(&self) -> Option<&ServiceName> {
        let dependency = self.failed_dependency.as_ref()?;
        match kind(self) {
            FailureKind::Exit | FailureKind::Unhealthy => Some(dependency),
            FailureKind::Signal | FailureKind::OutOfMemory | FailureKind::NotRunnable => None,
        }
    }

    /// Last result of the probe, see [`probe::last_result`](crate::probe::last_result).
    pub fn last_probe_output(&self) -> Option<&String> {
        crate::probe::last_result(&self.probe_output)
    }

    /// Returns whether the image does not have the program of the health check, so that no restart can help: each recorded output
    /// says only that.
    pub fn has_missing_probe(&self) -> bool {
        let is_missing = |output: &String| probe_program::is_missing(output);
        let results = &self.probe_output;
        self.cause == FailureCause::Unhealthy && !results.is_empty() && results.iter().all(is_missing)
    }
}

/// Event that made a run count as failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureCause {
    /// The main process exited.
    #[default]
    Exited,
    /// The process kept running, and its probe failed more often than its retries allow, or it used more memory than the file allows.
    Unhealthy,
}

/// Kind of a failure, grouped by remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// The process exited with a code.
    Exit,
    /// A signal ended the process.
    Signal,
    /// The kernel killed the process because memory ran out, according to the engine or a kernel event.
    OutOfMemory,
    /// The entry point, or a command in it, does not exist or is not executable: exit code 126 or 127, or the kernel does
    /// not know the format of the program.
    NotRunnable,
    /// The probe failed more often than its retries allow.
    Unhealthy,
}

/// Returns whether a line is the message about a program of an unknown format.
pub fn is_wrong_format(line: &str) -> bool {
    line.to_ascii_lowercase().contains("exec format error")
}

/// Returns the kind of a failure.
///
/// `OutOfMemory` requires the flag of the engine, a kernel event, or a kill in the control group of this run. An exit code of 0 is never
/// `OutOfMemory`, even if the kernel killed a child process.
pub fn kind(failed_run: &FailedRun) -> FailureKind {
    match failed_run.cause {
        FailureCause::Unhealthy => FailureKind::Unhealthy,
        FailureCause::Exited if failed_run.has_oom_proof() && failed_run.exit_code != 0 => {
            FailureKind::OutOfMemory
        }
        FailureCause::Exited if matches!(failed_run.exit_code, 126 | 127) => FailureKind::NotRunnable,
        FailureCause::Exited if failed_run.has_wrong_format() || failed_run.was_not_executed() => {
            FailureKind::NotRunnable
        }
        FailureCause::Exited if signal(failed_run.exit_code).is_some() => FailureKind::Signal,
        FailureCause::Exited => FailureKind::Exit,
    }
}

/// Returns the signal name for an exit code above 128.
pub fn signal(exit_code: i64) -> Option<&'static str> {
    match exit_code {
        129 => Some("SIGHUP"),
        130 => Some("SIGINT"),
        131 => Some("SIGQUIT"),
        132 => Some("SIGILL"),
        133 => Some("SIGTRAP"),
        134 => Some("SIGABRT"),
        135 => Some("SIGBUS"),
        136 => Some("SIGFPE"),
        137 => Some("SIGKILL"),
        139 => Some("SIGSEGV"),
        141 => Some("SIGPIPE"),
        143 => Some("SIGTERM"),
        _ => None,
    }
}

/// Identity of a failure: exit code, last line of stderr, and approximate run time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fingerprint {
    /// Exit code of the run.
    pub exit_code: i64,
    /// Last line of stderr, with numbers and ids replaced by `#`.
    pub line: String,
    /// Approximate run time.
    pub ran: Ran,
}

/// Approximate run time of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ran {
    /// Less than 10 s.
    Seconds,
    /// Less than a minute.
    UnderAMinute,
    /// Less than ten minutes.
    Minutes,
    /// Ten minutes or more.
    Long,
}

/// Returns the fingerprint of a failure.
///
/// `None` without output, because silence does not prove a repetition, and after a run of ten minutes or more, because
/// such a run made progress.
pub fn fingerprint(failed_run: &FailedRun) -> Option<Fingerprint> {
    let signature = signature(failed_run);
    (!signature.line.is_empty() && signature.ran != Ran::Long).then_some(signature)
}

/// Returns what is compared between two failures; the line is empty without output.
fn signature(failed_run: &FailedRun) -> Fingerprint {
    let evidence = failed_run.evidence.as_ref();
    let last = evidence.and_then(|evidence| evidence.stderr.last());
    let ran = failed_run.run_duration();
    Fingerprint {
        exit_code: failed_run.exit_code,
        line: last.map_or_else(String::new, |line| normalised(line)),
        ran: if ran < Duration::from_secs(10) {
            Ran::Seconds
        } else if ran < Duration::from_secs(60) {
            Ran::UnderAMinute
        } else if ran < Duration::from_secs(600) {
            Ran::Minutes
        } else {
            Ran::Long
        },
    }
}

/// Returns the number of consecutive failures, up to the last one, that failed in its way.
pub fn repetitions(failures: &[FailedRun]) -> usize {
    let mut newest_first = failures.iter().rev().map(|run| (kind(run), signature(run)));
    let Some(last) = newest_first.next() else {
        return 0;
    };
    1 + newest_first.take_while(|earlier| *earlier == last).count()
}

/// Returns the line with its variable parts (numbers, addresses, times, ids) replaced by `#`, cut to 200 characters.
pub(crate) fn normalised(line: &str) -> String {
    const LONGEST: usize = 200;
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        let hex = word.trim_matches(|c: char| c.is_ascii_punctuation());
        let hex = hex.strip_prefix("0x").unwrap_or(hex);
        let id = hex.len() >= 8 && hex.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if id {
            words.push("#".to_owned());
            continue;
        }
        let mut stripped = String::new();
        for c in word.chars() {
            match (c.is_ascii_digit(), stripped.ends_with('#')) {
                (true, true) => {}
                (true, false) => stripped.push('#'),
                (false, _) => stripped.push(c),
            }
        }
        words.push(stripped);
    }
    words.join(" ").chars().take(LONGEST).collect()
}

#[cfg(test)]
#[path = "failed_run_tests.rs"]
mod tests;

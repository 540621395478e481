//! Facts of a failed run, for its error and for its evidence.

use serde::{Deserialize, Serialize};

use super::{
    FailedRun, FailureCause, FailureKind, OomConfidence, kind, oom_confidence, oom_suspected, signal,
};

/// Party that stopped a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stopper {
    /// This controller.
    Argus,
    /// Another client of the engine.
    OtherClient,
    /// The engine, because it stopped or restarted itself.
    Engine,
}

/// Facts of a failed run. Times are in RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct RunFacts {
    /// Kind of the failure.
    pub kind: Option<FailureKind>,
    /// Number of the failed run, counted per service from 1.
    pub run: u64,
    /// Container id of the engine.
    pub container_id: String,
    /// Revision of the environment at the creation of the container.
    pub revision: Option<String>,
    /// Spec hash of the container.
    pub spec_hash: Option<String>,
    /// Image reference of the container.
    pub image: Option<String>,
    /// Id of its image.
    pub image_id: Option<String>,
    /// Start of the run.
    pub started_at: Option<String>,
    /// End of the run, or the time at which its health check had failed too often.
    pub ended_at: Option<String>,
    /// Time between start and end, in milliseconds.
    pub duration_ms: Option<u64>,
    /// First failed probe of a run whose health check failed.
    pub failing_since: Option<String>,
    /// Exit code; `null` if the container still ran.
    pub exit_code: Option<i64>,
    /// False if the engine lost the exit code of the process.
    pub exit_code_known: Option<bool>,
    /// Name of the signal behind the exit code, such as `SIGKILL`.
    pub signal: Option<String>,
    /// Party that stopped the container; `null` if the process ended without a stop.
    pub stopped_by: Option<Stopper>,
    /// Time of this stop.
    pub stopped_at: Option<String>,
    /// Out-of-memory flag of the engine.
    pub oom_killed: bool,
    /// True if the kernel reported an out-of-memory event.
    pub oom_event: bool,
    /// True if memory exhaustion is likely, without proof.
    pub oom_suspected: bool,
    /// Number of processes that the kernel killed for a lack of memory, from the control group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// Confidence that a lack of memory ended the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_confidence: Option<OomConfidence>,
    /// Memory limit in bytes.
    pub memory_limit: Option<u64>,
    /// Highest measured memory use in bytes.
    pub memory_peak: Option<u64>,
    /// Error that the engine recorded for the container.
    pub engine_error: Option<String>,
    /// Dependency that was not ready when the run failed, and that explains the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_dependency: Option<String>,
}

impl RunFacts {
    /// Facts of a run. `by_engine` is true if an outage of the engine ended it.
    pub fn from_run(failed_run: &FailedRun, by_engine: bool) -> Self {
        let still_ran = failed_run.cause == FailureCause::Unhealthy;
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let milliseconds = |started_at| {
            let duration = failed_run.at.since(started_at);
            u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
        };
        let stopped = failed_run.stopped.map(|(by, at)| (by, Some(at)));
        let stopped = stopped.or(by_engine.then_some((Stopper::Engine, None)));
        Self {
            kind: Some(kind(failed_run)),
            run: failed_run.number,
            container_id: failed_run.container.to_string(),
            revision: text(&failed_run.revision),
            spec_hash: failed_run.hash.as_ref().map(ToString::to_string),
            image: text(&failed_run.image),
            image_id: failed_run.image_id.clone(),
            started_at: failed_run.started_at.map(|at| at.to_string()),
            ended_at: Some(failed_run.at.to_string()),
            duration_ms: failed_run.started_at.map(milliseconds),
            failing_since: failed_run.failing_since.map(|at| at.to_string()),
            exit_code: (!still_ran).then_some(failed_run.exit_code),
            exit_code_known: Some(!(by_engine && failed_run.exit_code == 255)),
            signal: signal(failed_run.exit_code).map(str::to_owned),
            stopped_by: stopped.map(|(by, _)| by),
            stopped_at: stopped.and_then(|(_, at)| at).map(|at| at.to_string()),
            oom_killed: failed_run.oom_killed,
            oom_event: failed_run.oom_event,
            oom_suspected: oom_suspected(failed_run),
            oom_kills: failed_run.oom_kills(),
            oom_confidence: oom_confidence(failed_run),
            memory_limit: failed_run.memory_limit,
            memory_peak: failed_run.peak(),
            engine_error: text(&failed_run.error),
            failed_dependency: failed_run.explaining_dependency().map(ToString::to_string),
        }
    }
}

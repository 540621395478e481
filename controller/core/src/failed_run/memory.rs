//! Lack of memory as the cause of a failed run: proofs, suspicion and confidence.

use serde::{Deserialize, Serialize};

use super::{FailedRun, FailureKind, kind};

/// Confidence that a lack of memory ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OomConfidence {
    /// The kernel killed a process of the container, and SIGKILL ended the main process.
    Certain,
    /// The kernel killed another process, or SIGKILL ended the main process at its memory limit.
    Likely,
}

impl FailedRun {
    /// Memory peak in bytes; at least the limit if the run was out of memory.
    pub fn peak(&self) -> Option<u64> {
        let measured = self.evidence.as_ref().and_then(|evidence| evidence.memory_peak);
        let reached = self.memory_limit.filter(|_| self.has_oom_proof());
        measured.max(reached)
    }

    /// Number of its processes that the kernel killed for a lack of memory, from the control group.
    pub fn oom_kills(&self) -> Option<u64> {
        self.evidence.as_ref()?.oom_kills
    }

    /// Returns whether the engine, the kernel or the control group reported that the kernel killed one of its processes.
    pub fn has_oom_proof(&self) -> bool {
        self.oom_killed || self.oom_event || self.oom_kills().is_some_and(|kills| kills > 0)
    }
}

/// Returns whether a lack of memory is likely but not proven: exit code 137, and the memory peak at the limit.
pub fn oom_suspected(failed_run: &FailedRun) -> bool {
    let at_limit = match (failed_run.memory_limit, failed_run.peak()) {
        (Some(limit), Some(peak)) => peak >= limit,
        (Some(_) | None, _) => false,
    };
    failed_run.exit_code == 137 && at_limit && kind(failed_run) != FailureKind::OutOfMemory
}

/// Returns the confidence that a lack of memory ended the run; `None` without a sign of it.
///
/// The proofs concern any process of the container. Only with the exit code of SIGKILL was it certainly the main process.
pub fn oom_confidence(failed_run: &FailedRun) -> Option<OomConfidence> {
    let is_oom = kind(failed_run) == FailureKind::OutOfMemory;
    match failed_run.exit_code {
        137 if is_oom => Some(OomConfidence::Certain),
        _ if is_oom || oom_suspected(failed_run) => Some(OomConfidence::Likely),
        _ => None,
    }
}

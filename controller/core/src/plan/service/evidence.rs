//! Evidence of an earlier run: collected before anything else happens to its container.

use super::{ServicePlanner, run};
use crate::action::{ActionKind, Cause};
use crate::plan::{Decision, ready};
use crate::wait::WaitReason;

/// Plans the collection of the missing evidence; `None` if none is missing.
pub(super) fn plan(planner: &ServicePlanner<'_>) -> Option<Decision> {
    let action = run::collect_evidence(planner)?;
    Some(match planner.input.backoff_of(&planner.subject) {
        // Nothing else happens to the container before.
        Some(WaitReason::Retry { until, failure }) if failure.verb == action.kind() => {
            Decision::Wait(WaitReason::Retry { until, failure })
        }
        Some(_) | None => Decision::Do(action, Cause::Failed),
    })
}

/// True if a service runs as desired, and the decision only reads the evidence of an earlier run.
pub(super) fn only_reads_evidence(planner: &ServicePlanner<'_>, decision: &Decision) -> bool {
    let kind = match decision {
        Decision::Do(action, _) => action.kind(),
        Decision::Wait(WaitReason::InFlight { verb }) => *verb,
        Decision::Wait(WaitReason::Retry { failure, .. }) => failure.verb,
        Decision::Wait(_) | Decision::Settled => return false,
    };
    let current = ready::current_container(planner.input, &planner.service.name);
    kind == ActionKind::CollectEvidence && matches!(planner.plan_container(current), Decision::Settled)
}

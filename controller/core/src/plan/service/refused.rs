//! Replacement of a container whose start or another action the engine refuses twice in the same way.

use super::{ServicePlanner, remove, run};
use crate::action::{Action, Cause};
use crate::failed_run::FailedRun;
use crate::observed::{Container, ContainerState};
use crate::plan::Decision;
use crate::state::RefusedCall;
use crate::wait::WaitReason;

/// Plans the evidence and then the removal of such a container; `None` without one.
pub(super) fn replace_container(planner: &ServicePlanner<'_>) -> Option<Decision> {
    let call = run::service_history(planner)?.refused_call.as_ref()?;
    let container = planner.owned.iter().find(|owned| owned.id == call.container)?;
    let runs = matches!(
        container.state,
        ContainerState::Running | ContainerState::Restarting | ContainerState::Removing
    );
    if !call.must_not_repeat()
        || runs
        || !planner.can_replace(container)
        // The evidence of a failed run comes first.
        || run::collect_evidence(planner).is_some()
        || planner.input.pending(&planner.subject).is_some()
    {
        return None;
    }
    match planner.input.backoff_of(&planner.subject) {
        // The refused action itself is not repeated, so its delay does not matter.
        Some(WaitReason::Retry { failure, .. }) if failure.verb == call.verb => {}
        Some(wait @ WaitReason::Retry { .. }) => return Some(Decision::Wait(wait)),
        Some(_) | None => {}
    }
    let evidence = call.evidence_number.filter(|_| !call.has_evidence);
    Some(match evidence {
        Some(number) => Decision::Do(evidence_action(planner, container, number), Cause::Failed),
        None => remove(container, cause(call)),
    })
}

fn cause(call: &RefusedCall) -> Cause {
    Cause::Refused { verb: call.verb }
}

fn evidence_action(planner: &ServicePlanner<'_>, container: &Container, number: u64) -> Action {
    let ended = container.inspect.as_ref().and_then(|info| info.finished_at);
    let at = ended.unwrap_or(planner.input.now);
    let run = FailedRun {
        number,
        ..FailedRun::observed(container, at)
    };
    Action::CollectEvidence {
        lines_since: run.first_line_at(None),
        run: Box::new(run),
        port: None,
        http: false,
        by_engine: false,
        targets: Vec::new(),
        host: Box::default(),
    }
}

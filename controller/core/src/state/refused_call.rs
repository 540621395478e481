//! Calls on one container that the engine refuses again and again.

use serde::{Deserialize, Serialize};

use super::PlannerState;
use crate::action::{ActionKind, Step, Subject};
use crate::ident::ContainerId;
use crate::outcome::ActionError;

/// Number of equal refusals after which an action is never tried again on the same container.
const MAX_REFUSALS: u32 = 2;

/// Action that the engine refused on one container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedCall {
    /// Container of the action.
    pub container: ContainerId,
    /// Refused action.
    pub verb: ActionKind,
    /// Number of refusals.
    pub times: u32,
    /// Number of its evidence within the service; `None` before the last refusal.
    #[serde(default)]
    pub evidence_number: Option<u64>,
    /// True after its evidence was collected.
    #[serde(default)]
    pub has_evidence: bool,
}

impl RefusedCall {
    /// Reports whether the action must not be tried again on this container.
    pub fn must_not_repeat(&self) -> bool {
        self.times >= MAX_REFUSALS
    }
}

impl PlannerState {
    /// Records a refusal of the engine. Other errors do not concern the container itself.
    pub(super) fn record_refusal(&mut self, step: &Step, error: &ActionError) {
        let (Subject::Service { environment, service }, Some(container)) =
            (&step.subject, step.action.container())
        else {
            return;
        };
        if !is_refusal(step.action.kind(), error) {
            return;
        }
        let history = self.service_history_mut(environment, service);
        let verb = step.action.kind();
        let known = history.refused_call.take();
        let mut call = known
            .filter(|call| call.container == *container && call.verb == verb)
            .unwrap_or_else(|| RefusedCall {
                container: container.clone(),
                verb,
                times: 0,
                evidence_number: None,
                has_evidence: false,
            });
        call.times += 1;
        if call.must_not_repeat() && call.evidence_number.is_none() {
            history.failure_count += 1;
            call.evidence_number = Some(history.failure_count);
        }
        history.refused_call = Some(call);
    }

    /// Records that the evidence of a refused call was collected, or cannot be collected.
    pub(super) fn record_refusal_evidence(&mut self, subject: &Subject, number: u64) {
        if let Some(history) = self.known_service_mut(subject)
            && let Some(call) = &mut history.refused_call
            && call.evidence_number == Some(number)
        {
            call.has_evidence = true;
        }
    }

    /// Forgets the refusals of an action that succeeded on the same container.
    pub(super) fn forget_refusal(&mut self, step: &Step) {
        if let Some(history) = self.known_service_mut(&step.subject) {
            let is_same = |call: &RefusedCall| {
                call.verb == step.action.kind() && step.action.container() == Some(&call.container)
            };
            history.refused_call.take_if(|call| is_same(call));
        }
    }

    /// Reports whether a success of `step` belongs to the replacement of a container on which an action was refused. The failure of
    /// that action is then kept, so that the delay before its next attempt keeps growing.
    pub(super) fn is_replacement_of_refused(&self, step: &Step) -> bool {
        let Subject::Service { environment, service } = &step.subject else {
            return false;
        };
        let history = self.environments.get(environment);
        let history = history.and_then(|history| history.services.get(service));
        let call = history.and_then(|history| history.refused_call.as_ref());
        let failure = self.action_failures.get(&step.subject);
        let is_kept = call.zip(failure).is_some_and(|(call, failure)| {
            call.must_not_repeat() && failure.verb == call.verb && is_refusal(failure.verb, &failure.error)
        });
        let kind = step.action.kind();
        is_kept
            && call.is_some_and(|call| call.verb != kind)
            && matches!(
                kind,
                ActionKind::CollectEvidence
                    | ActionKind::RemoveContainer
                    | ActionKind::CreateContainer
                    | ActionKind::CopyFile
            )
    }
}

/// True if the engine received the call, answered it, and its answer concerns only this container.
fn is_refusal(kind: ActionKind, error: &ActionError) -> bool {
    match kind {
        ActionKind::StartContainer => matches!(error, ActionError::StartFailed(_) | ActionError::Unknown(_)),
        ActionKind::UnpauseContainer
        | ActionKind::RenameContainer
        | ActionKind::ConnectNetwork
        | ActionKind::CopyFile => matches!(error, ActionError::Unknown(_)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Action, Cause};
    use crate::ident::{EnvName, ServiceName};

    fn step(action: Action) -> Step {
        Step {
            subject: Subject::Service {
                environment: EnvName::new("shop").unwrap(),
                service: ServiceName::new("web").unwrap(),
            },
            action,
            cause: Cause::Missing,
        }
    }

    fn refused_call(state: &PlannerState) -> Option<&RefusedCall> {
        let history = state.environments.values().next()?.services.values().next()?;
        history.refused_call.as_ref()
    }

    #[test]
    fn success_on_the_same_container_forgets_a_refusal() {
        let id = |text: &str| ContainerId::new(text).unwrap();
        let start = |text: &str| step(Action::StartContainer { id: id(text) });
        let mut state = PlannerState::default();
        state.record_refusal(&start("aaaa"), &ActionError::StartFailed("no".to_owned()));
        state.forget_refusal(&start("bbbb"));
        assert!(refused_call(&state).is_some(), "another container");
        state.forget_refusal(&step(Action::UnpauseContainer { id: id("aaaa") }));
        assert!(refused_call(&state).is_some(), "another action");
        state.forget_refusal(&start("aaaa"));
        assert_eq!(refused_call(&state), None);
    }
}

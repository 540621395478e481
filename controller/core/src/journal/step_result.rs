//! Events of finished actions: attempts to start a failed service again, and removals of orphans.

use argus_crds::error::Code;
use argus_crds::status::Orphan;
use serde::{Deserialize, Serialize};

use super::{Event, Outcome, outcome_of};
use crate::action::{Action, Cause, Step};
use crate::ident::EnvName;
use crate::outcome::{ActionError, Done};

/// Attempt to start a failed service again. The health of the new run follows as another event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestartAttempt {
    /// Environment of the service.
    pub environment: EnvName,
    /// Failed service.
    pub service: String,
    /// Number of the restart, from 1.
    pub attempt: u32,
    /// Outcome of the start.
    pub outcome: Outcome,
    /// Error code of a start that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

/// Removal of an orphan, successful or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrphanRemoval {
    /// Environment from its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<EnvName>,
    /// `container`, `network` or `volume`.
    pub what: String,
    /// Id on the engine.
    pub id: String,
    /// Name on the engine.
    #[serde(default)]
    pub name: String,
    /// Outcome of the removal.
    #[serde(default = "done")]
    pub outcome: Outcome,
    /// Error code of a removal that failed or was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

/// Outcome in records of earlier versions, which had only successful removals.
fn done() -> Outcome {
    Outcome::Done
}

/// Returns the event of a finished action; `None` if its result has no event of its own. `orphans` were known before its result.
pub fn step_event(step: &Step, outcome: &Result<Done, ActionError>, orphans: &[Orphan]) -> Option<Event> {
    let (end, code) = outcome_of(outcome);
    if let (Action::StartContainer { .. }, Cause::Restart { attempt, .. }) = (&step.action, &step.cause) {
        return Some(Event::RestartAttempt(RestartAttempt {
            environment: step.subject.environment()?.clone(),
            service: step.subject.service()?.to_string(),
            attempt: *attempt,
            outcome: end,
            code,
        }));
    }
    let is_removal = match &step.action {
        Action::RemoveContainer { .. } | Action::RemoveNetwork { .. } | Action::RemoveVolume { .. } => true,
        // The removal follows the stop.
        Action::StopContainer { .. } => end != Outcome::Done,
        _ => false,
    };
    let id = step.subject.orphan_id().filter(|_| is_removal)?;
    let orphan = orphans.iter().find(|orphan| orphan.id == id)?;
    Some(Event::OrphanRemoved(OrphanRemoval {
        environment: environment_of(orphan),
        what: orphan.kind.clone(),
        id: orphan.id.clone(),
        name: orphan.name.clone(),
        outcome: end,
        code,
    }))
}

/// Environment from the label of an orphan.
pub(super) fn environment_of(orphan: &Orphan) -> Option<EnvName> {
    EnvName::new(orphan.environment.as_ref()?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::action::Subject;
    use crate::ident::{ContainerId, ServiceName};

    fn id() -> ContainerId {
        ContainerId::new("c1").unwrap()
    }

    #[test]
    fn start_after_a_failure_is_a_restart_attempt() {
        let subject = Subject::Service {
            environment: EnvName::new("shop").unwrap(),
            service: ServiceName::new("api").unwrap(),
        };
        let event = |cause: Cause, outcome| {
            let step = Step {
                subject: subject.clone(),
                action: Action::StartContainer { id: id() },
                cause,
            };
            step_event(&step, &outcome, &[])
        };
        let restart = Cause::Restart {
            attempt: 2,
            repeated: true,
        };
        let expected = |outcome, code| {
            Some(Event::RestartAttempt(RestartAttempt {
                environment: EnvName::new("shop").unwrap(),
                service: "api".to_owned(),
                attempt: 2,
                outcome,
                code,
            }))
        };
        assert_eq!(
            event(restart.clone(), Ok(Done::Applied)),
            expected(Outcome::Done, None)
        );
        let refused = Err(ActionError::StartFailed("no".to_owned()));
        assert_eq!(
            event(restart, refused),
            expected(Outcome::Failed, Some(Code::ContainerStartFailed))
        );
        assert_eq!(event(Cause::Ready, Ok(Done::Applied)), None, "its first run");
    }

    #[test]
    fn removal_of_an_orphan_is_an_event_with_its_outcome() {
        let orphan = Orphan {
            kind: "container".to_owned(),
            id: "c1".to_owned(),
            name: "shop-web".to_owned(),
            environment: Some("shop".to_owned()),
            ..Orphan::default()
        };
        let planned = |action, attempt| Step {
            subject: Subject::ExtraContainer { id: id() },
            action,
            cause: Cause::Retry { attempt },
        };
        let remove = planned(
            Action::RemoveContainer {
                id: id(),
                name: "shop-web".to_owned(),
            },
            2,
        );
        let orphans = [orphan];
        let found = |step: &Step, outcome| match step_event(step, &outcome, &orphans)? {
            Event::OrphanRemoved(it) => Some((it.environment?.to_string(), it.name, it.outcome)),
            other => panic!("{other:?}"),
        };
        let named = |outcome| Some(("shop".to_owned(), "shop-web".to_owned(), outcome));
        assert_eq!(found(&remove, Ok(Done::Applied)), named(Outcome::Done));
        let refused = || Err(ActionError::NotOwned("its labels changed".to_owned()));
        assert_eq!(found(&remove, refused()), named(Outcome::Failed));
        let stop = planned(
            Action::StopContainer {
                id: id(),
                grace: Duration::ZERO,
            },
            1,
        );
        assert_eq!(found(&stop, Ok(Done::Applied)), None, "its removal follows");
        assert_eq!(found(&stop, refused()), named(Outcome::Failed));
        assert_eq!(
            step_event(&remove, &Ok(Done::Applied), &[]),
            None,
            "an object of this controller is no orphan"
        );
        let old = serde_json::json!({ "event": "orphanRemoved", "what": "network", "id": "n1" });
        let old: Event = serde_json::from_value(old).unwrap();
        assert!(matches!(old, Event::OrphanRemoved(it) if it.outcome == Outcome::Done));
    }
}

//! Repair of unreachable services: chooses the container to reattach, once per connectivity result.

use super::PlannerState;
use crate::action::{Action, Cause, Step};
use crate::connectivity::ConnectivityCheck;
use crate::desired::hash::hash_of;
use crate::ident::{ContainerId, Hash};
use crate::time::Timestamp;

/// Reason of a reattachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reattached {
    /// Hash of the check's key.
    signature: Hash,
    /// Time of the connectivity check.
    checked_at: Timestamp,
}

impl Reattached {
    fn of(check: &ConnectivityCheck) -> Self {
        Self {
            signature: hash_of(&check.key),
            checked_at: check.at,
        }
    }
}

impl PlannerState {
    /// Most likely cause among the containers that were not reattached since the check's key changed. `None` until a new
    /// check shows the effect of the last reattachment.
    pub fn next_to_reattach<'a>(&self, check: &'a ConnectivityCheck) -> Option<&'a ContainerId> {
        let suspects = check.reattach_candidates();
        if suspects.is_empty() {
            return None;
        }
        let now = Reattached::of(check);
        if self.reattached.values().any(|done| *done == now) {
            return None;
        }
        let mut runs = suspects.into_iter().filter_map(|name| check.key.runs.get(name));
        let new = |id: &ContainerId| {
            let done = self.reattached.get(id);
            done.is_none_or(|done| done.signature != now.signature)
        };
        runs.find(|(id, _)| new(id)).map(|(id, _)| id)
    }

    /// Records the planned reattachments when they are submitted.
    pub fn remember_reattached(&mut self, check: Option<&ConnectivityCheck>, steps: &[Step]) {
        let Some(check) = check else { return };
        for step in steps.iter().filter(|step| step.cause == Cause::Unreachable) {
            if let Action::DisconnectNetwork { container, .. } = &step.action
                && let Ok(id) = ContainerId::new(container.clone())
            {
                self.reattached.insert(id, Reattached::of(check));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::action::Subject;
    use crate::connectivity::{CheckKey, LinkError, LinkResult, Target, TargetResult};
    use crate::ident::ServiceName;

    fn name(text: &str) -> ServiceName {
        ServiceName::new(text).unwrap()
    }

    /// A check with the links `a` → `b`, `c` → `a` and `c` → `b`, and their errors.
    fn check(at: i64, errors: [Option<LinkError>; 3]) -> ConnectivityCheck {
        let links = [("a", "b"), ("c", "a"), ("c", "b")].into_iter().zip(errors);
        let result_of = |((from, to), error): ((&str, &str), Option<LinkError>)| LinkResult {
            from: name(from),
            target: Target {
                to: name(to),
                host: to.to_owned(),
                port: None,
            },
            result: Ok(TargetResult {
                error,
                ..TargetResult::default()
            }),
        };
        let run = |text: &str| (name(text), (ContainerId::new(text).unwrap(), None));
        ConnectivityCheck {
            key: CheckKey {
                runs: ["a", "b", "c"].map(run).into(),
                down: std::collections::BTreeSet::new(),
                networks: Vec::new(),
                engine_returned_at: None,
                targets: BTreeMap::new(),
            },
            at: Timestamp(at),
            retry_after: None,
            link_results: links.map(result_of).collect(),
            is_current: true,
        }
    }

    fn timed_out() -> LinkError {
        LinkError::TimedOut(String::new())
    }

    fn reattach(state: &mut PlannerState, check: &ConnectivityCheck) -> Option<String> {
        let id = state.next_to_reattach(check)?.to_string();
        let step = Step {
            subject: Subject::ExtraContainer {
                id: ContainerId::new(id.clone()).unwrap(),
            },
            action: Action::DisconnectNetwork {
                network: "n".to_owned(),
                container: id.clone(),
            },
            cause: Cause::Unreachable,
        };
        state.remember_reattached(Some(check), &[step]);
        Some(id)
    }

    #[test]
    fn unreachable_containers_are_reattached_once_each() {
        let mut state = PlannerState::default();
        let bad = |at| check(at, [Some(timed_out()), None, Some(timed_out())]);
        assert_eq!(reattach(&mut state, &bad(1)).as_deref(), Some("b"));
        assert_eq!(reattach(&mut state, &bad(1)), None, "the next check decides");
        assert_eq!(reattach(&mut state, &bad(2)).as_deref(), Some("a"));
        assert_eq!(reattach(&mut state, &bad(3)).as_deref(), Some("c"));
        assert_eq!(
            reattach(&mut state, &bad(4)),
            None,
            "each container was reattached once"
        );
        let mut changed = bad(5);
        changed.key.engine_returned_at = Some(Timestamp(5));
        assert_eq!(reattach(&mut state, &changed).as_deref(), Some("b"));
    }

    #[test]
    fn container_that_reaches_no_peer_is_the_likeliest_cause() {
        let bad = check(1, [None, Some(timed_out()), Some(timed_out())]);
        assert_eq!(reattach(&mut PlannerState::default(), &bad).as_deref(), Some("c"));
    }

    #[test]
    fn refused_port_causes_no_reattachment() {
        let refused = Some(LinkError::Refused(String::new()));
        let bad = check(1, [refused, None, None]);
        assert_eq!(reattach(&mut PlannerState::default(), &bad), None);
    }
}

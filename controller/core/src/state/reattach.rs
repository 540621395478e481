//! Repair of unreachable services: chooses the container to reattach, once per connectivity result.

use super::PlannerState;
use crate::connectivity::ConnectivityCheck;
use crate::desired::hash::hash_of;
use crate::ident::{ContainerId, Hash};
use crate::plan::{Action, Cause, Plan};
use crate::time::Timestamp;

/// Reason of a reattachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reattached {
    /// Hash of the check's key.
    signature: Hash,
    /// Time of the connectivity check.
    look: Timestamp,
}

impl Reattached {
    fn of(look: &ConnectivityCheck) -> Self {
        Self {
            signature: hash_of(&look.key),
            look: look.at,
        }
    }
}

impl PlannerState {
    /// Most likely cause among the containers that were not reattached since the check's key changed. `None` until a new
    /// check shows the effect of the last reattachment.
    pub fn next_to_reattach<'a>(&self, look: &'a ConnectivityCheck) -> Option<&'a ContainerId> {
        let suspects = look.suspects();
        if suspects.is_empty() {
            return None;
        }
        let now = Reattached::of(look);
        if self.reattached.values().any(|done| *done == now) {
            return None;
        }
        let mut runs = suspects.into_iter().filter_map(|name| look.key.runs.get(name));
        let new = |id: &ContainerId| {
            let done = self.reattached.get(id);
            done.is_none_or(|done| done.signature != now.signature)
        };
        runs.find(|(id, _)| new(id)).map(|(id, _)| id)
    }

    /// Records the planned reattachments when they are submitted.
    pub fn remember_reattached(&mut self, look: Option<&ConnectivityCheck>, plan: &Plan) {
        let Some(look) = look else { return };
        for step in plan.steps.iter().filter(|step| step.cause == Cause::Unreachable) {
            if let Action::DisconnectNetwork { container, .. } = &step.action
                && let Ok(id) = ContainerId::new(container.clone())
            {
                self.reattached.insert(id, Reattached::of(look));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::connectivity::{CheckKey, LinkError, LinkResult, Target, TargetResult};
    use crate::ident::ServiceName;
    use crate::plan::{Step, Subject};

    fn name(text: &str) -> ServiceName {
        ServiceName::new(text).unwrap()
    }

    /// A check with the links `a` → `b`, `c` → `a` and `c` → `b`, and their errors.
    fn look(at: i64, wrong: [Option<LinkError>; 3]) -> ConnectivityCheck {
        let links = [("a", "b"), ("c", "a"), ("c", "b")].into_iter().zip(wrong);
        let found = |((from, to), trouble): ((&str, &str), Option<LinkError>)| LinkResult {
            from: name(from),
            target: Target {
                to: name(to),
                host: to.to_owned(),
                port: None,
            },
            result: Ok(TargetResult {
                addresses: Vec::new(),
                error: trouble,
            }),
        };
        let run = |text: &str| (name(text), (ContainerId::new(text).unwrap(), None));
        ConnectivityCheck {
            key: CheckKey {
                runs: ["a", "b", "c"].map(run).into(),
                network: None,
                epoch: None,
                targets: BTreeMap::new(),
            },
            at: Timestamp(at),
            again: None,
            links: links.map(found).collect(),
            is_current: true,
        }
    }

    fn lost() -> LinkError {
        LinkError::TimedOut(String::new())
    }

    fn reattach(memory: &mut PlannerState, look: &ConnectivityCheck) -> Option<String> {
        let id = memory.next_to_reattach(look)?.to_string();
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
        let plan = Plan {
            steps: vec![step],
            ..Plan::default()
        };
        memory.remember_reattached(Some(look), &plan);
        Some(id)
    }

    #[test]
    fn whom_nobody_reaches_is_attached_anew_first_and_each_once() {
        let mut memory = PlannerState::default();
        let bad = |at| look(at, [Some(lost()), None, Some(lost())]);
        assert_eq!(reattach(&mut memory, &bad(1)).as_deref(), Some("b"));
        assert_eq!(reattach(&mut memory, &bad(1)), None, "the next look decides");
        assert_eq!(reattach(&mut memory, &bad(2)).as_deref(), Some("a"));
        assert_eq!(reattach(&mut memory, &bad(3)).as_deref(), Some("c"));
        assert_eq!(reattach(&mut memory, &bad(4)), None, "each was, once");
        let mut anew = bad(5);
        anew.key.epoch = Some(Timestamp(5));
        assert_eq!(reattach(&mut memory, &anew).as_deref(), Some("b"));
    }

    #[test]
    fn who_reaches_none_of_several_is_the_likeliest() {
        let bad = look(1, [None, Some(lost()), Some(lost())]);
        assert_eq!(reattach(&mut PlannerState::default(), &bad).as_deref(), Some("c"));
    }

    #[test]
    fn a_port_that_refuses_is_no_reason_to_attach_anybody_anew() {
        let refused = Some(LinkError::Refused(String::new()));
        let bad = look(1, [refused, None, None]);
        assert_eq!(reattach(&mut PlannerState::default(), &bad), None);
    }
}

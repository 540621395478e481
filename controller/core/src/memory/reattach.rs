//! Whom to attach anew when a look shows somebody out of reach, once for each state of things.

use super::Memory;
use crate::connectivity::Look;
use crate::desired::hash::hash_of;
use crate::ident::{ContainerId, Hash};
use crate::plan::{Act, Cause, Plan};
use crate::time::Timestamp;

/// What a container was attached anew for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reattached {
    /// What was looked at.
    signature: Hash,
    /// When.
    look: Timestamp,
}

impl Reattached {
    fn of(look: &Look) -> Self {
        Self {
            signature: hash_of(&look.signature),
            look: look.at,
        }
    }
}

impl Memory {
    /// The likeliest of those that were not attached anew since the same was looked at; nobody before the next look has
    /// shown what came of the last one.
    pub fn next_to_reattach<'a>(&self, look: &'a Look) -> Option<&'a ContainerId> {
        let suspects = look.suspects();
        if suspects.is_empty() {
            return None;
        }
        let now = Reattached::of(look);
        if self.reattached.values().any(|done| *done == now) {
            return None;
        }
        let mut runs = suspects
            .into_iter()
            .filter_map(|name| look.signature.runs.get(name));
        let new = |id: &ContainerId| {
            let done = self.reattached.get(id);
            done.is_none_or(|done| done.signature != now.signature)
        };
        runs.find(|(id, _)| new(id)).map(|(id, _)| id)
    }

    /// What a plan attaches anew counts from when it is handed out.
    pub fn remember_reattached(&mut self, look: Option<&Look>, plan: &Plan) {
        let Some(look) = look else { return };
        for step in plan.steps.iter().filter(|step| step.because == Cause::Unreached) {
            if let Act::DisconnectNetwork { container, .. } = &step.act
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
    use crate::connectivity::{Aim, Found, Seen, Signature, Trouble};
    use crate::ident::ServiceName;
    use crate::plan::{Step, Subject};

    fn name(text: &str) -> ServiceName {
        ServiceName::new(text).unwrap()
    }

    /// `a` looks at `b`, and `c` at `a` and `b`; what is wrong of each.
    fn look(at: i64, wrong: [Option<Trouble>; 3]) -> Look {
        let links = [("a", "b"), ("c", "a"), ("c", "b")].into_iter().zip(wrong);
        let found = |((from, to), trouble): ((&str, &str), Option<Trouble>)| Found {
            from: name(from),
            aim: Aim {
                to: name(to),
                host: to.to_owned(),
                port: None,
            },
            seen: Ok(Seen {
                addresses: Vec::new(),
                trouble,
            }),
        };
        let run = |text: &str| (name(text), (ContainerId::new(text).unwrap(), None));
        Look {
            signature: Signature {
                runs: ["a", "b", "c"].map(run).into(),
                network: None,
                epoch: None,
                aims: BTreeMap::new(),
            },
            at: Timestamp(at),
            again: None,
            links: links.map(found).collect(),
            is_current: true,
        }
    }

    fn lost() -> Trouble {
        Trouble::TimedOut(String::new())
    }

    fn reattach(memory: &mut Memory, look: &Look) -> Option<String> {
        let id = memory.next_to_reattach(look)?.to_string();
        let step = Step {
            subject: Subject::StrayContainer {
                id: ContainerId::new(id.clone()).unwrap(),
            },
            act: Act::DisconnectNetwork {
                network: "n".to_owned(),
                container: id.clone(),
            },
            because: Cause::Unreached,
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
        let mut memory = Memory::default();
        let bad = |at| look(at, [Some(lost()), None, Some(lost())]);
        assert_eq!(reattach(&mut memory, &bad(1)).as_deref(), Some("b"));
        assert_eq!(reattach(&mut memory, &bad(1)), None, "the next look decides");
        assert_eq!(reattach(&mut memory, &bad(2)).as_deref(), Some("a"));
        assert_eq!(reattach(&mut memory, &bad(3)).as_deref(), Some("c"));
        assert_eq!(reattach(&mut memory, &bad(4)), None, "each was, once");
        let mut anew = bad(5);
        anew.signature.epoch = Some(Timestamp(5));
        assert_eq!(reattach(&mut memory, &anew).as_deref(), Some("b"));
    }

    #[test]
    fn who_reaches_none_of_several_is_the_likeliest() {
        let bad = look(1, [None, Some(lost()), Some(lost())]);
        assert_eq!(reattach(&mut Memory::default(), &bad).as_deref(), Some("c"));
    }

    #[test]
    fn a_port_that_refuses_is_no_reason_to_attach_anybody_anew() {
        let refused = Some(Trouble::Refused(String::new()));
        let bad = look(1, [refused, None, None]);
        assert_eq!(reattach(&mut Memory::default(), &bad), None);
    }
}

//! Expectations: cover the time between the end of an action and its observed effect.
//!
//! An API call returns before the informer reports its effect. Invariant 6: until a [`Proof`] is observed
//! or the expectation expires, the planner plans nothing for the subject; otherwise it would repeat the action.

use std::time::Duration;

use crate::action::ActionKind;
use crate::effect::{ObservableEffect, Observation};
use crate::observed::Store;
use crate::time::Timestamp;

/// Maximum time until an effect is observed; then Argus requests a full list.
pub const EFFECT_WITHIN: Duration = Duration::from_secs(5);
/// Maximum time to wait for a full list; then the plan continues with the known state.
pub const RELIST_WITHIN: Duration = Duration::from_secs(30);

/// An effect that is not observed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// Kind of the finished action.
    pub verb: ActionKind,
    /// Observation that proves the effect.
    pub proof: Proof,
    /// Deadline of the expectation.
    pub until: Timestamp,
}

/// An observation that proves an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The effect itself.
    Effect(ObservableEffect),
    /// A list that started after the list of this number is complete.
    Relisted(u64),
}

impl Proof {
    /// True if the store shows the effect. A missing container counts as proof of every effect except its creation.
    pub fn is_seen(&self, store: &Store) -> bool {
        match self {
            Self::Effect(effect) => effect.observe(store) != Observation::NotObserved,
            Self::Relisted(after) => store.last_complete() > *after,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::action::Subject;
    use crate::ident::{EnvName, NetworkId};
    use crate::state::{InFlight, PlannerState};

    #[test]
    fn environment_is_busy_until_its_effect_is_observed() {
        let env = EnvName::new("shop").unwrap();
        let network = Subject::Network {
            environment: env.clone(),
            name: None,
        };
        let image = Subject::Image {
            key: "web:1".to_owned(),
        };
        let in_flight = |subject, verb| {
            let action = InFlight {
                environment: env.clone(),
                id: "1".to_owned(),
                verb,
                since: Timestamp(1),
                run_before: None,
            };
            PlannerState {
                in_flight: BTreeMap::from([(subject, action)]),
                ..PlannerState::default()
            }
        };
        let effect = ObservableEffect::NetworkPresent(NetworkId::new("n").unwrap());
        let expected = Expectation {
            verb: ActionKind::CreateNetwork,
            proof: Proof::Effect(effect),
            until: Timestamp(9),
        };
        let created = PlannerState {
            expectations: BTreeMap::from([(network.clone(), expected)]),
            ..PlannerState::default()
        };
        for state in [in_flight(network, ActionKind::CreateNetwork), created] {
            assert!(state.busy_environments().eq([&env]));
        }
        let pulling = in_flight(image, ActionKind::PullImage);
        assert_eq!(pulling.busy_environments().count(), 0);
    }
}

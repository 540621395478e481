//! Expectations: cover the time between the end of an action and its observed effect.
//!
//! An API call returns before the informer reports its effect. Until a [`Proof`] is observed, the planner plans nothing
//! for the subject; otherwise it would repeat the action.

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

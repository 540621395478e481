//! Expectation phase of a pass: drops proven expectations and requests relists for expired ones.

use super::{Inputs, Planner};
use crate::state::Proof;
use crate::state::expectation::RELIST_WITHIN;

impl Planner {
    /// Drops expectations whose proof is observed. Returns true if an expired one needs a relist.
    pub(super) fn expire_expectations(&mut self, inputs: &Inputs<'_>) -> bool {
        let mut proven = Vec::new();
        let mut relist = false;
        for (subject, expected) in &mut self.state.expectations {
            if expected.proof.is_seen(inputs.store) {
                proven.push(subject.clone());
            } else if expected.until <= inputs.now {
                if matches!(expected.proof, Proof::Relisted(_)) && !inputs.store.is_synced() {
                    // Without an engine no list can arrive, and no action runs either.
                    expected.until = inputs.now + RELIST_WITHIN;
                } else if matches!(expected.proof, Proof::Relisted(_)) {
                    proven.push(subject.clone());
                } else {
                    expected.proof = Proof::Relisted(inputs.store.lists_started());
                    expected.until = inputs.now + RELIST_WITHIN;
                    relist = true;
                }
            } else if matches!(expected.proof, Proof::Relisted(after) if inputs.store.lists_started() <= after)
            {
                relist = true;
            }
        }
        for subject in proven {
            self.state.expectations.remove(&subject);
            self.invalidate(&subject);
        }
        relist
    }
}

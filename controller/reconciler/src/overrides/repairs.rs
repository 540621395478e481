//! Repairs: edits after which an environment that failed is Ready.

use std::sync::Arc;

use argus_core::repair::FailingRevisions;
use argus_core::time::Timestamp;

use super::known_good::good_at;
use super::{DesiredState, OverrideInputs, Overrides};

impl Overrides {
    /// Records the failing revisions, and the edits that ended their failures. Returns the time of the next check.
    pub(crate) fn record_repairs(
        &mut self,
        failing: &mut FailingRevisions,
        desired: &DesiredState,
        inputs: OverrideInputs<'_>,
    ) -> Option<Timestamp> {
        failing.retain(|env| desired.contains_key(env));
        let mut next: Option<Timestamp> = None;
        for (env, accepted) in desired {
            let Some(history) = inputs.state.history(env) else {
                continue;
            };
            failing.record(accepted, history);
            if !failing.contains_other(accepted) {
                continue;
            }
            match good_at(accepted, history, inputs.store) {
                Some(at) if at > inputs.now => next = Some(next.map_or(at, |next| next.min(at))),
                Some(_) => {
                    for repair in failing.take_repairs(accepted, inputs.now) {
                        Arc::make_mut(&mut self.repairs).add(repair);
                    }
                }
                None => {}
            }
        }
        next
    }
}

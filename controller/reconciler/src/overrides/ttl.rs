//! TTL: takes environments down when their `argus.ttl` has passed.

use argus_core::desired::Accepted;
use argus_core::time::Timestamp;

use super::{Down, OverrideInputs, Overrides};

impl Overrides {
    /// Takes down environments whose `argus.ttl` has passed, as `down` would, and returns the next expiry.
    ///
    /// As with every removal that a file causes, nothing expires while the folder cannot be read or the file has a
    /// pending edit. A running test ends first, because no person requests this removal now.
    pub(crate) fn expire_ttls(&mut self, inputs: OverrideInputs<'_>) -> Option<Timestamp> {
        if !inputs.specs.scanned || inputs.specs.unavailable.is_some() {
            return None;
        }
        let mut next = self.expire_forks(inputs);
        for (env, accepted) in &inputs.specs.environments {
            let Some(ttl) = accepted.desired.ttl else { continue };
            if accepted.has_pending_edit || self.down.contains_key(env) {
                continue;
            }
            let due = self.ttl_start(accepted) + ttl;
            let test = self.requests.test_lease(env, inputs.now);
            let due = test.map_or(due, |lease| due.max(lease.until));
            if due <= inputs.now {
                tracing::info!(environment = %env, ?ttl, "TTL expired: taking the environment down");
                self.down.insert(env.clone(), Down::of(accepted));
                self.ttl_expired.insert(env.clone());
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        next
    }

    /// Removes temporary copies whose time has passed, and returns the next expiry.
    fn expire_forks(&mut self, inputs: OverrideInputs<'_>) -> Option<Timestamp> {
        let requests = &self.requests;
        let mut next: Option<Timestamp> = None;
        self.forks.retain(|env, accepted| {
            let Some(ttl) = accepted.desired.ttl else {
                return true;
            };
            let due = accepted.accepted_at + ttl;
            let test = requests.test_lease(env, inputs.now);
            let due = test.map_or(due, |lease| due.max(lease.until));
            if due <= inputs.now {
                tracing::info!(environment = %env, "the time of a temporary copy ended: removing it");
                return false;
            }
            next = Some(next.map_or(due, |next| next.min(due)));
            true
        });
        next
    }

    /// Start of the TTL: the acceptance of the file, or the time at which a person brought this revision back.
    fn ttl_start(&self, accepted: &Accepted) -> Timestamp {
        let retried = self.retried.get(&accepted.desired.env);
        match retried.filter(|(revision, _)| *revision == accepted.desired.revision) {
            Some((_, at)) => (*at).max(accepted.accepted_at),
            None => accepted.accepted_at,
        }
    }
}

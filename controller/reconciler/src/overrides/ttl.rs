//! Environments that live for as long as their file says, and are down after that.

use argus_core::desired::Accepted;
use argus_core::time::Timestamp;

use super::{OverrideInputs, Overrides};

impl Overrides {
    /// Takes down what has lived for its `argus.ttl`, as a person would; when the next one has.
    ///
    /// As with everything that is removed on the word of a file: not while the folder cannot be read, nor while the file
    /// says something else that does not count yet. Nobody asked for it now, so a test that runs comes to its end before.
    pub(crate) fn expire(&mut self, facts: OverrideInputs<'_>) -> Option<Timestamp> {
        if !facts.specs.scanned || facts.specs.unavailable.is_some() {
            return None;
        }
        let mut next: Option<Timestamp> = None;
        for (env, accepted) in &facts.specs.environments {
            let Some(ttl) = accepted.desired.ttl else { continue };
            if accepted.has_pending_edit || self.down.contains_key(env) {
                continue;
            }
            let due = self.lives_since(accepted) + ttl;
            let test = self.requests.lease(env, facts.now);
            let due = test.map_or(due, |lease| due.max(lease.until));
            if due <= facts.now {
                tracing::info!(environment = %env, ?ttl, "its time is over: taking it down");
                self.down.insert(env.clone(), accepted.desired.revision.clone());
                self.expired.insert(env.clone());
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        next
    }

    /// Since its file was accepted, or since somebody brought it back at this revision.
    fn lives_since(&self, accepted: &Accepted) -> Timestamp {
        let revived = self.revived.get(&accepted.desired.env);
        match revived.filter(|(revision, _)| *revision == accepted.desired.revision) {
            Some((_, at)) => (*at).max(accepted.accepted_at),
            None => accepted.accepted_at,
        }
    }
}

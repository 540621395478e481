//! Revisions that have a deadline to become ready by, and give way when they miss it.

use argus_core::desired::Desired;
use argus_core::ident::ServiceName;
use argus_core::state::FailedRun;
use argus_core::time::Timestamp;

use super::{OverrideInputs, Overrides};

impl Overrides {
    /// Rolls back what missed its deadline; when the next deadline is. Only the time runs in which it could be tried: with
    /// an engine, and unless somebody holds it.
    pub(crate) fn roll_back_automatically(&mut self, facts: OverrideInputs<'_>) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        let mut late = Vec::new();
        for (env, accepted) in &facts.specs.environments {
            let Some(deadline) = accepted.desired.rollback else {
                continue;
            };
            let revision = &accepted.desired.revision;
            let goods = self.known_good.get(env).map(Vec::as_slice).unwrap_or_default();
            let good = goods.iter().any(|good| good.desired.revision == *revision)
                || is_ready(&accepted.desired, facts);
            let other = goods.iter().any(|good| good.desired.revision != *revision);
            if good || !other || self.rollbacks.contains_key(env) || self.down.contains_key(env) {
                continue;
            }
            let held = accepted.desired.hold || self.requests.environment_hold(env, facts.now).is_some();
            if held || !facts.store.synced() {
                self.attempted.remove(env);
                continue;
            }
            let tried = self
                .attempted
                .entry(env.clone())
                .or_insert_with(|| (revision.clone(), facts.now));
            if tried.0 != *revision {
                *tried = (revision.clone(), facts.now);
            }
            let due = tried.1 + deadline;
            if due <= facts.now {
                late.push((env.clone(), accepted.clone()));
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        for (env, accepted) in late {
            tracing::warn!(environment = %env, revision = %accepted.desired.revision,
                "revision missed its deadline: rolling back");
            // There is one, as was just seen.
            let _rolled = self.roll_back(&env, &accepted, true, facts);
        }
        next
    }
}

/// It became ready, and nothing that it requires has failed since and not come back.
fn is_ready(desired: &Desired, facts: OverrideInputs<'_>) -> bool {
    facts.memory.environments.get(&desired.env).is_some_and(|kept| {
        let failing = |failed_run: &FailedRun| !failed_run.followed_by_run;
        let required = |name: &ServiceName| {
            let service = desired.services.get(name);
            service.is_none_or(|service| service.criticality.is_required(true))
        };
        let mut services = kept.services.iter().filter(|(name, _)| required(name));
        kept.last_good.as_ref() == Some(&desired.revision)
            && !services.any(|(_, kept)| kept.failures.last().is_some_and(failing))
    })
}

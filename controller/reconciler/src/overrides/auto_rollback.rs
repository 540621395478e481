//! Automatic rollback: a revision that misses its deadline to become Ready is replaced by the last known good one.

use argus_core::desired::Desired;
use argus_core::failed_run::FailedRun;
use argus_core::ident::ServiceName;
use argus_core::time::Timestamp;

use super::{OverrideInputs, Overrides};

impl Overrides {
    /// Rolls back revisions that missed their deadline, and returns the next deadline. The deadline runs only while
    /// the revision can be attempted: with a synced engine, and without a hold.
    pub(crate) fn roll_back_automatically(&mut self, inputs: OverrideInputs<'_>) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        let mut late = Vec::new();
        for (env, accepted) in &inputs.specs.environments {
            let Some(deadline) = accepted.desired.rollback else {
                continue;
            };
            let revision = &accepted.desired.revision;
            let good_revisions = self.known_good.get(env).map(Vec::as_slice).unwrap_or_default();
            let good = good_revisions
                .iter()
                .any(|good| good.desired.revision == *revision)
                || is_ready(&accepted.desired, inputs);
            let other = good_revisions
                .iter()
                .any(|good| good.desired.revision != *revision);
            if good || !other || self.rollbacks.contains_key(env) || self.down.contains_key(env) {
                continue;
            }
            let held = accepted.desired.hold || self.requests.environment_hold(env, inputs.now).is_some();
            if held || !inputs.store.is_synced() {
                self.attempted.remove(env);
                continue;
            }
            let attempt = self
                .attempted
                .entry(env.clone())
                .or_insert_with(|| (revision.clone(), inputs.now));
            if attempt.0 != *revision {
                *attempt = (revision.clone(), inputs.now);
            }
            let due = attempt.1 + deadline;
            if due <= inputs.now {
                late.push((env.clone(), accepted.clone()));
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        for (env, accepted) in late {
            tracing::warn!(environment = %env, revision = %accepted.desired.revision,
                "revision missed its deadline: rolling back");
            // `good` above ensures that a target exists, so the rollback cannot fail.
            let _rolled = self.start_rollback(&env, &accepted, true, inputs);
        }
        next
    }
}

/// Reports whether the revision became Ready, and no required service has failed since without another run.
fn is_ready(desired: &Desired, inputs: OverrideInputs<'_>) -> bool {
    inputs
        .state
        .environments
        .get(&desired.env)
        .is_some_and(|history| {
            let failing = |failed_run: &FailedRun| !failed_run.followed_by_run;
            let required = |name: &ServiceName| {
                let service = desired.services.get(name);
                service.is_none_or(|service| service.criticality.is_required(true))
            };
            let mut services = history.services.iter().filter(|(name, _)| required(name));
            history.last_ready.as_ref() == Some(&desired.revision)
                && !services.any(|(_, history)| history.failures.last().is_some_and(failing))
        })
}

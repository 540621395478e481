//! Observation phase of a pass: drops proven expectations, and folds the observed runs into the state.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Inputs, Planner};
use crate::desired::Accepted;
use crate::ident::EnvName;
use crate::lease::Ownership;
use crate::observed::{Observed, Store};
use crate::state::expectation::RELIST_WITHIN;
use crate::state::{Proof, observe};
use crate::time::Timestamp;

impl Planner {
    /// As [`PlannerState::move_networks`].
    pub fn move_networks(
        &mut self,
        specs: &BTreeMap<EnvName, Arc<Accepted>>,
        store: &Store,
    ) -> Option<BTreeMap<EnvName, Arc<Accepted>>> {
        self.state.move_networks(specs, store)
    }

    /// Observes the environments whose inputs changed since their last observation.
    pub(super) fn observe(&mut self, envs: &[&EnvName], inputs: &Inputs<'_>) {
        let nothing = Arc::new(Observed::default());
        let has_new_outages = self.outages != inputs.store.outages();
        if has_new_outages {
            self.outages = inputs.store.outages().to_vec();
        }
        let mut is_image_forgotten = false;
        for &env in envs {
            if matches!(
                inputs.leases.ownership(env, true, inputs.now),
                Ownership::HeldByOther(_)
            ) {
                // Failures and ports of another controller's environment are not ours.
                continue;
            }
            let accepted = inputs.specs.get(env);
            let observed = inputs.store.of(env).unwrap_or(&nothing);
            if !has_new_outages && !self.must_observe(env, accepted, observed, inputs.now) {
                continue;
            }
            let observation = self.state.observe(
                env,
                accepted.map(AsRef::as_ref),
                observed,
                &observe::Context {
                    health: inputs.health,
                    outages: inputs.store.outages(),
                    requests: inputs.requests,
                    controller: &self.identity.controller,
                    now: inputs.now,
                },
            );
            is_image_forgotten |= observation.is_image_forgotten;
            if observation.has_new_ports {
                self.reservations = None;
            }
            self.cache.entry(env.clone()).or_default().observe_again = observation.is_changed;
        }
        if is_image_forgotten {
            self.invalidate_all();
        }
    }

    fn must_observe(
        &self,
        env: &EnvName,
        accepted: Option<&Arc<Accepted>>,
        observed: &Observed,
        now: Timestamp,
    ) -> bool {
        let resets_budget = || {
            let history = self.state.environments.get(env);
            let mut services = history.into_iter().flat_map(|history| history.services.values());
            services.any(|service| service.budget_resets_at.is_some_and(|at| at <= now))
        };
        self.cache.get(env).is_none_or(|cached| cached.observe_again)
            || self.is_stale(env, accepted, observed, now)
            || resets_budget()
    }

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

//! Cached plans, and their invalidation after a change of their inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{Inputs, Planner, ReconcileResult, obstacles};
use crate::action::Subject;
use crate::connectivity::CheckResults;
use crate::desired::Desired;
use crate::ident::EnvName;
use crate::observed::Released;
use crate::outcome::ActionError;
use crate::plan::Plan;
use crate::wait::{Wait, WaitReason};

/// Delay of a retry after any client removed a network.
const EARLY_RETRY: Duration = Duration::from_secs(2);

impl Planner {
    pub(super) fn invalidate(&mut self, subject: &Subject) {
        match subject.environment() {
            Some(environment) => {
                if let Some(cached) = self.cache.get_mut(environment) {
                    cached.stale = true;
                }
            }
            // These are shared by environments, or belong to an environment that the subject does not name.
            None => {
                self.invalidate_all();
            }
        }
    }

    /// Marks the environments stale whose containers changed their probe result.
    pub(super) fn on_health_changed(&mut self, inputs: &Inputs<'_>) {
        if self.health == *inputs.health {
            return;
        }
        let both = self.health.keys().chain(inputs.health.keys());
        let flipped: BTreeSet<EnvName> = both
            .filter(|id| self.health.get(*id) != inputs.health.get(*id))
            .filter_map(|id| inputs.store.container(id)?.owner())
            .map(|owner| owner.environment)
            .collect();
        for (env, cached) in &mut self.cache {
            cached.stale |= flipped.contains(env);
        }
        self.health.clone_from(inputs.health);
    }

    /// Marks the environments stale that wait for a preflight snapshot; all of them if it can shed services.
    pub(super) fn on_preflight_changed(&mut self, inputs: &Inputs<'_>) {
        let at = inputs.preflight.and_then(|preflight| preflight.at);
        if self.preflight_at == at {
            return;
        }
        self.preflight_at = at;
        let waited = |plan: &Plan| {
            let on = |wait: &Wait| matches!(wait.on, WaitReason::Preflight { .. });
            plan.waits.iter().any(on)
        };
        let sheds = self.state.retries.shed_optional;
        for cached in self.cache.values_mut() {
            cached.stale |= sheds || waited(&cached.plan);
        }
    }

    /// Requests a preflight snapshot once the last one is old, and wakes the planner at that time. A requested one wakes it too.
    pub(super) fn recheck_disk(&self, inputs: &Inputs<'_>, result: &mut ReconcileResult) {
        let sheds = self.state.retries.shed_optional;
        let policies = inputs.specs.values().map(|accepted| &accepted.desired.preflight);
        let at = inputs
            .preflight
            .and_then(|preflight| preflight.recheck_at(policies, sheds, inputs.now));
        result.needs_preflight |= at.is_some_and(|at| at <= inputs.now);
        let later = at.filter(|at| *at > inputs.now);
        result.wake_at = [result.wake_at, later].into_iter().flatten().min();
    }

    /// Marks the environments stale whose connectivity check changed.
    pub fn on_connectivity_changed(&mut self, results: &Arc<CheckResults>) {
        if Arc::ptr_eq(&self.connectivity, results) {
            return;
        }
        for (env, cached) in &mut self.cache {
            cached.stale |= self.connectivity.checks.get(env) != results.checks.get(env);
        }
        self.connectivity = results.clone();
    }

    /// Ends the failures of actions that needed a name that is free now, and retries those that needed an address range early.
    pub(super) fn on_released(&mut self, inputs: &Inputs<'_>) {
        let names = inputs.store.released();
        let seen = std::mem::replace(&mut self.released_seen, names.count());
        let mut is_changed = false;
        for name in names.since(seen) {
            self.state.action_failures.retain(|subject, failure| {
                if matches!(name, Released::Network(_)) {
                    // Another client may take the range first, so the failed attempts count on.
                    is_changed |= failure.retry_from(failure.at + EARLY_RETRY);
                }
                let has_ended = waits_for(subject, &failure.error, name, inputs);
                is_changed |= has_ended;
                !has_ended
            });
        }
        if is_changed {
            self.invalidate_all();
        }
    }

    /// Finds the obstacles, and invalidates all plans after a change.
    pub(super) fn observe_obstacles(&mut self, inputs: &Inputs<'_>) {
        let found = obstacles::find(inputs, &self.state, &self.peers.projects, &self.identity);
        if self.obstacles != found {
            self.obstacles = found;
            self.invalidate_all();
        }
    }

    /// Plans of all environments. The map of the last pass is returned again if no plan changed.
    pub(super) fn cached_plans(&mut self) -> Arc<BTreeMap<EnvName, Arc<Plan>>> {
        let mut both = self.plans.iter().zip(&self.cache);
        let is_same = self.plans.len() == self.cache.len()
            && both.all(|((env, plan), (of, cached))| env == of && Arc::ptr_eq(plan, &cached.plan));
        if !is_same {
            let cached = self.cache.iter();
            let plans = cached.map(|(env, cached)| (env.clone(), cached.plan.clone()));
            self.plans = Arc::new(plans.collect());
        }
        self.plans.clone()
    }

    pub(super) fn invalidate_all(&mut self) {
        for cached in self.cache.values_mut() {
            cached.stale = true;
        }
    }
}

/// Returns whether the action on a subject failed because of the object that had this name.
fn waits_for(subject: &Subject, error: &ActionError, released: &Released, inputs: &Inputs<'_>) -> bool {
    let desired = || Some(&inputs.specs.get(subject.environment()?)?.desired);
    match (released, error) {
        (Released::Network(name), ActionError::NameTaken { .. }) => {
            let Subject::Network { name: key, .. } = subject else {
                return false;
            };
            let mut networks = desired().into_iter().flat_map(Desired::declared_networks);
            networks.any(|network| network.key == key.as_ref() && network.name.as_str() == name)
        }
        (Released::Container(name), ActionError::NameTaken { .. } | ActionError::Busy(_)) => {
            let service = || desired()?.services.get(subject.service()?);
            service().is_some_and(|service| service.container_name.as_str() == name)
        }
        _ => false,
    }
}

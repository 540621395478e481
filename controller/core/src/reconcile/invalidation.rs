//! Invalidation of cached plans after a change of their inputs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Inputs, Planner, obstacles};
use crate::action::Subject;
use crate::connectivity::CheckResults;
use crate::ident::EnvName;
use crate::plan::Plan;
use crate::wait::{Wait, WaitingOn};

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

    /// Marks the environments stale that wait for a preflight snapshot.
    pub(super) fn on_preflight_changed(&mut self, inputs: &Inputs<'_>) {
        let at = inputs.preflight.and_then(|preflight| preflight.at);
        if self.preflight_at == at {
            return;
        }
        self.preflight_at = at;
        let waited = |plan: &Plan| {
            let on = |wait: &Wait| matches!(wait.on, WaitingOn::Preflight { .. });
            plan.waits.iter().any(on)
        };
        for cached in self.cache.values_mut() {
            cached.stale |= waited(&cached.plan);
        }
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

    /// Finds the obstacles, and invalidates all plans after a change.
    pub(super) fn observe_obstacles(&mut self, inputs: &Inputs<'_>) {
        let found = obstacles::find(inputs, &self.state, &self.peers.projects, &self.identity);
        if self.obstacles != found {
            self.obstacles = found;
            self.invalidate_all();
        }
    }

    pub(super) fn invalidate_all(&mut self) {
        for cached in self.cache.values_mut() {
            cached.stale = true;
        }
    }
}

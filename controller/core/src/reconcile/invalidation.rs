//! Which environments have to be planned again because something changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Inputs, Planner};
use crate::connectivity::CheckResults;
use crate::ident::EnvName;
use crate::plan::{Plan, Subject, Wait, WaitingOn};

impl Planner {
    pub(super) fn invalidate(&mut self, subject: &Subject) {
        match subject {
            Subject::Service { environment, .. }
            | Subject::Network { environment }
            | Subject::Volume { environment, .. } => {
                if let Some(cached) = self.cache.get_mut(environment) {
                    cached.stale = true;
                }
            }
            // Shared by environments, or of an environment that the subject does not name.
            Subject::Image { .. } | Subject::ExtraContainer { .. } | Subject::ExtraNetwork { .. } => {
                self.invalidate_all();
            }
        }
    }

    /// A verdict that flips concerns the environment of its container, and no other.
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

    /// A new look concerns those who waited for one.
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

    /// A new look at who reaches whom concerns the environment that it was taken of.
    pub fn on_links_changed(&mut self, links: &Arc<CheckResults>) {
        if Arc::ptr_eq(&self.links, links) {
            return;
        }
        for (env, cached) in &mut self.cache {
            cached.stale |= self.links.checks.get(env) != links.checks.get(env);
        }
        self.links = links.clone();
    }

    pub(super) fn invalidate_all(&mut self) {
        for cached in self.cache.values_mut() {
            cached.stale = true;
        }
    }
}

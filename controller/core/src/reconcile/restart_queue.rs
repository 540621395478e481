//! Order of restarts over all environments: which environment is planned first, and which restarts wait elsewhere.

use super::{Inputs, Planner};
use crate::ident::EnvName;
use crate::plan::restart_rate_limit::{Urgency, urgency};
use crate::time::Timestamp;
use crate::wait::WaitReason;

impl Planner {
    /// Sorts environments by their most urgent restart, so that it is planned first. The others keep their order.
    pub(super) fn sort_by_urgency(&self, envs: &mut [&EnvName], inputs: &Inputs<'_>) {
        envs.sort_by_cached_key(|env| {
            let most_urgent = self.most_urgent_failure(env, inputs);
            (most_urgent.is_none(), most_urgent)
        });
    }

    fn most_urgent_failure(&self, env: &EnvName, inputs: &Inputs<'_>) -> Option<Urgency> {
        let services = &self.state.environments.get(env)?.services;
        let desired = &inputs.specs.get(env)?.desired.services;
        let failed = services.iter().filter_map(|(name, history)| {
            let last = history.failures.last().filter(|last| !last.followed_by_run)?;
            Some((desired.get(name)?.criticality, last.seen()))
        });
        failed.min()
    }

    /// Restarts of the other environments that wait for a permit of the rate limit.
    pub(super) fn restart_claims(&self, env: &EnvName, now: Timestamp) -> Vec<Urgency> {
        let others = self.cache.iter().filter(|(other, _)| *other != env);
        let claims = others.flat_map(|(other, cached)| {
            let limited = cached
                .plan
                .waits
                .iter()
                .filter(|wait| matches!(wait.on, WaitReason::RestartRateLimited { .. }));
            let history = self.state.history(other);
            limited.filter_map(move |wait| urgency(cached.accepted.as_deref(), history, &wait.subject, now))
        });
        claims.collect()
    }
}

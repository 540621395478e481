//! Forgetting: keeps the planner state as small as the desired and observed environments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_crds::PullPolicy;

use crate::action::Subject;
use crate::desired::{Accepted, Desired};
use crate::failed_run::FailureCause;
use crate::ident::{EnvName, ServiceName};
use crate::observed::{Observed, Store};
use crate::state::{
    EnvHistory, ImageState, PlannerState, REFUSAL_MEMORY, RESTART_RATE_WINDOW, ServiceHistory,
};
use crate::time::Timestamp;

impl PlannerState {
    /// Forgets the failures, failed runs and missing images of an environment, because its input changed. Returns true if it
    /// forgot the state of an image, which other environments may share.
    pub fn clear_failures(&mut self, env: &EnvName, desired: Option<&Desired>) -> bool {
        self.clear_failures_of(env, None, desired)
    }

    /// Forgets the failures, failed runs and the missing image of a service, or of all services of the environment. Returns
    /// true if it forgot the state of an image, which other environments may share.
    pub fn clear_failures_of(
        &mut self,
        env: &EnvName,
        service: Option<&ServiceName>,
        desired: Option<&Desired>,
    ) -> bool {
        let is_selected = |name: &ServiceName| service.is_none_or(|service| service == name);
        let images: BTreeSet<String> = desired
            .into_iter()
            .flat_map(|desired| desired.services.values())
            .filter(|s| is_selected(&s.name))
            .map(|s| s.image.key())
            .collect();
        // A new revision pulls these again.
        let always: BTreeSet<String> = desired
            .into_iter()
            .flat_map(|desired| desired.services.values())
            .filter(|s| is_selected(&s.name) && s.pull_policy == PullPolicy::Always)
            .map(|s| s.image.key())
            .collect();
        let known_images = self.images.len();
        let mut is_image_forgotten = false;
        self.action_failures.retain(|subject, _| {
            let is_image = subject.image_key().is_some_and(|key| images.contains(key));
            is_image_forgotten |= is_image;
            let is_own = subject.environment() == Some(env)
                && (service.is_none() || subject.service().is_some_and(is_selected));
            !is_own && !is_image
        });
        self.images.retain(|key, known| {
            !always.contains(key) && (*known == ImageState::Present || !images.contains(key))
        });
        if let Some(history) = self.environments.get_mut(env) {
            let services = &mut Arc::make_mut(history).services;
            let selected = services.iter_mut().filter(|(name, _)| is_selected(name));
            selected.for_each(|(_, service)| Arc::make_mut(service).clear_failures());
        }
        is_image_forgotten || self.images.len() < known_images
    }

    /// Treats all refused host ports as free, so that the next start tries them again. A search still takes them last.
    pub fn unblock_ports(&mut self) {
        for refused in self.refused.values_mut() {
            refused.times = 0;
            refused.refusal.free_now = true;
            refused.refusal.busy.clear();
        }
    }

    /// Forgets the state of absent objects. Returns true if an environment was forgotten.
    pub fn forget_absent(
        &mut self,
        specs: &BTreeMap<EnvName, Arc<Accepted>>,
        store: &Store,
        now: Timestamp,
    ) -> bool {
        self.refused
            .retain(|_, refused| refused.at + REFUSAL_MEMORY > now);
        self.restarts.retain(|at| *at + RESTART_RATE_WINDOW > now);
        let is_in_flight = !self.in_flight.is_empty();
        self.stopped_by_us
            .retain(|id, _| is_in_flight || store.container(id).is_some());
        self.reattached.retain(|id, _| store.container(id).is_some());
        let wanted = |env: &EnvName| specs.contains_key(env) || store.of(env).is_some();
        let mut is_forgotten = false;
        self.environments.retain(|env, history| {
            if is_alive(env, specs, store) {
                return true;
            }
            // A kept volume outlives its environment. The counters belong to one life of it.
            let kept = history.without_life();
            let is_changed = **history != kept;
            is_forgotten |= is_changed || !wanted(env);
            if is_changed {
                *history = Arc::new(kept);
            }
            wanted(env)
        });
        self.not_owned.retain(|id| store.container(id).is_some());
        self.volumes.retain(|(env, _)| wanted(env));
        self.external_networks.retain(|(env, _)| wanted(env));
        self.action_failures.retain(|subject, _| match subject {
            Subject::Service { environment, .. }
            | Subject::Network { environment, .. }
            | Subject::Volume { environment, .. } => wanted(environment),
            Subject::ExtraContainer { id } => store.container(id).is_some(),
            Subject::ExtraNetwork { id } => store.network(id).is_some(),
            Subject::Image { .. } => true,
        });
        is_forgotten
    }

    /// Forgets the state of images that no spec uses.
    pub fn forget_unused_images(&mut self, specs: &BTreeMap<EnvName, Arc<Accepted>>) {
        let wanted: BTreeSet<String> = specs
            .values()
            .flat_map(|accepted| accepted.desired.services.values())
            .map(|service| service.image.key())
            .collect();
        self.images.retain(|key, _| wanted.contains(key));
        self.action_failures
            .retain(|subject, _| subject.image_key().is_none_or(|key| wanted.contains(key)));
    }
}

/// Returns true if the environment is desired, or has a container or network.
fn is_alive(env: &EnvName, specs: &BTreeMap<EnvName, Arc<Accepted>>, store: &Store) -> bool {
    let has_objects = |seen: &Arc<Observed>| !seen.containers.is_empty() || !seen.networks.is_empty();
    specs.contains_key(env) || store.of(env).is_some_and(has_objects)
}

impl EnvHistory {
    /// Returns what outlasts the environment: its ports, and the decision about its volumes.
    fn without_life(&self) -> Self {
        Self {
            ports: self.ports.clone(),
            requested_ports: self.requested_ports.clone(),
            delete_volumes: self.delete_volumes,
            external_volumes: self.external_volumes.clone(),
            external_networks: self.external_networks.clone(),
            ..Self::default()
        }
    }
}

impl ServiceHistory {
    /// Forgets the failed runs, for a new budget.
    pub(super) fn clear_failures(&mut self) {
        // An unhealthy run that continues has not ended: it fails again and is handled again.
        let last = self.failures.last();
        if let Some(ended) = last.filter(|failed_run| failed_run.cause == FailureCause::Exited) {
            // Without a new failure, the run that the previous call ignored stays ignored.
            self.ignored_run = Some((ended.container.clone(), ended.started_at));
        }
        self.end_budget(0, true, &[]);
        self.failures.clear();
        self.late_recovery = None;
        self.health_transitions.clear();
    }
}

impl PlannerState {
    /// Forgets the failures whose cause may be gone: of all services after an edit, and of each service after a change of a file that
    /// it mounts read-only. A file that the service can write is not a reason, because the service could retry itself without end.
    /// Returns true if it forgot the state of an image, which other environments may share.
    pub(super) fn clear_outdated_failures(
        &mut self,
        env: &EnvName,
        accepted: &Accepted,
        is_edited: bool,
    ) -> bool {
        let desired = &accepted.desired;
        let mut is_image_forgotten = is_edited && self.clear_failures(env, Some(desired));
        for service in desired.services.values() {
            let changed_at = accepted.files_changed_at(service);
            let history = self.environments.get(env);
            let Some(known) = history.and_then(|history| history.services.get(&service.name)) else {
                continue;
            };
            if changed_at <= known.files_changed_at {
                continue;
            }
            is_image_forgotten |= self.clear_failures_of(env, Some(&service.name), Some(desired));
            let history = self.environments.get_mut(env).map(Arc::make_mut);
            if let Some(service) = history.and_then(|history| history.services.get_mut(&service.name)) {
                Arc::make_mut(service).files_changed_at = changed_at;
            }
        }
        is_image_forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels;
    use crate::observed::{Object, Volume, WatchEvent};
    use crate::state::ImageState;

    #[test]
    fn kept_volume_keeps_no_counters() {
        let env = EnvName::new("shop").unwrap();
        let labels = [(labels::MANAGED, "true"), (labels::ENVIRONMENT, "shop")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut store = Store::default();
        store.apply(WatchEvent::Apply(Object::Volume(Arc::new(Volume {
            name: "data".to_owned(),
            labels: labels.into(),
        }))));
        assert!(store.of(&env).is_some());
        let mut history = EnvHistory {
            // The label of the volume can differ.
            delete_volumes: Some(false),
            last_ready: Some(crate::ident::Revision::new("1").unwrap()),
            revision: Some(crate::ident::Revision::new("1").unwrap()),
            since: Some(Timestamp(1)),
            ..EnvHistory::default()
        };
        history.service_mut(&ServiceName::new("web").unwrap()).restarts = 2;
        let mut state = PlannerState::default();
        state.environments.insert(env.clone(), Arc::new(history));
        assert!(state.forget_absent(&BTreeMap::new(), &store, Timestamp(2)));
        let kept = EnvHistory {
            delete_volumes: Some(false),
            ..EnvHistory::default()
        };
        assert_eq!(*state.environments[&env], kept);
        assert!(!state.forget_absent(&BTreeMap::new(), &store, Timestamp(3)));
        assert!(state.forget_absent(&BTreeMap::new(), &Store::default(), Timestamp(4)));
        assert!(state.environments.is_empty());
    }

    #[test]
    fn unused_image_is_forgotten() {
        let mut state = PlannerState::default();
        state.images.insert("web:1".to_owned(), ImageState::Present);
        state.forget_unused_images(&BTreeMap::new());
        assert!(state.images.is_empty());
    }
}

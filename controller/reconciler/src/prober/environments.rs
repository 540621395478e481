//! Environments with probed containers. Only an environment that changed gets new targets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_backend::Backend;
use argus_core::desired::hash::hash_of;
use argus_core::desired::{Accepted, ProbeHandler};
use argus_core::ident::{ContainerId, EnvName};
use argus_core::observed::{Observed, Store};

use super::log::LogState;
use super::probe_history::{ProbeHistory, ProbeResult};
use super::target::{self, Target};
use super::{ProbedContainer, Prober};
use crate::overrides::DesiredState;

/// Inputs of an environment's targets, and the containers that they select.
pub(super) struct ProbedEnvironment {
    accepted: Arc<Accepted>,
    observed: Arc<Observed>,
    containers: BTreeSet<ContainerId>,
}

impl<B: Backend> Prober<B> {
    /// Updates the targets of the environments that changed, and returns the number of them.
    pub(super) fn update_environments(&mut self, desired: &DesiredState, store: &Store) -> usize {
        let mut updated = 0;
        // A run from before the start can belong to a container that is not listed yet.
        self.ready_runs
            .retain(|id, _| !store.is_synced() || store.container(id).is_some());
        let gone = |env: &EnvName| !desired.contains_key(env) || store.of(env).is_none();
        let gone: Vec<EnvName> = self
            .environments
            .keys()
            .filter(|env| gone(env))
            .cloned()
            .collect();
        for env in gone {
            if let Some(known) = self.environments.remove(&env) {
                self.drop_containers(known.containers.iter(), store);
            }
        }
        for (env, accepted) in desired {
            let Some(observed) = store.of(env) else { continue };
            let is_same = self.environments.get(env).is_some_and(|known| {
                Arc::ptr_eq(&known.accepted, accepted) && Arc::ptr_eq(&known.observed, observed)
            });
            if !is_same {
                let wanted = target::wanted(accepted, observed, self.addresses);
                let environment = ProbedEnvironment {
                    accepted: accepted.clone(),
                    observed: observed.clone(),
                    containers: wanted.keys().cloned().collect(),
                };
                let containers = environment.containers.clone();
                if let Some(known) = self.environments.insert(env.clone(), environment) {
                    self.drop_containers(known.containers.difference(&containers), store);
                }
                self.update_targets(wanted);
                updated += 1;
            }
        }
        updated
    }

    /// Drops containers. A run that was ready by its log is probed again after a pause, or after the repair of its network: it is ready
    /// then, because it continued.
    fn drop_containers<'a>(&mut self, ids: impl Iterator<Item = &'a ContainerId>, store: &Store) {
        for id in ids {
            self.changed = true;
            if let Some(dropped) = self.containers.remove(id)
                && matches!(dropped.log, LogState::Ready)
                && store.container(id).is_some()
            {
                let run = (
                    dropped.target.started_at,
                    Some(hash_of(&dropped.target.probe.kind)),
                );
                self.ready_runs.insert(id.clone(), run);
            }
        }
    }

    /// True if the run was ready by the log search of its probe, so that the lines need not be there any more.
    fn was_ready(&mut self, id: &ContainerId, target: &Target) -> bool {
        let known = self.containers.get(id).map(|known| (&known.log, &known.target));
        // Other times are the same search.
        let (started_at, is_same) = if let Some((LogState::Ready, known)) = known {
            (known.started_at, known.probe.kind == target.probe.kind)
        } else if let Some((started_at, probe)) = self.ready_runs.remove(id) {
            let is_same = probe.is_none_or(|probe| probe == hash_of(&target.probe.kind));
            (started_at, is_same)
        } else {
            return false;
        };
        let is_log = matches!(target.probe.kind, ProbeHandler::Log { .. });
        is_log && started_at == target.started_at && is_same
    }

    /// Adds new containers.
    fn update_targets(&mut self, wanted: BTreeMap<ContainerId, Target>) {
        let now = self.clock.now();
        for (id, target) in wanted {
            match self.containers.get_mut(&id) {
                Some(container)
                    if container.target.started_at == target.started_at
                        && container.target.probe == target.probe =>
                {
                    if container.target.dependencies_started_at != target.dependencies_started_at {
                        // A dependency was restarted: the next probe shows whether the service recovered.
                        self.generations += 1;
                        container.generation = self.generations;
                        self.heap.push(now, id, container.generation);
                    }
                    container.target = target;
                }
                Some(_) | None => {
                    self.generations += 1;
                    let generation = self.generations;
                    let mut history = ProbeHistory::new(&target.probe, target.started_at, now);
                    let mut log = LogState::default();
                    if self.was_ready(&id, &target) {
                        // The engine may have dropped its lines since.
                        history.add(&target.probe, ProbeResult::success("matched before"), now);
                        log = LogState::Ready;
                    }
                    self.heap.push(now, id.clone(), generation);
                    self.changed = true;
                    self.containers.insert(
                        id,
                        ProbedContainer {
                            target,
                            history,
                            generation,
                            log,
                        },
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use argus_core::observed::WatchEvent;
    use argus_core::time::Timestamp;

    use super::super::Addresses;
    use super::super::tests::registry_of;
    use super::*;
    use crate::clock::Clock;
    use crate::fake_backend::{FakeBackend, run_of};
    use crate::metrics::TaskMetrics;

    /// Specs and store of this number of environments, each with one probed container.
    fn environments(count: usize) -> (DesiredState, Store) {
        let (mut desired, mut store) = (DesiredState::new(), Store::default());
        store.apply(WatchEvent::Connected(Timestamp(1)));
        for number in 0..count {
            let name = format!("shop-{number}");
            let text = format!(
                "version: '1'\nproject: {{ name: {name} }}\nservices:\n  api:\n    image: 'nginx:1'\n    container:\n      \
                 name: {name}-api\n      healthcheck: {{ type: exec, command: ['true'] }}\n"
            );
            desired.extend(registry_of(&text).environments);
            store.apply(run_of(&name, 1));
        }
        (desired, store)
    }

    #[test]
    fn change_updates_only_its_environment() {
        let addresses = Addresses {
            publish_address: std::net::Ipv4Addr::LOCALHOST.into(),
            engine_host: None,
        };
        for count in [10, 100, 1_000] {
            let (mut desired, mut store) = environments(count);
            let mut prober = Prober::new(
                Arc::new(FakeBackend::empty()),
                addresses,
                Clock::virtual_from(Timestamp(1)),
                (TaskMetrics::default(), |_| None),
            );
            assert_eq!(prober.update_environments(&desired, &store), count);
            assert_eq!(prober.containers.len(), count);
            assert_eq!(prober.update_environments(&desired, &store), 0);
            store.apply(run_of("shop-3", 2));
            assert_eq!(prober.update_environments(&desired, &store), 1);
            desired.pop_first();
            assert_eq!(prober.update_environments(&desired, &store), 0);
            assert_eq!(prober.containers.len(), count - 1);
        }
    }
}

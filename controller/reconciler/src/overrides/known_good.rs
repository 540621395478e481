//! Known good revisions: targets of a rollback, pinned to the images that ran. The edits that led to them are repairs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::{Accepted, Desired, Image, Service};
use argus_core::ident::{EnvName, ServiceName};
use argus_core::observed::{Container, Store};
use argus_core::probe::ProbeStatus;
use argus_core::repair::FailingRevisions;
use argus_core::spec_diff::{GoodImage, GoodImages};
use argus_core::state::EnvHistory;
use argus_core::time::Timestamp;

use super::{DesiredState, OverrideInputs, Overrides};
use crate::specs::SpecRegistry;

/// Minimum time that all containers must run before their revision counts as good.
const MIN_UPTIME: Duration = Duration::from_secs(10);

impl Overrides {
    /// Stores revisions that have been Ready long enough, with the image ids of their containers. Returns the time
    /// of the next check.
    pub(crate) fn record_known_good(
        &mut self,
        desired: &DesiredState,
        inputs: OverrideInputs<'_>,
    ) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        for (env, accepted) in desired {
            let revision = &accepted.desired.revision;
            let history = inputs.state.history(env);
            let good_at = history.and_then(|history| good_at(accepted, history, inputs.store));
            let good_revisions = self.known_good.get(env).map(Vec::as_slice).unwrap_or_default();
            let last = good_revisions
                .last()
                .filter(|last| last.desired.revision == *revision);
            let is_recorded = |last: &Arc<Accepted>| {
                last.lines.values() == accepted.lines.values() && runs_as_pinned(last, inputs.store)
            };
            let Some(good_at) = good_at.filter(|_| !last.is_some_and(is_recorded)) else {
                continue;
            };
            if good_at > inputs.now {
                next = Some(next.map_or(good_at, |next| next.min(good_at)));
                continue;
            }
            let earlier = self.good_images.get(env);
            let running = images(accepted, inputs.store, earlier, inputs.now);
            self.good_images.insert(env.clone(), running);
            let good_revisions = self.known_good.entry(env.clone()).or_default();
            good_revisions.retain(|good| good.desired.revision != *revision);
            good_revisions.push(Arc::new(pinned(accepted, inputs.store)));
            let surplus = good_revisions.len().saturating_sub(2);
            good_revisions.drain(..surplus);
        }
        next
    }

    /// Records the failing revisions, and the edits that ended their failures. Returns the time of the next check.
    pub(crate) fn record_repairs(
        &mut self,
        failing: &mut FailingRevisions,
        desired: &DesiredState,
        inputs: OverrideInputs<'_>,
    ) -> Option<Timestamp> {
        failing.retain(|env| desired.contains_key(env));
        let mut next: Option<Timestamp> = None;
        for (env, accepted) in desired {
            let Some(history) = inputs.state.history(env) else {
                continue;
            };
            failing.record(accepted, history);
            if !failing.contains_other(accepted) {
                continue;
            }
            match good_at(accepted, history, inputs.store) {
                Some(at) if at > inputs.now => next = Some(next.map_or(at, |next| next.min(at))),
                Some(_) => {
                    for repair in failing.take_repairs(accepted, inputs.now) {
                        Arc::make_mut(&mut self.repairs).add(repair);
                    }
                }
                None => {}
            }
        }
        next
    }

    /// References and ids of the images that no clean-up removes: those of the desired state, of known good revisions, rollbacks and forks.
    pub fn used_images(&self, desired: &DesiredState) -> BTreeSet<String> {
        let rollbacks = self.rollbacks.values().map(|rollback| &rollback.to);
        let others = self.known_good.values().flatten().chain(rollbacks);
        let all = desired.values().chain(others).chain(self.forks.values());
        let services = all.flat_map(|accepted| accepted.desired.services.values());
        services
            .map(|service| service.image.reference().to_owned())
            .collect()
    }

    /// Image keys that no other environment waits for. A fork or a rollback runs other images than the spec file lists.
    pub(crate) fn images_of_only(&self, env: &EnvName, specs: &SpecRegistry) -> BTreeSet<String> {
        let images = |accepted: Arc<Accepted>| -> Vec<String> {
            let services = accepted.desired.services.values();
            services.map(|service| service.image.key()).collect()
        };
        let is_waiting = |other: &&EnvName| {
            let mut holds = self.requests.holds.iter();
            let is_held = holds.any(|hold| hold.environment == **other && hold.service.is_none());
            *other != env && !is_held && !self.down.contains_key(*other)
        };
        let others = specs.environments.keys().chain(self.forks.keys());
        let others = others
            .filter(is_waiting)
            .filter_map(|other| self.accepted(other, specs));
        let others: BTreeSet<String> = others.flat_map(images).collect();
        let own = self.accepted(env, specs).into_iter().flat_map(images);
        own.filter(|key| !others.contains(key)).collect()
    }
}

/// Time from which a revision counts as good, because all containers have run long enough: one that is Ready for a moment may fail in
/// the next. `None` if it is not Ready. The revision may have been Ready before, with other images than the containers have now.
pub(super) fn good_at(accepted: &Accepted, history: &EnvHistory, store: &Store) -> Option<Timestamp> {
    let Desired {
        env,
        revision,
        services,
        ..
    } = &accepted.desired;
    if history.last_ready.as_ref() != Some(revision) {
        return None;
    }
    let seen = store.of(env);
    let mut at = Timestamp(0);
    // The environment is Ready without the others.
    for service in services.values().filter(|it| it.criticality.is_required(true)) {
        let own = history.service(&service.name);
        if own.is_some_and(|own| own.health == Some(ProbeStatus::Unhealthy)) {
            return None;
        }
        let is_completed = service.is_completable() && own.is_some_and(|own| own.completed.is_some());
        let containers = seen
            .into_iter()
            .flat_map(|seen| seen.containers.of(&service.name));
        let mut containers = containers.peekable();
        if containers.peek().is_none() && !is_completed {
            return None;
        }
        for container in containers {
            at = at.max(good_since(service, container)? + MIN_UPTIME);
        }
    }
    Some(at)
}

/// Start of a container that runs, or that has completed if its service may. `None` if it has failed, or is not inspected yet.
fn good_since(service: &Service, container: &Container) -> Option<Timestamp> {
    let run = container.inspect.as_ref()?;
    let is_completed = service.is_completable() && run.exit_code == 0;
    run.started_at.filter(|_| container.state.is_up() || is_completed)
}

/// Returns a copy with the running image ids, so that later tags and builds do not change it.
fn pinned(accepted: &Accepted, store: &Store) -> Accepted {
    let mut pinned = accepted.clone();
    for (service, id) in ids(accepted, store) {
        if let Some(service) = pinned.desired.services.get_mut(&service.name) {
            service.image = Image::Named(id.to_owned());
        }
    }
    pinned
}

/// Gives each service that a rollback does not change the image of the file, so that its container stays: it runs with the image of that time.
/// A new container can repair one that failed.
pub(super) fn keep_unchanged(to: &mut Accepted, current: &Accepted, inputs: OverrideInputs<'_>) {
    let env = &current.desired.env;
    let is_unhealthy = |name: &ServiceName| {
        let history = inputs.state.history(env);
        let service = history.and_then(|history| history.service(name));
        service.is_some_and(|service| service.health == Some(ProbeStatus::Unhealthy))
    };
    let runs = |service: &Service| {
        let seen = inputs.store.of(env);
        let mut containers = seen
            .into_iter()
            .flat_map(|seen| seen.containers.of(&service.name));
        containers.any(|container| {
            let id = container
                .inspect
                .as_ref()
                .and_then(|info| info.image_id.as_deref());
            container.state.is_up() && id == Some(service.image.reference())
        })
    };
    for service in to.desired.services.values_mut() {
        let Some(present) = current.desired.services.get(&service.name) else {
            continue;
        };
        let with_its_image = Service {
            image: service.image.clone(),
            ..present.clone()
        };
        if with_its_image == *service && runs(service) && !is_unhealthy(&service.name) {
            service.image = present.image.clone();
        }
    }
}

/// Returns the running images, with their keys in the spec. A rollback runs image ids, so it keeps the earlier keys.
fn images(accepted: &Accepted, store: &Store, earlier: Option<&GoodImages>, since: Timestamp) -> GoodImages {
    let revision = accepted.desired.revision.clone();
    let earlier = earlier.filter(|earlier| earlier.revision == revision);
    let image = |(service, id): (&Service, &str)| {
        let known = earlier.and_then(|earlier| earlier.images.get(&service.name));
        let key = match known.filter(|_| service.image.reference() == id) {
            Some(known) => known.key.clone(),
            None => service.image.key(),
        };
        let id = id.to_owned();
        (service.name.clone(), GoodImage { key, id })
    };
    GoodImages {
        revision,
        since,
        images: ids(accepted, store).map(image).collect(),
    }
}

/// Reports whether the running images are the pinned ones. Images can change within a revision, for example those
/// of mocks after an upgrade of Argus.
fn runs_as_pinned(pinned: &Accepted, store: &Store) -> bool {
    ids(pinned, store).all(|(service, id)| id == service.image.reference())
}

/// Ids of the running images of the services. It is read in each pass, so it allocates nothing.
fn ids<'a>(accepted: &'a Accepted, store: &'a Store) -> impl Iterator<Item = (&'a Service, &'a str)> {
    let seen = store.of(&accepted.desired.env);
    let services = accepted.desired.services.values();
    services.filter_map(move |service| {
        let containers = seen?.containers.of(&service.name);
        let ids = containers.filter_map(|container| container.inspect.as_ref()?.image_id.as_deref());
        Some((service, ids.last()?))
    })
}

#[cfg(test)]
#[path = "known_good_tests.rs"]
mod tests;

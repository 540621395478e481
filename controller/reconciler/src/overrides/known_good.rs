//! Known good revisions: targets of a rollback, pinned to the images that ran. The edits that led to them are repairs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::{Accepted, Desired, Image, Service};
use argus_core::ident::{EnvName, ServiceName};
use argus_core::observed::{Container, InspectInfo, Store};
use argus_core::probe::ProbeStatus;
use argus_core::repair::FailingRevisions;
use argus_core::spec_diff::{GoodImage, GoodImages};
use argus_core::state::{EnvHistory, ServiceHistory};
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

/// Reports whether all containers run or have ended without a failure, and none is unhealthy. The revision may have been Ready before, with
/// other images than the containers have now.
fn is_running(env: &EnvName, history: &EnvHistory, store: &Store) -> bool {
    let is_unhealthy = |service: &Arc<ServiceHistory>| service.health == Some(ProbeStatus::Unhealthy);
    let mut containers = store
        .of(env)
        .into_iter()
        .flat_map(|seen| seen.containers.values());
    // A container that was never started has the exit code 0 as well.
    let is_good = |container: &Arc<Container>| {
        let has_succeeded = |info: &InspectInfo| info.started_at.is_some() && info.exit_code == 0;
        container.state.is_up() || container.inspect.as_ref().is_some_and(has_succeeded)
    };
    !history.services.values().any(is_unhealthy) && containers.all(is_good)
}

/// Time from which a revision counts as good, because all containers have run long enough: one that is Ready for a moment may fail in
/// the next. `None` if it is not Ready.
pub(super) fn good_at(accepted: &Accepted, history: &EnvHistory, store: &Store) -> Option<Timestamp> {
    let Desired { env, revision, .. } = &accepted.desired;
    if history.last_ready.as_ref() != Some(revision) || !is_running(env, history, store) {
        return None;
    }
    let containers = store
        .of(env)
        .into_iter()
        .flat_map(|seen| seen.containers.values());
    let started = containers.filter_map(|container| container.inspect.as_ref()?.started_at);
    Some(started.max().map_or(Timestamp(0), |at| at + MIN_UPTIME))
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
mod tests {
    use std::collections::BTreeMap;

    use argus_core::desired::admit::{SpecContext, admit};
    use argus_core::desired::key_lines::KeyLines;
    use argus_core::ident::ContainerId;
    use argus_core::labels::{ENVIRONMENT, MANAGED, SERVICE};
    use argus_core::observed::{ContainerState, Object, WatchEvent};
    use argus_core::state::PlannerState;

    use super::*;
    use crate::specs::SpecRegistry;

    fn store(image_id: &str) -> Store {
        store_in(ContainerState::Running, 0, image_id)
    }

    fn store_in(state: ContainerState, exit_code: i64, image_id: &str) -> Store {
        let labels = [(MANAGED, "true"), (ENVIRONMENT, "shop"), (SERVICE, "web")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let container = Container {
            id: ContainerId::new("c").unwrap(),
            name: "shop-web".to_owned(),
            labels: labels.into_iter().collect(),
            image: "web:1".to_owned(),
            state,
            created_at: Timestamp(1),
            networks: BTreeMap::new(),
            inspect: Some(InspectInfo {
                started_at: (state != ContainerState::Created).then_some(Timestamp(1)),
                exit_code,
                image_id: Some(image_id.to_owned()),
                ..InspectInfo::default()
            }),
            stopped_by_other: None,
            oom_at: None,
        };
        let mut store = Store::default();
        for event in [
            WatchEvent::Connected(Timestamp(1)),
            WatchEvent::Init,
            WatchEvent::Apply(Object::Container(Arc::new(container))),
            WatchEvent::InitDone,
        ] {
            store.apply(event);
        }
        store
    }

    fn accepted() -> Accepted {
        let text = "version: \"1\"\nproject: { name: shop }\nservices:\n  web: { image: web:1, container: { name: shop-web } }\n";
        let read = argus_crds::yaml::read("e2e.yaml", text.as_bytes());
        let spec = read.spec.unwrap();
        Accepted {
            desired: admit(&spec, &SpecContext::default()).desired.unwrap(),
            spec_path: "e2e.yaml".to_owned(),
            lines: KeyLines::from_spec(&spec, &read.source),
            accepted_at: Timestamp(1),
            has_pending_edit: false,
            allowed: false,
            is_ending: false,
            file_hash: None,
            mounted_files: std::collections::BTreeMap::new(),
        }
    }

    #[test]
    fn new_image_of_the_same_revision_is_pinned_again() {
        let accepted = accepted();
        let (old, new) = (store("sha256:old"), store("sha256:new"));
        let good = pinned(&accepted, &old);
        assert!(runs_as_pinned(&good, &old) && !runs_as_pinned(&good, &new));
        assert!(
            runs_as_pinned(&pinned(&accepted, &new), &new),
            "a second pin changes nothing"
        );
        assert!(
            runs_as_pinned(&good, &Store::default()),
            "services that do not run are ignored"
        );
    }

    #[test]
    fn rollback_keeps_the_image_of_an_unchanged_service() {
        let specs = SpecRegistry::default();
        let kept = |state: &PlannerState, current: &Accepted, present: &Store| {
            let mut to = pinned(&accepted(), &store("sha256:good"));
            let inputs = OverrideInputs {
                specs: &specs,
                store: present,
                state,
                now: Timestamp(60_000),
            };
            keep_unchanged(&mut to, current, inputs);
            let service = to.desired.services.values().next().unwrap();
            service.image.reference().to_owned()
        };
        let (mut state, current) = (PlannerState::default(), accepted());
        let running = store("sha256:good");
        assert_eq!(kept(&state, &current, &running), "web:1");
        // The name has another image by now, or the container has ended.
        let ended = store_in(ContainerState::Exited, 1, "sha256:good");
        for present in [store("sha256:new"), ended, Store::default()] {
            assert_eq!(kept(&state, &current, &present), "sha256:good");
        }
        let mut edited = accepted();
        edited.desired.services.values_mut().next().unwrap().memory = Some(1 << 20);
        assert_eq!(kept(&state, &edited, &running), "sha256:good");
        let name = current.desired.services.keys().next().unwrap();
        let mut history = EnvHistory::default();
        history.service_mut(name).health = Some(ProbeStatus::Unhealthy);
        state
            .environments
            .insert(current.desired.env.clone(), Arc::new(history));
        assert_eq!(kept(&state, &current, &running), "sha256:good");
    }

    #[test]
    fn only_running_images_become_good() {
        let accepted = accepted();
        let env = accepted.desired.env.clone();
        let desired: DesiredState = [(env.clone(), Arc::new(accepted.clone()))].into();
        let mut state = PlannerState::default();
        let history = EnvHistory {
            last_ready: Some(accepted.desired.revision.clone()),
            ..EnvHistory::default()
        };
        state.environments.insert(env.clone(), Arc::new(history));
        let mut overrides = Overrides::default();
        let mut record = |store: &Store| {
            let specs = SpecRegistry::default();
            let now = Timestamp(60_000);
            let inputs = OverrideInputs {
                specs: &specs,
                store,
                state: &state,
                now,
            };
            overrides.record_known_good(&desired, inputs);
            let good = overrides.good_images.get(&env);
            good.map(|good| good.images.values().next().unwrap().clone())
        };
        let failed = |id| store_in(ContainerState::Exited, 1, id);
        assert_eq!(record(&failed("sha256:bad")), None);
        let good = record(&store("sha256:good")).unwrap();
        assert_eq!((good.key.as_str(), good.id.as_str()), ("web:1", "sha256:good"));
        let after = record(&failed("sha256:bad")).unwrap();
        assert_eq!(after, good, "the image of a failed container is not good");
        let created = store_in(ContainerState::Created, 0, "sha256:new");
        assert_eq!(record(&created).unwrap(), good, "neither is one that never ran");
        let values = overrides.known_good[&env][0].lines.values();
        assert_eq!(values["services.web.image"], "web:1");
    }
}

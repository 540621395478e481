//! Cache of the last reported objects. It decides which objects of a list need an inspect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_core::ident::ContainerId;
use argus_core::observed::{Container, ContainerState, Object, ObjectId, WatchEvent};
use argus_core::time::Timestamp;

use crate::inspect::Listed;

#[derive(Debug)]
struct Entry {
    container: Arc<Container>,
    /// The container was inspected in this session.
    is_current: bool,
    /// An event reported the end of the run, and no inspect followed.
    has_uninspected_end: bool,
}

/// All objects that were reported and still exist.
#[derive(Debug, Default)]
pub(super) struct LastSeen {
    containers: BTreeMap<ContainerId, Entry>,
    others: BTreeSet<ObjectId>,
    /// Containers whose image reference now names another image.
    retagged: BTreeSet<ContainerId>,
    /// Events about them that [`Self::take_retagged`] has not returned yet.
    unreported: Vec<WatchEvent>,
}

impl LastSeen {
    /// Requires a new inspect of every container after a reconnect: a list may show another run of the same container.
    pub(super) fn invalidate_all(&mut self) {
        self.containers
            .values_mut()
            .for_each(|entry| entry.is_current = false);
    }

    pub(super) fn container(&self, id: &ContainerId) -> Option<&Arc<Container>> {
        self.containers.get(id).map(|entry| &entry.container)
    }

    /// Start of the newest known run of the container.
    pub(super) fn started_at(&self, id: &ContainerId) -> Option<Timestamp> {
        self.container(id)?.inspect.as_ref()?.started_at
    }

    /// True when a run of the container started after `at`. A replayed event may belong to an earlier run.
    pub(super) fn ran_since(&self, id: &ContainerId, at: Timestamp) -> bool {
        self.started_at(id).is_some_and(|started| at < started)
    }

    /// True when the object was reported.
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        match id {
            ObjectId::Container(id) => self.containers.contains_key(id),
            other => self.others.contains(other),
        }
    }

    /// Marks a running container as ended; returns what to report. `None` if the event belongs to an earlier run.
    pub(super) fn on_ended(&mut self, id: &ContainerId, at: Timestamp) -> Option<Arc<Container>> {
        let known = self.container(id)?;
        if !known.state.is_up() || self.ran_since(id, at) {
            return None;
        }
        let ended = Container {
            state: ContainerState::Exited,
            inspect: None,
            ..Container::clone(known)
        };
        let ended = self.report(ended);
        if let Some(entry) = self.containers.get_mut(id) {
            entry.has_uninspected_end = true;
        }
        Some(ended)
    }

    /// Adds an object that a call of this backend created.
    pub(super) fn on_created(&mut self, object: &Object) {
        match object {
            Object::Container(container) => drop(self.report(Container::clone(container))),
            other => self.on_applied(other),
        }
    }

    /// Updates an object after an inspect.
    pub(super) fn on_applied(&mut self, object: &Object) {
        match object {
            Object::Container(container) => {
                let entry = Entry {
                    container: container.clone(),
                    is_current: true,
                    has_uninspected_end: false,
                };
                self.containers.insert(container.id.clone(), entry);
            }
            Object::Network(network) => drop(self.others.insert(ObjectId::Network(network.id.clone()))),
            Object::Volume(volume) => drop(self.others.insert(ObjectId::Volume(volume.name.clone()))),
        }
    }

    /// Removes an object; true when it had been reported.
    pub(super) fn on_deleted(&mut self, id: &ObjectId) -> bool {
        match id {
            ObjectId::Container(id) => {
                self.retagged.remove(id);
                self.containers.remove(id).is_some()
            }
            other => self.others.remove(other),
        }
    }

    /// Removes every object that `keep` does not accept, after a complete list.
    pub(super) fn retain(&mut self, keep: impl Fn(&ObjectId) -> bool) {
        self.containers
            .retain(|id, _| keep(&ObjectId::Container(id.clone())));
        let containers = &self.containers;
        self.retagged.retain(|id| containers.contains_key(id));
        self.others.retain(keep);
    }

    /// Takes the [`WatchEvent::ImageRetagged`] events of the lists since the last call.
    pub(super) fn take_retagged(&mut self) -> Vec<WatchEvent> {
        std::mem::take(&mut self.unreported)
    }

    /// Updates a container after a list; returns what to report, and whether it needs an inspect.
    pub(super) fn on_listed(&mut self, listed: Listed) -> (Arc<Container>, InspectNeed) {
        let Listed {
            mut container,
            health,
        } = listed;
        if let Some(entry) = self.containers.get(&container.id) {
            let old = &entry.container;
            // A list shows the image's id once the reference names another image.
            if is_image_id(&container.image) {
                if !is_image_id(&old.image) && self.retagged.insert(container.id.clone()) {
                    self.unreported
                        .push(WatchEvent::ImageRetagged(container.id.clone()));
                }
                container.image.clone_from(&old.image);
            }
            // The engine lists a container as running until it has handled the end, and a list in progress may have begun earlier. Only
            // an inspect waits for the engine.
            if entry.has_uninspected_end && container.state.is_up() {
                return (old.clone(), InspectNeed::NotInspected);
            }
            if is_same(old, &container) {
                let known_health = old
                    .inspect
                    .as_ref()
                    .map(|info| info.health.as_ref().map(|health| health.status));
                let need = match known_health {
                    Some(known) if known != health && health.is_some() => InspectNeed::Changed,
                    Some(_) if entry.is_current => InspectNeed::None,
                    Some(_) | None => InspectNeed::NotInspected,
                };
                return (old.clone(), need);
            }
            return (self.report(container), InspectNeed::Changed);
        }
        (self.report(container), InspectNeed::Changed)
    }

    /// Adds or replaces a container that still needs an inspect.
    fn report(&mut self, container: Container) -> Arc<Container> {
        let container = Arc::new(container);
        let entry = Entry {
            container: container.clone(),
            is_current: false,
            has_uninspected_end: false,
        };
        self.containers.insert(container.id.clone(), entry);
        container
    }
}

/// Need of a listed container for an inspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InspectNeed {
    /// The container is as known.
    None,
    /// The container is as known, but was not inspected in this session.
    NotInspected,
    /// The container is new or differs from the known state.
    Changed,
}

fn is_image_id(image: &str) -> bool {
    let hex = image.strip_prefix("sha256:").unwrap_or(image);
    hex.len() >= 12 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_same(old: &Container, new: &Container) -> bool {
    let attached = |container: &Container| {
        container
            .networks
            .iter()
            .map(|(name, at)| (name.clone(), at.network.clone()))
            .collect::<Vec<_>>()
    };
    old.state == new.state && old.name == new.name && old.image == new.image && attached(old) == attached(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use argus_core::observed::{EngineHealthStatus, InspectInfo};
    use argus_core::time::Timestamp;

    fn container(state: ContainerState, image: &str) -> Container {
        Container {
            id: ContainerId::new("abc").unwrap(),
            name: "web".into(),
            labels: BTreeMap::new(),
            image: image.into(),
            state,
            created_at: Timestamp(0),
            networks: BTreeMap::new(),
            inspect: None,
            stopped_by_other: None,
            oom_at: None,
        }
    }

    fn apply_inspected(known: &mut LastSeen) {
        let info = InspectInfo::default();
        let inspected = Container {
            inspect: Some(info),
            ..container(ContainerState::Running, "web:1")
        };
        known.on_applied(&Object::Container(Arc::new(inspected)));
    }

    fn list(known: &mut LastSeen, state: ContainerState, image: &str) -> InspectNeed {
        known
            .on_listed(Listed {
                container: container(state, image),
                health: None,
            })
            .1
    }

    #[test]
    fn only_new_and_changed_containers_are_inspected() {
        let mut known = LastSeen::default();
        assert_eq!(
            list(&mut known, ContainerState::Running, "web:1"),
            InspectNeed::Changed
        );
        assert_eq!(
            list(&mut known, ContainerState::Running, "web:1"),
            InspectNeed::NotInspected
        );
        apply_inspected(&mut known);
        assert_eq!(
            list(&mut known, ContainerState::Running, "web:1"),
            InspectNeed::None
        );
        assert_eq!(known.take_retagged(), []);
        for reports in [1, 0] {
            let image = "sha256:0123456789abcdef";
            assert_eq!(
                list(&mut known, ContainerState::Running, image),
                InspectNeed::None
            );
            assert_eq!(known.take_retagged().len(), reports, "it is reported once");
        }
        let listed = Listed {
            container: container(ContainerState::Running, "web:1"),
            health: Some(EngineHealthStatus::Healthy),
        };
        assert_eq!(known.on_listed(listed).1, InspectNeed::Changed);
        assert_eq!(
            list(&mut known, ContainerState::Exited, "web:1"),
            InspectNeed::Changed
        );
    }

    #[test]
    fn a_reconnect_requires_inspects_and_keeps_old_details() {
        let mut known = LastSeen::default();
        apply_inspected(&mut known);
        known.invalidate_all();
        let listed = Listed {
            container: container(ContainerState::Running, "web:1"),
            health: None,
        };
        let (reported, need) = known.on_listed(listed);
        assert_eq!(need, InspectNeed::NotInspected);
        assert!(reported.inspect.is_some());
    }

    #[test]
    fn end_of_the_known_run_is_reported_before_its_inspect() {
        let mut known = LastSeen::default();
        let id = ContainerId::new("abc").unwrap();
        assert_eq!(known.on_ended(&id, Timestamp(5)), None, "unknown");
        apply_inspected(&mut known);
        let ended = known.on_ended(&id, Timestamp(5)).unwrap();
        assert_eq!((ended.state, &ended.inspect), (ContainerState::Exited, &None));
        assert_eq!(known.on_ended(&id, Timestamp(5)), None, "repeated");
        assert_eq!(
            list(&mut known, ContainerState::Exited, "web:1"),
            InspectNeed::NotInspected
        );
    }

    #[test]
    fn list_of_an_earlier_state_does_not_revive_an_ended_run() {
        let mut known = LastSeen::default();
        let id = ContainerId::new("abc").unwrap();
        apply_inspected(&mut known);
        let ended = known.on_ended(&id, Timestamp(5)).unwrap();
        for _ in 0..2 {
            let listed = Listed {
                container: container(ContainerState::Running, "web:1"),
                health: None,
            };
            let reported = known.on_listed(listed);
            assert_eq!(reported, (ended.clone(), InspectNeed::NotInspected));
        }
        // The inspect shows the next run.
        apply_inspected(&mut known);
        assert_eq!(
            list(&mut known, ContainerState::Running, "web:1"),
            InspectNeed::None
        );
        let running = known.container(&id).unwrap();
        assert_eq!(running.state, ContainerState::Running);
    }

    #[test]
    fn only_a_reported_object_is_deleted() {
        let mut known = LastSeen::default();
        apply_inspected(&mut known);
        let id = ObjectId::Container(ContainerId::new("abc").unwrap());
        assert!(known.on_deleted(&id));
        assert!(!known.on_deleted(&id));
        apply_inspected(&mut known);
        known.retain(|_| false);
        assert!(!known.on_deleted(&id));
    }
}

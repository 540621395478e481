//! What was last reported, to tell from a list what has to be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_core::ident::ContainerId;
use argus_core::observed::{Container, Object, ObjectId, WatchEvent};
use argus_core::time::Timestamp;

use crate::inspect::Listed;

#[derive(Debug)]
struct Entry {
    container: Arc<Container>,
    /// Its facts are of this session.
    sure: bool,
}

/// Everything that was reported and not gone since.
#[derive(Debug, Default)]
pub(super) struct LastSeen {
    containers: BTreeMap<ContainerId, Entry>,
    others: BTreeSet<ObjectId>,
    /// Containers whose image's name stands for another image by now.
    retagged: BTreeSet<ContainerId>,
    /// Those of them that were not told yet.
    untold: Vec<WatchEvent>,
}

impl LastSeen {
    /// The engine was away: what it says in lists may be another run of the same container.
    pub(super) fn invalidate_all(&mut self) {
        self.containers.values_mut().for_each(|entry| entry.sure = false);
    }

    pub(super) fn container(&self, id: &ContainerId) -> Option<&Arc<Container>> {
        self.containers.get(id).map(|entry| &entry.container)
    }

    /// Whether a run of it began after this: a replayed event may be of one that is over.
    pub(super) fn ran_since(&self, id: &ContainerId, at: Timestamp) -> bool {
        let facts = self
            .container(id)
            .and_then(|container| container.inspect.as_ref());
        facts
            .and_then(|facts| facts.started_at)
            .is_some_and(|started| at < started)
    }

    /// Whether it was reported.
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        match id {
            ObjectId::Container(id) => self.containers.contains_key(id),
            other => self.others.contains(other),
        }
    }

    /// Takes in what the hands have made.
    pub(super) fn on_created(&mut self, object: &Object) {
        match object {
            Object::Container(container) => drop(self.report(Container::clone(container))),
            other => self.on_applied(other),
        }
    }

    /// Takes in what a look showed.
    pub(super) fn on_applied(&mut self, object: &Object) {
        match object {
            Object::Container(container) => {
                let entry = Entry {
                    container: container.clone(),
                    sure: true,
                };
                self.containers.insert(container.id.clone(), entry);
            }
            Object::Network(network) => drop(self.others.insert(ObjectId::Network(network.id.clone()))),
            Object::Volume(volume) => drop(self.others.insert(ObjectId::Volume(volume.name.clone()))),
        }
    }

    /// Whether the object had been reported.
    pub(super) fn on_deleted(&mut self, id: &ObjectId) -> bool {
        match id {
            ObjectId::Container(id) => {
                self.retagged.remove(id);
                self.containers.remove(id).is_some()
            }
            other => self.others.remove(other),
        }
    }

    /// Forgets what a complete list did not show.
    pub(super) fn retain(&mut self, keep: impl Fn(&ObjectId) -> bool) {
        self.containers
            .retain(|id, _| keep(&ObjectId::Container(id.clone())));
        let containers = &self.containers;
        self.retagged.retain(|id| containers.contains_key(id));
        self.others.retain(keep);
    }

    /// What lists have shown of images since this was asked last.
    pub(super) fn retagged(&mut self) -> Vec<WatchEvent> {
        std::mem::take(&mut self.untold)
    }

    /// Takes in a list entry: what to report, and whether it has to be looked at.
    pub(super) fn on_listed(&mut self, listed: Listed) -> (Arc<Container>, InspectNeed) {
        let Listed {
            mut container,
            health,
        } = listed;
        if let Some(entry) = self.containers.get(&container.id) {
            let old = &entry.container;
            // A list shows the image's id once the reference stands for another image.
            if is_image_id(&container.image) {
                if !is_image_id(&old.image) && self.retagged.insert(container.id.clone()) {
                    self.untold.push(WatchEvent::ImageMoved(container.id.clone()));
                }
                container.image.clone_from(&old.image);
            }
            if is_same(old, &container) {
                let known_health = old
                    .inspect
                    .as_ref()
                    .map(|facts| facts.health.as_ref().map(|health| health.status));
                let look = match known_health {
                    Some(known) if known == health || health.is_none() => InspectNeed::None,
                    Some(_) => InspectNeed::Changed,
                    None => InspectNeed::New,
                };
                let look = if entry.sure || look == InspectNeed::Changed {
                    look
                } else {
                    InspectNeed::New
                };
                return (old.clone(), look);
            }
            let look = if entry.sure {
                InspectNeed::Changed
            } else {
                InspectNeed::New
            };
            return (self.report(container), look);
        }
        (self.report(container), InspectNeed::New)
    }

    fn report(&mut self, container: Container) -> Arc<Container> {
        let container = Arc::new(container);
        let entry = Entry {
            container: container.clone(),
            sure: false,
        };
        self.containers.insert(container.id.clone(), entry);
        container
    }
}

/// Whether a listed container has to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InspectNeed {
    /// As known.
    None,
    /// It is new, or was not looked at yet.
    New,
    /// It differs from what was known, and no event has told so.
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
    use argus_core::observed::{Config, ContainerState, EngineHealthStatus, InspectInfo};
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

    fn looked_at(known: &mut LastSeen) {
        let facts = InspectInfo {
            started_at: None,
            finished_at: None,
            exit_code: 0,
            oom_killed: false,
            error: String::new(),
            image_id: None,
            health: None,
            config: Config::default(),
        };
        let seen = Container {
            inspect: Some(facts),
            ..container(ContainerState::Running, "web:1")
        };
        known.on_applied(&Object::Container(Arc::new(seen)));
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
    fn only_what_is_new_or_changed_is_looked_at() {
        let mut known = LastSeen::default();
        assert_eq!(
            list(&mut known, ContainerState::Running, "web:1"),
            InspectNeed::New
        );
        assert_eq!(
            list(&mut known, ContainerState::Running, "web:1"),
            InspectNeed::New
        );
        looked_at(&mut known);
        assert_eq!(
            list(&mut known, ContainerState::Running, "web:1"),
            InspectNeed::None
        );
        assert_eq!(known.retagged(), []);
        for told in [1, 0] {
            let image = "sha256:0123456789abcdef";
            assert_eq!(
                list(&mut known, ContainerState::Running, image),
                InspectNeed::None
            );
            assert_eq!(known.retagged().len(), told, "it is told once");
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
    fn after_an_outage_everything_is_looked_at_again_and_facts_are_kept_until_then() {
        let mut known = LastSeen::default();
        looked_at(&mut known);
        known.invalidate_all();
        let listed = Listed {
            container: container(ContainerState::Running, "web:1"),
            health: None,
        };
        let (reported, look) = known.on_listed(listed);
        assert_eq!(look, InspectNeed::New);
        assert!(reported.inspect.is_some());
    }

    #[test]
    fn only_what_was_reported_can_go() {
        let mut known = LastSeen::default();
        looked_at(&mut known);
        let id = ObjectId::Container(ContainerId::new("abc").unwrap());
        assert!(known.on_deleted(&id));
        assert!(!known.on_deleted(&id));
        looked_at(&mut known);
        known.retain(|_| false);
        assert!(!known.on_deleted(&id));
    }
}

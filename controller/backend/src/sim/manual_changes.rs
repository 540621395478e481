//! What people do to an engine with a client of their own, and what an engine loses.

use argus_core::ident::{ContainerId, NetworkId};
use argus_core::observed::{ContainerState, ObjectId, WatchEvent};

use super::model::{Model, StoredEvidence};
use super::rng::Rng;

impl Model {
    /// A person stops a container.
    pub fn person_stops(&mut self, id: &ContainerId) {
        if self
            .containers
            .get(id)
            .is_some_and(|kept| kept.container.state == ContainerState::Running)
        {
            self.changes
                .push(WatchEvent::Stopped(id.clone(), self.stamp(self.now)));
            self.end(id, self.now, 137);
        }
    }

    /// A person freezes a container.
    pub fn person_pauses(&mut self, id: &ContainerId) {
        let running = |kept: &&mut StoredEvidence| kept.container.state == ContainerState::Running;
        if let Some(kept) = self.containers.get_mut(id).filter(running) {
            kept.container.state = ContainerState::Paused;
            self.changed(&ObjectId::Container(id.clone()));
        }
    }

    /// A person removes a container.
    pub fn person_removes(&mut self, id: &ContainerId) {
        if self.containers.remove(id).is_some() {
            self.changed(&ObjectId::Container(id.clone()));
        }
    }

    /// A person takes a container off its networks.
    pub fn person_disconnects(&mut self, id: &ContainerId) {
        if let Some(kept) = self.containers.get_mut(id) {
            kept.container.networks.clear();
            self.changed(&ObjectId::Container(id.clone()));
        }
    }

    /// A person removes a network with force: whoever was on it is on none.
    pub fn person_removes_network(&mut self, id: &NetworkId) {
        let on_it: Vec<_> = self.attached(id).cloned().collect();
        for container in &on_it {
            self.person_disconnects(container);
        }
        if self.networks.remove(id).is_some() {
            self.changed(&ObjectId::Network(id.clone()));
        }
    }

    /// A person gives a container another name, where that is free.
    pub fn person_renames(&mut self, id: &ContainerId, to: &str) {
        if self.containers().any(|container| container.name == to) {
            return;
        }
        if let Some(kept) = self.containers.get_mut(id) {
            to.clone_into(&mut kept.container.name);
            self.changed(&ObjectId::Container(id.clone()));
        }
    }

    /// A person starts a container, or tries to; one that is frozen goes on.
    pub fn person_starts(&mut self, id: &ContainerId) {
        self.unpause(id);
        let _refused_or_started = self.start(id);
    }

    /// Somebody takes away what is theirs.
    pub fn person_takes_away(&mut self, id: &ObjectId) {
        match id {
            ObjectId::Container(id) => self.person_removes(id),
            ObjectId::Network(id) => self.person_removes_network(id),
            ObjectId::Volume(name) => {
                self.volumes.remove(name);
                self.changed(&ObjectId::Volume(name.clone()));
            }
        }
    }

    /// So many of a hundred containers are lost, but for what others made.
    pub(super) fn loses(&mut self, share: u64, chance: &mut Rng) {
        let theirs = &self.foreign;
        self.containers
            .retain(|id, _| theirs.contains(&ObjectId::Container(id.clone())) || !chance.percent(share));
    }
}

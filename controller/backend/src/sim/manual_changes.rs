//! Changes by people with their own client, and containers that an engine loses.

use argus_core::ident::{ContainerId, NetworkId};
use argus_core::observed::{ContainerState, ObjectId, WatchEvent};

use super::model::{Model, StoredContainer};
use super::rng::Rng;

impl Model {
    /// A person stops a container.
    pub fn person_stops(&mut self, id: &ContainerId) {
        if self
            .containers
            .get(id)
            .is_some_and(|stored| stored.container.state == ContainerState::Running)
        {
            self.changes
                .push(WatchEvent::StoppedByOther(id.clone(), self.engine_time(self.now)));
            self.end(id, self.now, 137);
        }
    }

    /// A person pauses a container.
    pub fn person_pauses(&mut self, id: &ContainerId) {
        let running = |stored: &&mut StoredContainer| stored.container.state == ContainerState::Running;
        if let Some(stored) = self.containers.get_mut(id).filter(running) {
            stored.container.state = ContainerState::Paused;
            self.changed(&ObjectId::Container(id.clone()));
        }
    }

    /// A person removes a container.
    pub fn person_removes(&mut self, id: &ContainerId) {
        if self.containers.remove(id).is_some() {
            self.changed(&ObjectId::Container(id.clone()));
        }
    }

    /// A person disconnects a container from all of its networks.
    pub fn person_disconnects(&mut self, id: &ContainerId) {
        if let Some(stored) = self.containers.get_mut(id) {
            stored.container.networks.clear();
            self.changed(&ObjectId::Container(id.clone()));
        }
    }

    /// A person removes a network by force: every attached container is disconnected from all of its networks.
    pub fn person_removes_network(&mut self, id: &NetworkId) {
        let attached: Vec<_> = self.attached(id).cloned().collect();
        for container in &attached {
            self.person_disconnects(container);
        }
        if self.networks.remove(id).is_some() {
            self.changed(&ObjectId::Network(id.clone()));
        }
    }

    /// A person deletes the bridge of a network. The engine keeps the network.
    pub fn person_deletes_bridge(&mut self, id: &NetworkId) {
        if let Some(network) = self.networks.get_mut(id) {
            network.is_broken = true;
            self.changed(&ObjectId::Network(id.clone()));
        }
    }

    /// A person renames a container; has no effect when the name is in use.
    pub fn person_renames(&mut self, id: &ContainerId, to: &str) {
        if self.containers().any(|container| container.name == to) {
            return;
        }
        if let Some(stored) = self.containers.get_mut(id) {
            to.clone_into(&mut stored.container.name);
            self.changed(&ObjectId::Container(id.clone()));
        }
    }

    /// A person starts or unpauses a container; the start may be refused.
    pub fn person_starts(&mut self, id: &ContainerId) {
        self.unpause(id);
        let _refused_or_started = self.start(id);
    }

    /// The owner of an object removes it.
    pub fn person_removes_object(&mut self, id: &ObjectId) {
        match id {
            ObjectId::Container(id) => self.person_removes(id),
            ObjectId::Network(id) => self.person_removes_network(id),
            ObjectId::Volume(name) => {
                self.volumes.remove(name);
                self.changed(&ObjectId::Volume(name.clone()));
            }
        }
    }

    /// Loses `share` percent of the containers, chosen at random; foreign containers stay.
    pub(super) fn lose_containers(&mut self, share: u64, rng: &mut Rng) {
        let foreign = &self.foreign;
        self.containers
            .retain(|id, _| foreign.contains(&ObjectId::Container(id.clone())) || !rng.percent(share));
    }
}

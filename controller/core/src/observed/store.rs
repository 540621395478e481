//! Store of the observed objects of one engine, grouped by environment, with the sync state of the watch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::compose_volumes::ComposeVolumes;
use super::merge::merged;
use super::{
    Container, Network, Object, ObjectId, Observed, Outage, ReleasedNames, Unreadable, Volume, WatchEvent,
};
use crate::delays::Delays;
use crate::ident::{ContainerId, EnvName, NetworkId};
use crate::time::Timestamp;

/// Store of all managed objects on one engine (the informer store of Kubernetes).
///
/// It holds only objects with the complete labels of Argus, and the names of the volumes of Compose. Argus neither plans for other objects
/// nor changes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Store {
    environments: BTreeMap<EnvName, Arc<Observed>>,
    /// Shared by clones until an object appears or disappears.
    environment_of: Arc<BTreeMap<ObjectId, EnvName>>,
    compose_volumes: ComposeVolumes,
    /// Objects that the list in progress has not contained yet; `None` without a list in progress.
    unlisted: Option<BTreeSet<ObjectId>>,
    lists_started: u64,
    last_complete: u64,
    reachable: bool,
    unreachable_reason: String,
    outage_started_at: Option<Timestamp>,
    /// Start and reason of the current loss of the event stream.
    events_lost: Option<(Timestamp, String)>,
    /// Last response that Argus could not read, until the next complete list.
    unreadable: Option<Box<Unreadable>>,
    retry: Option<(u32, Option<Timestamp>)>,
    outages: Vec<Outage>,
    delays: Delays,
    released: ReleasedNames,
    /// Last assigned version. All environments share it, so that a recreated environment never repeats a version.
    changes: u64,
}

/// Reconnection state of an unreachable engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryState<'a> {
    /// Number of consecutive failed attempts.
    pub attempts: u32,
    /// Time of the next attempt.
    pub next: Option<Timestamp>,
    /// Cause of the last failure.
    pub reason: &'a str,
}

impl Store {
    /// Creates an empty store, whose outages have the margin of these delays.
    pub fn new(delays: Delays) -> Self {
        Self {
            delays,
            ..Self::default()
        }
    }

    /// Merges one event of the watch.
    pub fn apply(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Init => {
                self.lists_started += 1;
                let known = self.environment_of.keys().cloned();
                self.unlisted = Some(known.chain(self.compose_volumes.ids()).collect());
            }
            WatchEvent::Apply(object) => self.apply_object(object),
            WatchEvent::Delete(id) => self.remove(&id),
            WatchEvent::InitDone => {
                // An outage discards the set, so a list that it interrupted removes nothing.
                if let Some(unlisted) = self.unlisted.take() {
                    for id in unlisted {
                        self.remove(&id);
                    }
                    self.last_complete = self.lists_started;
                    self.unreadable = None;
                }
            }
            WatchEvent::StoppedByOther(id, at) => {
                self.patch_container(&id, |container| container.stopped_by_other = Some(at));
            }
            WatchEvent::OutOfMemory(id, at) => {
                self.patch_container(&id, |container| container.oom_at = Some(at));
            }
            WatchEvent::MemoryHigh(id, high) => self.patch_observed(&id, |observed| {
                observed.memory_high.remove(&id);
                observed.memory_high.extend(high.map(|high| (id.clone(), high)));
            }),
            WatchEvent::ImageRetagged(id) => self.patch_observed(&id, |observed| {
                observed.image_retagged.insert(id.clone());
            }),
            WatchEvent::Released(name) => self.released.push(name),
            WatchEvent::Disconnected(at, reason) => self.on_disconnected(at, reason),
            WatchEvent::Retrying { tries, next } => self.retry = Some((tries, next)),
            WatchEvent::StreamGap => {}
            WatchEvent::Unreadable(what) => self.unreadable = Some(what),
            WatchEvent::EventsLost(at, reason) => self.events_lost = Some((at, reason)),
            WatchEvent::EventsRestored => self.events_lost = None,
            WatchEvent::EngineStarted(at) => self.on_engine_started(at),
            WatchEvent::Connected(at) => {
                self.reachable = true;
                self.unreachable_reason.clear();
                // The new session reports a loss of its own events after this.
                self.events_lost = None;
                self.outage_started_at = None;
                self.retry = None;
                if let Some(last) = self.outages.last_mut() {
                    *last = last.ended(at, self.delays.outage_margin);
                }
            }
        }
    }

    /// Compares the state of the engine and of its event stream, without objects.
    pub fn is_same_engine(&self, other: &Self) -> bool {
        self.reachable == other.reachable
            && self.is_synced() == other.is_synced()
            && self.unreachable_reason == other.unreachable_reason
            && self.outage_started_at == other.outage_started_at
            && self.events_lost == other.events_lost
            && self.unreadable == other.unreadable
            && self.retry == other.retry
            && self.outages == other.outages
    }

    fn on_disconnected(&mut self, at: Timestamp, reason: String) {
        self.unlisted = None;
        self.events_lost = None;
        // Objects can change unnoticed during the outage, so a full list is required before the next action.
        self.last_complete = 0;
        self.unreachable_reason = reason;
        self.outage_started_at.get_or_insert(at);
        if self.reachable {
            self.outages.push(Outage::starting_at(at));
            // Only recent outages can explain a failed run that is not yet processed.
            let surplus = self.outages.len().saturating_sub(16);
            self.outages.drain(..surplus);
        }
        self.reachable = false;
    }

    /// Records the start time of the engine. A start that no watch observed is an outage: it ended the containers, and
    /// nothing else explains that.
    fn on_engine_started(&mut self, at: Timestamp) {
        if let Some(last) = self.outages.last_mut() {
            last.on_engine_started(at);
        }
        if self.outages.iter().any(|outage| outage.is_near(at)) {
            return;
        }
        let outage = Outage::starting_at(at).ended(at, self.delays.outage_margin);
        self.outages.push(outage);
        self.outages.sort_by_key(|outage| outage.from);
    }

    /// Records a fact about a container that only an event reports, and no list or inspect.
    fn patch_container(&mut self, id: &ContainerId, patch: impl FnOnce(&mut Container)) {
        self.patch_observed(id, |observed| {
            if let Some(container) = observed.containers.get_mut(id) {
                patch(Arc::make_mut(container));
            }
        });
    }

    /// Changes the observed state of the environment of a known container.
    fn patch_observed(&mut self, id: &ContainerId, patch: impl FnOnce(&mut Observed)) {
        let Some(env) = self.environment_of.get(&ObjectId::Container(id.clone())).cloned() else {
            return;
        };
        self.changes += 1;
        let version = self.changes;
        let observed = self.edit(&env);
        patch(observed);
        observed.version = version;
    }

    fn edit(&mut self, env: &EnvName) -> &mut Observed {
        Arc::make_mut(self.environments.entry(env.clone()).or_default())
    }

    fn apply_object(&mut self, object: Object) {
        let (id, owner) = match &object {
            Object::Container(c) => (ObjectId::Container(c.id.clone()), c.owner()),
            Object::Network(n) => (ObjectId::Network(n.id.clone()), n.owner()),
            Object::Volume(v) => (ObjectId::Volume(v.name.clone()), v.owner()),
        };
        if let Some(unlisted) = &mut self.unlisted {
            unlisted.remove(&id);
        }
        let Some(owner) = owner else {
            if self.environment_of.contains_key(&id) {
                self.remove(&id);
            }
            self.compose_volumes.update(&object);
            return;
        };
        let env = owner.environment;
        if self.environment_of.get(&id) != Some(&env) {
            self.remove(&id);
            Arc::make_mut(&mut self.environment_of).insert(id, env.clone());
        }
        let observed = self.environments.entry(env).or_default();
        match object {
            Object::Container(new) => {
                let old = observed.containers.get(&new.id);
                let new = old.map_or_else(|| new.clone(), |old| merged(old, new.clone()));
                if old != Some(&new) {
                    let observed = Arc::make_mut(observed);
                    observed.containers.insert(new);
                    self.changes += 1;
                    observed.version = self.changes;
                }
            }
            Object::Network(new) => {
                if observed.networks.get(&new.id) != Some(&new) {
                    let observed = Arc::make_mut(observed);
                    observed.networks.insert(new.id.clone(), new);
                    self.changes += 1;
                    observed.version = self.changes;
                }
            }
            Object::Volume(new) => {
                if observed.volumes.get(&new.name) != Some(&new) {
                    let observed = Arc::make_mut(observed);
                    observed.volumes.insert(new.name.clone(), new);
                    self.changes += 1;
                    observed.version = self.changes;
                }
            }
        }
    }

    fn remove(&mut self, id: &ObjectId) {
        self.compose_volumes.remove(id);
        let Some(env) = self.environment_of.get(id).cloned() else {
            return;
        };
        Arc::make_mut(&mut self.environment_of).remove(id);
        self.changes += 1;
        let version = self.changes;
        let observed = self.edit(&env);
        match id {
            ObjectId::Container(id) => {
                observed.image_retagged.remove(id);
                observed.memory_high.remove(id);
                observed.containers.remove(id);
            }
            ObjectId::Network(id) => drop(observed.networks.remove(id)),
            ObjectId::Volume(name) => drop(observed.volumes.remove(name)),
        }
        observed.version = version;
        if observed.is_empty() {
            self.environments.remove(&env);
        }
    }

    /// Returns the objects of an environment.
    pub fn of(&self, env: &EnvName) -> Option<&Arc<Observed>> {
        self.environments.get(env)
    }

    /// Returns all managed objects by environment.
    pub fn environments(&self) -> &BTreeMap<EnvName, Arc<Observed>> {
        &self.environments
    }

    /// Returns one container.
    pub fn container(&self, id: &ContainerId) -> Option<&Arc<Container>> {
        let env = self.environment_of.get(&ObjectId::Container(id.clone()))?;
        self.environments.get(env)?.containers.get(id)
    }

    /// Iterates over all managed containers.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.environments
            .values()
            .flat_map(|observed| observed.containers.values())
    }

    /// Returns one network.
    pub fn network(&self, id: &NetworkId) -> Option<&Arc<Network>> {
        let env = self.environment_of.get(&ObjectId::Network(id.clone()))?;
        self.environments.get(env)?.networks.get(id)
    }

    /// Returns one volume.
    pub fn volume(&self, name: &str) -> Option<&Arc<Volume>> {
        let env = self.environment_of.get(&ObjectId::Volume(name.to_owned()))?;
        self.environments.get(env)?.volumes.get(name)
    }

    /// Returns the volume of the Compose project of an environment with this name in its file: its name on the engine, and the project.
    pub fn compose_volume(&self, env: &EnvName, key: &str) -> Option<(&str, &str)> {
        self.compose_volumes.find(env, key)
    }

    /// Iterates over all volumes of Compose projects.
    pub fn compose_volumes(&self) -> impl Iterator<Item = &Arc<Volume>> {
        self.compose_volumes.all()
    }

    /// Returns whether the engine is reachable and a full list has completed since its last outage.
    pub fn is_synced(&self) -> bool {
        self.last_complete > 0 && self.reachable
    }

    /// Returns the number of the last started list.
    pub fn lists_started(&self) -> u64 {
        self.lists_started
    }

    /// Returns the number of the last completed list; 0 before the first and after an outage.
    pub fn last_complete(&self) -> u64 {
        self.last_complete
    }

    /// Returns whether the engine is reachable, according to the last event.
    pub fn is_reachable(&self) -> bool {
        self.reachable
    }

    /// Returns the reason why the engine is unreachable; empty while it is reachable.
    pub fn unreachable_reason(&self) -> &str {
        &self.unreachable_reason
    }

    /// Returns the start of the current outage; `None` while the engine is reachable and before the first contact.
    pub fn outage_started_at(&self) -> Option<Timestamp> {
        self.outage_started_at
    }

    /// Returns start and reason of the loss of the event stream; `None` while the engine delivers events.
    pub fn events_lost(&self) -> Option<(Timestamp, &str)> {
        let (at, reason) = self.events_lost.as_ref()?;
        Some((*at, reason))
    }

    /// Returns the last response that Argus could not read; `None` after a complete list.
    pub fn unreadable(&self) -> Option<&Unreadable> {
        self.unreadable.as_deref()
    }

    /// Returns the reconnection state; `None` while the engine is reachable and before the first failed attempt.
    pub fn retry(&self) -> Option<RetryState<'_>> {
        let (tries, next) = self.retry.filter(|_| !self.reachable)?;
        Some(RetryState {
            attempts: tries,
            next,
            reason: &self.unreachable_reason,
        })
    }

    /// Returns the names that objects of any owner no longer have.
    pub fn released(&self) -> &ReleasedNames {
        &self.released
    }

    /// Returns the last outages, oldest first, at most 16.
    pub fn outages(&self) -> &[Outage] {
        &self.outages
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;

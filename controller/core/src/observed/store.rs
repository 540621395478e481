//! Everything seen on one engine, sorted by environment, and how far the seeing has come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Container, Network, Object, ObjectId, Observed, Outage, Volume, WatchEvent};
use crate::ident::{ContainerId, EnvName, NetworkId};
use crate::state::expectation::is_up;
use crate::time::Timestamp;

/// Everything of ours that was seen on one engine.
///
/// Objects that do not wholly carry our labels are not kept: they can be neither planned for nor touched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Store {
    environments: BTreeMap<EnvName, Arc<Observed>>,
    home: BTreeMap<ObjectId, EnvName>,
    /// Objects that the running list has not shown yet.
    unlisted: Option<BTreeSet<ObjectId>>,
    lists_begun: u64,
    last_complete: u64,
    reachable: bool,
    unreachable_reason: String,
    lost_at: Option<Timestamp>,
    retry: Option<(u32, Option<Timestamp>)>,
    outages: Vec<Outage>,
    /// Where versions come from: one row for all, because an environment that went and came back must not repeat one.
    changes: u64,
}

/// An engine that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryState<'a> {
    /// Tries in a row without an answer.
    pub attempts: u32,
    /// When it is tried next.
    pub next: Option<Timestamp>,
    /// Why the last try failed.
    pub reason: &'a str,
}

impl Store {
    /// Takes one sighting in.
    pub fn apply(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Init => {
                self.lists_begun += 1;
                self.unlisted = Some(self.home.keys().cloned().collect());
            }
            WatchEvent::Apply(object) => self.saw(object),
            WatchEvent::Delete(id) => self.gone(&id),
            WatchEvent::InitDone => {
                // A list that was cut by an outage has no set any more, and proves nothing.
                if let Some(unlisted) = self.unlisted.take() {
                    for id in unlisted {
                        self.gone(&id);
                    }
                    self.last_complete = self.lists_begun;
                }
            }
            WatchEvent::Stopped(id, at) => {
                self.patch_container(&id, |container| container.stopped_by_other = Some(at))
            }
            WatchEvent::OutOfMemory(id, at) => {
                self.patch_container(&id, |container| container.oom_at = Some(at))
            }
            WatchEvent::ImageMoved(id) => self.retagged(id),
            WatchEvent::Disconnected(at, reason) => self.lost(at, reason),
            WatchEvent::Retrying { tries, next } => self.retry = Some((tries, next)),
            WatchEvent::StreamStalled => {}
            WatchEvent::Connected(at) => {
                self.reachable = true;
                self.unreachable_reason.clear();
                self.lost_at = None;
                self.retry = None;
                if let Some(last) = self.outages.last_mut() {
                    last.until.get_or_insert(at);
                }
            }
        }
    }

    fn lost(&mut self, at: Timestamp, reason: String) {
        self.unlisted = None;
        // What was listed before says nothing about what is there after: a full list comes before any act.
        self.last_complete = 0;
        self.unreachable_reason = reason;
        self.lost_at.get_or_insert(at);
        if self.reachable {
            self.outages.push(Outage {
                from: at,
                until: None,
            });
            // Only recent outages can explain a death that is not yet dealt with.
            let surplus = self.outages.len().saturating_sub(16);
            self.outages.drain(..surplus);
        }
        self.reachable = false;
    }

    /// What an event told of a container that no look shows.
    fn patch_container(&mut self, id: &ContainerId, tell: impl FnOnce(&mut Container)) {
        let Some(env) = self.home.get(&ObjectId::Container(id.clone())).cloned() else {
            return;
        };
        self.changes += 1;
        let version = self.changes;
        let observed = self.edit(&env);
        if let Some(container) = observed.containers.get_mut(id) {
            tell(Arc::make_mut(container));
            observed.version = version;
        }
    }

    fn retagged(&mut self, id: ContainerId) {
        let Some(env) = self.home.get(&ObjectId::Container(id.clone())).cloned() else {
            return;
        };
        self.changes += 1;
        let version = self.changes;
        let observed = self.edit(&env);
        observed.retagged.insert(id);
        observed.version = version;
    }

    fn edit(&mut self, env: &EnvName) -> &mut Observed {
        Arc::make_mut(self.environments.entry(env.clone()).or_default())
    }

    fn saw(&mut self, object: Object) {
        let (id, owner) = match &object {
            Object::Container(c) => (ObjectId::Container(c.id.clone()), c.owner()),
            Object::Network(n) => (ObjectId::Network(n.id.clone()), n.owner()),
            Object::Volume(v) => (ObjectId::Volume(v.name.clone()), v.owner()),
        };
        if let Some(unlisted) = &mut self.unlisted {
            unlisted.remove(&id);
        }
        let Some(owner) = owner else {
            self.gone(&id);
            return;
        };
        let env = owner.environment;
        if self.home.get(&id).is_some_and(|home| *home != env) {
            self.gone(&id);
        }
        self.home.insert(id, env.clone());
        let observed = self.environments.entry(env).or_default();
        match object {
            Object::Container(new) => {
                let old = observed.containers.get(&new.id);
                let new = old.map_or_else(|| new.clone(), |old| merged(old, new.clone()));
                if old != Some(&new) {
                    let observed = Arc::make_mut(observed);
                    observed.containers.insert(new.id.clone(), new);
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

    fn gone(&mut self, id: &ObjectId) {
        let Some(env) = self.home.remove(id) else { return };
        self.changes += 1;
        let version = self.changes;
        let observed = self.edit(&env);
        match id {
            ObjectId::Container(id) => {
                observed.retagged.remove(id);
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

    /// What belongs to this environment.
    pub fn of(&self, env: &EnvName) -> Option<&Arc<Observed>> {
        self.environments.get(env)
    }

    /// Everything that carries our labels, by environment.
    pub fn environments(&self) -> &BTreeMap<EnvName, Arc<Observed>> {
        &self.environments
    }

    /// One container.
    pub fn container(&self, id: &ContainerId) -> Option<&Arc<Container>> {
        let env = self.home.get(&ObjectId::Container(id.clone()))?;
        self.environments.get(env)?.containers.get(id)
    }

    /// All containers with our labels.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.environments
            .values()
            .flat_map(|observed| observed.containers.values())
    }

    /// One network.
    pub fn network(&self, id: &NetworkId) -> Option<&Arc<Network>> {
        let env = self.home.get(&ObjectId::Network(id.clone()))?;
        self.environments.get(env)?.networks.get(id)
    }

    /// One volume.
    pub fn volume(&self, name: &str) -> Option<&Arc<Volume>> {
        let env = self.home.get(&ObjectId::Volume(name.to_owned()))?;
        self.environments.get(env)?.volumes.get(name)
    }

    /// A full list was completed at least once, and the engine answers.
    pub fn synced(&self) -> bool {
        self.last_complete > 0 && self.reachable
    }

    /// Number of the list that began last.
    pub fn lists_begun(&self) -> u64 {
        self.lists_begun
    }

    /// Number of the list that was completed last; 0 before the first.
    pub fn last_complete(&self) -> u64 {
        self.last_complete
    }

    /// Whether the engine answered the last time it was asked.
    pub fn reachable(&self) -> bool {
        self.reachable
    }

    /// Why it does not answer.
    pub fn unreachable_reason(&self) -> &str {
        &self.unreachable_reason
    }

    /// Since when it does not answer; `None` while it does, and before it was asked.
    pub fn lost_at(&self) -> Option<Timestamp> {
        self.lost_at
    }

    /// How an engine that does not answer is looked for; `None` while it answers, and before it was asked.
    pub fn retry(&self) -> Option<RetryState<'_>> {
        let (tries, next) = self.retry.filter(|_| !self.reachable)?;
        Some(RetryState {
            attempts: tries,
            next,
            reason: &self.unreachable_reason,
        })
    }

    /// Recent times without an engine, oldest first.
    pub fn outages(&self) -> &[Outage] {
        &self.outages
    }
}

/// A list shows less than an inspect did: where both tell of the same run, the older inspect still holds.
fn merged(old: &Container, new: Arc<Container>) -> Arc<Container> {
    let same_run = old.state == new.state && old.name == new.name;
    let keep_facts = new.inspect.is_none() && old.inspect.is_some() && same_run;
    let restarted = match (&old.inspect, &new.inspect) {
        (Some(before), Some(after)) => before.started_at != after.started_at,
        _ => false,
    };
    // What is up again, or was started since, is no longer what somebody stopped.
    let revived = is_up(new.state) && !is_up(old.state);
    let since = |stop: Timestamp| {
        new.inspect
            .as_ref()
            .and_then(|facts| facts.started_at)
            .is_some_and(|start| start > stop)
    };
    let same_life = !restarted && !revived;
    let keep_stop =
        new.stopped_by_other.is_none() && old.stopped_by_other.is_some_and(|stop| !since(stop)) && same_life;
    let keep_oom = new.oom_at.is_none() && old.oom_at.is_some_and(|at| !since(at)) && same_life;
    if !keep_facts && !keep_stop && !keep_oom {
        return new;
    }
    let mut new = new;
    let container = Arc::make_mut(&mut new);
    if keep_facts {
        container.inspect.clone_from(&old.inspect);
        for (name, attachment) in &mut container.networks {
            if let Some(known) = old.networks.get(name)
                && attachment.aliases.is_empty()
                && known.network == attachment.network
            {
                attachment.aliases.clone_from(&known.aliases);
            }
        }
    }
    if keep_stop {
        container.stopped_by_other = old.stopped_by_other;
    }
    if keep_oom {
        container.oom_at = old.oom_at;
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels;

    fn volume(name: &str) -> WatchEvent {
        let labels = [(labels::MANAGED, "true"), (labels::ENVIRONMENT, "shop")];
        let labels = labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let name = name.to_owned();
        WatchEvent::Apply(Object::Volume(Arc::new(Volume { name, labels })))
    }

    #[test]
    fn an_environment_that_went_and_came_back_has_another_version() {
        let mut store = Store::default();
        let shop = EnvName::new("shop").unwrap();
        store.apply(volume("a"));
        let before = store.of(&shop).unwrap().version;
        store.apply(WatchEvent::Delete(ObjectId::Volume("a".to_owned())));
        assert_eq!(store.of(&shop), None);
        store.apply(volume("b"));
        assert_ne!(store.of(&shop).unwrap().version, before);
    }
}

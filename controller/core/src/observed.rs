//! What is there: the engine's objects as the eyes last saw them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ident::{ContainerId, EnvName, HostPort, NetworkId};
use crate::labels::Owner;
use crate::time::Timestamp;

/// One thing the eyes report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    /// A full list begins; what it does not show by its end is gone.
    ListBegan,
    /// An object as it is now.
    Saw(Object),
    /// An object is no more.
    Gone(ObjectId),
    /// The list that began last is complete.
    ListDone,
    /// Somebody other than us asked the engine to stop or kill this container.
    Stopped(ContainerId, Timestamp),
    /// The engine does not answer; everything known is from before this.
    Lost(Timestamp, String),
    /// The engine answers again (the first time, too).
    Found(Timestamp),
}

/// An object of the engine that carries our labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A container.
    Container(Arc<Container>),
    /// A network.
    Network(Arc<Network>),
    /// A named volume.
    Volume(Arc<Volume>),
}

/// How the engine names an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// By container id.
    Container(ContainerId),
    /// By network id.
    Network(NetworkId),
    /// By volume name.
    Volume(String),
}

/// A container as list and inspect show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Engine id.
    pub id: ContainerId,
    /// Name without the leading slash.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// Image reference as it was asked for.
    pub image: String,
    /// State.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
    /// Networks it is attached to, by network name.
    pub networks: BTreeMap<String, Attachment>,
    /// What only an inspect shows; `None` until then.
    pub facts: Option<Facts>,
    /// A stop or kill through the API that was not ours, since the last start.
    pub stopped_by_other: Option<Timestamp>,
}

impl Container {
    /// Whose it is; `None`: not ours.
    pub fn owner(&self) -> Option<Owner> {
        Owner::read(&self.labels)
    }
}

/// The engine's word for what a container is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContainerState {
    /// Made, never started (or its start failed).
    Created,
    /// Running.
    Running,
    /// Frozen.
    Paused,
    /// The engine restarts it by itself.
    Restarting,
    /// Its removal is under way.
    Removing,
    /// Ended.
    Exited,
    /// Its removal failed half-way.
    Dead,
}

/// One network attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Id of the network; a deleted and recreated network has another one.
    pub network: Option<NetworkId>,
    /// DNS aliases; empty in lists, known after an inspect.
    pub aliases: Vec<String>,
    /// Address on it, if any.
    pub address: Option<String>,
}

/// What only an inspect shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Last start.
    pub started_at: Option<Timestamp>,
    /// Last end.
    pub finished_at: Option<Timestamp>,
    /// Exit code of the last run; meaningless while it runs.
    pub exit_code: i64,
    /// The engine's flag.
    pub oom_killed: bool,
    /// The engine's last error about it.
    pub error: String,
    /// The image's own health check.
    pub health: Option<EngineHealth>,
    /// Configuration, to find what was changed by hand.
    pub config: Config,
}

/// What the engine says of the image's own health check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineHealth {
    /// `starting`, `healthy` or `unhealthy`.
    pub status: EngineHealthStatus,
    /// Failures in a row.
    pub failing_streak: u32,
    /// Output of the last check, cut to 4 KiB.
    pub output: String,
    /// When the last check ended; older than the start means that it says nothing.
    pub checked_at: Option<Timestamp>,
}

/// The engine's word on the image's own health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineHealthStatus {
    /// Not decided.
    Starting,
    /// Good.
    Healthy,
    /// Bad.
    Unhealthy,
}

/// The part of a container's configuration that Argus sets and compares.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Config {
    /// `KEY=value` lines, the image's own included.
    pub environment: Vec<String>,
    /// Memory limit in bytes, 0 for none.
    pub memory: u64,
    /// CPU limit in billionths of a core, 0 for none.
    pub nano_cpus: u64,
    /// Published ports: (container port, host port).
    pub bindings: Vec<(HostPort, HostPort)>,
    /// Name of the engine's restart policy, `no` on ours.
    pub restart_policy: String,
}

/// A network with our labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Engine id.
    pub id: NetworkId,
    /// Name.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Network {
    /// Whose it is; `None`: not ours.
    pub fn owner(&self) -> Option<Owner> {
        Owner::read(&self.labels)
    }
}

/// A named volume with our labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Its name is its identity.
    pub name: String,
    /// All labels.
    pub labels: BTreeMap<String, String>,
}

impl Volume {
    /// Whose it is; `None`: not ours.
    pub fn owner(&self) -> Option<Owner> {
        Owner::read(&self.labels)
    }
}

/// A time during which the engine was away; deaths around it are not the containers' fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// When it was noticed.
    pub from: Timestamp,
    /// When the engine answered again; `None` while it lasts.
    pub until: Option<Timestamp>,
}

/// Everything seen on one engine, and how far the seeing has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct World {
    containers: BTreeMap<ContainerId, Arc<Container>>,
    networks: BTreeMap<NetworkId, Arc<Network>>,
    volumes: BTreeMap<String, Arc<Volume>>,
    /// Objects that the running list has not shown yet.
    unlisted: Option<std::collections::BTreeSet<ObjectId>>,
    lists_begun: u64,
    last_complete: u64,
    reachable: bool,
    unreachable_reason: String,
    outages: Vec<Outage>,
}

/// The objects of one environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Its containers, by id.
    pub containers: BTreeMap<ContainerId, Arc<Container>>,
    /// Its networks, by id.
    pub networks: BTreeMap<NetworkId, Arc<Network>>,
    /// Its volumes, by name.
    pub volumes: BTreeMap<String, Arc<Volume>>,
}

impl World {
    /// Takes one sighting in.
    pub fn apply(&mut self, sighting: Sighting) {
        match sighting {
            Sighting::ListBegan => {
                self.lists_begun += 1;
                let mut all: std::collections::BTreeSet<ObjectId> =
                    self.containers.keys().cloned().map(ObjectId::Container).collect();
                all.extend(self.networks.keys().cloned().map(ObjectId::Network));
                all.extend(self.volumes.keys().cloned().map(ObjectId::Volume));
                self.unlisted = Some(all);
            }
            Sighting::Saw(object) => self.saw(object),
            Sighting::Gone(id) => self.gone(&id),
            Sighting::ListDone => {
                for id in self.unlisted.take().unwrap_or_default() {
                    self.gone(&id);
                }
                self.last_complete = self.lists_begun;
            }
            Sighting::Stopped(id, at) => {
                if let Some(container) = self.containers.get_mut(&id) {
                    Arc::make_mut(container).stopped_by_other = Some(at);
                }
            }
            Sighting::Lost(at, reason) => self.lost(at, reason),
            Sighting::Found(at) => {
                self.reachable = true;
                self.unreachable_reason.clear();
                if let Some(last) = self.outages.last_mut() {
                    last.until.get_or_insert(at);
                }
            }
        }
    }

    fn lost(&mut self, at: Timestamp, reason: String) {
        // A list that was cut proves nothing about what it did not get to show.
        self.unlisted = None;
        self.unreachable_reason = reason;
        let lasting = self.outages.last().is_some_and(|last| last.until.is_none());
        if self.reachable && !lasting {
            self.outages.push(Outage { from: at, until: None });
            // Only recent outages can explain a death that is not yet dealt with.
            let surplus = self.outages.len().saturating_sub(16);
            self.outages.drain(..surplus);
        }
        self.reachable = false;
    }

    fn saw(&mut self, object: Object) {
        let id = match object {
            Object::Container(new) => {
                let mut new = new;
                if let Some(old) = self.containers.get(&new.id) {
                    new = merged(old, new);
                }
                let id = new.id.clone();
                self.containers.insert(id.clone(), new);
                ObjectId::Container(id)
            }
            Object::Network(network) => {
                let id = network.id.clone();
                self.networks.insert(id.clone(), network);
                ObjectId::Network(id)
            }
            Object::Volume(volume) => {
                let name = volume.name.clone();
                self.volumes.insert(name.clone(), volume);
                ObjectId::Volume(name)
            }
        };
        if let Some(unlisted) = &mut self.unlisted {
            unlisted.remove(&id);
        }
    }

    fn gone(&mut self, id: &ObjectId) {
        match id {
            ObjectId::Container(id) => drop(self.containers.remove(id)),
            ObjectId::Network(id) => drop(self.networks.remove(id)),
            ObjectId::Volume(name) => drop(self.volumes.remove(name)),
        }
    }

    /// What belongs to this environment.
    pub fn of(&self, env: &EnvName) -> Observed {
        let mine = |owner: Option<Owner>| owner.is_some_and(|owner| owner.environment == *env);
        Observed {
            containers: keep(&self.containers, |c| mine(c.owner())),
            networks: keep(&self.networks, |n| mine(n.owner())),
            volumes: keep(&self.volumes, |v| mine(v.owner())),
        }
    }

    /// Everything that carries our labels, by environment, in one pass.
    pub fn by_environment(&self) -> BTreeMap<EnvName, Observed> {
        let mut all: BTreeMap<EnvName, Observed> = BTreeMap::new();
        for (id, container) in &self.containers {
            if let Some(owner) = container.owner() {
                let of = all.entry(owner.environment).or_default();
                of.containers.insert(id.clone(), container.clone());
            }
        }
        for (id, network) in &self.networks {
            if let Some(owner) = network.owner() {
                all.entry(owner.environment).or_default().networks.insert(id.clone(), network.clone());
            }
        }
        for (name, volume) in &self.volumes {
            if let Some(owner) = volume.owner() {
                all.entry(owner.environment).or_default().volumes.insert(name.clone(), volume.clone());
            }
        }
        all
    }

    /// One container.
    pub fn container(&self, id: &ContainerId) -> Option<&Arc<Container>> {
        self.containers.get(id)
    }

    /// All containers with our labels.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.containers.values()
    }

    /// One network.
    pub fn network(&self, id: &NetworkId) -> Option<&Arc<Network>> {
        self.networks.get(id)
    }

    /// One volume.
    pub fn volume(&self, name: &str) -> Option<&Arc<Volume>> {
        self.volumes.get(name)
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

    /// Recent times without an engine, oldest first.
    pub fn outages(&self) -> &[Outage] {
        &self.outages
    }
}

fn keep<K: Ord + Clone, V>(all: &BTreeMap<K, Arc<V>>, mine: impl Fn(&V) -> bool) -> BTreeMap<K, Arc<V>> {
    all.iter().filter(|(_, v)| mine(v)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// A list shows less than an inspect did: where both tell of the same run, the older inspect still holds.
fn merged(old: &Container, new: Arc<Container>) -> Arc<Container> {
    let same_run = old.state == new.state && old.name == new.name;
    let keep_facts = new.facts.is_none() && old.facts.is_some() && same_run;
    let restarted = match (&old.facts, &new.facts) {
        (Some(before), Some(after)) => before.started_at != after.started_at,
        _ => false,
    };
    let keep_stop = new.stopped_by_other.is_none() && old.stopped_by_other.is_some() && !restarted;
    if !keep_facts && !keep_stop {
        return new;
    }
    let mut new = new;
    let container = Arc::make_mut(&mut new);
    if keep_facts {
        container.facts.clone_from(&old.facts);
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
    new
}

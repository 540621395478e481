//! An engine's objects and what becomes of them by themselves, by strangers and by people.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_core::desired::File;
use argus_core::ident::{ContainerId, HostPort, NetworkId};
use argus_core::labels;
use argus_core::lease::ControllerLease;
use argus_core::observed::{Container, ContainerState, Network, Object, ObjectId, Volume, WatchEvent};
use argus_core::plan::Action;
use argus_core::time::Timestamp;

/// How the processes of one service end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerScript {
    /// So long after each start.
    pub after: Duration,
    /// With this exit code.
    pub code: i64,
    /// So many times; runs after that do not end by themselves.
    pub times: u32,
}

/// A call as the engine carried it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// When.
    pub at: Timestamp,
    /// What.
    pub act: Action,
    /// It changed something; otherwise it found it done, or was refused.
    pub changed: bool,
}

/// Everything on the engine.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub(super) now: Timestamp,
    pub(super) made: u64,
    pub(super) containers: BTreeMap<ContainerId, StoredEvidence>,
    pub(super) networks: BTreeMap<NetworkId, Network>,
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(super) leases: BTreeMap<String, ControllerLease>,
    /// What was put into containers.
    pub(super) files: BTreeMap<ContainerId, File>,
    /// Present images by reference, with the digest of their build.
    pub(super) images: BTreeMap<String, String>,
    pub(super) registry: BTreeSet<String>,
    pub(super) strangers: BTreeSet<HostPort>,
    /// Refusals name only the refused port, as where the host's ports cannot be looked at.
    pub(super) blind: bool,
    /// Failed runs say how they ended, so that the same failure is seen to be the same.
    pub(super) talkative: bool,
    pub(super) foreign: BTreeSet<ObjectId>,
    pub(super) calls: Vec<Call>,
    pub(super) changes: Vec<WatchEvent>,
    trespasses: Vec<String>,
    /// How far the engine's clock is behind, in milliseconds.
    behind: i64,
    lives: BTreeMap<String, ContainerScript>,
    runs: BTreeMap<String, u32>,
}

/// A container with what an inspect does not show.
#[derive(Debug, Clone)]
pub(super) struct StoredEvidence {
    pub(super) container: Container,
    pub(super) ends_at: Option<Timestamp>,
    pub(super) code: i64,
}

impl Model {
    /// From here on failed runs leave a last line.
    pub fn talks(&mut self) {
        self.talkative = true;
    }

    /// An image that is on the engine.
    pub fn has_image(&mut self, reference: &str) {
        self.images.insert(reference.to_owned(), String::new());
    }

    /// An image that can be pulled.
    pub fn registry_has(&mut self, reference: &str) {
        self.registry.insert(reference.to_owned());
    }

    /// How the processes of `ENVIRONMENT/SERVICE` end; without this they do not.
    pub fn live(&mut self, service: &str, life: ContainerScript) {
        self.lives.insert(service.to_owned(), life);
    }

    /// A host port is taken by a process that is no container.
    pub fn take_port(&mut self, port: HostPort) {
        self.strangers.insert(port);
    }

    /// It is free again.
    pub fn free_port(&mut self, port: HostPort) {
        self.strangers.remove(&port);
    }

    /// From now on nothing can be seen of the host's ports.
    pub fn hide_ports(&mut self) {
        self.blind = true;
    }

    /// Something that somebody else made. Any act on it is a trespass.
    pub fn plant(&mut self, object: Object) {
        let id = self.leave(object);
        self.foreign.insert(id);
    }

    /// Something that somebody made and left.
    pub fn leave(&mut self, object: Object) -> ObjectId {
        let id = match object {
            Object::Container(container) => {
                let id = container.id.clone();
                let container = Container::clone(&container);
                self.containers.insert(
                    id.clone(),
                    StoredEvidence {
                        container,
                        ends_at: None,
                        code: 0,
                    },
                );
                ObjectId::Container(id)
            }
            Object::Network(network) => {
                let id = network.id.clone();
                self.networks.insert(id.clone(), Network::clone(&network));
                ObjectId::Network(id)
            }
            Object::Volume(volume) => {
                let name = volume.name.clone();
                self.volumes.insert(name.clone(), Volume::clone(&volume));
                ObjectId::Volume(name)
            }
        };
        self.changed(&id);
        id
    }

    /// What was asked of things that somebody else made.
    pub fn trespasses(&self) -> &[String] {
        &self.trespasses
    }

    /// Every call that reached the engine.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// All containers.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.values().map(|kept| &kept.container)
    }

    /// All networks.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        self.networks.values()
    }

    /// All volumes.
    pub fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.volumes.values()
    }

    /// How often processes of `ENVIRONMENT/SERVICE` were started.
    pub fn runs(&self, service: &str) -> u32 {
        self.runs.get(service).copied().unwrap_or(0)
    }

    /// When the next process ends by itself.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.containers.values().filter_map(|kept| kept.ends_at).min()
    }

    /// Time passes: processes end.
    pub fn pass(&mut self, now: Timestamp) {
        self.now = now;
        let ended: Vec<_> = self
            .containers
            .iter()
            .filter(|(_, kept)| kept.ends_at.is_some_and(|at| at <= now))
            .map(|(id, kept)| (id.clone(), kept.ends_at.unwrap_or(now), kept.code))
            .collect();
        for (id, at, code) in ended {
            self.end(&id, at, code);
        }
    }

    /// The engine's clock is set: it is so many milliseconds behind from now on.
    pub fn set_clock_behind(&mut self, millis: i64) {
        self.behind = millis;
    }

    /// What the engine's clock shows at a moment.
    pub(super) fn stamp(&self, at: Timestamp) -> Timestamp {
        Timestamp(at.0 - self.behind)
    }

    /// The process of a container is killed from outside the engine.
    pub fn dies(&mut self, id: &ContainerId, code: i64) {
        self.end(id, self.now, code);
    }

    /// The engine is restarted: every process ends, and nobody is told.
    pub fn engine_restarts(&mut self) {
        let running: Vec<_> = self.containers.keys().cloned().collect();
        for id in &running {
            self.end(id, self.now, 137);
        }
        self.changes.clear();
    }

    /// An object as a look would show it now; gone when it does not carry our label.
    pub fn look(&self, id: &ObjectId) -> WatchEvent {
        let object = match id {
            ObjectId::Container(id) => {
                let kept = self.containers.get(id);
                kept.map(|kept| Object::Container(Arc::new(kept.container.clone())))
            }
            ObjectId::Network(id) => self
                .networks
                .get(id)
                .map(|n| Object::Network(Arc::new(n.clone()))),
            ObjectId::Volume(name) => self
                .volumes
                .get(name)
                .map(|v| Object::Volume(Arc::new(v.clone()))),
        };
        let managed = object.filter(|object| {
            let labels = match object {
                Object::Container(container) => &container.labels,
                Object::Network(network) => &network.labels,
                Object::Volume(volume) => &volume.labels,
            };
            labels.get(labels::MANAGED).is_some_and(|word| word == "true")
        });
        managed.map_or_else(|| WatchEvent::Delete(id.clone()), WatchEvent::Apply)
    }

    /// Everything that carries our label, as a list shows it.
    pub fn list(&self) -> Vec<WatchEvent> {
        let containers = self.containers.keys().cloned().map(ObjectId::Container);
        let networks = self.networks.keys().cloned().map(ObjectId::Network);
        let volumes = self.volumes.keys().cloned().map(ObjectId::Volume);
        let all = containers.chain(networks).chain(volumes);
        all.map(|id| self.look(&id))
            .filter(|seen| matches!(seen, WatchEvent::Apply(_)))
            .collect()
    }

    /// Containers with an endpoint on a network.
    pub(super) fn attached(&self, id: &NetworkId) -> impl Iterator<Item = &ContainerId> {
        let on = move |kept: &StoredEvidence| {
            kept.container
                .networks
                .values()
                .any(|at| at.network.as_ref() == Some(id))
        };
        self.containers
            .iter()
            .filter(move |(_, kept)| on(kept))
            .map(|(id, _)| id)
    }

    pub(super) fn changed(&mut self, id: &ObjectId) {
        let seen = self.look(id);
        self.changes.push(seen);
    }

    pub(super) fn trespass(&mut self, act: &Action, id: &ObjectId) {
        if self.foreign.contains(id) {
            self.trespasses.push(format!("{} of {id:?}", act.verb()));
        }
    }

    /// A process begins: when it will end, and how.
    pub(super) fn begin_run(&mut self, id: &ContainerId) {
        let now = self.now;
        let Some(kept) = self.containers.get_mut(id) else {
            return;
        };
        let service = kept
            .container
            .owner()
            .and_then(|owner| Some(format!("{}/{}", owner.environment, owner.service?)));
        let service = service.unwrap_or_default();
        let runs = self.runs.entry(service.clone()).or_default();
        *runs += 1;
        let life = self.lives.get(&service).filter(|life| *runs <= life.times);
        kept.ends_at = life.map(|life| now + life.after);
        kept.code = life.map_or(0, |life| life.code);
    }

    /// A process ends.
    pub(super) fn end(&mut self, id: &ContainerId, at: Timestamp, code: i64) {
        let Some(kept) = self.containers.get_mut(id) else {
            return;
        };
        kept.ends_at = None;
        let shown = Timestamp(at.0 - self.behind);
        if !argus_core::state::expectation::is_up(kept.container.state) {
            return;
        }
        kept.container.state = ContainerState::Exited;
        if let Some(facts) = &mut kept.container.inspect {
            facts.finished_at = Some(shown);
            facts.exit_code = code;
        }
        self.changed(&ObjectId::Container(id.clone()));
    }
}

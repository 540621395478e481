//! The objects of a simulated engine, with the changes that its processes, other programs and people cause.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use argus_core::action::Action;
use argus_core::desired::InjectedFile;
use argus_core::ident::{ContainerId, NetworkId, ProtocolPort};
use argus_core::labels;
use argus_core::lease::ControllerLease;
use argus_core::observed::{Container, ContainerState, Network, Object, ObjectId, Volume, WatchEvent};
use argus_core::time::Timestamp;

/// Scripted end of the processes of one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitScript {
    /// Time from each start to the end of the process.
    pub after: Duration,
    /// Exit code of the process.
    pub code: i64,
    /// Number of runs that end this way; later runs continue until they are stopped.
    pub times: u32,
}

/// A call that reached the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Time of the call.
    pub at: Timestamp,
    /// Action that the call performed.
    pub action: Action,
    /// True when the call changed an object; false when the state was already reached or the engine refused.
    pub changed: bool,
}

/// The complete state of a simulated engine.
#[derive(Debug, Clone, Default)]
pub struct Model {
    pub(super) now: Timestamp,
    pub(super) created_count: u64,
    pub(super) containers: BTreeMap<ContainerId, StoredContainer>,
    pub(super) networks: BTreeMap<NetworkId, Network>,
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(super) leases: BTreeMap<String, ControllerLease>,
    /// Files that were copied into each container.
    pub(super) files: BTreeMap<ContainerId, Vec<InjectedFile>>,
    /// Present images by reference, with the digest of their build.
    pub(super) images: BTreeMap<String, String>,
    /// References that can be pulled.
    pub(super) registry: BTreeSet<String>,
    /// Host ports that processes outside containers hold.
    pub(super) process_ports: BTreeSet<ProtocolPort>,
    /// Ports on which no process inside a container listens.
    pub(super) closed_ports: BTreeSet<u16>,
    /// Containers whose start the engine refuses forever.
    pub(super) refused_starts: BTreeSet<ContainerId>,
    /// Port refusals name only the refused port, as on an engine whose host ports cannot be listed.
    pub(super) ports_hidden: bool,
    /// Failed runs write how they ended, so that equal failures can be recognized.
    pub(super) has_output: bool,
    /// Objects that Argus must not touch.
    pub(super) foreign: BTreeSet<ObjectId>,
    pub(super) calls: Vec<Call>,
    pub(super) changes: Vec<WatchEvent>,
    foreign_actions: Vec<String>,
    /// Lag of the engine's clock, in milliseconds.
    clock_behind_ms: i64,
    /// Time from the end of a run to the last line of its log, by `ENVIRONMENT/SERVICE`.
    pub(super) log_delays: BTreeMap<String, Duration>,
    /// Scripts by `ENVIRONMENT/SERVICE`.
    scripts: BTreeMap<String, ExitScript>,
    /// Number of started processes by `ENVIRONMENT/SERVICE`.
    start_counts: BTreeMap<String, u32>,
}

/// A container with the state that an inspect does not show.
#[derive(Debug, Clone)]
pub(super) struct StoredContainer {
    pub(super) container: Container,
    pub(super) ends_at: Option<Timestamp>,
    pub(super) code: i64,
}

impl Model {
    /// Makes failed runs write one line with their exit code from now on.
    pub fn enable_output(&mut self) {
        self.has_output = true;
    }

    /// Adds an image to the engine.
    pub fn add_image(&mut self, reference: &str) {
        self.images.insert(reference.to_owned(), String::new());
    }

    /// Adds an image to the registry, from which it can be pulled.
    pub fn add_to_registry(&mut self, reference: &str) {
        self.registry.insert(reference.to_owned());
    }

    /// Sets the script of `ENVIRONMENT/SERVICE`; without a script its processes run until they are stopped.
    pub fn set_script(&mut self, service: &str, script: ExitScript) {
        self.scripts.insert(service.to_owned(), script);
    }

    /// Refuses every start of this container, as an engine that crashed during its start.
    pub fn refuse_starts(&mut self, id: &ContainerId) {
        self.refused_starts.insert(id.clone());
    }

    /// Gives a host port to a process outside containers.
    pub fn occupy_port(&mut self, port: ProtocolPort) {
        self.process_ports.insert(port);
    }

    /// Frees a port of [`Self::occupy_port`].
    pub fn free_port(&mut self, port: ProtocolPort) {
        self.process_ports.remove(&port);
    }

    /// Leaves this port of all containers without a process: every connection to it is refused.
    pub fn close_port(&mut self, port: u16) {
        self.closed_ports.insert(port);
    }

    /// Hides the host's ports: from now on a refusal names only the refused port.
    pub fn hide_ports(&mut self) {
        self.ports_hidden = true;
    }

    /// Adds a foreign object. Every action on it is recorded in [`Self::foreign_actions`].
    pub fn add_foreign(&mut self, object: Object) {
        let id = self.add_object(object);
        self.foreign.insert(id);
    }

    /// Adds an object that an earlier run or another controller left behind.
    pub fn add_object(&mut self, object: Object) -> ObjectId {
        let id = match object {
            Object::Container(container) => {
                let id = container.id.clone();
                let container = Container::clone(&container);
                self.containers.insert(
                    id.clone(),
                    StoredContainer {
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

    /// Actions that were attempted on foreign objects.
    pub fn foreign_actions(&self) -> &[String] {
        &self.foreign_actions
    }

    /// Every call that reached the engine.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// All containers.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.values().map(|stored| &stored.container)
    }

    /// All networks.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        self.networks.values()
    }

    /// All volumes.
    pub fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.volumes.values()
    }

    /// Number of started processes of `ENVIRONMENT/SERVICE`.
    pub fn start_count(&self, service: &str) -> u32 {
        self.start_counts.get(service).copied().unwrap_or(0)
    }

    /// Time at which the next process ends by its script.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.containers.values().filter_map(|stored| stored.ends_at).min()
    }

    /// Advances the time: the processes whose time is over end.
    pub fn advance(&mut self, now: Timestamp) {
        self.now = now;
        let ended: Vec<_> = self
            .containers
            .iter()
            .filter(|(_, stored)| stored.ends_at.is_some_and(|at| at <= now))
            .map(|(id, stored)| (id.clone(), stored.ends_at.unwrap_or(now), stored.code))
            .collect();
        for (id, at, code) in ended {
            self.end(&id, at, code);
        }
    }

    /// Sets the lag of the engine's clock, in milliseconds.
    pub fn set_clock_behind(&mut self, millis: i64) {
        self.clock_behind_ms = millis;
    }

    /// Time on the engine's clock.
    pub(super) fn engine_time(&self, at: Timestamp) -> Timestamp {
        Timestamp(at.0 - self.clock_behind_ms)
    }

    /// Kills the process of a container from outside the engine.
    pub fn kill(&mut self, id: &ContainerId, code: i64) {
        self.end(id, self.now, code);
    }

    /// Restarts the engine: every process ends without an event.
    pub fn engine_restarts(&mut self) {
        let running: Vec<_> = self.containers.keys().cloned().collect();
        for id in &running {
            self.end(id, self.now, 137);
        }
        self.changes.clear();
    }

    /// The watch event for the current state of an object: a deletion when the object does not carry our label.
    pub fn inspect(&self, id: &ObjectId) -> WatchEvent {
        let object = match id {
            ObjectId::Container(id) => {
                let stored = self.containers.get(id);
                stored.map(|stored| Object::Container(Arc::new(stored.container.clone())))
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

    /// All objects that carry our label, as a list shows them.
    pub fn list(&self) -> Vec<WatchEvent> {
        let containers = self.containers.keys().cloned().map(ObjectId::Container);
        let networks = self.networks.keys().cloned().map(ObjectId::Network);
        let volumes = self.volumes.keys().cloned().map(ObjectId::Volume);
        let all = containers.chain(networks).chain(volumes);
        all.map(|id| self.inspect(&id))
            .filter(|event| matches!(event, WatchEvent::Apply(_)))
            .collect()
    }

    /// Containers with an endpoint on a network.
    pub(super) fn attached(&self, id: &NetworkId) -> impl Iterator<Item = &ContainerId> {
        let on = move |stored: &StoredContainer| {
            stored
                .container
                .networks
                .values()
                .any(|at| at.network.as_ref() == Some(id))
        };
        self.containers
            .iter()
            .filter(move |(_, stored)| on(stored))
            .map(|(id, _)| id)
    }

    /// Queues the watch event for the current state of an object.
    pub(super) fn changed(&mut self, id: &ObjectId) {
        let event = self.inspect(id);
        self.changes.push(event);
    }

    /// Records an action on a foreign object.
    pub(super) fn record_foreign_action(&mut self, action: &Action, id: &ObjectId) {
        if self.foreign.contains(id) {
            self.foreign_actions.push(format!("{} of {id:?}", action.verb()));
        }
    }

    /// Starts a process; the script of its service sets its end.
    pub(super) fn on_started(&mut self, id: &ContainerId) {
        let now = self.now;
        let Some(stored) = self.containers.get_mut(id) else {
            return;
        };
        let service = service_of(&stored.container);
        let count = self.start_counts.entry(service.clone()).or_default();
        *count += 1;
        let script = self.scripts.get(&service).filter(|script| *count <= script.times);
        stored.ends_at = script.map(|script| now + script.after);
        stored.code = script.map_or(0, |script| script.code);
    }

    /// Ends a process.
    pub(super) fn end(&mut self, id: &ContainerId, at: Timestamp, code: i64) {
        let Some(stored) = self.containers.get_mut(id) else {
            return;
        };
        stored.ends_at = None;
        let ended_at = Timestamp(at.0 - self.clock_behind_ms);
        if !stored.container.state.is_up() {
            return;
        }
        stored.container.state = ContainerState::Exited;
        if let Some(info) = &mut stored.container.inspect {
            info.finished_at = Some(ended_at);
            info.exit_code = code;
        }
        self.changed(&ObjectId::Container(id.clone()));
    }
}

/// `ENVIRONMENT/SERVICE` of a container; empty for a container without an owner.
pub(super) fn service_of(container: &Container) -> String {
    let owner = container.owner();
    let name = owner.and_then(|owner| Some(format!("{}/{}", owner.environment, owner.service?)));
    name.unwrap_or_default()
}

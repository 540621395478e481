//! The actions as the simulated engine performs them, with the refusals of a real engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use argus_core::action::{Action, ContainerSpec};
use argus_core::desired::{Build, PullPolicy, substitute_tag};
use argus_core::ident::{ContainerId, ProtocolPort, ResourceName};
use argus_core::labels::{CONTROLLER, ENVIRONMENT, NETWORK_OWNER, SERVICE, SPEC_HASH};
use argus_core::observed::{Container, ContainerState, Object, ObjectId};
use argus_core::outcome::{ActionError, Done, Evidence, PortOwner, PortRefusal};
use argus_core::time::Timestamp;

use super::model::{Call, Model, StoredContainer};

mod network;

type CallResult = Result<Done, ActionError>;

impl Model {
    /// Performs one action and records the call.
    ///
    /// # Errors
    /// The refusals of a real engine and of the Docker backend.
    pub fn act(&mut self, action: &Action, now: Timestamp) -> CallResult {
        self.advance(now);
        let before = self.changes.len();
        let result = match action {
            Action::CreateNetwork {
                name, external: true, ..
            } => self.find_external_network(name),
            Action::CreateNetwork { name, labels, .. } => self.create_network(name, labels),
            Action::RemoveNetwork { id, .. } => self.remove_network(action, id),
            Action::CreateVolume {
                name, external: true, ..
            } => self.find_volume(name),
            Action::CreateVolume { name, labels, .. } => self.create_volume(name, labels),
            Action::RemoveVolume { name } => self.remove_volume(action, name),
            Action::PullImage { reference, policy } => self.pull_image(reference, *policy),
            Action::BuildImage(build) => {
                self.build_image(build);
                Ok(Done::Applied)
            }
            Action::CreateContainer { name, spec } => self.create_container(name, spec),
            Action::StartContainer { id } => self.ensure_owned(action, id).and_then(|()| self.start(id)),
            Action::StopContainer { id, .. } => match self.ensure_owned(action, id) {
                Err(ActionError::Gone) => Ok(Done::Applied),
                Err(other) => Err(other),
                Ok(()) => {
                    self.end(id, now, 143);
                    Ok(Done::Applied)
                }
            },
            Action::UnpauseContainer { id } => self.ensure_owned(action, id).map(|()| self.unpause(id)),
            Action::RenameContainer { id, to } => {
                self.ensure_owned(action, id).and_then(|()| self.rename(id, to))
            }
            Action::RemoveContainer { id, .. } => match self.ensure_owned(action, id) {
                Err(ActionError::Gone) => Ok(Done::Applied),
                Err(other) => Err(other),
                Ok(()) => {
                    self.containers.remove(id);
                    self.changed(&ObjectId::Container(id.clone()));
                    Ok(Done::Applied)
                }
            },
            Action::CollectEvidence { run, .. } => self.collect_evidence(&run.container),
            Action::CopyFile { id, files } => self.ensure_owned(action, id).map(|()| {
                self.files.insert(id.clone(), files.clone());
                Done::Applied
            }),
            Action::ConnectNetwork {
                network,
                container,
                aliases,
                ..
            } => self.connect(action, network, container, aliases),
            Action::DisconnectNetwork { network, container } => self.disconnect(action, network, container),
        };
        let is_image = matches!(action, Action::PullImage { .. } | Action::BuildImage(_)) && result.is_ok();
        let changed = is_image || self.changes.len() > before;
        self.calls.push(Call {
            at: now,
            action: action.clone(),
            changed,
        });
        result
    }

    /// Evidence of a failed run: one line with its exit code, and only after [`Model::enable_output`].
    fn collect_evidence(&self, id: &ContainerId) -> CallResult {
        let stored = self.containers.get(id).ok_or(ActionError::Gone)?;
        let lines = self.has_output.then(|| stored.last_line());
        Ok(Done::Evidence(Box::new(Evidence {
            stderr: lines.into_iter().collect(),
            ..Evidence::default()
        })))
    }

    /// A new id that is unique on this engine.
    fn new_id(&mut self) -> String {
        self.created_count += 1;
        format!("{:012x}", self.created_count)
    }

    /// Checks that a container carries our labels before an action changes it.
    fn ensure_owned(&mut self, action: &Action, id: &ContainerId) -> Result<(), ActionError> {
        self.record_foreign_action(action, &ObjectId::Container(id.clone()));
        let stored = self.containers.get(id).ok_or(ActionError::Gone)?;
        match stored.container.owner() {
            Some(_) => Ok(()),
            None => Err(ActionError::NotOwned(format!(
                "container `{}`",
                stored.container.name
            ))),
        }
    }

    fn find_by_name(&self, name: &str) -> Option<&Container> {
        self.containers().find(|container| container.name == name)
    }

    fn build_image(&mut self, build: &Build) {
        let is_foreign = self.images.get(&build.tag).is_some_and(String::is_empty);
        let tag = if is_foreign {
            substitute_tag(&build.tag)
        } else {
            build.tag.clone()
        };
        self.images.insert(tag, build.digest.to_string());
    }

    /// Tag of the image for a container; `None` if the engine does not have the image.
    fn find_image(&self, spec: &ContainerSpec) -> Option<String> {
        if spec.build.is_empty() {
            return self.images.contains_key(&spec.image).then(|| spec.image.clone());
        }
        let mut tags = [spec.image.clone(), substitute_tag(&spec.image)].into_iter();
        tags.find(|tag| self.images.get(tag) == Some(&spec.build))
    }

    fn create_container(&mut self, name: &ResourceName, spec: &ContainerSpec) -> CallResult {
        let spec = &ContainerSpec {
            image: self.find_image(spec).ok_or(ActionError::ImageMissing)?,
            ..spec.clone()
        };
        if let Some(existing) = self.find_by_name(name.as_str()) {
            let same = |key: &str| existing.labels.get(key) == spec.labels.get(key);
            let ours = existing.owner().is_some()
                && [ENVIRONMENT, SERVICE, SPEC_HASH, CONTROLLER]
                    .into_iter()
                    .all(same);
            return match existing.state {
                ContainerState::Removing | ContainerState::Dead if ours => Err(ActionError::Busy(
                    "the container of an earlier attempt is still being removed".to_owned(),
                )),
                _ if ours => Ok(Done::Container(existing.id.clone())),
                _ => Err(ActionError::NameTaken {
                    holder: format!("`{}`", existing.name),
                }),
            };
        }
        let id = ContainerId::new(format!("c{}", self.new_id()))
            .map_err(|bad| ActionError::Unknown(bad.to_string()))?;
        let container = spec.created(id.clone(), name, None, self.engine_time(self.now));
        self.add_object(Object::Container(Arc::new(container)));
        Ok(Done::Container(id))
    }

    pub(super) fn start(&mut self, id: &ContainerId) -> CallResult {
        let container = self
            .containers
            .get(id)
            .map(|stored| stored.container.clone())
            .ok_or(ActionError::Gone)?;
        match container.state {
            ContainerState::Running | ContainerState::Restarting => return Ok(Done::Applied),
            ContainerState::Paused => {
                return Err(ActionError::Busy(
                    "cannot start a paused container, try unpause instead".to_owned(),
                ));
            }
            ContainerState::Removing | ContainerState::Dead => {
                return Err(ActionError::Busy(
                    "container is marked for removal and cannot be started".to_owned(),
                ));
            }
            ContainerState::Created | ContainerState::Exited => {}
        }
        if self.refused_starts.contains(id) {
            let text = format!("task {id}: already exists");
            return Err(self.record_failed_start(id, ActionError::StartFailed(text)));
        }
        if let Some(owner) = container.labels.get(NETWORK_OWNER) {
            let environment = container.labels.get(ENVIRONMENT);
            let is_running = self.containers().any(|other| {
                other.state == ContainerState::Running
                    && other.labels.get(SERVICE) == Some(owner)
                    && other.labels.get(ENVIRONMENT) == environment
            });
            if !is_running {
                let text = format!("cannot join network of a non running container: {owner}");
                return Err(self.record_failed_start(id, ActionError::StartFailed(text)));
            }
        }
        let mut networks = container.networks.clone();
        for (name, attachment) in &mut networks {
            let known = match &attachment.network {
                Some(id) => self.networks.get(id),
                None => self.networks.values().find(|network| network.name == *name),
            };
            let Some(known) = known.filter(|network| !network.is_broken) else {
                return Err(self
                    .record_failed_start(id, ActionError::NetworkGone(format!("network {name} not found"))));
            };
            attachment.network = Some(known.id.clone());
        }
        if let Some(port_refusal) = self.port_refusal(&container) {
            return Err(self.record_failed_start(id, ActionError::PortTaken(Box::new(port_refusal))));
        }
        let now = self.engine_time(self.now);
        if let Some(stored) = self.containers.get_mut(id) {
            stored.container.state = ContainerState::Running;
            stored.container.networks = networks;
            stored.container.stopped_by_other = None;
            if let Some(info) = &mut stored.container.inspect {
                info.started_at = Some(now);
                info.exit_code = 0;
                info.error = String::new();
            }
        }
        self.on_started(id);
        self.changed(&ObjectId::Container(id.clone()));
        Ok(Done::Applied)
    }

    /// Records a failed start in the container, whose state does not change, and returns its error.
    fn record_failed_start(&mut self, id: &ContainerId, error: ActionError) -> ActionError {
        if let Some(info) = self
            .containers
            .get_mut(id)
            .and_then(|stored| stored.container.inspect.as_mut())
        {
            info.exit_code = 128;
            info.error = error.to_string();
        }
        self.changed(&ObjectId::Container(id.clone()));
        error
    }

    /// The refusal of a container whose host ports are taken; `None` when all are free.
    fn port_refusal(&self, container: &Container) -> Option<PortRefusal> {
        fn bound(container: &Container) -> impl Iterator<Item = ProtocolPort> {
            let infos = container.inspect.iter();
            infos.flat_map(|info| info.config.bindings.iter().map(|(_, host)| *host))
        }
        let held = || {
            let others = self.containers();
            let others = others.filter(|other| other.state.is_up() && other.id != container.id);
            others.flat_map(bound).chain(self.process_ports.iter().copied())
        };
        let port = bound(container).find(|port| held().any(|busy| busy == *port))?;
        let busy: BTreeSet<ProtocolPort> = held().collect();
        let with_owner = |port| (port, PortOwner::Unknown);
        let busy = if self.ports_hidden {
            BTreeMap::new()
        } else {
            busy.into_iter().map(with_owner).collect()
        };
        Some(PortRefusal {
            port,
            free_now: false,
            owner: PortOwner::Unknown,
            busy,
        })
    }

    pub(super) fn unpause(&mut self, id: &ContainerId) -> Done {
        let paused = |stored: &&mut StoredContainer| stored.container.state == ContainerState::Paused;
        if let Some(stored) = self.containers.get_mut(id).filter(paused) {
            stored.container.state = ContainerState::Running;
            self.changed(&ObjectId::Container(id.clone()));
        }
        Done::Applied
    }

    fn rename(&mut self, id: &ContainerId, to: &ResourceName) -> CallResult {
        match self.find_by_name(to.as_str()) {
            Some(existing) if existing.id == *id => return Ok(Done::Applied),
            Some(existing) => {
                return Err(ActionError::NameTaken {
                    holder: format!("`{}`", existing.name),
                });
            }
            None => {}
        }
        if let Some(stored) = self.containers.get_mut(id) {
            stored.container.name = to.to_string();
            self.changed(&ObjectId::Container(id.clone()));
        }
        Ok(Done::Applied)
    }

    fn pull_image(&mut self, reference: &str, policy: PullPolicy) -> CallResult {
        if policy == PullPolicy::Never {
            let missing = || ActionError::ImageNotFound(format!("no local image {reference}"));
            let is_present = self.images.contains_key(reference);
            return is_present.then_some(Done::Applied).ok_or_else(missing);
        }
        if !self.registry.contains(reference) {
            return Err(ActionError::ImageNotFound(format!(
                "manifest for {reference} not found"
            )));
        }
        self.images.insert(reference.to_owned(), String::new());
        Ok(Done::Applied)
    }
}

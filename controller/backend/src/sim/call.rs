//! Acts as the engine carries them out, with every refusal that is known of a real one.

use std::collections::{BTreeMap, BTreeSet};

use argus_core::ident::{ContainerId, HostPort, ResourceName};
use argus_core::labels::{CONTROLLER, ENVIRONMENT, SERVICE, SPEC_HASH};
use argus_core::observed::{Attachment, Container, ContainerState, InspectInfo, ObjectId};
use argus_core::outcome::{ActionError, Done, Evidence, PortOwner, PortRefusal};
use argus_core::plan::{Action, ContainerSpec};
use argus_core::state::expectation::is_up;
use argus_core::time::Timestamp;

use super::model::{Call, Model, StoredEvidence};

mod network;

type CallResult = Result<Done, ActionError>;

impl Model {
    /// Carries out one act.
    ///
    /// # Errors
    /// As an engine and the backend before it would refuse it.
    pub fn act(&mut self, act: &Action, now: Timestamp) -> CallResult {
        self.pass(now);
        let before = self.changes.len();
        let came = match act {
            Action::CreateNetwork { name, labels } => self.create_network(name, labels),
            Action::RemoveNetwork { id, .. } => self.remove_network(act, id),
            Action::CreateVolume { name, labels } => self.create_volume(name, labels),
            Action::RemoveVolume { name } => self.remove_volume(act, name),
            Action::PullImage { reference } => self.pull(reference),
            Action::BuildImage(build) => {
                self.images.insert(build.tag.clone(), build.digest.to_string());
                Ok(Done::Ok)
            }
            Action::CreateContainer { name, spec } => self.create(name, spec),
            Action::StartContainer { id } => self.own(act, id).and_then(|()| self.start(id)),
            Action::StopContainer { id, .. } => match self.own(act, id) {
                Err(ActionError::Gone) => Ok(Done::Ok),
                Err(other) => Err(other),
                Ok(()) => {
                    self.end(id, now, 143);
                    Ok(Done::Ok)
                }
            },
            Action::UnpauseContainer { id } => self.own(act, id).map(|()| self.unpause(id)),
            Action::RenameContainer { id, to } => self.own(act, id).and_then(|()| self.rename(id, to)),
            Action::RemoveContainer { id, .. } => match self.own(act, id) {
                Err(ActionError::Gone) => Ok(Done::Ok),
                Err(other) => Err(other),
                Ok(()) => {
                    self.containers.remove(id);
                    self.changed(&ObjectId::Container(id.clone()));
                    Ok(Done::Ok)
                }
            },
            Action::CollectEvidence { id, .. } => self.evidence(id),
            Action::CopyFile { id, file } => self.own(act, id).map(|()| {
                self.files.insert(id.clone(), file.clone());
                Done::Ok
            }),
            Action::ConnectNetwork {
                network,
                container,
                aliases,
            } => self.connect(act, network, container, aliases),
            Action::DisconnectNetwork { network, container } => self.disconnect(act, network, container),
        };
        let image = matches!(act, Action::PullImage { .. } | Action::BuildImage(_)) && came.is_ok();
        let changed = image || self.changes.len() > before;
        self.calls.push(Call {
            at: now,
            act: act.clone(),
            changed,
        });
        came
    }

    /// What a run left: how it ended is all that it wrote.
    fn evidence(&self, id: &ContainerId) -> CallResult {
        let kept = self.containers.get(id).ok_or(ActionError::Gone)?;
        let line = format!("ended with {}", kept.code);
        Ok(Done::Evidence(Box::new(Evidence {
            stderr: if self.talkative { vec![line] } else { Vec::new() },
            ..Evidence::default()
        })))
    }

    fn fresh(&mut self) -> String {
        self.made += 1;
        format!("{:012x}", self.made)
    }

    /// The look at the labels before a change.
    fn own(&mut self, act: &Action, id: &ContainerId) -> Result<(), ActionError> {
        self.trespass(act, &ObjectId::Container(id.clone()));
        let kept = self.containers.get(id).ok_or(ActionError::Gone)?;
        match kept.container.owner() {
            Some(_) => Ok(()),
            None => Err(ActionError::NotOurs(format!(
                "container `{}`",
                kept.container.name
            ))),
        }
    }

    fn named(&self, name: &str) -> Option<&Container> {
        self.containers().find(|container| container.name == name)
    }

    fn create(&mut self, name: &ResourceName, spec: &ContainerSpec) -> CallResult {
        match self.images.get(&spec.image) {
            Some(digest) if spec.build.is_empty() || *digest == spec.build => {}
            _ => return Err(ActionError::ImageMissing),
        }
        if let Some(held) = self.named(name.as_str()) {
            let same = |key: &str| held.labels.get(key) == spec.labels.get(key);
            let ours = held.owner().is_some()
                && [ENVIRONMENT, SERVICE, SPEC_HASH, CONTROLLER]
                    .into_iter()
                    .all(same);
            return match held.state {
                ContainerState::Removing | ContainerState::Dead if ours => Err(ActionError::Busy(
                    "the container of an earlier try is being removed".to_owned(),
                )),
                _ if ours => Ok(Done::Container(held.id.clone())),
                _ => Err(ActionError::NameTaken {
                    holder: format!("`{}`", held.name),
                }),
            };
        }
        let id = ContainerId::new(format!("c{}", self.fresh()))
            .map_err(|bad| ActionError::Unknown(bad.to_string()))?;
        let at = Attachment {
            network: None,
            aliases: spec.aliases.clone(),
            address: None,
        };
        let container = Container {
            id: id.clone(),
            name: name.to_string(),
            labels: spec.labels.clone(),
            image: spec.image.clone(),
            state: ContainerState::Created,
            created_at: self.stamp(self.now),
            networks: BTreeMap::from([(spec.network.to_string(), at)]),
            inspect: Some(facts_of(spec)),
            stopped_by_other: None,
            oom_at: None,
        };
        self.containers.insert(
            id.clone(),
            StoredEvidence {
                container,
                ends_at: None,
                code: 0,
            },
        );
        self.changed(&ObjectId::Container(id.clone()));
        Ok(Done::Container(id))
    }

    pub(super) fn start(&mut self, id: &ContainerId) -> CallResult {
        let container = self
            .containers
            .get(id)
            .map(|kept| kept.container.clone())
            .ok_or(ActionError::Gone)?;
        match container.state {
            ContainerState::Running | ContainerState::Restarting => return Ok(Done::Ok),
            ContainerState::Paused => {
                return Err(ActionError::Rejected(
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
        let mut networks = container.networks.clone();
        for (name, at) in &mut networks {
            let known = match &at.network {
                Some(id) => self.networks.get(id),
                None => self.networks.values().find(|network| network.name == *name),
            };
            let Some(known) = known else {
                return Err(self.failed(id, ActionError::NetworkGone(format!("network {name} not found"))));
            };
            at.network = Some(known.id.clone());
        }
        if let Some(refusal) = self.refusal(&container) {
            return Err(self.failed(id, ActionError::PortTaken(Box::new(refusal))));
        }
        let now = self.stamp(self.now);
        if let Some(kept) = self.containers.get_mut(id) {
            kept.container.state = ContainerState::Running;
            kept.container.networks = networks;
            kept.container.stopped_by_other = None;
            if let Some(facts) = &mut kept.container.inspect {
                facts.started_at = Some(now);
                facts.exit_code = 0;
                facts.error = String::new();
            }
        }
        self.begin_run(id);
        self.changed(&ObjectId::Container(id.clone()));
        Ok(Done::Ok)
    }

    /// A start that fails leaves the state as it is, and a note.
    fn failed(&mut self, id: &ContainerId, error: ActionError) -> ActionError {
        if let Some(facts) = self
            .containers
            .get_mut(id)
            .and_then(|kept| kept.container.inspect.as_mut())
        {
            facts.exit_code = 128;
            facts.error = error.to_string();
        }
        self.changed(&ObjectId::Container(id.clone()));
        error
    }

    fn refusal(&self, container: &Container) -> Option<PortRefusal> {
        let bound = |container: &Container| {
            let facts = container.inspect.as_ref();
            facts
                .map(|facts| {
                    facts
                        .config
                        .bindings
                        .iter()
                        .map(|(_, host)| *host)
                        .collect::<Vec<_>>()
                })
                .unwrap_or_default()
        };
        let others = self
            .containers()
            .filter(|other| is_up(other.state) && other.id != container.id);
        let mut busy: BTreeSet<HostPort> = others.flat_map(&bound).collect();
        busy.extend(&self.strangers);
        let port = bound(container).into_iter().find(|port| busy.contains(port))?;
        let busy = if self.blind { BTreeSet::new() } else { busy };
        Some(PortRefusal {
            port,
            free_now: false,
            owner: PortOwner::Unknown,
            busy,
        })
    }

    pub(super) fn unpause(&mut self, id: &ContainerId) -> Done {
        let paused = |kept: &&mut StoredEvidence| kept.container.state == ContainerState::Paused;
        if let Some(kept) = self.containers.get_mut(id).filter(paused) {
            kept.container.state = ContainerState::Running;
            self.changed(&ObjectId::Container(id.clone()));
        }
        Done::Ok
    }

    fn rename(&mut self, id: &ContainerId, to: &ResourceName) -> CallResult {
        match self.named(to.as_str()) {
            Some(held) if held.id == *id => return Ok(Done::Ok),
            Some(held) => {
                return Err(ActionError::NameTaken {
                    holder: format!("`{}`", held.name),
                });
            }
            None => {}
        }
        if let Some(kept) = self.containers.get_mut(id) {
            kept.container.name = to.to_string();
            self.changed(&ObjectId::Container(id.clone()));
        }
        Ok(Done::Ok)
    }

    fn pull(&mut self, reference: &str) -> CallResult {
        if !self.registry.contains(reference) {
            return Err(ActionError::ImageNotFound(format!(
                "manifest for {reference} not found"
            )));
        }
        self.images.insert(reference.to_owned(), String::new());
        Ok(Done::Ok)
    }
}

fn facts_of(spec: &ContainerSpec) -> InspectInfo {
    InspectInfo {
        started_at: None,
        finished_at: None,
        exit_code: 0,
        oom_killed: false,
        error: String::new(),
        image_id: None,
        health: None,
        config: spec.configuration(),
    }
}

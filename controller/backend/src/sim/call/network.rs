//! Simulated actions on networks, attachments and volumes, and simulated connectivity checks.

use std::collections::BTreeMap;

use argus_core::action::Action;
use argus_core::connectivity::{LinkError, LinkSource, Target, TargetResult};
use argus_core::ident::{ContainerId, NetworkId, ResourceName};
use argus_core::labels::{CONTROLLER, ENVIRONMENT, ObjectLabels};
use argus_core::observed::{Attachment, Container, ContainerState, Network, ObjectId, Volume};
use argus_core::outcome::{ActionError, Done, FOREIGN_NETWORK};

use super::CallResult;
use crate::sim::model::Model;

impl Model {
    /// Simulates a connectivity check. A name resolves when a running container has it on a network of the source, as
    /// its name or as an alias. Every port of a running container accepts connections, except the closed ones.
    pub(crate) fn check_links(
        &self,
        source: &LinkSource,
        targets: &[Target],
    ) -> Result<Vec<TargetResult>, ActionError> {
        let networks: Vec<&NetworkId> = match source {
            LinkSource::Container(id) => {
                let source = &self.containers.get(id).ok_or(ActionError::Gone)?.container;
                if source.state != ContainerState::Running {
                    return Err(ActionError::Rejected(
                        "the source container is not running".to_owned(),
                    ));
                }
                let attachments = source.networks.values();
                attachments.filter_map(|at| at.network.as_ref()).collect()
            }
            LinkSource::Network { network, .. } => {
                let gone = || ActionError::NetworkGone(format!("network {network} not found"));
                vec![&self.networks.get(network).ok_or_else(gone)?.id]
            }
        };
        let is_known = |host: &str| {
            self.containers().any(|other| {
                let shares = |(_, attachment): (&String, &Attachment)| {
                    let is_shared = attachment
                        .network
                        .as_ref()
                        .is_some_and(|id| networks.contains(&id));
                    is_shared && (other.name == host || attachment.aliases.iter().any(|alias| alias == host))
                };
                other.state == ContainerState::Running && other.networks.iter().any(shares)
            })
        };
        let error = |target: &Target| {
            if !is_known(&target.host) {
                return Some(LinkError::NoSuchName("no such name".to_owned()));
            }
            let is_closed = target.port.is_some_and(|port| self.closed_ports.contains(&port));
            is_closed.then(|| LinkError::Refused("connection refused".to_owned()))
        };
        let check = |target: &Target| TargetResult {
            error: error(target),
            ..TargetResult::default()
        };
        Ok(targets.iter().map(check).collect())
    }

    pub(super) fn connect(
        &mut self,
        action: &Action,
        network: &str,
        container: &ContainerId,
        aliases: &[String],
    ) -> CallResult {
        let gone = || ActionError::NetworkGone(format!("network {network} not found"));
        let mut networks = self.networks.values();
        let (id, name) = networks
            .find(|known| known.id.as_str() == network || known.name == network)
            .filter(|known| !known.is_broken)
            .map(|known| (known.id.clone(), known.name.clone()))
            .ok_or_else(gone)?;
        self.ensure_owned(action, container)?;
        let stored = self.containers.get_mut(container).ok_or(ActionError::Gone)?;
        if let Some(attachment) = stored.container.networks.get(&name) {
            let same = attachment.network.as_ref().is_none_or(|known| *known == id)
                && aliases.iter().all(|alias| attachment.aliases.contains(alias));
            return if same {
                Ok(Done::Applied)
            } else {
                Err(ActionError::Rejected(
                    "the container is already attached with other aliases".to_owned(),
                ))
            };
        }
        let attachment = Attachment {
            // A container that never ran has no network id.
            network: stored.container.state.is_up().then_some(id),
            aliases: aliases.to_vec(),
            address: None,
        };
        stored.container.networks.insert(name, attachment);
        self.changed(&ObjectId::Container(container.clone()));
        Ok(Done::Applied)
    }

    pub(super) fn disconnect(&mut self, action: &Action, network: &str, container: &str) -> CallResult {
        let same = |existing: &&Container| existing.id.as_str() == container || existing.name == container;
        let Some(id) = self.containers().find(same).map(|existing| existing.id.clone()) else {
            return Ok(Done::Applied);
        };
        self.ensure_owned(action, &id)?;
        if let Some(stored) = self.containers.get_mut(&id)
            && stored.container.networks.remove(network).is_some()
        {
            self.changed(&ObjectId::Container(id));
        }
        Ok(Done::Applied)
    }

    pub(super) fn create_network(
        &mut self,
        name: &ResourceName,
        labels: &BTreeMap<String, String>,
    ) -> CallResult {
        if let Some(existing) = self
            .networks
            .values()
            .find(|network| network.name == name.as_str())
        {
            let same = |key: &str| existing.labels.get(key) == labels.get(key);
            return if existing.owner().is_some() && [ENVIRONMENT, CONTROLLER].into_iter().all(same) {
                Ok(Done::Network(existing.id.clone()))
            } else {
                let holder = match existing.owner() {
                    Some(_) => format!("`{name}`"),
                    None => format!("`{name}`: {FOREIGN_NETWORK}"),
                };
                Err(ActionError::NameTaken { holder })
            };
        }
        let id = NetworkId::new(format!("n{}", self.new_id()))
            .map_err(|bad| ActionError::Unknown(bad.to_string()))?;
        let network = Network {
            id: id.clone(),
            name: name.to_string(),
            labels: labels.clone(),
            created_at: self.engine_time(self.now),
            is_broken: false,
        };
        self.networks.insert(id.clone(), network);
        self.changed(&ObjectId::Network(id.clone()));
        Ok(Done::Network(id))
    }

    pub(super) fn remove_network(&mut self, action: &Action, id: &NetworkId) -> CallResult {
        self.record_foreign_action(action, &ObjectId::Network(id.clone()));
        let Some(network) = self.networks.get(id) else {
            return Ok(Done::Applied);
        };
        if network.owner().is_none() {
            return Err(ActionError::NotOwned(format!("network `{}`", network.name)));
        }
        let running = |id: &&ContainerId| {
            self.containers
                .get(*id)
                .is_some_and(|stored| stored.container.state.is_up())
        };
        if let Some(used) = self.attached(id).find(running) {
            return Err(ActionError::NetworkInUse(format!("container {used} is attached")));
        }
        self.networks.remove(id);
        self.changed(&ObjectId::Network(id.clone()));
        Ok(Done::Applied)
    }

    /// Checks that a network exists, with any owner.
    pub(super) fn find_external_network(&self, name: &ResourceName) -> CallResult {
        let is_present = self
            .networks
            .values()
            .any(|network| network.name == name.as_str());
        let missing = || ActionError::NetworkNotFound(name.to_string());
        is_present.then_some(Done::Applied).ok_or_else(missing)
    }

    /// Checks that a volume exists, with any owner.
    pub(super) fn find_volume(&self, name: &ResourceName) -> CallResult {
        let is_present = self.volumes.contains_key(name.as_str());
        let missing = || ActionError::VolumeNotFound(name.to_string());
        is_present.then_some(Done::Applied).ok_or_else(missing)
    }

    pub(super) fn create_volume(
        &mut self,
        name: &ResourceName,
        labels: &BTreeMap<String, String>,
    ) -> CallResult {
        if let Some(existing) = self.volumes.get(name.as_str()) {
            let same = |key: &str| existing.labels.get(key) == labels.get(key);
            return if [ENVIRONMENT, CONTROLLER].into_iter().all(same) {
                Ok(Done::Applied)
            } else {
                Err(ActionError::NameTaken {
                    holder: format!("`{name}`"),
                })
            };
        }
        self.volumes.insert(
            name.to_string(),
            Volume {
                name: name.to_string(),
                labels: labels.clone(),
            },
        );
        self.changed(&ObjectId::Volume(name.to_string()));
        Ok(Done::Applied)
    }

    pub(super) fn remove_volume(&mut self, action: &Action, name: &ResourceName) -> CallResult {
        let id = ObjectId::Volume(name.to_string());
        self.record_foreign_action(action, &id);
        match self.volumes.get(name.as_str()) {
            None => return Ok(Done::Applied),
            Some(existing) if ObjectLabels::read(&existing.labels).is_none() => {
                return Err(ActionError::NotOwned(format!("volume `{name}`")));
            }
            Some(_) => {}
        }
        self.volumes.remove(name.as_str());
        self.changed(&id);
        Ok(Done::Applied)
    }
}

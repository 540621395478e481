//! Acts on networks, volumes and who is attached to them.

use std::collections::BTreeMap;

use argus_core::connectivity::{LinkError, Target, TargetResult};
use argus_core::ident::{ContainerId, NetworkId, ResourceName};
use argus_core::labels::{CONTROLLER, ENVIRONMENT, Owner};
use argus_core::observed::{Attachment, Container, ContainerState, Network, ObjectId, Volume};
use argus_core::outcome::{ActionError, Done};
use argus_core::plan::Action;
use argus_core::state::expectation::is_up;

use super::CallResult;
use crate::sim::model::Model;

impl Model {
    /// A name is known to whoever is on a network with a running container of that name or alias; what runs takes connections.
    pub(crate) fn check_links(
        &self,
        source: &ContainerId,
        targets: &[Target],
    ) -> Result<Vec<TargetResult>, ActionError> {
        let source = &self.containers.get(source).ok_or(ActionError::Gone)?.container;
        if source.state != ContainerState::Running {
            return Err(ActionError::Rejected("the source does not run".to_owned()));
        }
        let known = |host: &str| {
            self.containers().any(|other| {
                let shares = |(name, at): (&String, &Attachment)| {
                    let own = source.networks.get(name);
                    own.is_some_and(|own| own.network == at.network)
                        && (other.name == host || at.aliases.iter().any(|alias| alias == host))
                };
                other.state == ContainerState::Running && other.networks.iter().any(shares)
            })
        };
        let seen = |target: &Target| TargetResult {
            addresses: Vec::new(),
            error: (!known(&target.host)).then(|| LinkError::NoSuchName("no such name".to_owned())),
        };
        Ok(targets.iter().map(seen).collect())
    }

    pub(super) fn connect(
        &mut self,
        act: &Action,
        network: &NetworkId,
        container: &ContainerId,
        aliases: &[String],
    ) -> CallResult {
        let gone = || ActionError::NetworkGone(format!("network {network} not found"));
        let name = self
            .networks
            .get(network)
            .map(|network| network.name.clone())
            .ok_or_else(gone)?;
        self.own(act, container)?;
        let kept = self.containers.get_mut(container).ok_or(ActionError::Gone)?;
        if let Some(at) = kept.container.networks.get(&name) {
            let same = at.network.as_ref() == Some(network)
                && aliases.iter().all(|alias| at.aliases.contains(alias));
            return if same {
                Ok(Done::Ok)
            } else {
                Err(ActionError::Rejected(
                    "it is attached already, under other names".to_owned(),
                ))
            };
        }
        let at = Attachment {
            network: Some(network.clone()),
            aliases: aliases.to_vec(),
            address: None,
        };
        kept.container.networks.insert(name, at);
        self.changed(&ObjectId::Container(container.clone()));
        Ok(Done::Ok)
    }

    pub(super) fn disconnect(&mut self, act: &Action, network: &str, container: &str) -> CallResult {
        let same = |held: &&Container| held.id.as_str() == container || held.name == container;
        let Some(id) = self.containers().find(same).map(|held| held.id.clone()) else {
            return Ok(Done::Ok);
        };
        self.own(act, &id)?;
        if let Some(kept) = self.containers.get_mut(&id)
            && kept.container.networks.remove(network).is_some()
        {
            self.changed(&ObjectId::Container(id));
        }
        Ok(Done::Ok)
    }

    pub(super) fn create_network(
        &mut self,
        name: &ResourceName,
        labels: &BTreeMap<String, String>,
    ) -> CallResult {
        if let Some(held) = self
            .networks
            .values()
            .find(|network| network.name == name.as_str())
        {
            let same = |key: &str| held.labels.get(key) == labels.get(key);
            return if held.owner().is_some() && [ENVIRONMENT, CONTROLLER].into_iter().all(same) {
                Ok(Done::Network(held.id.clone()))
            } else {
                Err(ActionError::NameTaken {
                    holder: format!("`{name}`"),
                })
            };
        }
        let id = NetworkId::new(format!("n{}", self.fresh()))
            .map_err(|bad| ActionError::Unknown(bad.to_string()))?;
        let network = Network {
            id: id.clone(),
            name: name.to_string(),
            labels: labels.clone(),
            created_at: self.stamp(self.now),
        };
        self.networks.insert(id.clone(), network);
        self.changed(&ObjectId::Network(id.clone()));
        Ok(Done::Network(id))
    }

    pub(super) fn remove_network(&mut self, act: &Action, id: &NetworkId) -> CallResult {
        self.trespass(act, &ObjectId::Network(id.clone()));
        let Some(network) = self.networks.get(id) else {
            return Ok(Done::Ok);
        };
        if network.owner().is_none() {
            return Err(ActionError::NotOurs(format!("network `{}`", network.name)));
        }
        let running = |id: &&ContainerId| {
            self.containers
                .get(*id)
                .is_some_and(|kept| is_up(kept.container.state))
        };
        if let Some(used) = self.attached(id).find(running) {
            return Err(ActionError::NetworkInUse(format!("container {used} is attached")));
        }
        self.networks.remove(id);
        self.changed(&ObjectId::Network(id.clone()));
        Ok(Done::Ok)
    }

    pub(super) fn create_volume(
        &mut self,
        name: &ResourceName,
        labels: &BTreeMap<String, String>,
    ) -> CallResult {
        if let Some(held) = self.volumes.get(name.as_str()) {
            let same = |key: &str| held.labels.get(key) == labels.get(key);
            return if [ENVIRONMENT, CONTROLLER].into_iter().all(same) {
                Ok(Done::Ok)
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
        Ok(Done::Ok)
    }

    pub(super) fn remove_volume(&mut self, act: &Action, name: &ResourceName) -> CallResult {
        let id = ObjectId::Volume(name.to_string());
        self.trespass(act, &id);
        match self.volumes.get(name.as_str()) {
            None => return Ok(Done::Ok),
            Some(held) if Owner::read(&held.labels).is_none() => {
                return Err(ActionError::NotOurs(format!("volume `{name}`")));
            }
            Some(_) => {}
        }
        self.volumes.remove(name.as_str());
        self.changed(&id);
        Ok(Done::Ok)
    }
}

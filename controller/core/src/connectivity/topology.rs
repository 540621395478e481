//! What of an environment there is to look from and at, and whether it is time for a look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{CheckKey, targets};
use crate::desired::Desired;
use crate::ident::{ContainerId, ServiceName, SpecHash};
use crate::observed::{Container, ContainerState, Network, Observed, Outage};
use crate::plan::ready;
use crate::probe::{HealthStates, ProbeStatus};
use crate::time::Timestamp;

/// An environment as it is at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Topology<'a> {
    /// What it shall be.
    pub desired: &'a Desired,
    /// What is there of it.
    pub observed: &'a Observed,
    /// What each service's container must carry; `None`: whatever runs for a service is it.
    pub hashes: Option<&'a BTreeMap<ServiceName, SpecHash>>,
    /// Verdicts of the probes.
    pub health: &'a HealthStates,
    /// Recent times without an engine.
    pub outages: &'a [Outage],
    /// When the engine came back last.
    pub epoch: Option<Timestamp>,
}

impl<'a> Topology<'a> {
    /// What a look would be taken of now: once everybody who asks or is asked runs, is healthy and is on the network.
    pub fn due(&self) -> Option<CheckKey> {
        let targets = targets(self.desired);
        let network = self.network()?;
        let mut runs = BTreeMap::new();
        let concerned: BTreeSet<&ServiceName> = targets
            .iter()
            .flat_map(|(from, all)| all.iter().map(|target| &target.to).chain([from]))
            .collect();
        for name in concerned {
            let service = self.desired.services.get(name)?;
            let container = self.container(name)?;
            let at = container.networks.get(&network.name)?;
            // What only a list has shown may be on another network of that name.
            let started_at = container.inspect.as_ref()?.started_at;
            let verdict = ready::probe_status(service.probe.as_ref(), container, self.health, self.outages);
            let is_well = verdict.is_none_or(|verdict| verdict == ProbeStatus::Healthy);
            if !is_well || at.network.as_ref() != Some(&network.id) {
                return None;
            }
            runs.insert(name.clone(), (container.id.clone(), started_at));
        }
        (!targets.is_empty()).then(|| CheckKey {
            runs,
            network: Some(network.id.clone()),
            epoch: self.epoch,
            targets,
        })
    }

    /// What a look would be taken of now, however it stands: from everybody who runs.
    pub fn as_it_is(&self) -> CheckKey {
        let services = self.desired.services.keys();
        let run = |name: &ServiceName| -> Option<(ServiceName, (ContainerId, Option<Timestamp>))> {
            let container = self.container(name)?;
            let started_at = container.inspect.as_ref().and_then(|facts| facts.started_at);
            Some((name.clone(), (container.id.clone(), started_at)))
        };
        CheckKey {
            runs: services.filter_map(run).collect(),
            network: self.network().map(|network| network.id.clone()),
            epoch: self.epoch,
            targets: targets(self.desired),
        }
    }

    /// The container that runs for a service.
    pub fn container(&self, service: &ServiceName) -> Option<&'a Container> {
        let carries = |container: &Container| match self.hashes {
            None => true,
            Some(hashes) => hashes.get(service).is_some_and(|hash| container.carries(hash)),
        };
        let mut containers = self.observed.containers.values().map(AsRef::as_ref);
        containers.find(|container: &&Container| {
            container.is_of(service) && container.state == ContainerState::Running && carries(container)
        })
    }

    /// The network that everybody is to be on; of two of its name the oldest is the one.
    pub fn network(&self) -> Option<&'a Arc<Network>> {
        self.observed
            .networks
            .values()
            .filter(|network| network.name == self.desired.network.as_str())
            .min_by_key(|network| (network.created_at, network.id.clone()))
    }
}

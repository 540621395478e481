//! Containers and network of an environment, as a connectivity check sees them, and the time for a check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{CheckKey, targets};
use crate::desired::Desired;
use crate::ident::{ContainerId, ContainerSpecHash, ServiceName};
use crate::observed::{Container, ContainerState, Network, Observed, Outage};
use crate::probe::{self, HealthStates, ProbeStatus};
use crate::time::Timestamp;

/// Desired and observed state of one environment, for connectivity checks.
#[derive(Debug, Clone, Copy)]
pub struct ConnectivityInput<'a> {
    /// Desired state.
    pub desired: &'a Desired,
    /// Observed objects.
    pub observed: &'a Observed,
    /// Required spec hash by service; `None` accepts any running container of a service.
    pub hashes: Option<&'a BTreeMap<ServiceName, ContainerSpecHash>>,
    /// Probe results by container.
    pub health: &'a HealthStates,
    /// Recent outages of the engine.
    pub outages: &'a [Outage],
    /// Time at which the engine became reachable again, after its last outage.
    pub engine_returned_at: Option<Timestamp>,
}

impl<'a> ConnectivityInput<'a> {
    /// Returns the key of a check that is possible now.
    ///
    /// `None` until every source and target runs, is healthy and is on the network, and where no service has a target.
    pub fn due_key(&self) -> Option<CheckKey> {
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
            // Without an inspect, the container may be on another network of the same name.
            let started_at = container.inspect.as_ref()?.started_at;
            let status = probe::probe_status(service.probe.as_ref(), container, self.health, self.outages);
            let is_healthy = status.is_none_or(|status| status == ProbeStatus::Healthy);
            if !is_healthy || at.network.as_ref() != Some(&network.id) {
                return None;
            }
            runs.insert(name.clone(), (container.id.clone(), started_at));
        }
        (!targets.is_empty()).then(|| CheckKey {
            runs,
            network: Some(network.id.clone()),
            engine_returned_at: self.engine_returned_at,
            targets,
        })
    }

    /// Returns the key of the current state: all running containers, healthy or not.
    pub fn current_key(&self) -> CheckKey {
        let services = self.desired.services.keys();
        let run = |name: &ServiceName| -> Option<(ServiceName, (ContainerId, Option<Timestamp>))> {
            let container = self.container(name)?;
            let started_at = container.inspect.as_ref().and_then(|inspect| inspect.started_at);
            Some((name.clone(), (container.id.clone(), started_at)))
        };
        CheckKey {
            runs: services.filter_map(run).collect(),
            network: self.network().map(|network| network.id.clone()),
            engine_returned_at: self.engine_returned_at,
            targets: targets(self.desired),
        }
    }

    /// Returns the running container of a service.
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

    /// Returns the network of the environment; the oldest one of several with its name.
    pub fn network(&self) -> Option<&'a Arc<Network>> {
        self.observed
            .networks
            .values()
            .filter(|network| network.name == self.desired.network.as_str())
            .min_by_key(|network| (network.created_at, network.id.clone()))
    }
}

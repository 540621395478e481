//! Containers and network of an environment, as a connectivity check sees them, and the check of this state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{CheckKey, ConnectivityCheck, targets};
use crate::desired::networks::EnvNetwork;
use crate::desired::{Desired, Service};
use crate::ident::{ContainerId, ContainerSpecHash, NetworkId, ServiceName};
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

/// Point of the network from which the connections of a service are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkSource {
    /// The network namespace of the running container of the service.
    Container(ContainerId),
    /// A new endpoint on the only network of a service that does not run.
    Network {
        /// Id of the network.
        network: NetworkId,
        /// Additional host entries of the service, as `HOST:ADDRESS`.
        extra_hosts: Vec<String>,
    },
}

/// A check of all links of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRequest {
    /// Inputs of the check.
    pub key: CheckKey,
    /// Point from which the connections of each service are checked; a service without one is not checked.
    pub sources: BTreeMap<ServiceName, LinkSource>,
    /// Services whose connections from others are not checked, each with the reason.
    pub unverifiable: BTreeMap<ServiceName, String>,
}

impl<'a> ConnectivityInput<'a> {
    /// Returns the check of the current state. A link to a service that is not up cannot be verified, and is not checked.
    ///
    /// `None` without the working networks, and where no service has a target.
    pub fn request(&self) -> Option<CheckRequest> {
        let targets = targets(self.desired);
        let own = self.desired.used_networks().filter(|network| !network.external);
        let found = own.map(|network| self.find(&network).filter(|network| !network.is_broken));
        let networks: Vec<&Arc<Network>> = found.collect::<Option<_>>()?;
        let (mut runs, mut sources, mut unverifiable) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let concerned: BTreeSet<&ServiceName> = targets
            .iter()
            .flat_map(|(from, all)| all.iter().map(|target| &target.to).chain([from]))
            .collect();
        for name in concerned {
            let service = self.desired.services.get(name)?;
            match self.run(service) {
                Ok(run) => drop(runs.insert(name.clone(), run)),
                Err(reason) => drop(unverifiable.insert(name.clone(), format!("`{name}` {reason}"))),
            }
            sources.extend(self.source(service));
        }
        (!targets.is_empty()).then(|| CheckRequest {
            key: CheckKey {
                runs,
                down: unverifiable.keys().cloned().collect(),
                networks: networks.into_iter().map(|network| network.id.clone()).collect(),
                engine_returned_at: self.engine_returned_at,
                targets,
            },
            sources,
            unverifiable,
        })
    }

    /// Returns whether a check is one of this state: of the same runs on the same networks, after the last outage. The task of the
    /// checks compares them later.
    pub fn is_current(&self, check: &ConnectivityCheck) -> bool {
        let returned_at = self.outages.iter().filter_map(|outage| outage.until).max();
        let state = Self {
            engine_returned_at: check.key.engine_returned_at.max(returned_at),
            ..*self
        };
        check.is_current && state.request().is_some_and(|request| request.key == check.key)
    }

    /// Returns the check of all links, whatever the state of their services.
    pub fn request_all(&self) -> CheckRequest {
        let services = self.desired.services.values();
        let run = |service: &Service| {
            let container = self.container(&service.name)?;
            let started_at = container.inspect.as_ref().and_then(|inspect| inspect.started_at);
            Some((service.name.clone(), (container.id.clone(), started_at)))
        };
        let networks = self.desired.used_networks();
        let networks = networks.filter_map(|network| self.find(&network));
        CheckRequest {
            key: CheckKey {
                runs: services.clone().filter_map(run).collect(),
                down: BTreeSet::new(),
                networks: networks.map(|network| network.id.clone()).collect(),
                engine_returned_at: self.engine_returned_at,
                targets: targets(self.desired),
            },
            sources: services.filter_map(|service| self.source(service)).collect(),
            unverifiable: BTreeMap::new(),
        }
    }

    /// Returns the run of a service that is up: it runs, is healthy and is on its networks. The error is the reason why it
    /// is not up.
    fn run(&self, service: &Service) -> Result<(ContainerId, Option<Timestamp>), &'static str> {
        let container = self.container(&service.name).ok_or("is not running")?;
        // Without an inspect, the container may be on another network of the same name.
        let inspect = container.inspect.as_ref().ok_or("was started just now")?;
        let is_attached = |network: EnvNetwork<'_>| {
            let at = container.networks.get(network.name.as_str());
            let id = self.find(&network).map(|found| &found.id);
            at.is_some_and(|at| network.external || at.network.as_ref() == id)
        };
        if !self.desired.networks_of(service).all(is_attached) {
            return Err("is not on the network");
        }
        match probe::probe_status(service.probe.as_ref(), container, self.health, self.outages) {
            Some(ProbeStatus::Starting) => Err("is not healthy yet"),
            Some(ProbeStatus::Unhealthy) => Err("is unhealthy"),
            Some(ProbeStatus::Healthy) | None => Ok((container.id.clone(), inspect.started_at)),
        }
    }

    /// Returns the source of the connections of a service. A service with several networks has none while it does not run.
    fn source(&self, service: &Service) -> Option<(ServiceName, LinkSource)> {
        let source = match self.container(&service.name) {
            Some(container) => LinkSource::Container(container.id.clone()),
            None if self.desired.networks_of(service).count() > 1 => return None,
            None => LinkSource::Network {
                network: self.network_of(&service.name)?.id.clone(),
                extra_hosts: service.extra_hosts.clone(),
            },
        };
        Some((service.name.clone(), source))
    }

    /// Returns the running container of a service.
    pub fn container(&self, service: &ServiceName) -> Option<&'a Container> {
        let carries = |container: &Container| match self.hashes {
            None => true,
            Some(hashes) => hashes.get(service).is_some_and(|hash| container.carries(hash)),
        };
        let mut containers = self.observed.containers.of(service).map(AsRef::as_ref);
        containers
            .find(|container: &&Container| container.state == ContainerState::Running && carries(container))
    }

    /// Returns the first network of a service that the environment has.
    pub fn network_of(&self, service: &ServiceName) -> Option<&'a Arc<Network>> {
        let service = self.desired.services.get(service)?;
        let mut networks = self.desired.networks_of(service);
        networks.find_map(|network| self.find(&network))
    }

    fn find(&self, network: &EnvNetwork<'_>) -> Option<&'a Arc<Network>> {
        self.observed.find_network(network.name)
    }
}

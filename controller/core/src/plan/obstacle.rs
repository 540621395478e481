//! Obstacles: objects that are about to be removed, and hold a name, a host port or an address range that an environment needs.

use std::collections::{BTreeMap, BTreeSet};

use super::port::Assignment;
use crate::desired::{Desired, Mount, Service};
use crate::ident::ProtocolPort;
use crate::observed::Container;
use crate::wait::WaitReason;

/// Objects in the way of the desired environments. New objects wait until they are removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// Ids of all obstacles.
    pub(crate) ids: BTreeSet<String>,
    /// Containers by their name.
    pub(crate) containers: BTreeSet<String>,
    /// Networks by their name.
    pub(crate) networks: BTreeSet<String>,
    /// Names of the containers that hold a requested port.
    pub(crate) ports: BTreeMap<ProtocolPort, String>,
    /// Network that keeps an address range, while no range is free.
    pub(crate) range: Option<String>,
    /// Running containers by a directory that they can write and that contains a desired bind source.
    pub(crate) writable: BTreeMap<String, String>,
}

impl Obstacles {
    /// Returns whether an object is an obstacle, by its id.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Wait for the container with this name.
    pub(super) fn check_container(&self, name: &str) -> Result<(), WaitReason> {
        if self.containers.contains(name) {
            return Err(wait("container", name));
        }
        Ok(())
    }

    /// Wait for the network with this name.
    pub(super) fn check_network(&self, name: &str) -> Result<(), WaitReason> {
        if self.networks.contains(name) {
            return Err(wait("network", name));
        }
        Ok(())
    }

    /// Wait for the end of a container that can replace a bind source of the service.
    pub(super) fn check_sources(&self, service: &Service) -> Result<(), WaitReason> {
        let mut parents = service.mounts.iter().flat_map(Mount::parents);
        match parents.find_map(|parent| self.writable.get(parent)) {
            Some(container) => Err(WaitReason::WritableSource {
                container: container.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Returns whether a container can replace a desired bind source.
    pub(super) fn can_replace_a_source(&self, container: &Container) -> bool {
        self.writable.values().any(|name| *name == container.name)
    }

    /// Wait for a network whose removal frees an address range, or for the retry of the failed create.
    pub(super) fn range_or(&self, retry: WaitReason) -> WaitReason {
        match &self.range {
            Some(name) => WaitReason::Obstacle {
                object: object("network", name),
                retry: Some(Box::new(retry)),
            },
            None => retry,
        }
    }

    /// Blocks the services whose requested port an obstacle holds.
    pub(crate) fn block_ports(&self, desired: &Desired, assignment: &mut Assignment) {
        if self.ports.is_empty() {
            return;
        }
        for service in desired.services.values() {
            for port in &service.ports {
                let Some((requested, holder)) = port
                    .requested_host()
                    .and_then(|requested| Some((requested, self.ports.get(&requested)?)))
                else {
                    continue;
                };
                if assignment.ports.get(&port.key(&service.name)) == Some(&requested.number) {
                    let blocked = assignment.blocked.entry(service.name.clone());
                    blocked.or_insert_with(|| wait("container", holder));
                }
            }
        }
    }
}

fn wait(kind: &str, name: &str) -> WaitReason {
    WaitReason::Obstacle {
        object: object(kind, name),
        retry: None,
    }
}

fn object(kind: &str, name: &str) -> String {
    format!("{kind} `{name}`")
}

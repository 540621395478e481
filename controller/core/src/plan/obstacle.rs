//! Obstacles: objects that are about to be removed, and hold a name, a host port or an address range that an environment needs.

use std::collections::{BTreeMap, BTreeSet};

use super::port::Assignment;
use crate::desired::nested_mounts::format_mount;
use crate::desired::{Desired, Service};
use crate::ident::ProtocolPort;
use crate::observed::Container;
use crate::wait::{MountWriter, WaitReason, WritableSource};

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
    /// Containers that can write above a desired bind source, by the source.
    pub(crate) writable: BTreeMap<String, Vec<MountWriter>>,
    /// Containers that can exchange the source of a desired cover, by the source.
    pub(crate) exchangeable: BTreeMap<String, Vec<MountWriter>>,
    /// Running containers whose mounts are not known yet.
    pub(crate) uninspected: Uninspected,
}

/// Existence of running containers whose mounts are not known yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Uninspected {
    /// True if there is one of an allowed project.
    pub(crate) allowed: bool,
    /// True if there is another one.
    pub(crate) other: bool,
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

    /// Wait for the end of each container that can replace a bind source of the service. If a person `allowed` its project, the
    /// containers of allowed projects do not matter.
    pub(super) fn check_sources(&self, service: &Service, allowed: bool) -> Result<(), WaitReason> {
        let mounts = service.mounts.iter().map(|mount| (mount, &self.writable));
        let covers = service.covers.iter().map(|mount| (mount, &self.exchangeable));
        let writers = mounts.chain(covers).flat_map(|(mount, found)| {
            let writers = mount.source().and_then(|source| found.get(source));
            writers.into_iter().flatten().map(move |writer| (mount, writer))
        });
        let exposing = writers.filter(|(_, writer)| !(allowed && writer.allowed));
        // A container that stays is reported before one that is about to be removed.
        if let Some((mount, writer)) = exposing.min_by_key(|(_, writer)| writer.is_going) {
            return Err(WaitReason::WritableSource(Box::new(WritableSource {
                mount: format_mount(mount),
                writer: writer.clone(),
            })));
        }
        let is_uninspected = self.uninspected.other || (self.uninspected.allowed && !allowed);
        if is_uninspected && service.mounts.iter().any(|mount| mount.source().is_some()) {
            return Err(WaitReason::Inspection);
        }
        Ok(())
    }

    /// Returns whether the end of a container protects a desired bind source. It is useless while a desired container can write the
    /// same directory, or exchange the same source.
    pub(super) fn can_replace_a_source(&self, container: &Container) -> bool {
        let is_it = |writer: &MountWriter| writer.id.as_ref() == Some(&container.id);
        let mut all = self.writable.values().chain(self.exchangeable.values());
        all.any(|writers| writers.iter().any(is_it) && writers.iter().all(|it| it.id.is_some()))
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

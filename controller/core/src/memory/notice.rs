//! What the memory learns from looking: deaths, hand-made stops, finished one-shots, ports told by labels.

use std::collections::{BTreeMap, BTreeSet};

use crate::desired::{Accepted, Desired, PortStrategy, Service};
use crate::ident::{ContainerId, EnvName, HostPort, Protocol, ServiceName};
use crate::labels;
use crate::memory::expectation::is_up;
use crate::memory::{Death, EnvMemory, ImageMemory, Memory, ServiceMemory};
use crate::observed::{Container, ContainerState, Observed};
use crate::plan::{PortKey, Subject};
use crate::time::Timestamp;

/// Deaths kept per service; the budget never needs more.
const DEATHS_KEPT: usize = 16;

impl Memory {
    /// Takes in what one look at an environment shows.
    pub fn notice(
        &mut self,
        env: &EnvName,
        accepted: Option<&Accepted>,
        observed: &Observed,
        now: Timestamp,
    ) {
        let Some(accepted) = accepted else { return };
        let desired = &accepted.desired;
        let memory = self.environments.entry(env.clone()).or_default();
        if memory.revision.as_ref() != Some(&desired.revision) {
            let first_sight = memory.revision.is_none();
            memory.revision = Some(desired.revision.clone());
            if !first_sight {
                for service in memory.services.values_mut() {
                    service.restarts = 0;
                }
                self.forget_failures(env, desired);
            }
        }
        let Some(memory) = self.environments.get_mut(env) else {
            return;
        };
        memory.delete_volumes = Some(desired.delete_volumes);
        memory
            .services
            .retain(|name, _| desired.services.contains_key(name));
        recall_ports(memory, desired, observed);
        let mut by_service: BTreeMap<ServiceName, Vec<&Container>> = BTreeMap::new();
        for container in observed.containers.values() {
            if let Some(name) = container.owner().and_then(|owner| owner.service)
                && !self.not_ours.contains(&container.id)
            {
                by_service.entry(name).or_default().push(container);
            }
        }
        for service in desired.services.values() {
            let containers = by_service.remove(&service.name).unwrap_or_default();
            look_at(memory, service, &containers, &self.stopped_by_us, now);
        }
    }

    /// A new input is a new try: failures, deaths and known-missing images of an environment are forgotten.
    pub fn forget_failures(&mut self, env: &EnvName, desired: &Desired) {
        let images: BTreeSet<String> = desired
            .services
            .values()
            .map(|s| crate::plan::image::key(&s.image))
            .collect();
        self.failures.retain(|subject, _| match subject {
            Subject::Service { environment, .. }
            | Subject::Network { environment }
            | Subject::Volume { environment, .. } => environment != env,
            Subject::Image { key } => !images.contains(key),
            Subject::StrayContainer { .. } | Subject::StrayNetwork { .. } => true,
        });
        self.images
            .retain(|key, known| *known == ImageMemory::Present || !images.contains(key));
        if let Some(memory) = self.environments.get_mut(env) {
            for service in memory.services.values_mut() {
                let last = service.deaths.last();
                service.forgiven = last.map(|death| (death.container.clone(), death.started_at));
                service.deaths.clear();
            }
        }
    }
}

fn look_at(
    memory: &mut EnvMemory,
    service: &Service,
    containers: &[&Container],
    stopped_by_us: &BTreeSet<ContainerId>,
    now: Timestamp,
) {
    let kept = memory.services.entry(service.name.clone()).or_default();
    let left_so = |container: &&Container| {
        container.state == ContainerState::Paused || container.stopped_by_hand(service.stop_grace)
    };
    if containers.iter().any(left_so) {
        kept.by_hand.get_or_insert(now);
    } else {
        kept.by_hand = None;
    }
    for container in containers {
        if container.state == ContainerState::Exited
            && !left_so(container)
            && !stopped_by_us.contains(&container.id)
        {
            note_end(kept, service, container, now);
        }
    }
}

/// An end that nobody asked for is a death, but for a one-shot that did its work.
fn note_end(kept: &mut ServiceMemory, service: &Service, container: &Container, now: Timestamp) {
    let Some(facts) = &container.facts else { return };
    if service.one_shot && facts.exit_code == 0 {
        kept.completed = container.owner().and_then(|owner| owner.spec_hash);
        return;
    }
    let at = facts.finished_at.unwrap_or(now);
    let known = |death: &Death| {
        death.container == container.id && (death.at == at || death.started_at == facts.started_at)
    };
    let forgiven = kept
        .forgiven
        .as_ref()
        .is_some_and(|(id, started_at)| *id == container.id && *started_at == facts.started_at);
    if forgiven || kept.deaths.iter().any(known) {
        return;
    }
    kept.deaths.push(Death {
        container: container.id.clone(),
        started_at: facts.started_at,
        at,
        exit_code: facts.exit_code,
        oom_killed: facts.oom_killed,
    });
    kept.deaths.sort_by_key(|death| death.at);
    let surplus = kept.deaths.len().saturating_sub(DEATHS_KEPT);
    kept.deaths.drain(..surplus);
}

/// Ports that the memory lost (a new state directory) are told by the labels of what runs.
fn recall_ports(memory: &mut EnvMemory, desired: &Desired, observed: &Observed) {
    for container in observed.containers.values() {
        let Some(service) = container.owner().and_then(|owner| owner.service) else {
            continue;
        };
        let Some(label) = container.labels.get(labels::PORTS) else {
            continue;
        };
        let Some(wanted) = desired.services.get(&service) else {
            continue;
        };
        let publishes = |container: HostPort| {
            wanted
                .ports
                .iter()
                .any(|port| port.container == container.number && port.protocol == container.protocol)
        };
        // Who insists on its port makes its container before it has the port.
        if desired.ports.strategy == PortStrategy::Fail && !is_up(container.state) {
            continue;
        }
        for (key, host, wish) in label.split(',').filter_map(|entry| entry_of(&service, entry)) {
            if publishes(key.container) && !memory.ports.contains_key(&key) {
                memory.ports.insert(key.clone(), host);
                memory.wanted.insert(key, wish);
            }
        }
    }
}

/// `80/tcp=9001@8080`
fn entry_of(service: &ServiceName, entry: &str) -> Option<(PortKey, u16, u16)> {
    let (container, assigned) = entry.split_once('=')?;
    let (number, protocol) = container.split_once('/')?;
    let (host, wanted) = assigned.split_once('@')?;
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return None,
    };
    let container = HostPort {
        number: number.parse().ok()?,
        protocol,
    };
    Some((
        PortKey {
            service: service.clone(),
            container,
        },
        host.parse().ok()?,
        wanted.parse().ok()?,
    ))
}

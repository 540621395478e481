//! What the memory learns from looking: deaths, hand-made stops, finished one-shots, ports told by labels.

use std::collections::BTreeSet;

use crate::desired::{Accepted, Desired, PortStrategy, Service};
use crate::ident::{ContainerId, EnvName, HostPort, Protocol, ServiceName};
use crate::labels;
use crate::memory::expectation::is_up;
use crate::memory::{Death, EnvMemory, ImageMemory, Memory};
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
                self.forget_failures(env, desired);
            }
        }
        let Some(memory) = self.environments.get_mut(env) else {
            return;
        };
        memory
            .services
            .retain(|name, _| desired.services.contains_key(name));
        recall_ports(memory, desired, observed);
        for container in observed.containers.values() {
            let owner = container.owner();
            let Some(service) = owner
                .and_then(|o| o.service)
                .and_then(|name| desired.services.get(&name))
            else {
                continue;
            };
            look_at(memory, service, container, &self.stopped_by_us, now);
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
                service.deaths.clear();
            }
        }
    }
}

fn look_at(
    memory: &mut EnvMemory,
    service: &Service,
    container: &Container,
    stopped_by_us: &BTreeSet<ContainerId>,
    now: Timestamp,
) {
    let kept = memory.services.entry(service.name.clone()).or_default();
    let ended = container.state == ContainerState::Exited;
    let by_hand =
        container.state == ContainerState::Paused || (ended && container.stopped_by_other.is_some());
    if by_hand {
        kept.by_hand.get_or_insert(now);
    } else {
        kept.by_hand = None;
    }
    if container.state == ContainerState::Running {
        kept.well_since.get_or_insert(now);
    } else {
        kept.well_since = None;
    }
    let Some(facts) = &container.facts else { return };
    if !ended || by_hand || stopped_by_us.contains(&container.id) {
        return;
    }
    if service.one_shot && facts.exit_code == 0 {
        kept.completed = container.owner().and_then(|owner| owner.spec_hash);
        return;
    }
    let at = facts.finished_at.unwrap_or(now);
    let known = |death: &Death| {
        death.container == container.id && (death.at == at || death.started_at == facts.started_at)
    };
    if kept.deaths.iter().any(known) {
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
        if !desired.services.contains_key(&service) {
            continue;
        }
        // Who insists on its port makes its container before it has the port.
        if desired.ports.strategy == PortStrategy::Fail && !is_up(container.state) {
            continue;
        }
        for (key, host, wanted) in label.split(',').filter_map(|entry| entry_of(&service, entry)) {
            if !memory.ports.contains_key(&key) {
                memory.ports.insert(key.clone(), host);
                memory.wanted.insert(key, wanted);
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

//! What the memory learns from looking: deaths, hand-made stops, finished one-shots, ports told by labels.

use std::collections::BTreeMap;

use crate::desired::{Accepted, Desired, PortStrategy, RestartPolicy, Service};
use crate::diagnose::Ending;
use crate::ident::{ContainerId, EnvName, HostPort, Protocol, ServiceName};
use crate::labels;
use crate::memory::expectation::is_up;
use crate::memory::{Blame, Death, Disturbance, EnvMemory, Memory, ServiceMemory, restart, superseded, well};
use crate::observed::{Container, ContainerState, Observed, Outage};
use crate::orders::Orders;
use crate::plan::{PortKey, ready};
use crate::probe::{HealthBook, Verdict};
use crate::time::Timestamp;

/// Deaths kept per service; the budget never needs more.
const DEATHS_KEPT: usize = 16;
/// More flips than any rule counts.
const FLIPS_KEPT: usize = 16;
/// Longer reports are of no use to anybody.
const DISTURBANCES_KEPT: usize = 100;

/// What is known beside the environment itself.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Verdicts of the probes.
    pub health: &'a HealthBook,
    /// Recent times without an engine.
    pub outages: &'a [Outage],
    /// What people and agents asked for.
    pub orders: &'a Orders,
    /// Identity of this controller.
    pub controller: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// What a container stands for is desired, whoever made it: from here on it is ours, and goes when that is not desired.
fn adopt(memory: &mut EnvMemory, desired: &Desired, observed: &Observed, controller: &str) {
    memory.adopted.retain(|id| observed.containers.contains_key(id));
    for container in observed.containers.values() {
        let service = container.labels.get(labels::SERVICE);
        let stands = service.is_some_and(|service| desired.services.contains_key(service.as_str()));
        if stands && !container.is_made_by(controller) && !memory.adopted.contains(&container.id) {
            memory.adopted.insert(container.id.clone());
        }
    }
}

impl Memory {
    /// Takes in what one look at an environment shows.
    pub fn notice(
        &mut self,
        env: &EnvName,
        accepted: Option<&Accepted>,
        observed: &Observed,
        context: &Context<'_>,
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
                self.forget_failures(env, Some(desired));
            }
        }
        let Some(memory) = self.environments.get_mut(env) else {
            return;
        };
        memory.delete_volumes = Some(desired.delete_volumes);
        adopt(memory, desired, observed, context.controller);
        memory
            .services
            .retain(|name, _| desired.services.contains_key(name));
        recall_ports(memory, desired, observed);
        let mut by_service: BTreeMap<&str, Vec<&Container>> = BTreeMap::new();
        for container in observed.containers.values() {
            if let Some(unknown @ None) = self.stopped_by_us.get_mut(&container.id) {
                *unknown = container.facts.as_ref().and_then(|facts| facts.started_at);
            }
            if let Some(name) = container.labels.get(labels::SERVICE)
                && !self.not_ours.contains(&container.id)
            {
                by_service.entry(name).or_default().push(container);
            }
        }
        for service in desired.services.values() {
            let mut containers = by_service.remove(service.name.as_str()).unwrap_or_default();
            // Failures are kept in the order in which they are seen, and those of one look in that of their ends: times of
            // two clocks have no order.
            containers.sort_by_key(|container| (is_up(container.state), finished_at(container)));
            Watcher {
                env,
                service,
                restart: &desired.restart,
                observed,
                stopped_by_us: &self.stopped_by_us,
                context,
            }
            .look_at(memory, &containers);
        }
    }
}

/// One service with what is needed to judge what is seen of it.
pub(super) struct Watcher<'a> {
    env: &'a EnvName,
    service: &'a Service,
    pub(super) restart: &'a RestartPolicy,
    pub(super) observed: &'a Observed,
    stopped_by_us: &'a BTreeMap<ContainerId, Option<Timestamp>>,
    pub(super) context: &'a Context<'a>,
}

impl Watcher<'_> {
    fn look_at(&self, memory: &mut EnvMemory, containers: &[&Container]) {
        let known = {
            let kept = memory.services.entry(self.service.name.clone()).or_default();
            let known = kept.incarnation;
            self.by_hand(kept, containers);
            for container in containers {
                self.answer(kept, container);
                self.probed(kept, container);
                self.ended(kept, container);
                superseded::note(kept, container, self);
            }
            known
        };
        self.disturbed(memory, known);
    }

    fn left_so(&self, container: &Container) -> bool {
        container.state == ContainerState::Paused || container.stopped_by_hand(self.service.stop_grace)
    }

    fn by_hand(&self, kept: &mut ServiceMemory, containers: &[&Container]) {
        if containers.iter().any(|container| self.left_so(container)) {
            kept.by_hand.get_or_insert(self.context.now);
        } else {
            kept.by_hand = None;
        }
    }

    /// A run that began after a failure is the answer to it.
    fn answer(&self, kept: &mut ServiceMemory, container: &Container) {
        let Some(started) = container.facts.as_ref().and_then(|facts| facts.started_at) else {
            return;
        };
        let Some(last) = kept.deaths.last_mut().filter(|last| !last.answered) else {
            return;
        };
        if last.started_at.is_none_or(|before| before < started)
            && (last.container != container.id || last.started_at.is_some())
        {
            last.answered = true;
            if !restart::engine_caused(last, self.context.outages) {
                kept.restarts += 1;
            }
        }
    }

    /// Notes when the probe changes its mind, and a failure where it failed past its retries.
    fn probed(&self, kept: &mut ServiceMemory, container: &Container) {
        if container.state != ContainerState::Running || self.service.one_shot {
            return;
        }
        let (health, outages) = (self.context.health, self.context.outages);
        let decided = ready::verdict(self.service.probe.as_ref(), container, health, outages);
        let Some(verdict) = decided.filter(|verdict| *verdict != Verdict::Starting) else {
            return;
        };
        if kept.verdict.is_some_and(|before| before != verdict) {
            kept.flips.push(self.context.now);
            let surplus = kept.flips.len().saturating_sub(FLIPS_KEPT);
            kept.flips.drain(..surplus);
        }
        kept.verdict = Some(verdict);
        let started_at = container.facts.as_ref().and_then(|facts| facts.started_at);
        let open = kept.deaths.last_mut().filter(|last| {
            last.ending == Ending::Unhealthy
                && !last.answered
                && last.container == container.id
                && last.started_at == started_at
        });
        match (verdict, open) {
            // It came to itself.
            (Verdict::Healthy, Some(open)) => {
                (open.answered, open.recovered_at) = (true, Some(self.context.now));
            }
            (Verdict::Unhealthy, None) => {
                self.push(kept, container, self.context.now, Ending::Unhealthy);
                if let Some(death) = kept.deaths.iter_mut().find(|d| d.number == kept.incarnation) {
                    death.probe_said = self.said(container);
                    death.failing_since = health.get(&container.id).and_then(|seen| seen.failing_since);
                }
            }
            (Verdict::Starting | Verdict::Healthy | Verdict::Unhealthy, _) => {}
        }
        well::note(kept, container, verdict, self.context.now);
    }

    /// What the probe said last, ours or the engine's own.
    fn said(&self, container: &Container) -> Vec<String> {
        let ours = self.context.health.get(&container.id);
        let engines = container.facts.as_ref().and_then(|facts| facts.health.as_ref());
        match (ours, engines) {
            (Some(ours), _) if !ours.recent.is_empty() => ours.recent.clone(),
            (Some(ours), _) => vec![ours.output.clone()],
            (None, Some(engines)) => vec![engines.output.clone()],
            (None, None) => Vec::new(),
        }
    }

    /// An end that nobody asked for is a death, but for a one-shot that did its work.
    fn ended(&self, kept: &mut ServiceMemory, container: &Container) {
        if container.state != ContainerState::Exited
            || self.left_so(container)
            || self.is_our_doing(container)
        {
            return;
        }
        let Some(facts) = &container.facts else { return };
        if self.service.one_shot && facts.exit_code == 0 {
            kept.completed = container.owner().and_then(|owner| owner.spec_hash);
            return;
        }
        let at = facts.finished_at.unwrap_or(self.context.now);
        let known = kept.deaths.iter_mut().find(|death| {
            let same_run = death.container == container.id && death.started_at == facts.started_at;
            (death.container == container.id && death.at == at)
                || (same_run && (death.ending == Ending::Exited || !death.answered))
        });
        if let Some(known) = known {
            if known.ending == Ending::Unhealthy {
                // It did not wait for its restart: how it ended tells more than that it was unhealthy.
                known.ending = Ending::Exited;
                (known.at, known.seen_at) = (at, Some(self.context.now));
                known.exit_code = facts.exit_code;
                known.error.clone_from(&facts.error);
                known.evidence = None;
            }
            // The engine may set its flag after it told of the end, and so may the event come.
            known.oom_killed |= facts.oom_killed;
            known.oom_event |= container.oom_at.is_some();
            return;
        }
        if !is_forgiven(kept, container) {
            self.push(kept, container, at, Ending::Exited);
        }
    }

    /// We stopped this very run.
    fn is_our_doing(&self, container: &Container) -> bool {
        let started_at = container.facts.as_ref().and_then(|facts| facts.started_at);
        self.stopped_by_us
            .get(&container.id)
            .is_some_and(|run| run.is_none() || *run == started_at)
    }

    fn push(&self, kept: &mut ServiceMemory, container: &Container, at: Timestamp, ending: Ending) {
        let Some(facts) = &container.facts else { return };
        kept.incarnation += 1;
        superseded::forget(kept);
        kept.deaths.push(Death {
            started_at: facts.started_at,
            seen_at: Some(self.context.now),
            exit_code: facts.exit_code,
            oom_killed: facts.oom_killed,
            oom_event: container.oom_at.is_some(),
            ending,
            hash: container.owner().and_then(|owner| owner.spec_hash),
            number: kept.incarnation,
            memory_limit: Some(facts.config.memory).filter(|limit| *limit > 0),
            error: facts.error.clone(),
            well_for: well::before(kept, self.service, container, ending, self.context.now),
            ..Death::of(container.id.clone(), at)
        });
        let surplus = kept.deaths.len().saturating_sub(DEATHS_KEPT);
        kept.deaths.drain(..surplus);
    }

    /// A failure during a test goes into the test's report.
    fn disturbed(&self, memory: &mut EnvMemory, known: u64) {
        let context = self.context;
        let Some(lease) = context.orders.lease(self.env, context.now) else {
            return;
        };
        let Some(kept) = memory.services.get(&self.service.name) else {
            return;
        };
        let fresh = kept.deaths.iter().filter(|death| death.number > known);
        let found: Vec<Disturbance> = fresh
            .map(|death| Disturbance {
                case: lease.case.clone(),
                service: self.service.name.clone(),
                number: death.number,
                at: death.at,
                blame: if restart::engine_caused(death, context.outages) {
                    Blame::Infra
                } else {
                    Blame::Test
                },
            })
            .collect();
        memory.disturbances.extend(found);
        let surplus = memory.disturbances.len().saturating_sub(DISTURBANCES_KEPT);
        memory.disturbances.drain(..surplus);
    }
}

fn is_forgiven(kept: &ServiceMemory, container: &Container) -> bool {
    let started_at = container.facts.as_ref().and_then(|facts| facts.started_at);
    kept.forgiven
        .as_ref()
        .is_some_and(|(id, run)| *id == container.id && *run == started_at)
}

fn finished_at(container: &Container) -> Option<Timestamp> {
    container.facts.as_ref().and_then(|facts| facts.finished_at)
}

/// Ports that the memory lost (a new state directory) are told by the labels of what runs.
fn recall_ports(memory: &mut EnvMemory, desired: &Desired, observed: &Observed) {
    for container in observed.containers.values() {
        let Some(label) = container
            .labels
            .get(labels::PORTS)
            .filter(|label| !label.is_empty())
        else {
            continue;
        };
        let Some(service) = container.owner().and_then(|owner| owner.service) else {
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

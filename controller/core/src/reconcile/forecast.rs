//! Forecast: plans repeatedly against a simulated engine until nothing is left to do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Inputs, Planner};
use crate::action::{Action, Step};
use crate::desired::Accepted;
use crate::ident::{ContainerId, EnvName, NetworkId, ResourceName};
use crate::lease::ControllerLeases;
use crate::observed::{
    Attachment, Container, ContainerState, Network, Object, ObjectId, Store, Volume, WatchEvent,
};
use crate::outcome::Done;
use crate::probe::{HealthStates, ProbeStatus, ProbedHealth};
use crate::time::Timestamp;
use crate::user_requests::UserRequests;

/// Maximum number of passes. A plan that is not settled by then is a defect, and its forecast is cut.
const MAX_PASSES: usize = 10_000;

/// Forecasts all steps until the plans are settled, in a possible order of execution, each with the environment whose plan has it.
///
/// Simulated one-shots exit with 0, probes succeed, and images are present.
pub fn forecast(
    mut planner: Planner,
    specs: &BTreeMap<EnvName, Arc<Accepted>>,
    store: &Store,
    health: &HealthStates,
    leases: &ControllerLeases,
    now: Timestamp,
) -> Vec<(EnvName, Step)> {
    let (mut store, mut health, mut now) = (store.clone(), health.clone(), now);
    let mut steps = Vec::new();
    // Leases do not expire because of the simulated time.
    let leases = &leases.frozen(now);
    for round in 0..MAX_PASSES {
        let result = planner.reconcile(&Inputs {
            requests: &UserRequests::default(),
            leases,
            specs,
            scanned: true,
            store: &store,
            health: &health,
            preflight: None,
            now,
        });
        if result.relist {
            store.apply(WatchEvent::Init);
            relist_all(&mut store);
            store.apply(WatchEvent::InitDone);
            continue;
        }
        for (number, step) in result.steps.iter().enumerate() {
            let done = apply_action(&mut store, &step.action, now, round * 1000 + number);
            planner.finished(step, &Ok(done), &store, now);
        }
        let has_changed = finish_runs(specs, &mut store, &mut health, now);
        for step in &result.steps {
            let mut plans = result.plans.iter();
            let owner = plans.find(|(_, plan)| plan.steps.contains(step));
            steps.extend(owner.map(|(env, _)| (env.clone(), step.clone())));
        }
        if result.steps.is_empty() && !has_changed {
            match result.wake_at {
                // Only time can cause further steps; simulated time passes immediately.
                Some(at) if at > now => now = at,
                Some(_) | None => break,
            }
        } else {
            now = now + Duration::from_millis(1);
        }
    }
    steps
}

fn relist_all(store: &mut Store) {
    let all: Vec<_> = store.environments().values().cloned().collect();
    for observed in all {
        for container in observed.containers.values() {
            store.apply(WatchEvent::Apply(Object::Container(container.clone())));
        }
        for network in observed.networks.values() {
            store.apply(WatchEvent::Apply(Object::Network(network.clone())));
        }
        for volume in observed.volumes.values() {
            store.apply(WatchEvent::Apply(Object::Volume(volume.clone())));
        }
    }
    let of_compose: Vec<_> = store.compose_volumes().cloned().collect();
    for volume in of_compose {
        store.apply(WatchEvent::Apply(Object::Volume(volume)));
    }
}

/// Completes one-shots and makes all probes succeed. Returns true if anything changed.
fn finish_runs(
    specs: &BTreeMap<EnvName, Arc<Accepted>>,
    store: &mut Store,
    health: &mut HealthStates,
    now: Timestamp,
) -> bool {
    let mut changed = false;
    let running: Vec<Arc<Container>> = store
        .containers()
        .filter(|c| c.state == ContainerState::Running)
        .cloned()
        .collect();
    for container in running {
        let Some(owner) = container.owner() else { continue };
        let service = specs
            .get(&owner.environment)
            .zip(owner.service)
            .and_then(|(accepted, name)| accepted.desired.services.get(&name));
        let Some(service) = service else { continue };
        let started_at = container.inspect.as_ref().and_then(|info| info.started_at);
        if service.one_shot {
            edit(store, &container.id, |container| {
                container.state = ContainerState::Exited;
                if let Some(info) = &mut container.inspect {
                    info.finished_at = Some(now);
                }
            });
            changed = true;
        } else if health
            .get(&container.id)
            .is_none_or(|seen| seen.status != ProbeStatus::Healthy || seen.started_at != started_at)
        {
            let seen = ProbedHealth {
                status: ProbeStatus::Healthy,
                since: now,
                started_at,
                ..ProbedHealth::default()
            };
            health.insert(container.id.clone(), seen);
            changed = true;
        }
    }
    changed
}

/// Applies a successful action to the simulated store.
pub fn apply_action(store: &mut Store, action: &Action, now: Timestamp, number: usize) -> Done {
    match action {
        Action::CreateNetwork {
            name,
            labels,
            external: false,
        } => {
            let Ok(id) = NetworkId::new(format!("simulated{number}")) else {
                return Done::Applied;
            };
            let network = Network {
                id: id.clone(),
                name: name.to_string(),
                labels: labels.clone(),
                created_at: now,
                is_broken: false,
            };
            store.apply(WatchEvent::Apply(Object::Network(Arc::new(network))));
            return Done::Network(id);
        }
        Action::RemoveNetwork { id, .. } => store.apply(WatchEvent::Delete(ObjectId::Network(id.clone()))),
        Action::CreateVolume {
            name,
            labels,
            external: false,
        } => {
            let volume = Volume {
                name: name.to_string(),
                labels: labels.clone(),
            };
            store.apply(WatchEvent::Apply(Object::Volume(Arc::new(volume))));
        }
        Action::RemoveVolume { name } => store.apply(WatchEvent::Delete(ObjectId::Volume(name.to_string()))),
        Action::CollectEvidence { .. } => return Done::Evidence(Box::default()),
        Action::PullImage { .. }
        | Action::BuildImage(_)
        | Action::CopyFile { .. }
        | Action::CreateNetwork { external: true, .. }
        | Action::CreateVolume { external: true, .. } => {}
        Action::CreateContainer { name, spec } => {
            let Ok(id) = ContainerId::new(format!("simulated{number}")) else {
                return Done::Applied;
            };
            let container = spec.created(id.clone(), name, find_network(store, &spec.network), now);
            store.apply(WatchEvent::Apply(Object::Container(Arc::new(container))));
            return Done::Container(id);
        }
        Action::StartContainer { id } => edit(store, id, |container| {
            container.state = ContainerState::Running;
            container.stopped_by_other = None;
            if let Some(info) = &mut container.inspect {
                info.started_at = Some(now);
                info.exit_code = 0;
                info.health = None;
            }
        }),
        Action::StopContainer { id, .. } => edit(store, id, |container| {
            container.state = ContainerState::Exited;
            if let Some(info) = &mut container.inspect {
                info.finished_at = Some(now);
            }
        }),
        Action::UnpauseContainer { id } => edit(store, id, |c| c.state = ContainerState::Running),
        Action::RenameContainer { id, to } => edit(store, id, |c| c.name = to.to_string()),
        Action::RemoveContainer { id, .. } => {
            store.apply(WatchEvent::Delete(ObjectId::Container(id.clone())));
        }
        Action::ConnectNetwork {
            network,
            container,
            aliases,
            ..
        } => {
            let found = NetworkId::new(network.clone()).ok();
            let found = found.and_then(|id| store.network(&id).cloned());
            let name = found.as_ref().map_or(network, |found| &found.name).clone();
            let at = Attachment {
                network: found.map(|found| found.id.clone()),
                aliases: aliases.clone(),
                address: None,
            };
            edit(store, container, |c| drop(c.networks.insert(name, at)));
        }
        Action::DisconnectNetwork { network, container } => {
            if let Ok(id) = ContainerId::new(container.clone()) {
                edit(store, &id, |c| drop(c.networks.remove(network)));
            }
        }
    }
    Done::Applied
}

fn find_network(store: &Store, name: &ResourceName) -> Option<NetworkId> {
    let environments = store.environments().values();
    let mut networks = environments.flat_map(|observed| observed.networks.values());
    let found = networks.find(|network| network.name == name.as_str())?;
    Some(found.id.clone())
}

fn edit(store: &mut Store, id: &ContainerId, change: impl FnOnce(&mut Container)) {
    if let Some(container) = store.container(id) {
        let mut container = Container::clone(container);
        change(&mut container);
        store.apply(WatchEvent::Apply(Object::Container(Arc::new(container))));
    }
}

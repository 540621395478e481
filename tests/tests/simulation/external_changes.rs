//! External changes during a run: manual changes, processes that die, foreign objects with wanted names, ports and
//! networks.

use std::collections::BTreeMap;
use std::sync::Arc;

use argus_backend::sim::{Engine, Model, Rng};
use argus_core::ident::{ContainerId, NetworkId, Protocol, ProtocolPort};
use argus_core::observed::{Container, ContainerState, Network, Object, ObjectId};
use argus_core::time::Timestamp;

use crate::foreign_objects;

/// A port that environments use.
fn wanted(chance: &mut Rng) -> ProtocolPort {
    ProtocolPort {
        number: 8_080 + u16::try_from(chance.below(3)).unwrap(),
        protocol: Protocol::Tcp,
    }
}

/// Changes one of these containers, or takes a wanted name, port or network. Returns the number of affected objects.
pub(crate) fn meddle(
    engine: &mut Engine,
    now: Timestamp,
    names: &[&str],
    chance: &mut Rng,
    is_mine: fn(&Container) -> bool,
) -> usize {
    let port = wanted(chance);
    match chance.below(16) {
        0 => engine.change(now, |model| model.occupy_port(port)),
        1 => engine.change(now, |model| model.free_port(port)),
        2 => takes_a_name(engine, now, names, chance, is_mine),
        3 => takes_a_port(engine, now, port, chance),
        4 => takes_a_network(engine, now, names, chance),
        5 => {
            let all = strangers(&engine.model);
            if let Some(one) = chance.pick(&all) {
                engine.change(now, |model| model.person_removes_object(one));
            }
        }
        _ => return harm(engine, now, chance, is_mine),
    }
    1
}

/// Changes one of these containers, or the network of one. Returns the number of affected objects.
pub(crate) fn harm(
    engine: &mut Engine,
    now: Timestamp,
    chance: &mut Rng,
    is_mine: fn(&Container) -> bool,
) -> usize {
    let mine = engine.model.containers().filter(|c| is_mine(c));
    let mine: Vec<(ContainerId, Vec<NetworkId>)> = mine
        .map(|c| {
            let networks = c.networks.values().filter_map(|at| at.network.clone());
            (c.id.clone(), networks.collect())
        })
        .collect();
    let Some((id, networks)) = chance.pick(&mine) else {
        return 0;
    };
    let on_it = |id: &NetworkId| {
        let all = engine.model.containers().flat_map(|c| c.networks.values());
        1 + all.filter(|at| at.network.as_ref() == Some(id)).count()
    };
    let hit = networks.iter().map(on_it).sum();
    let kind = chance.below(10);
    let other = format!("renamed-{}", chance.below(3));
    engine.change(now, |model| match kind {
        0 => model.person_stops(id),
        1 => model.person_pauses(id),
        2 => model.person_removes(id),
        3 => model.person_disconnects(id),
        4 => model.person_renames(id, &other),
        5 => model.person_starts(id),
        6 => model.kill(id, 137),
        7 => model.kill(id, 1),
        8 => networks.iter().for_each(|id| model.person_deletes_bridge(id)),
        _ => networks.iter().for_each(|id| model.person_removes_network(id)),
    });
    if kind < 8 { 1 } else { hit }
}

fn stranger(chance: &mut Rng) -> String {
    format!("x{:x}", chance.draw())
}

/// Creates a container with a name that a service needs; the holder of the name is renamed.
fn takes_a_name(
    engine: &mut Engine,
    now: Timestamp,
    names: &[&str],
    chance: &mut Rng,
    is_mine: fn(&Container) -> bool,
) {
    let Some(env) = chance.pick(names) else { return };
    let held = engine
        .model
        .containers()
        .filter(|c| is_mine(c))
        .map(|c| c.name.clone());
    let names: Vec<String> = held.chain((0..3).map(|n| format!("{env}-app{n}"))).collect();
    let Some(name) = chance.pick(&names).cloned() else {
        return;
    };
    let id = ContainerId::new(stranger(chance)).unwrap();
    let state = [ContainerState::Running, ContainerState::Exited][usize::from(chance.percent(30))];
    engine.change(now, |model| {
        let holder = model.containers().find(|c| c.name == name).map(|c| c.id.clone());
        if let Some(holder) = holder {
            model.person_renames(&holder, &format!("{name}-old"));
        }
        if model.containers().all(|c| c.name != name) {
            let theirs = foreign_objects::container(id, name, BTreeMap::new(), state);
            model.add_foreign(Object::Container(Arc::new(theirs)));
        }
    });
}

/// Creates a container on a host port that a service uses, if the port is free.
fn takes_a_port(engine: &mut Engine, now: Timestamp, port: ProtocolPort, chance: &mut Rng) {
    let id = ContainerId::new(stranger(chance)).unwrap();
    let held = |c: &Container| {
        let mut bindings = c.inspect.iter().flat_map(|facts| &facts.config.bindings);
        c.state != ContainerState::Exited && bindings.any(|(_, host)| *host == port)
    };
    if engine.model.containers().any(held) {
        return;
    }
    let mut theirs = foreign_objects::container(
        id.clone(),
        id.to_string(),
        BTreeMap::new(),
        ContainerState::Running,
    );
    if let Some(facts) = &mut theirs.inspect {
        facts.config.bindings = vec![(port, port)];
    }
    engine.change(now, |model| {
        model.add_foreign(Object::Container(Arc::new(theirs)));
    });
}

/// Creates a network with the name of an environment's network, if the name is free.
fn takes_a_network(engine: &mut Engine, now: Timestamp, names: &[&str], chance: &mut Rng) {
    let Some(env) = chance.pick(names) else { return };
    let name = format!("argus-{env}");
    let id = NetworkId::new(stranger(chance)).unwrap();
    if engine.model.networks().any(|network| network.name == name) {
        return;
    }
    let theirs = Network {
        id,
        name,
        labels: BTreeMap::new(),
        created_at: now,
        is_broken: false,
    };
    engine.change(now, |model| model.add_foreign(Object::Network(Arc::new(theirs))));
}

fn strangers(model: &Model) -> Vec<ObjectId> {
    let containers = model.containers().map(|c| ObjectId::Container(c.id.clone()));
    let networks = model.networks().map(|n| ObjectId::Network(n.id.clone()));
    let is_theirs = |id: &ObjectId| match id {
        ObjectId::Container(id) => id.as_str().starts_with('x'),
        ObjectId::Network(id) => id.as_str().starts_with('x'),
        ObjectId::Volume(_) => false,
    };
    containers.chain(networks).filter(is_theirs).collect()
}

/// Removes foreign holders of needed names. Holders of ports stay, because other ports are free.
pub(crate) fn give_names_back(engine: &mut Engine, now: Timestamp) {
    for id in strangers(&engine.model) {
        let has_a_port = engine.model.containers().any(|c| {
            let bindings = c.inspect.iter().flat_map(|facts| &facts.config.bindings);
            id == ObjectId::Container(c.id.clone()) && bindings.count() > 0
        });
        if !has_a_port {
            engine.change(now, |model| model.person_removes_object(&id));
        }
    }
}

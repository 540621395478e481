//! A storm by seed: bad weather, people, strangers, edits and deaths of every kind, and then calm.

use std::time::Duration;

use argus_backend::sim::{Chance, Weather};
use argus_core::ident::{ContainerId, HostPort, Protocol};
use argus_core::time::Timestamp;

use crate::decoys;
use crate::specs::{any, env};
use crate::stage::{START, Stage, is_ours};

const NAMES: [&str; 3] = ["one", "two", "three"];
const STORM: Duration = Duration::from_secs(60);
/// The longest backoffs take a minute each.
const CALM: Duration = Duration::from_secs(900);
const LATEST: Duration = Duration::from_secs(30);

/// What a seed came to.
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) settled: bool,
    pub(crate) broken: Vec<(&'static str, String)>,
    pub(crate) trespasses: Vec<String>,
    pub(crate) shortfalls: Vec<String>,
    pub(crate) stuck: Vec<String>,
    pub(crate) doubled_ports: bool,
    pub(crate) changes_at_rest: usize,
    /// Acts that were not done because they could not be written down.
    pub(crate) refused: usize,
}

pub(crate) fn storm(seed: u64) -> Outcome {
    let mut chance = Chance::new(seed);
    let weather = Weather::of(&mut chance);
    let mut stage = Stage::new(chance.draw(), weather);
    decoys::plant(&mut stage);
    let names = &NAMES[..=usize::try_from(chance.below(3)).unwrap()];
    for name in names {
        stage.wants(any(name, &mut chance));
    }
    let end = START + STORM;
    while stage.now < end {
        let next = stage.now + chance.millis((0, 15_000));
        stage.run_until(next.min(end));
        incident(&mut stage, names, &mut chance);
    }
    stage.engine.set_weather(Weather::calm());
    stage.resume();
    // Calls whose answer nobody waits for any more are still carried out for a while.
    let late = stage.now + LATEST;
    stage.run_until(late);
    let settled = stage.run_to_rest(CALM);
    let shortfalls = stage.shortfalls();
    let stuck = stage.stuck();
    let before = stage.engine.model.calls().len();
    if settled {
        let later: Timestamp = stage.now + Duration::from_secs(30);
        stage.run_until(later);
    }
    let mut bound = stage.bound();
    let all = bound.len();
    bound.sort();
    bound.dedup();
    Outcome {
        seed,
        settled,
        broken: std::mem::take(&mut stage.broken),
        trespasses: stage.engine.model.trespasses().to_vec(),
        shortfalls,
        stuck,
        doubled_ports: bound.len() != all,
        changes_at_rest: stage.engine.model.calls().len() - before,
        refused: stage.refused,
    }
}

fn incident(stage: &mut Stage, names: &[&str], chance: &mut Chance) {
    let now = stage.now;
    let port = HostPort {
        number: 8_080 + u16::try_from(chance.below(3)).unwrap(),
        protocol: Protocol::Tcp,
    };
    match chance.below(14) {
        0 | 1 => {
            if let Some(name) = chance.pick(names).copied() {
                stage.wants(any(name, chance));
            }
        }
        2 => {
            if let Some(name) = chance.pick(names) {
                stage.specs.remove(&env(name));
            }
        }
        3 => stage.kill_controller(chance.millis((0, 5_000)), true),
        4 => stage.kill_controller(chance.millis((0, 5_000)), false),
        5 => stage.engine.restart(now, chance.millis((500, 15_000))),
        6 => stage.engine.change(now, |model| model.take_port(port)),
        7 => stage.engine.change(now, |model| model.free_port(port)),
        12 | 13 => {
            if stage.journal_down {
                stage.resume();
            } else {
                stage.journal_down = true;
            }
        }
        other => {
            let ours: Vec<ContainerId> = stage
                .engine
                .model
                .containers()
                .filter(|c| is_ours(c))
                .map(|c| c.id.clone())
                .collect();
            let Some(id) = chance.pick(&ours) else { return };
            stage.engine.change(now, |model| match other {
                8 => model.person_stops(id),
                9 => model.person_pauses(id),
                10 => model.person_removes(id),
                _ => match now.0 % 3 {
                    0 => model.person_disconnects(id),
                    1 => model.dies(id, 137),
                    _ => {
                        let networks: Vec<_> = model
                            .networks()
                            .filter(|n| {
                                n.name.starts_with("argus-")
                                    && n.labels.get("argusai.controller").is_some_and(|c| c == "me")
                            })
                            .map(|n| n.id.clone())
                            .collect();
                        networks
                            .first()
                            .into_iter()
                            .for_each(|id| model.person_removes_network(id));
                    }
                },
            });
        }
    }
}

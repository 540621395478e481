//! Random runs: fault profiles, manual changes, foreign objects, edits and crashes by seed, and then a calm phase.

use std::collections::BTreeSet;
use std::time::Duration;

use argus_backend::sim::{AfterRestart, FaultProfile, Rng};
use argus_core::action::{Action, Step};
use argus_core::desired::Desired;
use argus_core::time::Timestamp;

use crate::fixture::{START, SimFixture, is_ours};
use crate::specs::{any, env};
use crate::{external_changes, foreign_objects};

const NAMES: [&str; 3] = ["one", "two", "three"];
const FAULTY: Duration = Duration::from_secs(60);
/// Time limit of the calm phase; the longest backoffs take a minute each.
const CALM: Duration = Duration::from_secs(900);
const LATEST: Duration = Duration::from_secs(30);
/// Maximum number of calls per affected object, without connects: storing its evidence, removing it, a create that finds no
/// image, the pull, the create and the start.
const PER_HIT: usize = 6;
/// Maximum number of connects per affected object: a container is on two networks at most.
const CONNECTS_PER_HIT: usize = 2;
/// Further calls per refused host port, without connects: the container is removed, created with another port, and started.
const PER_REFUSAL: usize = 3;
/// Further connects per refused host port: the create attaches the container to one of its two networks.
const CONNECTS_PER_REFUSAL: usize = 1;
/// Number of external changes in the calm phase.
const AFTERWARDS: usize = 2;

/// The result of a seed.
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) settled: bool,
    pub(crate) broken: Vec<(&'static str, String)>,
    pub(crate) trespasses: Vec<String>,
    pub(crate) shortfalls: Vec<String>,
    pub(crate) stuck: Vec<String>,
    pub(crate) doubled_ports: bool,
    pub(crate) changes_at_rest: usize,
    /// The calls, if there are more than the affected objects explain.
    pub(crate) unexplained: Option<String>,
    /// External changes of the calm phase that caused too many calls.
    pub(crate) repairs: Vec<String>,
    /// Number of actions refused because of an unwritable journal.
    pub(crate) refused: usize,
    /// Kinds of incidents in this run.
    pub(crate) met: BTreeSet<&'static str>,
}

/// Numbers of calls: connects to networks, and all others.
#[derive(Debug, Default, Clone, Copy)]
struct Calls {
    connects: usize,
    others: usize,
}

impl Calls {
    fn of(started: &[(Timestamp, Step)]) -> Self {
        let is_connect =
            |(_, step): &&(Timestamp, Step)| matches!(step.action, Action::ConnectNetwork { .. });
        let connects = started.iter().filter(is_connect).count();
        Self {
            connects,
            others: started.len() - connects,
        }
    }

    /// Adds the maximum that affected objects and refused host ports explain.
    fn with(self, hits: usize, refused_ports: usize) -> Self {
        Self {
            connects: self.connects + CONNECTS_PER_HIT * hits + CONNECTS_PER_REFUSAL * refused_ports,
            others: self.others + PER_HIT * hits + PER_REFUSAL * refused_ports,
        }
    }

    fn exceeds(self, most: Self) -> bool {
        self.connects > most.connects || self.others > most.others
    }
}

pub(crate) fn random_run(seed: u64) -> Outcome {
    let mut chance = Rng::new(seed);
    let faults = FaultProfile::of(&mut chance);
    let mut random_run = RandomRun {
        fixture: SimFixture::new(chance.draw(), faults),
        needed: Calls::default(),
        hits: 0,
        met: BTreeSet::new(),
    };
    foreign_objects::plant(&mut random_run.fixture);
    let names = &NAMES[..=usize::try_from(chance.below(3)).unwrap()];
    for name in names {
        random_run.wants(any(name, &mut chance));
    }
    let end = START + FAULTY;
    while random_run.fixture.now < end {
        let next = random_run.fixture.now + chance.millis((0, 15_000));
        random_run.fixture.run_until(next.min(end));
        random_run.incident(names, &mut chance);
    }
    let now = random_run.fixture.now;
    let RandomRun {
        mut fixture,
        needed,
        hits,
        met,
    } = random_run;
    external_changes::give_names_back(&mut fixture.engine, now);
    fixture.engine.set_faults(FaultProfile::no_faults());
    fixture.resume();
    // The engine executes calls for a while after their timeout.
    let late = fixture.now + LATEST;
    fixture.run_until(late);
    let mut settled = fixture.run_to_rest(CALM);
    let calls = Calls::of(&fixture.started);
    let may = needed.with(hits + fixture.engine.injected_faults(), fixture.refused_ports);
    let unexplained = calls.exceeds(may).then(|| output(&fixture.started));
    let mut repairs = Vec::new();
    for _ in 0..AFTERWARDS {
        if settled {
            let (before, refused) = (fixture.started.len(), fixture.refused_ports);
            let now = fixture.now;
            let hit = external_changes::harm(&mut fixture.engine, now, &mut chance, is_ours);
            // The watch reports the change a moment later, even if it leaves the environment as desired.
            fixture.run_until(now + Duration::from_secs(1));
            settled = fixture.run_to_rest(CALM);
            let did = &fixture.started[before..];
            let calls = Calls::of(did);
            let most = Calls::default().with(hit, fixture.refused_ports - refused);
            if calls.exceeds(most) {
                repairs.push(format!("{calls:?} instead of {most:?}: {:#?}", output(did)));
            }
        }
    }
    let shortfalls = fixture.shortfalls();
    let stuck = fixture.stuck();
    let before = fixture.engine.model.calls().len();
    if settled {
        let later: Timestamp = fixture.now + Duration::from_secs(30);
        fixture.run_until(later);
    }
    let mut bound = fixture.bound();
    let all = bound.len();
    bound.sort();
    bound.dedup();
    Outcome {
        seed,
        settled,
        broken: std::mem::take(&mut fixture.broken),
        trespasses: fixture.engine.model.foreign_actions().to_vec(),
        shortfalls,
        stuck,
        doubled_ports: bound.len() != all,
        changes_at_rest: fixture.engine.model.calls().len() - before,
        refused: fixture.refused,
        unexplained: unexplained
            .map(|output| format!("{calls:?} instead of {may:?}, with {met:?}: {output:#?}")),
        met,
        repairs,
    }
}

/// A random run in its phase of faults, with its counters.
struct RandomRun {
    fixture: SimFixture,
    /// Number of calls that the specs need without faults.
    needed: Calls,
    /// Number of affected containers, networks and calls.
    hits: usize,
    met: BTreeSet<&'static str>,
}

impl RandomRun {
    fn wants(&mut self, desired: Desired) {
        let needs = needs(&desired);
        self.needed.connects += needs.connects;
        self.needed.others += needs.others;
        self.fixture.wants(desired);
    }

    fn incident(&mut self, names: &[&str], chance: &mut Rng) {
        let now = self.fixture.now;
        let fixture = &mut self.fixture;
        let ours = fixture.engine.model.containers().filter(|c| is_ours(c)).count();
        let (what, hit) = match chance.below(16) {
            0 | 1 => {
                if let Some(name) = chance.pick(names).copied() {
                    self.wants(any(name, chance));
                }
                ("edit", ours)
            }
            2 => {
                if let Some(name) = chance.pick(names) {
                    fixture.specs.remove(&env(name));
                }
                ("file gone", 1 + ours)
            }
            kind @ (3 | 4) => {
                let in_flight = fixture.in_flight();
                fixture.kill_controller(chance.millis((0, 5_000)), kind == 3);
                let what = ["killed, state lost", "killed"][usize::from(kind == 3)];
                (what, 1 + in_flight)
            }
            5 | 6 => {
                let left = [
                    // The restart interrupts these calls, which the controller repeats.
                    (
                        "engine, containers kept",
                        AfterRestart::Running,
                        fixture.in_flight(),
                    ),
                    ("engine, processes ended", AfterRestart::Ended, ours),
                    (
                        "engine, containers lost",
                        AfterRestart::Lost(chance.below(100)),
                        ours,
                    ),
                ];
                let (what, left, hit) = left[usize::try_from(chance.below(3)).unwrap()];
                fixture
                    .engine
                    .restart_with(now, chance.millis((500, 15_000)), left);
                (what, hit)
            }
            7 if fixture.journal_down => {
                fixture.resume();
                ("disk free", 0)
            }
            7 => {
                fixture.fill_disk();
                ("disk full", 0)
            }
            8 => {
                fixture.sleep(chance.millis((1_000, 600_000)));
                ("sleep", 0)
            }
            9 => {
                let behind = i64::try_from(chance.below(1_200_000)).unwrap() - 600_000;
                fixture.engine.change(now, |model| model.set_clock_behind(behind));
                ("clock", 0)
            }
            _ => (
                "people",
                external_changes::meddle(&mut fixture.engine, now, names, chance, is_ours),
            ),
        };
        self.hits += hit;
        self.met.insert(what);
    }
}

/// The started actions, as readable lines.
fn output(started: &[(Timestamp, Step)]) -> Vec<String> {
    let all = started.iter();
    all.map(|(at, step)| {
        let (after, verb) = (at.since(START).as_millis(), step.action.verb());
        format!("{after}: {verb} {}: {}", step.subject, step.cause)
    })
    .collect()
}

/// Number of calls from an empty engine to this environment. Per service: a create that finds no image, the pull (twice
/// if two services build one tag), a create, a start and a volume, and a connect to each further network. Once: each network.
fn needs(desired: &Desired) -> Calls {
    let services = desired.services.values();
    let further = services.map(|service| desired.networks_of(service).count() - 1);
    Calls {
        connects: further.sum(),
        others: 6 * desired.services.len() + desired.used_networks().count(),
    }
}

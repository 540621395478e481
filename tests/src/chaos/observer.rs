//! Observer of all environments: queries the engine, reads the status files and closes the samples of the board.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use argus_tests::fixture::text;
use argus_tests::wait;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use crate::board::Hit;
use crate::now;
use crate::report::SINGLE_GOAL;
use crate::world::{ENVIRONMENTS, SERVICES, World, environment, port_of};

const EVERY: Duration = Duration::from_millis(200);
const PAGE_LIMIT: Duration = Duration::from_millis(700);

/// The engine's state at one moment.
struct Engine {
    containers: Vec<Value>,
    networks: Vec<Value>,
    /// Network interfaces of the engine's namespace.
    links: String,
}

/// A sample without a recovery.
struct Open {
    index: usize,
    /// `None` for a fault that is younger than this observation.
    age: Option<Duration>,
    change: Option<(String, String)>,
    reported: bool,
}

/// Observes until `over` is set. Runs in a thread of its own, which enters the engine's network namespace.
pub(crate) fn observe(world: &World<'_>, over: &AtomicBool) {
    let namespace =
        File::open(format!("/run/netns/{}", world.engine.netns())).expect("the engine's namespace");
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("root may enter it");
    let mut was_whole = [true; ENVIRONMENTS];
    let mut measured = None;
    while !over.load(Ordering::Relaxed) {
        let started = now();
        if measured.is_none_or(|at: Instant| started.duration_since(at) >= Duration::from_secs(1)) {
            measured = Some(started);
            measure(world, started);
        }
        if let Some(engine) = Engine::query(world) {
            engine.check_doubles(world);
            for (number, was_whole) in was_whole.iter_mut().enumerate() {
                *was_whole = one(world, &engine, number, started, *was_whole);
            }
        }
        wait::until_due(started + EVERY);
    }
}

/// Observes one environment. Returns true if it is whole.
fn one(world: &World<'_>, engine: &Engine, number: usize, started: Instant, was_whole: bool) -> bool {
    let status = world.argus.status(&environment(number));
    // A fault that begins during this observation is left to the next one.
    let (open, later): (Vec<Open>, Vec<Open>) = {
        let record = world.board.lock();
        let all = record.samples.iter().enumerate();
        let ours = all.filter(|(_, sample)| sample.environment == number && sample.took.is_none());
        ours.map(|(index, sample)| Open {
            index,
            age: started.checked_duration_since(sample.from),
            change: sample.change.clone(),
            reported: sample.reported,
        })
        .partition(|open| open.age.is_some())
    };
    let mut is_whole = engine.is_whole(number, &status);
    if is_whole && !open.is_empty() {
        is_whole = port_of(&status).is_some_and(serves);
    }
    for sample in &open {
        let age = sample.age.unwrap_or_default();
        let changed = || {
            let is_other =
                |(name, before): &(String, String)| world.run(name).is_some_and(|run| run != *before);
            sample.change.as_ref().is_none_or(is_other)
        };
        if is_whole && changed() {
            let took = now().duration_since(started) + age;
            world.board.lock().samples[sample.index].took = Some(took);
        } else if !sample.reported && age > SINGLE_GOAL {
            world.board.lock().samples[sample.index].reported = true;
            slow(world, number, sample.index, &status);
        }
    }
    let is_calm = open.is_empty() && later.is_empty() && !world.injecting.load(Ordering::Relaxed);
    if was_whole && !is_whole && is_calm {
        world.note(&format!(
            "{} is no longer Ready without a new fault",
            environment(number)
        ));
        world
            .board
            .add("relapse", world.clock(), environment(number), &Hit::one(number));
    }
    is_whole
}

fn slow(world: &World<'_>, number: usize, sample: usize, status: &Value) {
    let fault = world.board.lock().samples[sample].fault;
    let name = environment(number);
    let file = format!("slow-{}-{name}.json", world.clock().trim());
    world.note(&format!("{name} is slow after fault {fault}; see {file}"));
    let containers = world.query("/containers/json?all=1").unwrap_or_default();
    let networks = world.query("/networks").unwrap_or_default();
    let ours = |all: &Value| -> Vec<Value> {
        let all = all.as_array().cloned().unwrap_or_default();
        all.into_iter()
            .filter(|one| one["Labels"]["argusai.environment"] == name.as_str())
            .collect()
    };
    let (containers, networks) = (ours(&containers), ours(&networks));
    world.store(&file, &format!("{status:#}\n{containers:#?}\n{networks:#?}\n"));
}

fn measure(world: &World<'_>, at: Instant) {
    let Some(pid) = world.pid() else { return };
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    if let Some(kib) = kib {
        world.board.lock().memory.push((at, pid, kib));
    }
}

/// True if the port answers a request.
fn serves(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let Ok(mut stream) = TcpStream::connect_timeout(&address, PAGE_LIMIT) else {
        return false;
    };
    let mut answer = Vec::new();
    drop(stream.set_read_timeout(Some(PAGE_LIMIT)));
    drop(stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n"));
    drop(stream.read_to_end(&mut answer));
    answer.starts_with(b"HTTP/1.0 200") || answer.starts_with(b"HTTP/1.1 200")
}

impl Engine {
    fn query(world: &World<'_>) -> Option<Self> {
        let list = |path: &str| match world.query(path) {
            Some(Value::Array(items)) => Some(items),
            _ => None,
        };
        Some(Self {
            containers: list("/containers/json?all=1")?,
            networks: list("/networks")?,
            links: fs::read_to_string("/proc/thread-self/net/dev").ok()?,
        })
    }

    /// True if the engine and the status agree: everything runs on a working network, and no extra container exists.
    fn is_whole(&self, number: usize, status: &Value) -> bool {
        let name = environment(number);
        let ours = |one: &&Value| one["Labels"]["argusai.environment"] == name.as_str();
        let networks: Vec<_> = self.networks.iter().filter(ours).collect();
        let &[network] = networks.as_slice() else {
            return false;
        };
        let id = text(&network["Id"]);
        let works = self.links.contains(&format!("br-{}:", &id[..12]));
        let containers: Vec<_> = self.containers.iter().filter(ours).collect();
        let services: BTreeSet<_> = containers
            .iter()
            .map(|one| text(&one["Labels"]["argusai.service"]))
            .collect();
        let runs = |one: &&Value| {
            let networks = one["NetworkSettings"]["Networks"].as_object();
            one["State"] == "running"
                && networks.is_some_and(|all| all.values().any(|one| one["NetworkID"] == id.as_str()))
        };
        works
            && containers.len() == SERVICES.len()
            && services.len() == SERVICES.len()
            && containers.iter().all(runs)
            && status["phase"] == "Ready"
            && status["stale"] != true
    }

    /// Two running containers of one service are a violation.
    fn check_doubles(&self, world: &World<'_>) {
        let mut seen = BTreeSet::new();
        for one in self.containers.iter().filter(|one| one["State"] == "running") {
            let labels = &one["Labels"];
            let of = (
                text(&labels["argusai.environment"]),
                text(&labels["argusai.service"]),
            );
            if !of.0.is_empty() && !seen.insert(of.clone()) {
                world
                    .board
                    .violate(format!("two containers of {}/{} run together", of.0, of.1));
            }
        }
    }
}

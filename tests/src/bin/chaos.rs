//! Implements `scripts/chaos`: random overlapping faults in ten environments, and the time of every recovery.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed measurement ends with a message"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use argus_backend::sim::Rng;
use argus_tests::{Options, PrivateEngine, wait};

use fault::{Draw, KINDS, Kind};
use foreign::Foreign;
use world::{ENVIRONMENTS, World};

#[path = "../chaos/board.rs"]
mod board;
#[path = "../chaos/fault.rs"]
mod fault;
#[path = "../chaos/foreign.rs"]
mod foreign;
#[path = "../chaos/observer.rs"]
mod observer;
#[path = "../chaos/report.rs"]
mod report;
#[path = "../chaos/world.rs"]
mod world;

/// Time between two faults.
const EVERY: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    let minutes: f64 =
        option("--minutes").map_or(15.0, |text| text.parse().expect("--minutes takes a number"));
    let seed: u64 = option("--seed").map_or_else(random, |text| text.parse().expect("--seed takes a number"));
    let only = option("--only");
    let kinds: Vec<&Kind> = KINDS
        .iter()
        .filter(|kind| only.as_deref().is_none_or(|only| only == kind.name))
        .collect();
    if kinds.is_empty() {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        eprintln!("--only takes one of: {}", names.join(", "));
        return ExitCode::from(2);
    }
    let options = if std::env::args().any(|argument| argument == "--newest") {
        Options::newest_version()
    } else {
        Options::default()
    };
    let out = folder(seed);
    println!("seed {seed}; logs in {}", out.display());
    let engine = PrivateEngine::start_with(options);
    println!(
        "engine {}",
        engine.docker_ok(&["version", "--format", "{{.Server.Version}}"])
    );
    let world = World::start(&engine, out);
    let foreign = Foreign::create(&world);
    let over = AtomicBool::new(false);
    let calm = std::thread::scope(|scope| {
        let observer = scope.spawn(|| observer::observe(&world, &over));
        let last = inject(
            &world,
            &foreign,
            &kinds,
            seed,
            Duration::from_secs_f64(minutes * 60.0),
        );
        let calm = wait::poll(2 * report::CALM_GOAL, || {
            assert!(!observer.is_finished(), "the observer ended");
            world.board.is_calm().then(|| now().duration_since(last))
        });
        over.store(true, Ordering::Relaxed);
        calm
    });
    foreign.check_requests(&world);
    foreign.check_objects(&world);
    store(&world);
    let met = report::print(&world.board.lock(), calm);
    println!("seed {seed}; logs in {}", world.out.display());
    ExitCode::from(u8::from(!met))
}

/// Injects faults for `span`. Returns the end of the last one.
fn inject(world: &World<'_>, foreign: &Foreign, kinds: &[&Kind], seed: u64, span: Duration) -> Instant {
    let mut chance = Rng::new(seed);
    let started = now();
    let mut due = started;
    while due.duration_since(started) < span {
        while now() < due {
            wait::until_due(due.min(now() + Duration::from_millis(50)));
            world.end_due(false);
        }
        let kind = fault::pick(&mut chance, kinds);
        let draw = Draw::of(&mut chance, ENVIRONMENTS);
        let text = fault::describe(kind, &draw);
        let at = world.clock();
        world.injecting.store(true, Ordering::Relaxed);
        let hit = (kind.inject)(world, &draw);
        match hit {
            Some(hit) => {
                world.note(&text);
                world.board.add(kind.name, at, text, &hit);
            }
            None => world.note(&format!("{text}: no effect")),
        }
        world.injecting.store(false, Ordering::Relaxed);
        check_controller(world);
        foreign.check_requests(world);
        // A long fault delays the next one, without a burst after it.
        due = (due + EVERY).max(now());
    }
    world.end_due(true);
    now()
}

/// The controller ends only when the run kills it.
fn check_controller(world: &World<'_>) {
    let lives = world
        .pid()
        .is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists());
    if !lives {
        world.board.violate("the controller ended".to_owned());
    }
}

/// Keeps the logs, which the engine's directory would take with it.
fn store(world: &World<'_>) {
    world.store("controller.log", &world.argus.logs());
    world.store("dockerd.log", &world.engine.log());
    for number in 0..ENVIRONMENTS {
        let name = world::environment(number);
        world.store(
            &format!("status-{name}.json"),
            &format!("{:#}", world.argus.status(&name)),
        );
    }
    world.store(
        "controller.json",
        &format!("{:#}", world.argus.controller_status()),
    );
    let mut copy = std::process::Command::new("cp");
    copy.arg("-r")
        .arg(&world.argus.state)
        .arg(world.out.join("state"));
    drop(copy.status());
    let record = world.board.lock();
    let lines: Vec<String> = record
        .faults
        .iter()
        .map(|fault| format!("{} {}", fault.at, fault.text))
        .collect();
    world.store("faults.txt", &lines.join("\n"));
    let lines: Vec<String> = record
        .memory
        .iter()
        .map(|(at, pid, kib)| {
            format!(
                "{:.0} {pid} {kib}",
                at.duration_since(record.memory[0].0).as_secs_f64()
            )
        })
        .collect();
    world.store("memory.txt", &lines.join("\n"));
}

/// An empty directory of this run.
fn folder(seed: u64) -> PathBuf {
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../target/chaos/seed-{seed}"));
    drop(std::fs::remove_dir_all(&out));
    std::fs::create_dir_all(&out).expect("a directory for the logs");
    out.canonicalize().expect("it exists")
}

fn option(name: &str) -> Option<String> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1)
}

#[allow(
    clippy::disallowed_methods,
    reason = "every run without --seed gets another one"
)]
fn random() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.map_or(0, |time| u64::from(time.subsec_nanos()))
}

#[allow(clippy::disallowed_methods, reason = "this program measures")]
fn now() -> Instant {
    Instant::now()
}

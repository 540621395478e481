//! The fault of a full disk: a new environment waits while too little space is free, Argus reports it, and continues
//! with enough space.

use std::fs::File;
use std::time::Duration;

use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, PrivateEngine, RunOptions, wait};

use crate::{Bench, HEALED_WITHIN, Row, now, spec};

pub(crate) const NAME: &str = "disk-pressure";
/// Size of the engine's disk; images and layers of all environments take a tenth of it.
pub(crate) const DATA_ROOT: &str = "512m";
/// Free space that the environment of this fault requires, in bytes.
const THRESHOLD: u64 = 300_000_000;
/// Free space during the fault, in bytes: enough for all other environments.
const LEFT: u64 = 150_000_000;
const ENV: &str = "st-disk-pressure";
const FILE: &str = "e2e.yaml";

/// Each round uses a new environment and a new run of a separate controller. A disk check stays valid for half a
/// minute, and a controller checks when it starts.
pub(crate) fn rounds(engine: &PrivateEngine, port: usize, rounds: u32) -> Row {
    let argus = Controller::prepare(engine, RunOptions::default());
    let bench = Bench {
        engine,
        argus: &argus,
    };
    let times = (0..rounds).filter_map(|_| round(&bench, port)).collect();
    Row {
        name: NAME.to_owned(),
        rounds,
        times,
    }
}

/// Time from the moment that the disk has space until the environment is whole. `None` if that takes too long or the
/// full disk was not reported.
fn round(bench: &Bench<'_>, port: usize) -> Option<Duration> {
    let ballast = bench.engine.data_root().join("ballast");
    fill(bench.engine, &ballast);
    bench.argus.start_again();
    bench.argus.write_spec(FILE, &spec(ENV, port, "300MB"));
    let output = wait::poll(LIMIT, || reports_low(bench));
    let untouched = bench.engine.containers_with(&label()).is_empty();
    std::fs::remove_file(&ballast).expect("the ballast exists");
    let started = now();
    let whole = wait::poll(HEALED_WITHIN, || bench.is_whole(ENV).then_some(()));
    let took = now().duration_since(started).ok();
    let took = took.filter(|_| bench.passes_suites(ENV));
    bench.argus.remove_spec(FILE);
    let gone = wait::poll(LIMIT, || {
        bench.engine.containers_with(&label()).is_empty().then_some(())
    });
    bench.argus.stop();
    output.and(whole).and(gone).and(untouched.then_some(())).and(took)
}

fn label() -> String {
    format!("argusai.environment={ENV}")
}

fn reports_low(bench: &Bench<'_>) -> Option<()> {
    let status = bench.argus.status(ENV);
    let errors = status["errors"].as_array()?;
    let low = errors.iter().find(|error| error["code"] == "DISK_SPACE_LOW")?;
    (low["details"]["freeBytes"].as_u64()? < THRESHOLD).then_some(())
}

fn fill(engine: &PrivateEngine, ballast: &std::path::Path) {
    let found = rustix::fs::statvfs(engine.data_root()).expect("the data root exists");
    let free = found.f_bavail * found.f_frsize;
    let size = free.checked_sub(LEFT).expect("enough space is free");
    let file = File::create(ballast).expect("a file in the data root");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size).expect("it fits");
}

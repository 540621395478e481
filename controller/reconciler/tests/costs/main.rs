//! Work of a whole controller for one change: it depends on the change, not on the number of containers that did not change.
//!
//! A program of its own, because it counts the allocations of the process. The engine is in memory, and the time is virtual.
#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

use std::alloc::System;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use argus_backend::sim::{Engine, FaultProfile, Sim};
use argus_core::ident::EnvName;
use argus_core::state::PlannerState;
use argus_core::time::Timestamp;
use argus_reconciler::clock::Clock;
use argus_reconciler::{Controller, EnvFiles, Handle, Snapshot, StatusView};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[path = "../integration/options.rs"]
mod options;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Virtual time is free, but the disk may be slow.
const LIMIT: Duration = Duration::from_secs(3_600);
/// Services of each environment. Each trial restarts another one of the first environment.
const SERVICES: usize = 10;
const TRIALS: usize = 7;
/// The start of 1,000 containers causes work until the second renewal of the lease.
const SKIPPED: usize = 2;

/// Counts the rendered statuses.
#[derive(Default)]
struct View(AtomicUsize);

impl StatusView for View {
    fn environments(&self, snapshot: &Snapshot) -> BTreeSet<EnvName> {
        snapshot.desired.keys().cloned().collect()
    }

    fn environment(&self, env: &EnvName, snapshot: &Snapshot, _: Option<&str>) -> EnvFiles {
        self.0.fetch_add(1, Ordering::Relaxed);
        EnvFiles {
            json: format!("{:?}", snapshot.plans.get(env)),
            ..EnvFiles::default()
        }
    }

    fn keep_environment(&self, _: &EnvName) -> bool {
        true
    }

    fn controller(&self, _: &Snapshot, _: Option<&str>) -> String {
        String::new()
    }
}

/// Costs of the restart of one container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    /// Plans that differ from the published ones.
    plans: usize,
    /// Rendered statuses.
    statuses: usize,
    allocations: usize,
    /// Written files.
    files: usize,
    /// Bytes written to files, and to wake other threads.
    bytes: usize,
}

impl Cost {
    fn is_within_limit(self, few: Self) -> bool {
        // All plans and statuses are of the changed environment. One that a pass more separates is not a cost of the others.
        let merged = [(self.plans, few.plans + 1), (self.statuses, few.statuses + 1)];
        let exact = [
            (self.allocations, few.allocations),
            (self.files, few.files),
            (self.bytes, few.bytes),
        ];
        let mut pairs = merged.iter().chain(&exact);
        pairs.all(|(many, few)| many * 10 <= few * 11)
    }
}

fn spec(number: usize) -> String {
    let mut text = format!("version: '1.0'\nproject: {{ name: shop-{number} }}\nservices:\n");
    for service in 0..SERVICES {
        writeln!(
            text,
            "  s{service}: {{ image: 'app:1', container: {{ name: shop-{number}-s{service}, ports: ['{}:80'] }} }}",
            10_000 + number * SERVICES + service
        )
        .unwrap();
    }
    text
}

async fn wait_for(handle: &Handle, is_met: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut snapshots = handle.snapshots();
    let waited = tokio::time::timeout(LIMIT, snapshots.wait_for(|snapshot| is_met(snapshot))).await;
    waited.map_or_else(
        |_| panic!("{:#?}", handle.snapshot().plans),
        |found| found.unwrap().clone(),
    )
}

fn is_settled(snapshot: &Snapshot, environments: usize) -> bool {
    snapshot.is_complete()
        && snapshot.plans.len() == environments
        && snapshot.plans.values().all(|plan| plan.is_settled())
        && snapshot.state.in_flight.is_empty()
        && snapshot.state.expectations.is_empty()
}

/// Identity and size of each file below a folder. A written file has another one.
fn files_in(folder: &Path) -> BTreeMap<PathBuf, (u64, u64)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            found.extend(files_in(&path));
        } else {
            found.insert(path, (metadata.ino(), metadata.len()));
        }
    }
    found
}

/// Bytes that this process has written so far.
fn written_bytes() -> usize {
    let io = fs::read_to_string("/proc/self/io").unwrap();
    let bytes = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    bytes.unwrap().parse().unwrap()
}

/// Counts the plans that differ from those of the snapshot before, until the task is aborted.
fn count_plans(handle: &Handle, count: Arc<AtomicUsize>) -> tokio::task::JoinHandle<()> {
    let mut snapshots = handle.snapshots();
    #[allow(clippy::disallowed_methods, reason = "the test ends it")]
    tokio::spawn(async move {
        let mut last = snapshots.borrow_and_update().clone();
        while snapshots.changed().await.is_ok() {
            let next = snapshots.borrow_and_update().clone();
            let differs = |(env, plan): &(&EnvName, &Arc<_>)| {
                last.plans.get(*env).is_none_or(|last| !Arc::ptr_eq(last, plan))
            };
            count.fetch_add(next.plans.iter().filter(differs).count(), Ordering::Relaxed);
            last = next;
        }
    })
}

/// Median costs of the restart of one container next to all others.
async fn restart_cost(environments: usize) -> Cost {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("specs")).unwrap();
    for number in 0..environments {
        let path = dir.path().join(format!("specs/shop-{number}.e2e.yaml"));
        fs::write(path, spec(number)).unwrap();
    }
    let clock = Clock::virtual_from(Timestamp(1_763_000_000_000));
    let mut engine = Engine::new(7, FaultProfile::no_faults());
    engine.model.add_image("app:1");
    let sim = Sim::new(engine, move || clock.now());
    let view = Arc::new(View::default());
    let controller = Controller::open(options::options(dir.path(), clock)).unwrap();
    let (handle, running) = controller.start(sim.clone(), view.clone());
    let shop = EnvName::new("shop-0").unwrap();
    let plans = Arc::<AtomicUsize>::default();
    let counting = count_plans(&handle, plans.clone());
    let mut costs = Vec::new();
    let mut settled = wait_for(&handle, |snapshot| is_settled(snapshot, environments)).await;
    for trial in 0..TRIALS {
        // The next list of the engine in memory, which clones all its containers, comes after the measurement.
        let lists = settled.store.last_complete();
        let listed = wait_for(&handle, |snapshot| snapshot.store.last_complete() > lists).await;
        let lists = listed.store.lists_started();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let observed = listed.store.of(&shop).unwrap();
        let id = observed.containers.values().nth(trial).unwrap().id.clone();
        view.0.store(0, Ordering::Relaxed);
        plans.store(0, Ordering::Relaxed);
        let (files, bytes) = (files_in(dir.path()), written_bytes());
        let region = Region::new(ALLOCATOR);
        sim.with(|engine, now| engine.change(now, |model| model.kill(&id, 1)));
        let is_up = |snapshot: &Snapshot| snapshot.store.container(&id).unwrap().state.is_up();
        wait_for(&handle, |snapshot| !is_up(snapshot)).await;
        let is_idle = |state: &PlannerState| state.in_flight.is_empty() && state.expectations.is_empty();
        settled = wait_for(&handle, |snapshot| is_up(snapshot) && is_idle(&snapshot.state)).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let allocations = region.change().allocations;
        assert_eq!(settled.store.lists_started(), lists, "no list is measured");
        let written = files_in(dir.path());
        costs.push(Cost {
            plans: plans.load(Ordering::Relaxed),
            statuses: view.0.load(Ordering::Relaxed),
            allocations,
            files: written
                .iter()
                .filter(|(path, now)| files.get(*path) != Some(now))
                .count(),
            bytes: written_bytes() - bytes,
        });
    }
    counting.abort();
    running.stop_token().cancel();
    running.ended().await.unwrap();
    let median = |of: fn(&Cost) -> usize| {
        let mut all: Vec<usize> = costs[SKIPPED..].iter().map(of).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    Cost {
        plans: median(|cost| cost.plans),
        statuses: median(|cost| cost.statuses),
        allocations: median(|cost| cost.allocations),
        files: median(|cost| cost.files),
        bytes: median(|cost| cost.bytes),
    }
}

#[tokio::test(start_paused = true)]
async fn restart_costs_the_same_with_few_and_many_containers() {
    let few = restart_cost(1).await;
    let many = restart_cost(100).await;
    println!("10 containers: {few:?}\n1,000 containers: {many:?}");
    assert!(many.is_within_limit(few), "{many:?} instead of {few:?}");
}

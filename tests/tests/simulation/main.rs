//! The planner against a simulated engine with faults, in virtual time: invariants as properties over thousands of
//! seeds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test"
)]

mod crashes;
mod events;
mod external_changes;
mod fixture;
mod foreign_objects;
mod invariants;
mod multi_controller;
mod origins;
mod random_runs;
mod restart_times;
mod scenarios;
mod specs;

mod failures;
mod spec_edits;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Seeds to run: `ARGUS_SEED=n` replays one, `ARGUS_SEEDS=n` sets their number, `ARGUS_FROM=n` sets the first.
fn seeds(usual: u64) -> Vec<u64> {
    let from = number("ARGUS_FROM").unwrap_or(0);
    match number("ARGUS_SEED") {
        Some(one) => vec![one],
        None => (from..from + number("ARGUS_SEEDS").unwrap_or(usual)).collect(),
    }
}

/// Runs every seed, on two threads. Returns the results.
fn all<T: Send>(seeds: &[u64], run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let (left, right) = seeds.split_at(seeds.len() / 2);
    let one = |seed: &u64| {
        catch_unwind(AssertUnwindSafe(|| run(*seed))).unwrap_or_else(|panic| {
            eprintln!("replay: ARGUS_SEED={seed} cargo test -p argus-tests --test simulation");
            resume_unwind(panic)
        })
    };
    let each = |seeds: &[u64]| seeds.iter().map(one).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let right = scope.spawn(|| each(right));
        let mut both = each(left);
        both.extend(right.join().expect("no seed panics"));
        both
    })
}

/// Ends the test if a seed fails, with the command that replays it.
#[track_caller]
fn none(test: &str, tried: usize, offences: &[(u64, String)]) {
    let Some((seed, what)) = offences.first() else {
        return;
    };
    let others: Vec<_> = offences.iter().map(|(seed, _)| *seed).take(20).collect();
    panic!(
        "{what}\n{} of {tried} seeds: {others:?}\nreplay: ARGUS_SEED={seed} cargo test -p argus-tests --test simulation {test}",
        offences.len(),
    );
}

/// Checks a property with every seed; `run` returns the violation.
#[track_caller]
fn each_seed(test: &str, usual: u64, run: impl Fn(u64) -> Option<String> + Sync) {
    let seeds = seeds(usual);
    let offences: Vec<_> = all(&seeds, |seed| run(seed).map(|what| (seed, what)))
        .into_iter()
        .flatten()
        .collect();
    none(test, seeds.len(), &offences);
}

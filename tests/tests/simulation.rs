//! The brain against a faulty engine in virtual time: the laws of the house as properties over thousands of seeds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[path = "simulation/company.rs"]
mod company;
#[path = "simulation/decoys.rs"]
mod decoys;
#[path = "simulation/roads.rs"]
mod roads;
#[path = "simulation/specs.rs"]
mod specs;
#[path = "simulation/stage.rs"]
mod stage;
#[path = "simulation/storm.rs"]
mod storm;

#[path = "simulation/failures.rs"]
mod failures;
#[path = "simulation/written.rs"]
mod written;

use std::sync::LazyLock;

use storm::{Outcome, storm};

/// `ARGUS_SEED=n` replays one, `ARGUS_SEEDS=n` tries more or fewer.
fn seeds(usual: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("ARGUS_SEED") {
        Some(one) => vec![one],
        None => (0..number("ARGUS_SEEDS").unwrap_or(usual)).collect(),
    }
}

/// What came of every seed, on two threads.
fn all<T: Send>(seeds: &[u64], run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let (left, right) = seeds.split_at(seeds.len() / 2);
    let each = |seeds: &[u64]| seeds.iter().map(|seed| run(*seed)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let right = scope.spawn(|| each(right));
        let mut both = each(left);
        both.extend(right.join().expect("no seed panics"));
        both
    })
}

/// Ends the test when a seed offends, with what replays it.
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

/// A property of every seed: what a seed offends with.
#[track_caller]
fn each_seed(test: &str, usual: u64, run: impl Fn(u64) -> Option<String> + Sync) {
    let seeds = seeds(usual);
    let offences: Vec<_> = all(&seeds, |seed| run(seed).map(|what| (seed, what)))
        .into_iter()
        .flatten()
        .collect();
    none(test, seeds.len(), &offences);
}

/// One run of every storm, for all the properties that hold in every storm.
static STORMS: LazyLock<Vec<Outcome>> = LazyLock::new(|| all(&seeds(300), storm));

#[track_caller]
fn in_every_storm(test: &str, offence: impl Fn(&Outcome) -> Option<String>) {
    let offences: Vec<_> = STORMS
        .iter()
        .filter_map(|o| Some((o.seed, offence(o)?)))
        .collect();
    none(test, STORMS.len(), &offences);
}

fn first(outcome: &Outcome, rule: &str) -> Option<String> {
    outcome
        .broken
        .iter()
        .find(|(broken, _)| *broken == rule)
        .map(|(_, what)| what.clone())
}

#[test]
fn at_most_one_act_per_subject_is_planned_or_in_flight() {
    in_every_storm("at_most_one_act", |outcome| first(outcome, "one act"));
}

#[test]
fn nothing_is_done_to_a_failed_container_before_what_it_left_is_taken() {
    in_every_storm("nothing_is_done_to_a_failed", |outcome| {
        first(outcome, "evidence")
    });
}

#[test]
fn the_same_input_has_the_same_plan() {
    in_every_storm("the_same_input", |outcome| first(outcome, "pure"));
}

#[test]
fn an_environment_that_is_skipped_as_unchanged_has_nothing_to_do() {
    in_every_storm("an_environment_that_is_skipped", |outcome| {
        first(outcome, "skipped")
    });
}

#[test]
fn nothing_is_done_before_the_first_list_and_the_first_scan() {
    in_every_storm("nothing_is_done_before", |outcome| first(outcome, "blind"));
}

#[test]
fn what_does_not_carry_our_labels_is_never_touched() {
    in_every_storm("what_does_not_carry", |outcome| {
        outcome.trespasses.first().cloned()
    });
}

#[test]
fn an_environment_that_is_not_settled_has_a_wait_with_a_reason() {
    in_every_storm("an_environment_that_is_not_settled", |outcome| {
        first(outcome, "reason")
    });
}

#[test]
fn nothing_is_done_while_the_journal_cannot_be_written() {
    in_every_storm("nothing_is_done_while", |outcome| first(outcome, "safe"));
    let met = STORMS.iter().any(|outcome| outcome.refused > 0);
    assert!(met || STORMS.len() < 50, "no storm met an unwritable journal");
}

#[test]
fn when_the_faults_stop_everything_settles() {
    in_every_storm("when_the_faults_stop", |outcome| {
        (!outcome.settled).then(|| format!("{:#?}\n{:#?}", outcome.shortfalls, outcome.stuck))
    });
}

#[test]
fn what_has_settled_is_left_alone() {
    in_every_storm("what_has_settled", |outcome| {
        (outcome.changes_at_rest > 0).then(|| format!("{} calls at rest", outcome.changes_at_rest))
    });
}

#[test]
fn no_two_running_containers_hold_one_host_port() {
    in_every_storm("no_two_running", |outcome| {
        outcome.doubled_ports.then(|| "a port is held twice".to_owned())
    });
}

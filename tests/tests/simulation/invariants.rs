//! What holds in every storm.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::random_runs::{Outcome, random_run};
use crate::{all, none, seeds};

/// One run of every storm, for all the properties that hold in every storm. Each is a whole run: through faults until it has
/// settled, and beyond.
static RUNS: LazyLock<Vec<Outcome>> = LazyLock::new(|| all(&seeds(10_000), random_run));

#[track_caller]
fn in_every_run(test: &str, offence: impl Fn(&Outcome) -> Option<String>) {
    let offences: Vec<_> = RUNS.iter().filter_map(|o| Some((o.seed, offence(o)?))).collect();
    none(test, RUNS.len(), &offences);
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
    in_every_run("at_most_one_act", |outcome| first(outcome, "one act"));
}

#[test]
fn nothing_is_done_to_a_failed_container_before_what_it_left_is_taken() {
    in_every_run("nothing_is_done_to_a_failed", |outcome| {
        first(outcome, "evidence")
    });
}

#[test]
fn the_same_input_has_the_same_plan() {
    in_every_run("the_same_input", |outcome| first(outcome, "pure"));
}

#[test]
fn an_environment_that_is_skipped_as_unchanged_has_nothing_to_do() {
    in_every_run("an_environment_that_is_skipped", |outcome| {
        first(outcome, "skipped")
    });
}

#[test]
fn nothing_is_done_before_the_first_list_and_the_first_scan() {
    in_every_run("nothing_is_done_before", |outcome| first(outcome, "blind"));
}

#[test]
fn what_does_not_carry_our_labels_is_never_touched() {
    in_every_run("what_does_not_carry", |outcome| {
        outcome.trespasses.first().cloned()
    });
}

#[test]
fn an_environment_that_is_not_settled_has_a_wait_with_a_reason() {
    in_every_run("an_environment_that_is_not_settled", |outcome| {
        first(outcome, "reason")
    });
}

#[test]
fn nothing_is_done_while_the_journal_cannot_be_written() {
    in_every_run("nothing_is_done_while", |outcome| first(outcome, "safe"));
    let met = RUNS.iter().any(|outcome| outcome.refused > 0);
    assert!(met || RUNS.len() < 50, "no storm met an unwritable journal");
}

#[test]
fn when_the_faults_stop_everything_settles() {
    in_every_run("when_the_faults_stop", |outcome| {
        (!outcome.settled).then(|| format!("{:#?}\n{:#?}", outcome.shortfalls, outcome.stuck))
    });
}

#[test]
fn what_has_settled_is_left_alone() {
    in_every_run("what_has_settled", |outcome| {
        (outcome.changes_at_rest > 0).then(|| format!("{} calls at rest", outcome.changes_at_rest))
    });
}

#[test]
fn no_two_running_containers_hold_one_host_port() {
    in_every_run("no_two_running", |outcome| {
        outcome.doubled_ports.then(|| "a port is held twice".to_owned())
    });
}

#[test]
fn no_more_is_done_than_is_needed_and_a_few_calls_for_everything_that_was_hit() {
    in_every_run("no_more_is_done", |outcome| outcome.unexplained.clone());
}

#[test]
fn what_is_harmed_in_the_calm_costs_its_own_repair_and_nothing_else() {
    in_every_run("what_is_harmed", |outcome| outcome.repairs.first().cloned());
}

#[test]
fn every_kind_of_trouble_is_met() {
    let met: BTreeSet<_> = RUNS.iter().flat_map(|outcome| outcome.met.clone()).collect();
    let all = BTreeSet::from([
        "edit",
        "file gone",
        "killed",
        "killed, state lost",
        "engine, containers kept",
        "engine, processes ended",
        "engine, containers lost",
        "disk full",
        "disk free",
        "sleep",
        "clock",
        "people",
    ]);
    assert!(met == all || RUNS.len() < 50, "only {met:?}");
}

//! Invariants of every random run.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::random_runs::{Outcome, random_run};
use crate::{all, none, number, seeds};

/// The random runs, shared by all properties that must hold in each of them. Each run goes through faults until it has
/// settled, and beyond. `ARGUS_RANDOM_RUNS=n` sets their number, without an effect on other properties.
static RUNS: LazyLock<Vec<Outcome>> = LazyLock::new(|| {
    let usual = number("ARGUS_RANDOM_RUNS").unwrap_or(1_000);
    all(&seeds(usual), random_run)
});

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
fn at_most_one_action_per_subject_is_in_flight() {
    in_every_run("at_most_one_action_per_subject_is_in_flight", |outcome| {
        first(outcome, "one action")
    });
}

#[test]
fn evidence_is_collected_before_any_action() {
    in_every_run("evidence_is_collected_before_any_action", |outcome| {
        first(outcome, "evidence")
    });
}

#[test]
fn dependents_stop_before_their_dependencies() {
    in_every_run("dependents_stop_before_their_dependencies", |outcome| {
        first(outcome, "order")
    });
}

#[test]
fn same_input_gives_the_same_plan() {
    in_every_run("same_input_gives_the_same_plan", |outcome| first(outcome, "pure"));
}

#[test]
fn skipped_environment_has_nothing_to_do() {
    in_every_run("skipped_environment_has_nothing_to_do", |outcome| {
        first(outcome, "skipped")
    });
}

#[test]
fn no_action_precedes_the_first_list_and_scan() {
    in_every_run("no_action_precedes_the_first_list_and_scan", |outcome| {
        first(outcome, "blind")
    });
}

#[test]
fn unlabelled_objects_are_never_changed() {
    in_every_run("unlabelled_objects_are_never_changed", |outcome| {
        outcome.trespasses.first().cloned()
    });
}

#[test]
fn unsettled_environment_has_a_wait_with_a_reason() {
    in_every_run("unsettled_environment_has_a_wait_with_a_reason", |outcome| {
        first(outcome, "reason")
    });
}

#[test]
fn unwritable_journal_stops_every_action() {
    in_every_run("unwritable_journal_stops_every_action", |outcome| {
        first(outcome, "safe")
    });
    let met = RUNS.iter().any(|outcome| outcome.refused > 0);
    assert!(met || RUNS.len() < 50, "no run met an unwritable journal");
}

#[test]
fn every_run_settles_after_its_faults_end() {
    in_every_run("every_run_settles_after_its_faults_end", |outcome| {
        (!outcome.settled).then(|| format!("{:#?}\n{:#?}", outcome.shortfalls, outcome.stuck))
    });
}

#[test]
fn settled_environment_gets_no_call() {
    in_every_run("settled_environment_gets_no_call", |outcome| {
        (outcome.changes_at_rest > 0).then(|| format!("{} calls at rest", outcome.changes_at_rest))
    });
}

#[test]
fn no_two_running_containers_hold_one_host_port() {
    in_every_run("no_two_running_containers_hold_one_host_port", |outcome| {
        outcome
            .doubled_ports
            .then(|| "two containers hold one port".to_owned())
    });
}

#[test]
fn every_run_makes_only_necessary_calls() {
    in_every_run("every_run_makes_only_necessary_calls", |outcome| {
        outcome.unexplained.clone()
    });
}

#[test]
fn harm_in_the_calm_costs_only_its_own_repair() {
    in_every_run("harm_in_the_calm_costs_only_its_own_repair", |outcome| {
        outcome.repairs.first().cloned()
    });
}

#[test]
fn every_kind_of_fault_occurs() {
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

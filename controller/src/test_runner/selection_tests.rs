//! Suites and cases that the arguments select.

use super::*;
use crate::test_runner::job::tests::{command, yaml};

fn entries() -> Vec<Entry> {
    vec![
        Ok(yaml("orders", &["create", "list", "delete"])),
        Err(Box::new(Outcome::skipped(
            "old",
            "it has no `command`".to_owned(),
        ))),
        Ok(command("unit")),
        Ok(yaml("users", &["create", "rename"])),
        Err(Box::new(Outcome::rejected(
            "bad",
            "cannot read `bad.yaml`".to_owned(),
        ))),
    ]
}

fn last() -> Vec<SuiteStatus> {
    let suite = |suite: &str, result: &str, failed: &[&str]| SuiteStatus {
        suite: suite.to_owned(),
        result: result.to_owned(),
        failed_cases: names(failed),
        ..SuiteStatus::default()
    };
    vec![
        suite("orders", "failed", &["list", "renamed"]),
        suite("unit", "failed", &["unit"]),
        suite("users", "passed", &[]),
    ]
}

/// The selected suites with their cases, or the error and its hint.
fn select(selection: &Selection) -> String {
    let text = |entry: &Entry| match entry {
        Ok(job) => format!("{}: {}", job.name, case_names(job).join(" ")),
        Err(outcome) => outcome.name.clone(),
    };
    let all = entries();
    let known: Vec<_> = all.iter().map(name).collect();
    let checked = selection.check_suites("shop", &known);
    let chosen = entries()
        .into_iter()
        .filter(|entry| selection.has_suite(name(entry)));
    match checked.and_then(|()| selection.apply("shop", &last(), chosen.collect())) {
        Ok(chosen) => chosen.iter().map(text).collect::<Vec<_>>().join("; "),
        Err(failure) => {
            let message = failure.message().to_owned();
            format!("{message}; {}", failure.into_error().details["hint"])
        }
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn selection_keeps_matching_suites_and_cases() {
    let all = Selection::default();
    assert_eq!(
        select(&all),
        "orders: create list delete; old; unit: unit; users: create rename; bad"
    );
    let suites = Selection {
        suites: names(&["users", "old"]),
        ..all.clone()
    };
    assert_eq!(select(&suites), "old; users: create rename");
    let cases = Selection {
        cases: names(&["create", "unit"]),
        ..all.clone()
    };
    assert_eq!(select(&cases), "orders: create; unit: unit; users: create; bad");
    let grep = Selection {
        grep: Some(Regex::new("^(cr|re)").unwrap()),
        suites: names(&["users"]),
        ..all
    };
    assert_eq!(select(&grep), "users: create rename");
}

#[test]
fn selection_of_nothing_suggests_a_name() {
    let all = Selection::default();
    let suites = Selection {
        suites: names(&["user"]),
        ..all.clone()
    };
    assert_eq!(
        select(&suites),
        r#"`shop` has no suite `user`; "did you mean `users`?""#
    );
    let cases = Selection {
        cases: names(&["pay"]),
        suites: names(&["users"]),
        ..all.clone()
    };
    assert_eq!(
        select(&cases),
        r#"`shop` has no case `pay` in the selected suites; "cases: create, rename""#
    );
    let grep = Selection {
        grep: Some(Regex::new("x+").unwrap()),
        suites: names(&["orders"]),
        ..all
    };
    assert_eq!(
        select(&grep),
        r#"no selected case of `shop` matches `x+`; "cases: create, list, delete""#
    );
}

#[test]
fn failed_cases_of_the_last_run_are_selected() {
    let rerun = Selection {
        rerun_failed: true,
        ..Selection::default()
    };
    assert_eq!(select(&rerun), "orders: list; unit: unit");
    let users = Selection {
        suites: names(&["users"]),
        ..rerun
    };
    assert_eq!(
        select(&users),
        r#"no selected suite of `shop` failed in its last run; "run all suites with `argus test run shop`""#
    );
}

#[test]
fn every_suite_belongs_to_exactly_one_shard() {
    let part = |index: usize, of: usize| {
        select(&Selection {
            shard: Some(format!("{index}/{of}").parse().unwrap()),
            ..Selection::default()
        })
    };
    assert_eq!(
        part(1, 2),
        "orders: create list delete; users: create rename; bad"
    );
    assert_eq!(part(2, 2), "old; unit: unit");
    assert!(part(6, 6).starts_with("part 6 of 6 of the suites of `shop` is empty: only 5 suites"));
}

#[test]
fn fail_fast_makes_suites_sequential() {
    let selection = Selection {
        fail_fast: true,
        ..Selection::default()
    };
    let chosen = selection.apply("shop", &[], entries()).unwrap();
    let is_sequential = |job: &Job| match &job.work {
        Work::Yaml(yaml) => yaml.suite.sequential,
        Work::Command(_) => true,
    };
    assert!(chosen.iter().flatten().all(is_sequential));
}

#[test]
fn client_allows_nothing_itself() {
    let mut selection = Selection {
        allow_test_hosts: vec!["example.com".parse().unwrap()],
        allow_test_containers: names(&["db"]),
        ..Selection::default()
    };
    let facts = |selection: &Selection| {
        let (hosts, containers) = (selection.allowed_hosts(), selection.allowed_containers());
        let count = (hosts.map(|all| all.len()), containers.map(|all| all.len()));
        (selection.refuses_commands(), count)
    };
    assert_eq!(facts(&selection), (false, (Some(1), Some(1))));
    for may_run_commands in [false, true] {
        selection.caller = Caller::Client { may_run_commands };
        assert_eq!(facts(&selection), (!may_run_commands, (None, None)));
    }
}

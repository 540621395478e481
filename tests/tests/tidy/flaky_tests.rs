//! The rule of `scripts/test` for failed engine tests, and the limits of its list of quarantined tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use argus_core::time::Timestamp;
use tempfile::TempDir;

use super::{read, root};

const MAX_AGE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Stands for `cargo test`: tests named in `first` fail in the complete run, those in `second` also when they run alone.
const CARGO: &str = r#"#!/usr/bin/env bash
result() { # failed names...
    if [ "$passed" -gt 1 ]; then
        for program in engine environments surfaces docs; do
            if [ "$program" = "$(cat missing)" ]; then continue; fi
            echo "     Running tests/$program/main.rs (target/debug/deps/$program-0)"
            printf '\ntest result: ok. 0 passed; 0 failed; 0 ignored\n'
        done
    fi
    echo "     Running tests/faults/main.rs (target/debug/deps/faults-0)"
    if [ $# -gt 0 ]; then
        printf '\nfailures:\n\n'
        for name in "$@"; do printf -- '---- %s stdout ----\nmessage of %s\n    indented\n' "$name" "$name"; done
        printf '\nfailures:\n'
        printf '    %s\n' "$@"
        printf '\ntest result: FAILED. %d passed; %d failed; 0 ignored\n' $((passed - $#)) $#
        exit 101
    fi
    printf '\ntest result: ok. %d passed; 0 failed; 0 ignored\n' "$passed"
    exit 0
}
case "$*" in
*--no-run*) exit 0 ;;
*"--test simulation"*)
    passed=0
    result
    ;;
*"--test faults -- "*" --exact "*)
    passed=1
    if grep -qx "${!#}" second; then result "${!#}"; else result; fi
    ;;
*)
    passed=12
    mapfile -t names < <(grep . first)
    result "${names[@]}"
    ;;
esac
"#;

struct Outcome {
    is_success: bool,
    output: String,
    flaky: String,
}

/// Runs `scripts/test STEP` with tests that fail as given.
fn run(step: &str, first: &[&str], second: &[&str], quarantined: &[&str]) -> Outcome {
    run_without("", step, first, second, quarantined)
}

/// The same, while one program does not start.
fn run_without(program: &str, step: &str, first: &[&str], second: &[&str], quarantined: &[&str]) -> Outcome {
    let folder = TempDir::new().expect("a folder");
    let at = |path: &str| folder.path().join(path);
    let lines = |names: &[&str]| [names.join("\n").as_str(), "\n"].concat();
    for name in ["scripts", "tests", "bin"] {
        fs::create_dir(at(name)).expect("a folder");
    }
    fs::copy(root().join("scripts/test"), at("scripts/test")).expect("a copy");
    fs::write(at("first"), lines(first)).expect("written");
    fs::write(at("second"), lines(second)).expect("written");
    fs::write(at("missing"), program).expect("written");
    let entries = quarantined
        .iter()
        .map(|name| format!("{name} | 2026-11-27 | fails | unknown\n"));
    fs::write(at("tests/quarantine.txt"), entries.collect::<String>()).expect("written");
    fs::write(at("bin/cargo"), CARGO).expect("written");
    fs::set_permissions(at("bin/cargo"), fs::Permissions::from_mode(0o755)).expect("executable");
    let path = format!("{}:/usr/bin:/bin", at("bin").display());
    let output = Command::new(at("scripts/test"))
        .arg(step)
        .env("PATH", path)
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .expect("the script runs");
    Outcome {
        is_success: output.status.success(),
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        flaky: fs::read_to_string(at("target/flaky.txt")).unwrap_or_default(),
    }
}

fn ends_with_lines(outcome: &Outcome, lines: &[&str]) {
    let all = outcome.output.lines().collect::<Vec<_>>();
    assert!(all.ends_with(lines), "{}", outcome.output);
}

#[test]
fn engine_test_that_passes_alone_is_flaky() {
    let outcome = run("engine", &["a::b"], &[], &[]);
    assert!(outcome.is_success, "{}", outcome.output);
    ends_with_lines(
        &outcome,
        &[
            "flaky: a::b",
            "all steps passed: engine",
            "12 passed, 0 failed, 1 flaky, 0 quarantined",
            "12 passed, 0 failed",
        ],
    );
    assert!(
        outcome.flaky.starts_with("flaky: a::b\n-- first run\n"),
        "{}",
        outcome.flaky
    );
    assert!(outcome.flaky.contains("message of a::b\n"), "{}", outcome.flaky);
    assert!(outcome.flaky.contains("-- second run\n"), "{}", outcome.flaky);
}

#[test]
fn engine_test_that_fails_twice_fails_the_run() {
    let outcome = run("engine", &["a::b", "c"], &["c"], &[]);
    assert!(!outcome.is_success, "{}", outcome.output);
    ends_with_lines(
        &outcome,
        &[
            "    c (faults)",
            "flaky: a::b",
            "failed steps: tests",
            "11 passed, 1 failed, 1 flaky, 0 quarantined",
            "11 passed, 1 failed",
        ],
    );
}

#[test]
fn more_than_three_flaky_tests_fail_the_run() {
    assert!(run("engine", &["a", "b", "c"], &[], &[]).is_success);
    let outcome = run("engine", &["a", "b", "c", "d"], &[], &[]);
    assert!(!outcome.is_success, "{}", outcome.output);
    assert!(
        outcome.output.ends_with("\n12 passed, 0 failed\n"),
        "{}",
        outcome.output
    );
}

#[test]
fn program_without_a_result_fails_the_run() {
    let outcome = run_without("surfaces", "engine", &["a"], &[], &[]);
    assert!(!outcome.is_success, "{}", outcome.output);
    assert!(!outcome.output.contains("runs again"), "{}", outcome.output);
}

#[test]
fn deterministic_tests_never_run_twice() {
    let outcome = run("unit", &["a"], &[], &[]);
    assert!(!outcome.is_success, "{}", outcome.output);
    assert!(
        outcome.output.ends_with("\n11 passed, 1 failed\n"),
        "{}",
        outcome.output
    );
    assert!(!outcome.output.contains("flaky: "), "{}", outcome.output);
}

#[test]
fn quarantined_test_runs_and_fails_nothing() {
    let outcome = run("engine", &["a::b"], &["a::b"], &["a::b"]);
    assert!(outcome.is_success, "{}", outcome.output);
    ends_with_lines(
        &outcome,
        &[
            "quarantined: a::b",
            "all steps passed: engine",
            "11 passed, 0 failed, 0 flaky, 1 quarantined",
            "11 passed, 0 failed",
        ],
    );
    // Only the complete name counts.
    assert!(!run("engine", &["a::b"], &["a::b"], &["a"]).is_success);
}

fn midnight(date: &str) -> Timestamp {
    Timestamp::parse(&format!("{date}T00:00:00Z")).unwrap_or_else(|| panic!("`{date}` is not a date"))
}

/// The mistakes of a list of quarantined tests at the date of a commit.
fn mistakes(list: &str, commit: &str) -> Vec<String> {
    let entries = list
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .collect::<Vec<_>>();
    let mut mistakes = Vec::new();
    if entries.len() > 5 {
        mistakes.push(format!("{} entries: at most five are allowed", entries.len()));
    }
    for entry in entries {
        let fields = entry.split('|').map(str::trim).collect::<Vec<_>>();
        match fields[..] {
            [name, date, symptom, cause] if ![name, symptom, cause].contains(&"") => {
                if midnight(commit).since(midnight(date)) > MAX_AGE {
                    mistakes.push(format!("{name}: older than two weeks"));
                }
            }
            _ => mistakes.push(format!(
                "{entry}: expected `name | date | symptom | suspected cause`"
            )),
        }
    }
    mistakes
}

#[test]
fn quarantine_is_short_and_recent() {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%cs"]).current_dir(root());
    let commit = String::from_utf8(git.output().expect("git runs").stdout).expect("a date");
    let found = mistakes(&read("tests/quarantine.txt"), commit.trim());
    super::none("tests/quarantine.txt", &found);
}

#[test]
fn limits_of_the_quarantine_are_checked() {
    let entry = |date: &str| format!("a::b | {date} | fails | a race\n");
    assert_eq!(mistakes(&entry("2026-11-13"), "2026-11-27"), [""; 0]);
    assert_eq!(
        mistakes(&entry("2026-11-12"), "2026-11-27"),
        ["a::b: older than two weeks"]
    );
    assert_eq!(
        mistakes(&entry("2026-11-27").repeat(6), "2026-11-27"),
        ["6 entries: at most five are allowed"]
    );
    assert_eq!(
        mistakes("a::b | 2026-11-27 | | a race", "2026-11-27"),
        ["a::b | 2026-11-27 | | a race: expected `name | date | symptom | suspected cause`"]
    );
}

//! Container output of any size is stored within bounds and delays nothing.

use std::fs;
use std::time::Duration;

use argus_tests::fixture::text;
use serde_json::Value;

use super::case::{Case, SLACK, once, started};

/// Limit of one stored stream in bytes, with the engine's timestamp of each line.
const MOST: u64 = 600 * 1024;

/// Time limit for storing evidence; a flood of lines keeps the engine and the machine busy.
const TAKING: Duration = Duration::from_secs(5);

/// Runs a container that executes `script` and crashes. Returns its error after the restart in time.
fn crash(name: &'static str, script: &str) -> (Case, Value) {
    let case = Case::shell(name, "restartDelay: 1s", &once(&format!("{script}; exit 1")));
    let (output, runs) = case.runs_until("runs again", |bad| {
        bad["restarts"] == 1 && bad["state"] == "Ready"
    });
    let again = case.inspect().as_ref().and_then(started).expect("it runs");
    let took = again.since(runs[0].finished);
    assert!(took <= TAKING + SLACK + SLACK, "{name} was delayed for {took:?}");
    let error = output["lastError"].clone();
    assert_eq!(error["code"], "CONTAINER_CRASH", "{output:#}");
    let missing = error["details"]["missing"].as_array().expect("a list");
    // Some of these runs are too short for a sample.
    let is_memory = |part: &Value| text(part).starts_with("memory peak: ");
    assert!(missing.iter().all(is_memory), "{error:#}");
    for stream in ["stdoutTail", "stderrTail"] {
        assert!(text(&error[stream]).len() <= 4 * 1024, "{stream} of {name}");
    }
    for log in ["stdout.log", "stderr.log"] {
        let kept = fs::metadata(case.evidence(&error).join(log)).expect(log);
        assert!(kept.len() <= MOST, "{log} of {name}: {}", kept.len());
    }
    (case, error)
}

fn kept(case: &Case, error: &Value, log: &str) -> String {
    fs::read_to_string(case.evidence(error).join(log)).expect(log)
}

#[test]
fn empty_output_is_stored_as_empty() {
    let (case, error) = crash("silent", "true");
    assert!(
        error["stderrTail"].is_null() && error["stdoutTail"].is_null(),
        "{error:#}"
    );
    assert_eq!(kept(&case, &error, "stdout.log"), "");
    assert_eq!(kept(&case, &error, "stderr.log"), "");
}

#[test]
fn line_of_a_mebibyte_is_cut() {
    let (case, error) = crash(
        "longline",
        "head -c 1048576 /dev/zero | busybox tr '\\0' x >&2; echo >&2; echo the end >&2",
    );
    let lines = error["details"]["lastLines"].as_array().expect("lines");
    assert_eq!(lines.last(), Some(&"the end".into()));
    assert!(kept(&case, &error, "stderr.log").ends_with(" the end\n"));
}

#[test]
fn million_lines_delay_no_restart() {
    let (case, error) = crash("million", "busybox seq 1000000");
    let tail = text(&error["stdoutTail"]);
    // Under load, the engine reports an end 2 s after it although it has not read all output, and drops the rest.
    let last = case.engine.docker_ok(&["logs", "--tail", "1", &case.container()]);
    assert_eq!(tail.lines().last(), Some(last.as_str()), "{tail}");
    assert!(!last.is_empty(), "the engine stored nothing");
    assert!(kept(&case, &error, "stdout.log").lines().count() >= 100);
}

#[test]
fn long_stdout_keeps_earlier_stderr() {
    let (case, error) = crash(
        "hidden",
        "echo the reason >&2; busybox usleep 100000; busybox seq 5000",
    );
    assert_eq!(text(&error["stderrTail"]).trim_end(), "the reason", "{error:#}");
    assert!(kept(&case, &error, "stderr.log").ends_with(" the reason\n"));
    assert!(kept(&case, &error, "stdout.log").ends_with(" 5000\n"));
}

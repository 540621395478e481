//! Container output of any size is stored within bounds and with its end.
//!
//! That a long log delays only its own restart, and by at most the deadline of evidence, is tested in virtual time:
//! `log_without_an_end_is_truncated_and_delays_one_restart` in `controller/reconciler/tests/integration/evidence.rs`.

use std::fs;

use argus_tests::fixture::{engine, text};
use argus_tests::{Proxy, RunOptions};
use serde_json::Value;

use super::case::{Case, once, shell};

/// Limit of one stored stream in bytes, with the engine's timestamp of each line.
const MOST: u64 = 600 * 1024;
/// Limit of the answer to one request for a log of short lines: a thousand lines, each with a time and two frames.
const MOST_OF_A_READ: usize = 64 * 1024;
const LOGS: &str = "GET /containers/*/logs";

/// Runs a container that executes `script` and crashes. Returns its error after the restart, and the missing parts of its
/// output.
fn crash(name: &'static str, script: &str) -> (Case, Value, Vec<String>) {
    crash_with(RunOptions::default(), name, script)
}

/// The same with a controller of these options.
fn crash_with(options: RunOptions, name: &'static str, script: &str) -> (Case, Value, Vec<String>) {
    let service = shell(name, &once(&format!("{script}; exit 1")), "");
    let case = Case::start_with(options, name, "restartDelay: 1s", &service);
    let error = case.wait_restarted(1)["lastError"].clone();
    assert_eq!(error["code"], "CONTAINER_CRASH", "{error:#}");
    let missing = error["details"]["missing"].as_array().expect("a list");
    let missing = missing.iter().map(text);
    // Some of these runs are too short for a sample.
    let missing: Vec<String> = missing
        .filter(|part| !part.starts_with("memory peak: "))
        .collect();
    for stream in ["stdoutTail", "stderrTail"] {
        assert!(text(&error[stream]).len() <= 4 * 1024, "{stream} of {name}");
    }
    for log in ["stdout.log", "stderr.log"] {
        let kept = fs::metadata(case.evidence(&error).join(log)).expect(log);
        assert!(kept.len() <= MOST, "{log} of {name}: {}", kept.len());
    }
    (case, error, missing)
}

fn kept(case: &Case, error: &Value, log: &str) -> String {
    fs::read_to_string(case.evidence(error).join(log)).expect(log)
}

#[test]
fn empty_output_is_stored_as_empty() {
    let (case, error, missing) = crash("silent", "true");
    assert_eq!(missing, [""; 0]);
    assert!(
        error["stderrTail"].is_null() && error["stdoutTail"].is_null(),
        "{error:#}"
    );
    assert_eq!(kept(&case, &error, "stdout.log"), "");
    assert_eq!(kept(&case, &error, "stderr.log"), "");
}

#[test]
fn line_of_a_mebibyte_is_cut() {
    let (case, error, missing) = crash(
        "longline",
        "head -c 1048576 /dev/zero | busybox tr '\\0' x >&2; echo >&2; echo the end >&2",
    );
    assert_eq!(missing, [""; 0]);
    let lines = error["details"]["lastLines"].as_array().expect("lines");
    assert_eq!(lines.last(), Some(&"the end".into()));
    assert!(kept(&case, &error, "stderr.log").ends_with(" the end\n"));
}

#[test]
fn million_lines_delay_no_restart() {
    let engine = engine();
    let proxy = Proxy::start(&engine.scratch("million").join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..RunOptions::default()
    };
    let (case, error, missing) = crash_with(options, "million", "busybox seq 1000000");
    // Each request is for a fixed number of lines, however many there are.
    let (reads, bytes) = (proxy.counts()[LOGS], proxy.served_bytes(LOGS));
    assert!(
        bytes > 0 && bytes <= reads * MOST_OF_A_READ,
        "{bytes} in {reads} reads"
    );
    let tail = text(&error["stdoutTail"]);
    let last = case.engine.docker_ok(&["logs", "--tail", "1", &case.container()]);
    assert_eq!(tail.lines().last(), Some(last.as_str()), "{tail}");
    assert!(!last.is_empty(), "the engine stored nothing");
    // Under load, the engine stops reading 2 s after the end although it has not read all output, and drops the rest.
    if last == "1000000" {
        assert!(
            missing.iter().all(|part| part.contains(": truncated: ")),
            "{error:#}"
        );
    } else {
        assert!(
            missing.iter().any(|part| part.starts_with("stdout: truncated: ")),
            "{error:#}"
        );
    }
    assert!(kept(&case, &error, "stdout.log").lines().count() >= 100);
}

#[test]
fn long_stdout_keeps_earlier_stderr() {
    let (case, error, missing) = crash(
        "hidden",
        "echo the reason >&2; busybox usleep 100000; busybox seq 5000",
    );
    assert_eq!(missing, [""; 0]);
    assert_eq!(text(&error["stderrTail"]).trim_end(), "the reason", "{error:#}");
    assert!(kept(&case, &error, "stderr.log").ends_with(" the reason\n"));
    assert!(kept(&case, &error, "stdout.log").ends_with(" 5000\n"));
}

//! Commands as health checks: the cause of their failure, and their end at their timeout.

use std::fs;

use argus_core::action::ActionKind;
use argus_tests::fixture::{LIMIT, text};
use argus_tests::wait;
use serde_json::Value;

use super::case::{Case, LONG};

/// A service whose program listens on port 8080, with this script as its health check.
fn probed(name: &str, script: &str) -> String {
    let script = Value::from(script);
    format!(
        "image: busybox:local\n    command: [\"sh\", \"-c\", \"mkdir /www; echo ok > /www/index.html; exec httpd -f -p 8080 -h /www\"]\n    container:\n      \
         name: {name}-bad\n      healthcheck: {{ type: exec, command: [\"sh\", \"-c\", {script}], interval: 500ms, timeout: 1s, \
         retries: 2, startPeriod: 0s }}"
    )
}

/// Number of processes of the container with this text in their command.
fn count_processes(case: &Case, part: &str) -> usize {
    let top = case
        .engine
        .docker_ok(&["top", &case.container(), "-eo", "pid,args"]);
    top.lines().filter(|line| line.contains(part)).count()
}

#[test]
fn failed_command_probes_show_their_cause() {
    // Its first output does not fit, and its children outlive their shell.
    let script =
        "seq 0 399 | sed 's/.*/step & of the check/; $a cannot reach the queue'; sleep 7531 & sleep 7532";
    let case = Case::start("cmdprobe", LONG, &probed("cmdprobe", script));
    let output = case.wait("reports its command", |bad| {
        bad["lastError"]["code"] == "HEALTH_CHECK_TIMEOUT"
            && bad["lastError"]["details"]["probeAnswers"]["listens on"].is_string()
    });
    let error = &output["lastError"];
    let message = text(&error["message"]);
    for part in [
        "no answer within 1 s",
        "cannot reach the queue",
        "the container listens on",
        ":8080",
    ] {
        assert!(message.contains(part), "no `{part}`: {error:#}");
    }
    let shown = text(&error["details"]["probeOutput"]);
    assert!(
        !shown.contains("step 0 of") && shown.contains("step 399 of"),
        "{error:#}"
    );
    let report = case.argus.cli(&["evidence", "cmdprobe/bad"]);
    let report = String::from_utf8_lossy(&report.stdout);
    assert!(
        report.contains("cannot reach the queue") && report.contains("listens on"),
        "{report}"
    );

    // Each probe has three processes, and those of the earlier ones have ended.
    wait::until(LIMIT, "the processes of the probes end", || {
        (count_processes(&case, "sleep 753") <= 3).then_some(())
    });
    assert!(count_processes(&case, "httpd") > 0, "the service still runs");
    let facts = fs::read_to_string(case.evidence(error).join("evidence.json")).expect("evidence");
    assert!(facts.contains("cannot reach the queue"), "{facts}");
}

#[test]
fn paths_of_the_only_listener_are_evidence() {
    let check = probed("cmdport", "wget -q -O /dev/null http://127.0.0.1:8081/");
    let case = Case::start("cmdport", LONG, &check);
    let output = case.wait("has the paths of the other port", |bad| {
        bad["lastError"]["details"]["probeAnswers"]["healthy paths of port 8080"].is_string()
    });
    let answers = &output["lastError"]["details"]["probeAnswers"];
    assert!(
        text(&answers["healthy paths of port 8080"]).contains('/'),
        "{answers:#}"
    );
}

#[test]
fn missing_probe_program_uses_no_restart() {
    let case = Case::start(
        "noprogram",
        "restartDelay: 1s",
        // A check that times out on a busy machine does not show that its program is missing.
        &probed("noprogram", "qurl -f http://localhost:8080/ || exit 1")
            .replace("timeout: 1s", "timeout: 30s"),
    );
    let output = case.wait("waits for a change", |bad| {
        bad["waitingOn"]["reason"] == "ProbeNotRunnable" && bad["lastError"].is_object()
    });
    let shown = output.to_string();
    assert!(shown.contains("{ path: /, port: 8080,"), "{output:#}");
    assert_eq!(output["restarts"], 0, "{output:#}");
    assert_eq!(case.count("bad", ActionKind::StopContainer), 0);
}

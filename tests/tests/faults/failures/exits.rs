//! Containers that exit or die by a signal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use argus_core::action::ActionKind;
use argus_tests::fixture::{LIMIT, condition, running, text};
use argus_tests::{Controller, RunOptions};
use rustix::process::Signal;
use serde_json::Value;

use super::case::{Case, once, shell};

#[test]
fn crash_is_reported_with_last_lines_and_restarted() {
    let script = once("echo working; echo out of ideas >&2; exit 1");
    let case = Case::shell("crashes", "restartDelay: 1s", &script);
    let output = case.wait_restarted(1);
    case.assert_restarts(&[Duration::from_secs(1)]);
    let now = case.inspect().expect("it exists");
    assert_eq!(
        text(&now["Id"]),
        case.failure(1).container.as_str(),
        "a first failure costs no new container"
    );

    let error = &output["lastError"];
    assert_eq!(error["code"], "CONTAINER_CRASH", "{output:#}");
    assert_eq!(error["exitCode"], 1);
    assert_eq!(error["containerId"], now["Id"], "{error:#}");
    assert_eq!(text(&error["stderrTail"]).trim_end(), "out of ideas");
    assert_eq!(text(&error["stdoutTail"]).trim_end(), "working");
    assert_eq!(error["details"]["exitCode"], 1);
    assert_eq!(error["details"]["lastLines"], serde_json::json!(["out of ideas"]));
    assert_eq!(error["details"]["evidence"], "private/evidence/crashes/bad/1");
    let folder = case.evidence(error);
    let kept = |name: &str| fs::read_to_string(folder.join(name)).expect(name);
    let (stdout, stderr) = (kept("stdout.log"), kept("stderr.log"));
    assert!(
        stdout.ends_with(" working\n") && stdout.lines().count() == 1,
        "{stdout}"
    );
    assert!(
        stderr.ends_with(" out of ideas\n") && stderr.lines().count() == 1,
        "{stderr}"
    );
    let facts: serde_json::Value = serde_json::from_str(&kept("evidence.json")).expect("whole JSON");
    assert_eq!(
        (&facts["service"], &facts["run"]),
        (&"bad".into(), &1.into()),
        "{facts:#}"
    );
    assert_eq!(
        (&facts["containerId"], &facts["exitCode"]),
        (&now["Id"], &1.into())
    );
    let words = [
        "events",
        "crashes",
        "--type",
        "restart_attempt,restarted",
        "-o",
        "json",
    ];
    let events: serde_json::Value = serde_json::from_slice(&case.argus.cli(&words).stdout).expect("JSON");
    let [attempt, restarted] = [0, 1].map(|at| &events["items"][at]);
    assert_eq!(
        (&attempt["event"], &attempt["attempt"], &attempt["outcome"]),
        (&"restart_attempt".into(), &1.into(), &"done".into()),
        "{events:#}"
    );
    assert_eq!(restarted["event"], "restarted", "{events:#}");
    assert!(
        restarted["at"].is_string() && restarted["at"].as_str() >= attempt["at"].as_str(),
        "{events:#}"
    );
    case.assert_recorded("restart 1");
    for name in ["stdout.log", "stderr.log", "evidence.json"] {
        let mode = fs::metadata(folder.join(name)).expect(name).permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn exit_zero_is_restarted_unless_it_completes() {
    let case = Case::start(
        "ends",
        "restartDelay: 1s",
        &format!(
            "{}\n  job:\n    image: busybox:local\n    command: [\"true\"]\n    oneShot: true\n    container: {{ name: ends-job }}\n  \
             task:\n    image: busybox:local\n    command: [\"true\"]\n    canComplete: true\n    container: {{ name: ends-task }}",
            shell("ends", &once("exit 0"), "")
        ),
    );
    let output = case.wait_restarted(1);
    assert_eq!(output["lastError"]["code"], "CONTAINER_CRASH", "{output:#}");
    assert_eq!(output["lastError"]["exitCode"], 0);
    let status = case.argus.wait_ready("ends", argus_tests::fixture::LIMIT);
    for name in ["job", "task"] {
        let service = Controller::service(&status, name);
        assert_eq!(
            (&service["state"], &service["restarts"]),
            (&"Completed".into(), &0.into()),
            "{service:#}"
        );
    }
}

#[test]
fn unrunnable_command_is_not_retried() {
    let ending = shell("unrunnable", "echo sh: no such thing >&2; exit 127", "");
    let others = [
        ("absent", r#"["no-such-program"]"#),
        ("folder", r#"["/tmp"]"#),
    ]
    .map(|(name, command)| {
        format!(
            "\n  {name}:\n    image: busybox:local\n    command: {command}\n    container: {{ name: unrunnable-{name} }}"
        )
    });
    // The file adds a code to those that no restart can help.
    let ruled = "\n  ruled:\n    image: busybox:local\n    command: [\"sh\", \"-c\", \"exit 78\"]\n    container: { name: unrunnable-ruled }";
    let rule = "\nargus: { restart: { never: [78] } }";
    let services = format!("{ending}{}{ruled}{rule}", others.concat());
    let case = Case::start("unrunnable", "restartDelay: 1s", &services);
    let names = ["bad", "absent", "folder"];
    let status = case
        .argus
        .wait_status("unrunnable", argus_tests::fixture::LIMIT, "reports it", |now| {
            names.iter().all(|name| {
                let service = Controller::service(now, name);
                service["state"] == "Failed" && service["lastError"]["code"] == "ENTRYPOINT_NOT_FOUND"
            })
        });
    for name in names {
        let service = Controller::service(&status, name);
        assert_eq!(service["restarts"], 0, "{service:#}");
        let waiting = &service["waitingOn"];
        assert_eq!(
            (&waiting["error"], &waiting["until"]),
            (&"ENTRYPOINT_NOT_FOUND".into(), &serde_json::Value::Null),
            "nothing is retried: {service:#}"
        );
        assert_eq!(case.count(name, ActionKind::StartContainer), 1, "{name}");
    }
    assert_eq!(Controller::service(&status, "bad")["lastError"]["exitCode"], 127);
    // Its details can follow with the evidence of the run.
    let names_program = |now: &Value| {
        let absent = Controller::service(now, "absent");
        absent["lastError"]["details"]["missingCommand"] == "no-such-program"
    };
    let status = case
        .argus
        .wait_status("unrunnable", LIMIT, "names the program", names_program);
    let absent = Controller::service(&status, "absent");
    let details = &absent["lastError"]["details"];
    let hint = "install `no-such-program` in the image, or use an image that has it";
    assert_eq!(
        (&details["expectedPath"], &details["installHint"]),
        (&"$PATH".into(), &hint.into()),
        "{absent:#}"
    );
    let is_final = |now: &Value| {
        let ruled = Controller::service(now, "ruled");
        ruled["waitingOn"]["reason"] == "NotRestarted" && ruled["lastError"]["exitCode"] == 78
    };
    let status = case
        .argus
        .wait_status("unrunnable", LIMIT, "follows its rule", is_final);
    let ruled = Controller::service(&status, "ruled");
    assert_eq!(
        (&ruled["restarts"], &ruled["waitingOn"]["until"]),
        (&0.into(), &Value::Null),
        "{ruled:#}"
    );
    assert_eq!(ruled["lastError"]["code"], "CONTAINER_CRASH", "{ruled:#}");
    assert_eq!(case.count("ruled", ActionKind::StartContainer), 1);
}

#[test]
fn given_up_recoverable_service_is_a_warning() {
    let ending = shell("warned", "exit 127", "criticality: recoverable");
    let fine = "\n  fine:\n    image: busybox:local\n    command: [\"sleep\", \"3600\"]\n    \
                dependsOn: [{ service: bad, required: false }]\n    container: { name: warned-fine }";
    let case = Case::start("warned", "restartDelay: 1s", &(ending + fine));
    let status = case
        .argus
        .wait_status("warned", LIMIT, "is Ready without it", |now| {
            now["phase"] == "Ready" && Controller::service(now, "bad")["state"] == "Failed"
        });
    let error = Controller::service(&status, "bad")["lastError"].clone();
    assert_eq!(
        (&error["code"], &error["severity"]),
        (&"ENTRYPOINT_NOT_FOUND".into(), &"warning".into()),
        "{status:#}"
    );
    assert_eq!(status["errors"], serde_json::json!([error]));
    assert_eq!(status["lastGoodRevision"], status["revision"], "{status:#}");
    assert!(case.argus.cli(&["wait", "warned"]).status.success());
    let shown = case.argus.cli(&["get", "-o", "wide"]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("gave up: `bad`"), "{shown}");
    assert_eq!(
        Controller::service(&status, "fine")["state"],
        "Ready",
        "{status:#}"
    );

    let optional = shell("warned", "exit 127", "criticality: optional") + fine;
    case.write("restartDelay: 1s", &optional);
    case.argus
        .wait_status("warned", LIMIT, "is Ready without the optional service", |now| {
            now["revision"] != status["revision"]
                && now["phase"] == "Ready"
                && condition(now, "Degraded")["status"] == "False"
                && Controller::service(now, "bad")["state"] == "Failed"
        });
}

#[test]
fn refused_start_is_not_a_crash() {
    let case = Case::start(
        "refused",
        "restartDelay: 1s",
        &shell("refused", "sleep 3600", "user: nosuchuser"),
    );
    let error = case.wait_error("CONTAINER_START_FAILED");
    assert!(text(&error["message"]).contains("nosuchuser"), "{error:#}");
    assert_eq!(case.service()["restarts"], 0);
}

#[test]
fn signal_is_reported_by_name() {
    let case = Case::shell("segv", "restartDelay: 1s", &once("kill -SEGV $$"));
    let output = case.wait_restarted(1);
    let details = &output["lastError"]["details"];
    assert_eq!(output["lastError"]["code"], "CONTAINER_CRASH", "{output:#}");
    assert_eq!(
        (&details["signal"], &details["oomKilled"]),
        (&"SIGSEGV".into(), &false.into())
    );
    assert_eq!(output["lastError"]["exitCode"], 139);
}

#[test]
fn external_kill_is_not_an_oom() {
    let options = RunOptions {
        env: vec![("ARGUS_WAITS".to_owned(), "externalStop=1s".to_owned())],
        ..RunOptions::default()
    };
    let service = shell("killed", "exec sleep 3600", "memory: 64m");
    let case = Case::start_with(options, "killed", "restartDelay: 1s", &service);
    case.wait_restarted(0);
    case.signal(Signal::KILL);
    let output = case.wait_restarted(1);
    let error = &output["lastError"];
    assert_eq!(error["code"], "CONTAINER_CRASH", "{output:#}");
    assert_eq!(error["exitCode"], 137);
    assert_eq!(error["details"]["signal"], "SIGKILL");
    assert_eq!(error["details"]["oomKilled"], false);
    assert_eq!(error["details"]["oomSuspected"], false);
    assert_eq!(error["details"]["memoryLimit"], 64 * 1024 * 1024);
    assert!(running(case.engine, "killed-bad"));
    // The end of a run by another client is no failure, but its next run counts.
    assert_eq!(output["restartBudget"]["used"], 1, "{output:#}");
    case.engine.docker_ok(&["kill", "killed-bad"]);
    let output = case.wait_restarted(2);
    assert_eq!(output["restartBudget"]["used"], 1, "{output:#}");
}

/// A container that needs eleven seconds to stop has that time.
fn takes_long_to_stop(name: &'static str, stopped_before: bool) {
    let script = "trap 'sleep 11; echo whole > /out/end; exit 0' TERM; while :; do sleep 1; done";
    let service = shell(name, script, "stopGrace: 60s").replacen(
        &format!("container: {{ name: {name}-bad }}"),
        &format!("container: {{ name: {name}-bad, volumes: [\"./out:/out\"] }}"),
        1,
    );
    let case = Case::start(name, "restartDelay: 1s", &service);
    let out = case.argus.specs.join("out");
    fs::create_dir_all(&out).expect("a directory");
    case.argus.wait_ready(name, LIMIT);
    if stopped_before {
        assert!(case.argus.stop().success());
    }
    let down = case.argus.cli(&["down", name]);
    assert!(down.status.success(), "{}", String::from_utf8_lossy(&down.stderr));
    assert!(case.inspect().is_none(), "it is removed");
    assert_eq!(
        fs::read_to_string(out.join("end")).expect("the file of its clean end"),
        "whole\n"
    );
}

#[test]
fn slow_stop_gets_its_grace_on_removal() {
    takes_long_to_stop("slowend", false);
}

#[test]
fn slow_stop_gets_its_grace_without_a_controller() {
    takes_long_to_stop("slowalone", true);
}

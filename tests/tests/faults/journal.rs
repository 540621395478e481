//! The journal on a real engine: a full disk, and a controller that dies during its actions.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test with a message"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use argus_core::journal::{Entry, Event, JOURNAL_VERSION, Record};
use argus_core::time::Timestamp;
use argus_reconciler::journal::checksum::with_checksum;
use argus_tests::fixture::{LIMIT, condition, container_runs, engine, proxied, proxied_with, text};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, Proxy, RunOptions};
use serde_json::Value;

/// An environment whose intents do not all fit into the rest of a page.
fn many(name: &str, services: usize) -> String {
    let mut text = format!("version: \"1\"\nproject: {{ name: {name} }}\nservices:\n");
    for number in 0..services {
        writeln!(
            text,
            "  s{number}:\n    image: busybox:local\n    command: [\"sh\", \"-c\", \"exec sleep 3600\"]\n    stopGrace: 1s\n    \
             container: {{ name: {name}-s{number} }}"
        )
        .expect("writing to a string succeeds");
    }
    text
}

/// Mounts a separate disk for a state directory; the engine's cleanup unmounts it.
fn small_disk(at: &Path) {
    std::fs::create_dir_all(at).expect("a directory");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m,mode=755", "argus-test"])
        .arg(at)
        .status();
    assert!(mounted.expect("mount runs").success(), "a small disk");
}

fn fill(at: &Path) {
    let lines = vec![b'x'; 64 * 1024];
    let mut file = std::fs::File::create(at).expect("a file");
    // Until nothing more fits, with single bytes at the end.
    for size in [lines.len(), 4_096, 512, 1] {
        while std::io::Write::write_all(&mut file, &lines[..size]).is_ok() {}
    }
}

/// A controller with this state directory, which lists every second.
fn listing_often(state: PathBuf) -> RunOptions {
    RunOptions {
        state: Some(state),
        env: vec![("ARGUS_WAITS".into(), "listInterval=1s".into())],
        ..RunOptions::default()
    }
}

/// Waits until three lists in a row follow the last write: the controller has seen everything, and has decided.
fn wait_quiet(argus: &Controller<'_>, proxy: &Proxy) {
    let counts = || {
        let lists = proxy.counts().get("GET /containers/json").copied();
        (proxy.writes_but_the_lease().len(), lists.unwrap_or_default())
    };
    let (mut writes, mut lists) = counts();
    argus.wait_until(LIMIT, "three lists follow the last write", || {
        let (now, listed) = counts();
        if now != writes {
            (writes, lists) = (now, listed);
        }
        (listed >= lists + 3).then_some(())
    });
}

/// Entries of the list that a command prints.
fn items(argus: &Controller<'_>, words: &[&str]) -> Vec<Value> {
    let output = argus.cli(&[words, &["-o", "json"]].concat());
    assert!(output.status.success(), "{output:?}");
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    all["items"].as_array().cloned().expect("a list")
}

fn incidents(argus: &Controller<'_>) -> Vec<Value> {
    items(argus, &["incidents"])
}

/// Writes a journal of three runs, each with a critical task that ended.
fn write_crashes(state: &Path) {
    let run = || {
        let start = Event::Start {
            version: String::new(),
            controller: String::new(),
            clean: false,
        };
        let end = Event::TaskEnded {
            task: "reconciler".to_owned(),
            reason: "it panicked".to_owned(),
            restarts: false,
            critical: true,
        };
        [start, end]
    };
    let mut text = String::new();
    for (seq, event) in (1..).zip([run(), run(), run()].into_iter().flatten()) {
        let record = Record {
            v: JOURNAL_VERSION,
            seq,
            at: Timestamp(1_000).to_string(),
            run: "RUN".to_owned(),
            entry: Entry::Event(event),
        };
        let line = serde_json::to_string(&record).expect("a record is JSON");
        writeln!(text, "{}", with_checksum(&line)).expect("writing to a string succeeds");
    }
    let private = state.join("private");
    std::fs::create_dir_all(&private).expect("a directory");
    std::fs::write(private.join("journal.jsonl"), text).expect("a journal");
}

/// Checks that the run after a kill begins in mode `Recovery`, and resolves all `open` intents of its incident before its first action.
fn assert_recovered_first(argus: &Controller<'_>, open: &[Value]) {
    let journal = std::fs::read_to_string(argus.state.join("private/journal.jsonl")).expect("a journal");
    let lines = journal.lines();
    let mut records: Vec<Value> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    let start = records.iter().rposition(|record| record["event"] == "start");
    let run = records.split_off(start.expect("the start of the run"));
    let action = run.iter().position(|record| record["kind"] == "intent");
    let (before, after) = run.split_at(action.expect("an action of the run"));
    let resolved = |records: &[Value]| -> Vec<Value> {
        let all = records.iter();
        let resolved = all.filter(|record| record["event"] == "intentResolved");
        resolved.map(|record| record["of"].clone()).collect()
    };
    let expected: Vec<Value> = open.iter().map(|intent| intent["seq"].clone()).collect();
    assert_eq!(resolved(before), expected, "{run:#?}");
    assert!(resolved(after).is_empty(), "{run:#?}");

    let since = run[0]["seq"].as_u64();
    let changes = argus.wait_until(LIMIT, "the mode after the recovery is recorded", || {
        let modes = items(argus, &["events", "--type", "mode"]);
        let of_run = modes.iter().filter(|mode| mode["seq"].as_u64() > since);
        let changes: Vec<[String; 2]> = of_run
            .map(|mode| [text(&mode["from"]), text(&mode["to"])])
            .collect();
        (changes.len() > 1).then_some(changes)
    });
    assert_eq!(changes[..2], [["", "Recovery"], ["Recovery", "Full"]]);
}

fn run_command(argus: &Controller<'_>, words: &[&str]) -> (bool, String) {
    let output = argus.cli(words);
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn full_disk_stops_actions_until_a_resume() {
    let engine = engine();
    let state = engine.scratch("journal-full").join("state");
    small_disk(&state);
    let (proxy, argus) = proxied_with(engine, "journal-full", listing_often(state.clone()));
    argus.write_spec("a.e2e.yaml", &many("fulla", 2));
    argus.wait_ready("fulla", LIMIT);
    let before = container_runs(engine, "fulla");
    let ballast = state.join("ballast");
    fill(&ballast);
    argus.write_spec("b.e2e.yaml", &many("fullb", 24));
    argus.wait_until(LIMIT, "commands report the mode", || {
        let (_, text) = run_command(&argus, &["get"]);
        (text.contains("JOURNAL_UNWRITABLE") && text.contains("No space left")).then_some(())
    });
    let (_, text) = run_command(&argus, &["get", "fulla", "-o", "json"]);
    assert!(text.contains(r#""stale": true"#), "{text}");
    assert!(
        argus.logs().contains("cannot write the journal"),
        "{}",
        argus.logs()
    );
    // Actions in progress may end; after that nothing changes.
    wait_quiet(&argus, &proxy);
    let made = container_runs(engine, "fullb");
    assert!(made.len() < 24, "some were not created");
    proxy.reset_counts();
    engine.docker_ok(&["rm", "-f", "fulla-s1"]);
    wait_quiet(&argus, &proxy);
    assert_eq!(proxy.writes_but_the_lease(), [], "nothing is done");
    let (resumed, text) = run_command(&argus, &["resume", "-o", "json"]);
    assert!(!resumed && text.contains("JOURNAL_UNWRITABLE"), "{text}");

    std::fs::remove_file(&ballast).expect("the ballast exists");
    let status = argus.wait_status("fulla", LIMIT, "reports mode Safe", |now| {
        now["mode"] == "Safe" && now["errors"].to_string().contains("JOURNAL_UNWRITABLE")
    });
    assert_eq!(condition(&status, "Blocked")["status"], "True", "{status:#}");
    argus.wait_until(LIMIT, "the controller reports it", || {
        let errors = argus.controller_status()["errors"].to_string();
        errors.contains("JOURNAL_UNWRITABLE").then_some(())
    });
    wait_quiet(&argus, &proxy);
    let writes = proxy.writes_but_the_lease();
    assert_eq!(writes, [], "a writable disk is not enough");
    let (resumed, text) = run_command(&argus, &["resume"]);
    assert!(resumed, "{text}");
    argus.wait_ready("fullb", LIMIT);
    let after = argus.wait_ready("fulla", LIMIT);
    assert_eq!(after["mode"], "Full", "{after:#}");
    let now = container_runs(engine, "fulla");
    assert_eq!(
        now["fulla-s0"], before["fulla-s0"],
        "running containers are untouched"
    );
    let (again, text) = run_command(&argus, &["resume"]);
    assert!(!again, "{text}");
}

#[test]
fn full_disk_at_the_start_stops_every_action() {
    let engine = engine();
    let state = engine.scratch("journal-full-start").join("state");
    small_disk(&state);
    let (proxy, argus) = proxied_with(engine, "journal-full-start", listing_often(state.clone()));
    argus.write_spec("a.e2e.yaml", &many("startfulla", 1));
    argus.wait_ready("startfulla", LIMIT);
    argus.kill9();
    fill(&state.join("ballast"));
    argus.write_spec("b.e2e.yaml", &many("startfullb", 2));
    proxy.reset_counts();
    argus.start_again();
    argus.wait_until(LIMIT, "commands report the mode", || {
        let (_, text) = run_command(&argus, &["get"]);
        text.contains("JOURNAL_UNWRITABLE").then_some(())
    });
    wait_quiet(&argus, &proxy);
    assert_eq!(proxy.writes_but_the_lease(), [], "nothing is created");
    std::fs::remove_file(state.join("ballast")).expect("the ballast exists");
    argus.wait_until(LIMIT, "a person resumes", || {
        run_command(&argus, &["resume"]).0.then_some(())
    });
    argus.wait_ready("startfullb", LIMIT);
}

#[test]
fn killed_controller_recovers_its_open_intents() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "open");
    argus.write_spec("a.e2e.yaml", &many("opena", 2));
    argus.wait_ready("opena", LIMIT);
    let before = container_runs(engine, "opena");
    assert!(incidents(&argus).is_empty(), "a first start is not an incident");
    // The engine performs the fourth write, but the controller dies before its answer.
    proxy.hold_at_change(3, Fault::HoldAfter);
    argus.write_spec("b.e2e.yaml", &many("openb", 16));
    argus.wait_until(LIMIT, "an action is in progress", || {
        proxy.is_held().then_some(())
    });
    argus.kill9();
    proxy.heal();
    argus.start_again();
    argus.wait_ready("openb", LIMIT);
    let made = container_runs(engine, "openb");
    assert_eq!(made.len(), 16);
    let all = incidents(&argus);
    let [last] = &all[..] else {
        panic!("one kill is one incident: {all:#?}");
    };
    assert_eq!(
        (&last["schemaVersion"], &last["clean"]),
        (&1.into(), &false.into())
    );
    assert!(last["adopted"].to_string().contains("opena-s0"), "{last:#}");
    let open = last["openIntents"].as_array().expect("a list");
    assert!(!open.is_empty(), "{last:#}");
    for intent in open {
        let word = intent["resolution"].as_str().unwrap_or_default();
        assert!(["done", "notApplied", "repeat"].contains(&word), "{intent:#}");
    }
    assert_recovered_first(&argus, open);
    assert_eq!(container_runs(engine, "opena"), before, "nothing was restarted");
    assert_eq!(argus.controller_status()["mode"], "Full");
    let log = argus.logs();
    assert!(log.contains("Recovery"), "{log}");
    let (_, starts) = run_command(&argus, &["events", "--type", "start"]);
    assert!(starts.contains("the previous run crashed"), "{starts}");
    let (output, text) = run_command(&argus, &["incidents"]);
    assert!(output && text.contains("ADOPTED"), "{text}");
    // A clean stop is not an incident.
    argus.stop();
    argus.start_again();
    argus.wait_until(LIMIT, "the controller runs", || {
        (argus.controller_status()["mode"] == "Full").then_some(())
    });
    for name in ["opena", "openb"] {
        argus.assert_settled(name);
    }
    assert_eq!(container_runs(engine, "opena"), before, "nothing changes");
    assert_eq!(container_runs(engine, "openb"), made, "nothing changes");
    assert_eq!(incidents(&argus).len(), 1);
}

#[test]
fn three_crashes_in_a_row_wait_for_a_person() {
    let engine = engine();
    let folder = engine.scratch("journal-crashed");
    let proxy = Proxy::start(&folder.join("p.sock"), &engine.socket());
    let options = RunOptions {
        host: Some(proxy.host()),
        ..listing_often(folder.join("state"))
    };
    let argus = Controller::prepare(engine, options);
    write_crashes(&argus.state);
    argus.write_spec("e2e.yaml", &many("crashed", 1));
    argus.start_again();
    argus.wait_status("crashed", LIMIT, "reports mode Safe", |now| {
        now["mode"] == "Safe" && now["revision"].is_string()
    });
    let reason = argus.wait_until(LIMIT, "the controller reports mode Safe", || {
        let status = argus.controller_status();
        (status["mode"] == "Safe").then(|| text(&status["modeReason"]))
    });
    assert!(
        reason.contains("a critical task ended each of the last three runs"),
        "{reason}"
    );
    // The reason names this command.
    assert_eq!(items(&argus, &["events", "--type", "task_end"]).len(), 3);
    wait_quiet(&argus, &proxy);
    assert_eq!(proxy.writes_but_the_lease(), [], "nothing is created");
    let (resumed, text) = run_command(&argus, &["resume"]);
    assert!(resumed, "{text}");
    let after = argus.wait_ready("crashed", LIMIT);
    assert_eq!(after["mode"], "Full", "{after:#}");
    assert_eq!(container_runs(engine, "crashed").len(), 1);
}

#[test]
fn removed_state_directory_ends_the_controller() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &many("stateless", 1));
    argus.wait_ready("stateless", LIMIT);
    let before = container_runs(engine, "stateless");
    // The controller may write into the directory during its removal.
    argus.wait_until(LIMIT, "it is removed", || {
        (std::fs::remove_dir_all(&argus.state).is_ok() || !argus.state.exists()).then_some(())
    });
    let ended = argus.wait_exit(LIMIT);
    assert_eq!(ended.code(), Some(1));
    let log = argus.logs();
    assert!(log.contains("was removed while the controller ran"), "{log}");
    assert!(log.contains("containers keep running"), "{log}");
    assert_eq!(container_runs(engine, "stateless"), before);
    argus.start_again();
    argus.wait_ready("stateless", LIMIT);
    assert_eq!(
        container_runs(engine, "stateless"),
        before,
        "the container is adopted"
    );
}

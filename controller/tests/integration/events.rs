//! `argus events` without a controller: reads the journal, and follows it while records are added.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use argus_core::journal::{Entry, Event, JOURNAL_VERSION, Record};
use argus_reconciler::journal::checksum::with_checksum;
use serde_json::{Value, json};

fn argus(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argus"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ARGUS_")) {
        command.env_remove(name);
    }
    command.env("ARGUS_STATE", dir).current_dir(dir).args(args);
    command.stdin(Stdio::null());
    command
}

fn record(seq: u64, at: &str, entry: Value) -> String {
    let record = Record {
        v: JOURNAL_VERSION,
        seq,
        at: at.to_owned(),
        run: "RUN".to_owned(),
        entry: serde_json::from_value::<Entry>(entry).unwrap(),
    };
    with_checksum(&serde_json::to_string(&record).unwrap()) + "\n"
}

fn write(dir: &Path, text: &str) {
    std::fs::create_dir_all(dir.join("private")).unwrap();
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .append(true)
        .create(true)
        .open(dir.join("private/journal.jsonl"))
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn write_history(dir: &Path) {
    const OLD: &str = "2026-01-01T00:00:00.000Z";
    let subject = json!({ "kind": "service", "environment": "shop", "service": "web" });
    let action = json!({ "verb": "start-container", "id": "0123456789abcdef0123" });
    let intent = json!({ "kind": "intent", "environment": "shop", "subject": subject, "action": action, "cause": "ready" });
    let result = json!({ "kind": "result", "of": 2, "environment": "shop", "verb": "start-container", "outcome": "failed", "code": "PORT_CONFLICT", "ms": 12 });
    let restart = json!({ "kind": "event", "event": "restart", "environment": "other", "service": "api", "restarts": 2, "times": 1, "code": "CONTAINER_CRASH" });
    let attempt = json!({ "kind": "event", "event": "restartAttempt", "environment": "other", "service": "api", "attempt": 2, "outcome": "done" });
    let start = Entry::Event(Event::Start {
        version: "0.1.0".to_owned(),
        controller: "ID".to_owned(),
        clean: true,
    });
    let lines = [
        record(1, OLD, serde_json::to_value(start).unwrap()),
        record(2, OLD, intent),
        record(3, OLD, result),
        record(4, "2126-01-01T00:00:00.000Z", attempt),
        record(5, "2126-01-01T00:00:01.000Z", restart),
    ];
    write(dir, &lines.concat());
}

fn events(dir: &Path, args: &[&str]) -> String {
    let output = argus(dir, args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn events_are_listed_and_filtered() {
    let dir = tempfile::tempdir().unwrap();
    let none = argus(dir.path(), &["events"]).output().unwrap();
    assert_eq!((none.status.code(), none.stdout.len()), (Some(0), 0));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no events"));
    write_history(dir.path());
    let all = events(dir.path(), &["events"]);
    assert_eq!(
        all,
        "\
AT                     EVENT             SUBJECT      WHAT
2026-01-01T00:00:00Z   start             controller   argus 0.1.0; the previous run ended cleanly
2026-01-01T00:00:00Z   intent            shop/web     start-container `0123456789ab` (ready)
2026-01-01T00:00:00Z   result            shop/web     start-container failed after 12 ms: PORT_CONFLICT
2126-01-01T00:00:00Z   restart_attempt   other/api    restart 2 done
2126-01-01T00:00:01Z   restarted         other/api    restarted: CONTAINER_CRASH; 2 in total
"
    );
    for (args, names) in [
        (&["events", "shop"][..], "intent\nresult\n"),
        (
            &["events", "--type", "start,restart_attempt"],
            "start\nrestart_attempt\n",
        ),
        (&["events", "--since", "10m"], "restart_attempt\nrestarted\n"),
        (&["events", "--tail", "2"], "restart_attempt\nrestarted\n"),
        (&["events", "absent"], ""),
    ] {
        assert_eq!(
            events(dir.path(), &[args, &["-o", "name"]].concat()),
            names,
            "{args:?}"
        );
    }
    let json: Value = serde_json::from_str(&events(dir.path(), &["events", "shop", "-o", "json"])).unwrap();
    assert_eq!(json["items"][1]["event"], "result");
    assert_eq!(json["items"][1].get("journalEvent"), None);
    assert_eq!(json["items"][1]["seq"], 3);
    let restart: Value =
        serde_json::from_str(&events(dir.path(), &["events", "--tail", "1", "-o", "json"])).unwrap();
    assert_eq!(restart["items"][0]["event"], "restarted");
    assert_eq!(restart["items"][0]["journalEvent"], "restart");
    let wrong = argus(dir.path(), &["events", "--type", "restart"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("restart_attempt"));
}

#[test]
fn follow_waits_for_complete_lines() {
    let dir = tempfile::tempdir().unwrap();
    write_history(dir.path());
    let mut follower = argus(dir.path(), &["events", "--follow", "--tail", "1", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut seq = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["seq"].clone();
    assert_eq!(seq(), 5);
    let now = "2026-01-02T00:00:00.000Z";
    let phase =
        json!({ "kind": "event", "event": "phase", "environment": "shop", "from": "Pending", "to": "Ready" });
    write(dir.path(), &record(6, now, phase.clone()));
    assert_eq!(seq(), 6);
    let next = record(7, now, phase.clone());
    write(dir.path(), &next[..30]);
    write(dir.path(), &next[30..]);
    write(dir.path(), &record(8, now, phase));
    assert_eq!((seq(), seq()), (json!(7), json!(8)));
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn command_runs_once_per_settled_change() {
    let dir = tempfile::tempdir().unwrap();
    write_history(dir.path());
    // A quote and a substitution in the event are data.
    let command = "cat >> calls; echo >> calls; exit 3";
    let mut notifier = argus(dir.path(), &["events", "shop", "--after", "5", "--exec", command])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut notes = BufReader::new(notifier.stderr.take().unwrap()).lines();
    let mut note = || {
        notes
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.contains("--exec"))
            .unwrap()
    };
    let phase = |seq, of: &str, to: &str| {
        let phase = json!({ "kind": "event", "event": "phase", "environment": of, "from": "$(touch made)'", "to": to });
        record(seq, "2026-01-02T00:00:00.000Z", phase)
    };
    let changes = [
        phase(6, "shop", "Progressing"),
        phase(7, "other", "Ready"),
        phase(8, "shop", "Ready"),
    ];
    write(dir.path(), &changes.concat());
    assert!(note().contains("failed for event 8"));
    // A failed command does not end the next calls.
    write(dir.path(), &phase(9, "shop", "Failed"));
    assert!(note().contains("failed for event 9"));
    notifier.kill().unwrap();
    notifier.wait().unwrap();
    let calls = std::fs::read_to_string(dir.path().join("calls")).unwrap();
    let called: Vec<Value> = calls
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seen: Vec<_> = called.iter().map(|event| (&event["seq"], &event["to"])).collect();
    assert_eq!(
        seen,
        [(&json!(8), &json!("Ready")), (&json!(9), &json!("Failed"))]
    );
    assert!(!dir.path().join("made").exists());
}

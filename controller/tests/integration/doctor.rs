//! `argus doctor`: order of the findings, and a bundle without secrets. These tests need no engine.

#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use argus_core::journal::{Entry, Event, JOURNAL_VERSION, Record};
use argus_crds::error::{Code, StructuredError};
use argus_crds::status::{EnvironmentStatus, Phase, ServiceStatus};
use argus_reconciler::journal::checksum::with_checksum;
use serde_json::Value;

/// Secret by the name of its variable.
const NAMED: &str = "hunter2-in-the-file";
const READ: &str = "swordfish-from-outside";
/// Secret of a rejected file, which has no parsed content to take secrets from.
const REFUSED: &str = "open-sesame-of-the-refused";
/// Value of a plain variable. Bundles contain no values at all.
const PLAIN: &str = "a-value-like-any-other";

fn argus(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_argus"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ARGUS_")) {
        command.env_remove(name);
    }
    command
        .env("ARGUS_STATE", dir.join("state"))
        .env("ARGUS_SPECS", dir.join("specs"))
        .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        .env_remove("DOCKER_CONTEXT")
        .env("DOCKER_API_TOKEN", READ)
        .current_dir(dir)
        .stdin(Stdio::null())
        .args(args);
    command.output().unwrap()
}

fn home() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["specs/shop", "specs/bad", "state/environments", "state/private"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("specs/shop/.env", &format!("OUTSIDE={READ}\n"));
    write(
        "specs/shop/e2e.yaml",
        &format!(
            "version: '1.0'\nproject:\n  name: shop\nservice:\n  name: web\n  image: web:1\n  command: [serve, '--key={NAMED}']\n  \
             container:\n    name: shop-web\n    environment:\n      DB_PASSWORD: {NAMED}\n      MODE: '{{{{env.OUTSIDE}}}}'\n      \
             COLOUR: {PLAIN}\n"
        ),
    );
    write(
        "specs/bad/e2e.yaml",
        &format!(
            "version: '1.0'\nproject:\n  name: bad\nservice:\n  name: web\n  image: web:1\n  container:\n    name: bad-web\n    \
             ports: [x]\n    environment:\n      API_TOKEN: {REFUSED}\n      LIST: [{REFUSED}]\n      COLOUR: {PLAIN}\n"
        ),
    );
    let crash = StructuredError::new(
        Code::ContainerCrash,
        format!("it printed `wrong password {NAMED}`"),
    );
    let status = EnvironmentStatus {
        environment: "shop".to_owned(),
        phase: Phase::Failed,
        services: vec![ServiceStatus {
            name: "web".to_owned(),
            last_error: Some(crash),
            ..ServiceStatus::default()
        }],
        ..EnvironmentStatus::default()
    };
    write(
        "state/environments/shop.json",
        &serde_json::to_string(&status).unwrap(),
    );
    let mut journal = String::new();
    for seq in 1..=1_200 {
        let record = Record {
            v: JOURNAL_VERSION,
            seq,
            at: "2026-01-01T00:00:00.000Z".to_owned(),
            run: "RUN".to_owned(),
            entry: Entry::Event(Event::Mode {
                from: "Full".to_owned(),
                to: "Safe".to_owned(),
                why: Some(format!("because of {READ}")),
            }),
        };
        journal += &(with_checksum(&serde_json::to_string(&record).unwrap()) + "\n");
    }
    write("state/private/journal.jsonl", &journal);
    dir
}

fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(std::fs::File::open(path).unwrap());
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(name.strip_prefix("argus-doctor/").unwrap().to_owned(), text);
    }
    files
}

#[test]
fn bundle_contains_no_secrets_and_no_values() {
    let dir = home();
    let output = argus(dir.path(), &["doctor", "--out", "support.tar"]);
    let printed =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let path = dir.path().join("support.tar");
    let bytes = std::fs::read(&path).unwrap();
    for value in [NAMED, READ, REFUSED, PLAIN] {
        let there = bytes.windows(value.len()).any(|part| part == value.as_bytes());
        assert!(!there, "`{value}` is in the bundle");
        assert!(!printed.contains(value), "`{value}` is on the screen: {printed}");
    }
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );

    let files = unpacked(&path);
    let json = |name: &str| serde_json::from_str::<Value>(&files[name]).unwrap();
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        "README",
        "about.json",
        "controller.json",
        "environments/shop.json",
        "findings.json",
        "journal.jsonl",
        "machine.json",
        "plan.txt",
        "preflight.json",
        "specs.json",
    ];
    assert_eq!(names, expected);
    assert_eq!(json("about.json")["version"], env!("CARGO_PKG_VERSION"));
    assert!(json("machine.json")["disks"]["state"]["totalBytes"].is_u64());
    let records: Vec<Value> = files["journal.jsonl"]
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (records.len(), &records[999]["seq"]),
        (1_000, &Value::from(1_200))
    );
    // Redaction keeps the fields, and the bundle contains the names.
    assert_ne!(records[999]["why"], Value::Null);
    let shop = &json("specs.json")["files"][1];
    assert_eq!(shop["state"], "accepted");
    let variables = shop["counts"]["services"][0]["variables"].to_string();
    assert!(variables.contains("DB_PASSWORD"), "{variables}");

    // An existing file is not overwritten.
    let again = argus(dir.path(), &["doctor", "--out", "support.tar"]);
    assert_eq!(again.status.code(), Some(2));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn findings_are_sorted_by_severity_and_have_hints() {
    let dir = home();
    let output = argus(dir.path(), &["doctor"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(4), "{table}");
    let place = |word: &str| {
        table
            .find(word)
            .unwrap_or_else(|| panic!("no `{word}` in {table}"))
    };
    let order = [
        "preflight/engine",
        "specs/bad/e2e.yaml",
        "environment/shop",
        "no controller is running",
        "hint: ",
    ];
    assert!(order.map(place).is_sorted(), "{table}");
    assert!(
        table.contains("`argus validate ") && table.contains("`argus why shop`"),
        "{table}"
    );
    let json = argus(dir.path(), &["doctor", "-o", "json"]);
    let value: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["healthy"], false);
    assert_eq!(value["findings"][0]["code"], "DOCKER_UNAVAILABLE");
    assert_eq!(value["findings"][0]["severity"], "fail");
}

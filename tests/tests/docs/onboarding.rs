//! First steps of a new user on a real engine: a compose file becomes an environment, with events and errors.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step ends the test with a message"
)]

use std::io::Read as _;

use argus_tests::fixture::{LIMIT, engine};
use argus_tests::{Controller, RunOptions};
use serde_json::Value;

const COMPOSE: &str = r#"
name: first
services:
  db:
    image: busybox:local
    command: ["sh", "-c", "touch /tmp/up; exec sleep 3600"]
    environment: { DB_PASSWORD: "${DB_PASSWORD:-wolpertinger}" }
    healthcheck: { test: ["CMD", "test", "-e", "/tmp/up"], interval: 1s, timeout: 2s, retries: 5 }
    stop_grace_period: 1s
  migrate:
    image: busybox:local
    command: "true"
    depends_on: { db: { condition: service_healthy } }
  web:
    image: busybox:local
    command: ["sh", "-c", "echo hello > index.html; exec httpd -f -p 8080"]
    ports: ["18471:8080"]
    stop_grace_period: 1s
    depends_on: { migrate: { condition: service_completed_successfully } }
"#;

fn json(argus: &Controller<'_>, words: &[&str]) -> Value {
    let output = argus.cli(words);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn names(argus: &Controller<'_>) -> Vec<String> {
    let output = json(argus, &["events", "first", "-o", "json"]);
    let items = output["items"].as_array().expect("a list");
    let name = |item: &Value| item["event"].as_str().expect("a name").to_owned();
    items.iter().map(name).collect()
}

#[test]
fn compose_file_becomes_ready_and_doctor_finds_faults() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let project = engine.scratch("first-steps");
    std::fs::create_dir_all(&project).expect("a directory");
    std::fs::write(project.join("compose.yaml"), COMPOSE).expect("a file");
    let init = json(&argus, &["init", project.to_str().expect("a path"), "-o", "json"]);
    assert_eq!(
        (&init["accepted"], &init["notes"]),
        (
            &true.into(),
            &serde_json::json!(["values from the `.env` next to this file: `DB_PASSWORD`"])
        )
    );
    argus.wait_ready("first", LIMIT);

    let services = argus.cli(&["get", "--all-services"]);
    let services = String::from_utf8_lossy(&services.stdout).into_owned();
    let db = services.lines().find(|line| line.contains(" db "));
    assert!(db.is_some_and(|db| db.contains("Healthy")), "{services}");

    let output = names(&argus);
    for name in ["intent", "result", "phase"] {
        assert!(output.iter().any(|it| it == name), "no `{name}` in {output:?}");
    }
    let phases = json(&argus, &["events", "first", "--type", "phase", "-o", "json"]);
    let last = phases["items"]
        .as_array()
        .and_then(|all| all.last())
        .expect("phases");
    assert_eq!(last["to"], "Ready", "{phases}");
    let quiet = json(&argus, &["doctor", "-o", "json"]);
    let of = |output: &Value, word: &str| {
        let all = output["findings"].as_array().expect("a list").clone();
        let about = |one: &Value| one["where"].as_str().is_some_and(|place| place.contains(word));
        all.into_iter().filter(about).collect::<Vec<_>>()
    };
    for well in ["engine", "controller", "specs", "first"] {
        assert_eq!(of(&quiet, well), Vec::<Value>::new(), "{quiet}");
    }

    // Break a service.
    argus.write_spec(
        "broken.e2e.yaml",
        "version: '1'\nproject: { name: broken }\nservice:\n  name: app\n  image: busybox:local\n  command: [\"/nowhere\"]\n  \
         container: { name: broken-app }\n",
    );
    argus.wait_until(LIMIT, "the environment exhausts its restarts", || {
        (argus.status("broken")["phase"] == "Degraded").then_some(())
    });
    let bundle = project.join("support.tar");
    let found = json(
        &argus,
        &["doctor", "-o", "json", "--out", bundle.to_str().expect("a path")],
    );
    let broken = of(&found, "environment/broken");
    assert_eq!(broken[0]["severity"], "fail", "{found}");
    assert_eq!(broken[0]["code"], "ENTRYPOINT_NOT_FOUND", "{found}");
    assert_eq!(found["findings"][0]["severity"], "fail", "{found}");

    let mut archive = tar::Archive::new(std::fs::File::open(&bundle).expect("a bundle"));
    let mut seen = Vec::new();
    for entry in archive.entries().expect("entries") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a path").display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        assert!(
            !text.contains("wolpertinger"),
            "{name} contains the password: {text}"
        );
        if name.ends_with("about.json") {
            let about: Value = serde_json::from_str(&text).expect("JSON");
            assert!(about["engine"]["version"].is_string(), "{text}");
            assert_eq!(about["controllerRuns"], true);
        }
        if name.ends_with("environments/broken.json") {
            let status: Value = serde_json::from_str(&text).expect("JSON");
            let called = &status["errors"][0]["debug"][0];
            assert_eq!(called["operation"], "run-container", "{text}");
        }
        if name.ends_with("plan.txt") {
            assert!(text.contains("first: nothing to do"), "{text}");
        }
        seen.push(name);
    }
    assert!(
        seen.iter().any(|name| name.ends_with("environments/broken.json")),
        "{seen:?}"
    );
    for env in ["first", "broken"] {
        let gone = argus.cli(&["down", env]);
        assert!(gone.status.success(), "{gone:?}");
    }
}

#[test]
fn new_file_with_a_bad_value_has_a_status_with_line() {
    let argus = Controller::start(engine(), RunOptions::default());
    let spec = |memory: &str| {
        format!(
            "version: '1'\nproject: {{ name: formless }}\nservice:\n  name: app\n  image: busybox:local\n  memory: {memory}\n  \
             command: [\"sh\", \"-c\", \"exec sleep 3600\"]\n  container: {{ name: formless-app }}\n"
        )
    };
    argus.write_spec("e2e.yaml", &spec("lots"));
    let status = argus.wait_status("formless", LIMIT, "the file is rejected", |status| {
        status["errors"][0]["code"] == "SPEC_INVALID"
    });
    let error = &status["errors"][0];
    assert_eq!(
        (&error["details"]["line"], &error["details"]["path"]),
        (&6.into(), &"service.memory".into())
    );
    assert_eq!(status["phase"], "Failed", "{status:#}");
    argus.write_spec("e2e.yaml", &spec("64MB"));
    argus.wait_ready("formless", LIMIT);
    assert!(argus.cli(&["down", "formless"]).status.success());
}

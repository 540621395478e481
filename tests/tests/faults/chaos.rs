//! Fault profiles on a real engine: broken connections, floods of events, many environments, partial files.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;

use argus_tests::fixture::{LIMIT, container_runs, engine, images, proxied, running, shop, singles};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, PrivateEngine, RunOptions};
use serde_json::Value;

#[test]
fn interrupted_watch_misses_no_event() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "cut");
    argus.write_spec("e2e.yaml", &shop("cut", 18300, "one"));
    argus.wait_ready("cut", LIMIT);
    assert!(
        proxy.cut("GET /events") >= 1,
        "there is a watch: {:?}",
        proxy.counts()
    );
    engine.docker_ok(&["rm", "-f", "cut-api"]);
    argus.wait_until(LIMIT, "everything removed without a watch is back", || {
        running(engine, "cut-api").then_some(())
    });
    argus.wait_ready("cut", LIMIT);
}

#[test]
fn create_with_lost_reply_is_adopted_once() {
    let engine = engine();
    let (proxy, argus) = proxied(engine, "lost");
    for class in [
        "POST /networks/create",
        "POST /containers/create",
        "POST /containers/*/start",
    ] {
        proxy.inject(class, Fault::CloseAfter, 1);
        proxy.inject(class, Fault::CloseBefore, 1);
    }
    argus.write_spec("e2e.yaml", &shop("lost", 18310, "one"));
    argus.wait_ready("lost", LIMIT);
    assert_eq!(
        container_runs(engine, "lost").len(),
        3,
        "no service is duplicated"
    );
    let networks = engine.docker_ok(&["network", "ls", "-q", "--filter", "label=argusai.project=lost"]);
    assert_eq!(networks.lines().count(), 1, "no network is duplicated");
}

#[test]
fn event_flood_loses_no_change() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &shop("flood", 18330, "one"));
    argus.wait_ready("flood", LIMIT);
    let mut flood = engine.command_in_netns("sh");
    let tag = "i=0; while [ $i -lt 20 ]; do docker volume create v$i; docker volume rm v$i; i=$((i+1)); done";
    flood
        .args(["-c", tag])
        .env("DOCKER_HOST", engine.host())
        .stdout(std::process::Stdio::null());
    let mut flood = flood.spawn().expect("sh starts");
    for number in 0..2000 {
        engine.api(
            "POST",
            &format!("/images/busybox:local/tag?repo=flood&tag=t{}", number % 5),
            None,
        );
    }
    engine.docker_ok(&["rm", "-f", "flood-web"]);
    argus.wait_until(LIMIT, "the one event that mattered was seen", || {
        running(engine, "flood-web").then_some(())
    });
    argus.wait_ready("flood", LIMIT);
    flood.wait().expect("our own child");
}

#[test]
fn fifty_services_become_ready() {
    let engine = PrivateEngine::start();
    images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    let ports: Vec<u16> = (18400..18450).collect();
    argus.write_spec("e2e.yaml", &singles("fifty", &ports, ""));
    argus.wait_ready("fifty", 4 * LIMIT);
    assert_eq!(container_runs(&engine, "fifty").len(), 50);
}

#[test]
fn twenty_environments_become_ready_in_parallel() {
    let engine = PrivateEngine::start();
    images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    for number in 0..20 {
        argus.write_spec(
            &format!("n{number}.e2e.yaml"),
            &singles(&format!("many{number}"), &[18500 + number], ""),
        );
    }
    for number in 0..20 {
        argus.wait_ready(&format!("many{number}"), 4 * LIMIT);
    }
    assert!(has_parallel_environments(&argus));
}

/// True if an action of an environment began while one of another environment was in progress.
fn has_parallel_environments(argus: &Controller<'_>) -> bool {
    let journal = argus.state.join("private/journal.jsonl");
    let text = std::fs::read_to_string(journal).expect("a journal");
    let records = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"));
    let mut in_progress: BTreeMap<u64, String> = BTreeMap::new();
    records.into_iter().any(|record: Value| {
        if let Some(of) = record["of"].as_u64() {
            in_progress.remove(&of);
        }
        let environment = record["environment"].as_str();
        let Some(environment) = environment.filter(|_| record["kind"] == "intent") else {
            return false;
        };
        let is_parallel = in_progress.values().any(|other| other != environment);
        let seq = record["seq"].as_u64().expect("a number");
        in_progress.insert(seq, environment.to_owned());
        is_parallel
    })
}

// `file_that_is_being_written_takes_no_effect` has the times.
#[test]
fn slowly_written_file_removes_no_service() {
    let engine = engine();
    let argus = Controller::start(engine, RunOptions::default());
    let text = shop("slow", 18340, "one");
    argus.write_spec("e2e.yaml", &text);
    argus.wait_ready("slow", LIMIT);
    let before = container_runs(engine, "slow");
    // Writes in place, cut between services: each part is a valid file with fewer services.
    let (db, rest) = text.split_once("\n  api:").expect("three services");
    let (api, web) = rest.split_once("\n  web:").expect("three services");
    let path = argus.specs.join("e2e.yaml");
    let mut file = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .expect("the spec exists");
    let pieces = [db.to_owned(), format!("\n  api:{api}"), format!("\n  web:{web}")];
    for (number, piece) in pieces.iter().enumerate() {
        file.write_all(piece.as_bytes()).expect("a spec can be written");
        // The scan that finds another file also reads the open one. The writer continues meanwhile.
        let other = format!("other{number}");
        argus.write_spec(
            "other.e2e.yaml",
            &singles(&other, &[18350], "argus: { hold: true }\n"),
        );
        argus.wait_until(LIMIT, "the open file is read", || {
            file.write_all(b"\n").expect("a spec can be written");
            (!argus.status(&other).is_null()).then_some(())
        });
        let services = argus.status("slow")["services"].as_array().map(Vec::len);
        assert_eq!(services, Some(3), "a part has no effect");
        assert_eq!(container_runs(engine, "slow"), before, "a part has no effect");
    }
    drop(file);
    argus.wait_ready("slow", LIMIT);
    argus.assert_settled("slow");
    assert_eq!(container_runs(engine, "slow"), before, "nor does the whole file");
}

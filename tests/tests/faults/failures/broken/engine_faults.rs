//! Faults of the engine: away, behind an open breaker, without space on its disk.

use std::fs::{self, File};

use argus_tests::fixture::{IMAGE, LIMIT, engine, images, proxied, text};
use argus_tests::proxy::Fault;
use argus_tests::{Controller, Options, PrivateEngine, RunOptions, http};
use serde_json::Value;

use super::specs::service;
use super::{Broken, agent, first_remedy};

fn broken(name: &'static str, more: &str, code: &'static str, action: &'static str) -> Broken {
    let lines = format!("image: {IMAGE}\n    container: {{ name: {name}-bad }}");
    Broken::action(name, service(more, &lines), code, action)
}

fn assert_size(one: &Broken, argus: &Controller<'_>) {
    agent::print_table(&[agent::Answer::of(one, argus)]);
}

#[test]
fn engine_away_suggests_its_start() {
    let (proxy, argus) = proxied(engine(), "broken-away");
    let one = broken("broken-away", "", "DOCKER_UNAVAILABLE", "start_engine");
    argus.write_spec(&one.spec_file(), &one.spec());
    argus.wait_ready(one.name, LIMIT);
    proxy.refuse();
    one.assert_first_remedy(&argus);
    assert_size(&one, &argus);
    proxy.heal();
    argus.wait_ready(one.name, LIMIT);
}

#[test]
fn open_breaker_suggests_a_test_call() {
    let (proxy, argus) = proxied(engine(), "broken-breaker");
    proxy.inject("POST /containers/*/start", Fault::CloseBefore, 100_000);
    let breaker = "resilience: { circuitBreaker: { failureThreshold: 3, resetTimeoutMs: 120000 } }";
    let one = broken("broken-breaker", breaker, "CIRCUIT_OPEN", "reset_circuit");
    argus.write_spec(&one.spec_file(), &one.spec());
    one.assert_first_remedy(&argus);
    assert_size(&one, &argus);
    proxy.heal();
    let call = first_remedy(&one.described(&argus))["mcp"].clone();
    let socket = argus.state.join("private/argus.sock");
    let answer: Value = http::call(&socket, &text(&call["tool"]), &call["arguments"], LIMIT);
    assert!(answer["code"].is_null(), "{answer:#}");
    argus.wait_ready(one.name, LIMIT);
}

#[test]
fn full_disk_suggests_free_space() {
    const THRESHOLD: u64 = 20_000_000;
    let engine = PrivateEngine::start_with(Options {
        data_size: Some("128m".to_owned()),
        ..Options::default()
    });
    images(&engine);
    let found = rustix::fs::statvfs(engine.data_root()).expect("the data root exists");
    let free = found.f_bavail * found.f_frsize;
    let ballast = engine.data_root().join("ballast");
    let file = File::create(&ballast).expect("a file in the data root");
    let size = free.checked_sub(THRESHOLD / 2).expect("enough space is free");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size).expect("it fits");
    drop(file);
    let argus = Controller::start(&engine, RunOptions::default());
    let threshold = "resilience: { preflight: { diskSpaceThreshold: 20MB } }";
    let one = broken("broken-disk", threshold, "DISK_SPACE_LOW", "free_disk_space");
    argus.write_spec(&one.spec_file(), &one.spec());
    one.assert_first_remedy(&argus);
    assert_size(&one, &argus);
    fs::remove_file(&ballast).expect("the ballast exists");
    // A wait does not report the disk of before.
    let waited = argus.cli(&["wait", one.name]);
    assert!(
        waited.status.success(),
        "{}",
        String::from_utf8_lossy(&waited.stderr)
    );
}

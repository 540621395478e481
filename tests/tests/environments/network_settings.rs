//! Labels, aliases and an internal network, as the containers and the engine see them.

use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, PrivateEngine, RunOptions};
use serde_json::Value;

fn spec(network: &str) -> String {
    format!(
        r#"version: "1"
project: {{ name: inner }}
network: {network}
services:
  db:
    image: busybox:local
    command: ["httpd", "-f", "-p", "5432"]
    container:
      name: inner-db
      aliases: [database, db.example.com]
      labels: {{ com.example.team: till }}
      healthcheck: {{ type: tcp, port: 5432 }}
  client:
    image: busybox:local
    command: ["sleep", "3600"]
    container: {{ name: inner-client }}
"#
    )
}

/// Id of the network, and true if it is internal. `None` while no network exists.
fn find_network(engine: &PrivateEngine) -> Option<(Value, bool)> {
    let found = engine.api("GET", "/networks/argusai-inner-network", None).json();
    let id = found.get("Id")?.clone();
    Some((id, found["Internal"] == true))
}

#[test]
fn labels_aliases_and_an_internal_network_reach_the_engine() {
    let engine = PrivateEngine::start();
    engine.make_busybox_image("busybox:local", &[]);
    let argus = Controller::start(&engine, RunOptions::default());
    argus.write_spec("inner.e2e.yaml", &spec("{ internal: true }"));
    argus.wait_ready("inner", LIMIT);
    let (first, internal) = find_network(&engine).expect("a network");
    assert!(internal);
    let db = engine.inspect("inner-db").expect("a container");
    assert_eq!(db["Config"]["Labels"]["com.example.team"], "till");
    for alias in ["db", "inner-db", "database", "db.example.com"] {
        engine.docker_ok(&["exec", "inner-client", "ping", "-c", "1", alias]);
    }

    // The engine cannot change a network, so Argus replaces it below the running containers.
    argus.write_spec("inner.e2e.yaml", &spec("{}"));
    argus.wait_until(LIMIT, "the network is replaced", || {
        find_network(&engine).filter(|(id, internal)| *id != first && !internal)
    });
    argus.wait_ready("inner", LIMIT);
    let after = engine.inspect("inner-db").expect("a container");
    assert_eq!((&after["Id"], &after["RestartCount"]), (&db["Id"], &0.into()));
    assert_eq!(after["State"]["StartedAt"], db["State"]["StartedAt"]);
    engine.docker_ok(&["exec", "inner-client", "ping", "-c", "1", "database"]);
}

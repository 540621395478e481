//! Labels, aliases, internal networks and several networks, as the containers and the engine see them.

use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, PrivateEngine, RunOptions};
use serde_json::Value;

/// `front` publishes nothing and is on no network of `db`. `api` is on both.
const WIDE: &str = r#"version: "1"
project: { name: wide }
networks:
  back: { internal: true }
services:
  db:
    image: busybox:local
    command: ["httpd", "-f", "-p", "5432"]
    container:
      name: wide-db
      networks: { back: { aliases: [database] } }
      healthcheck: { type: tcp, port: 5432 }
  api:
    image: busybox:local
    command: ["httpd", "-f", "-p", "8080"]
    dependsOn: [db]
    container:
      name: wide-api
      networks: [default, back]
      healthcheck: { type: tcp, port: 8080 }
  front:
    image: busybox:local
    command: ["sleep", "3600"]
    dependsOn: [api]
    container: { name: wide-front }
"#;

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

/// Names of the networks of a container.
fn networks(engine: &PrivateEngine, container: &str) -> Vec<String> {
    let found = engine.inspect(container).unwrap_or_default();
    let networks = found["NetworkSettings"]["Networks"].as_object();
    networks.into_iter().flat_map(|all| all.keys().cloned()).collect()
}

#[test]
fn services_reach_only_those_on_a_common_network() {
    let engine = PrivateEngine::start();
    engine.make_busybox_image("busybox:local", &[]);
    let argus = Controller::start(&engine, RunOptions::default());
    argus.write_spec("wide.e2e.yaml", WIDE);
    argus.wait_ready("wide", LIMIT);
    let (default, back) = ("argusai-wide-network", "argusai-wide_back");
    assert_eq!(networks(&engine, "wide-db"), [back]);
    assert_eq!(networks(&engine, "wide-api"), [default, back]);
    assert_eq!(networks(&engine, "wide-front"), [default]);
    let network = engine.api("GET", &format!("/networks/{back}"), None).json();
    assert_eq!(network["Internal"], true, "{network:#}");
    let reaches = |from: &str, url: &str| {
        engine
            .docker(&["exec", from, "wget", "-q", "-T", "3", "-O", "/dev/null", url])
            .status
            .success()
    };
    let pings = |from: &str, name: &str| {
        let output = engine.docker(&["exec", from, "ping", "-c", "1", "-W", "2", name]);
        output.status.success()
    };
    for name in ["db", "database", "wide-db"] {
        assert!(pings("wide-api", name), "{name}");
        assert!(!pings("wide-front", name), "{name}");
    }
    assert!(pings("wide-front", "api") && pings("wide-db", "api"));
    let db = engine.inspect("wide-db").expect("a container");
    let address = &db["NetworkSettings"]["Networks"][back]["IPAddress"];
    let address = address.as_str().expect("an address");
    assert!(!pings("wide-front", address), "another bridge is not reachable");
    assert!(!reaches("wide-front", &format!("http://{address}:5432/")));

    // A lost attachment is repaired without a restart.
    engine.docker_ok(&["network", "disconnect", back, "wide-api"]);
    argus.wait_until(LIMIT, "the attachment is repaired", || {
        (networks(&engine, "wide-api") == [default, back]).then_some(())
    });
    argus.wait_ready("wide", LIMIT);
    assert!(pings("wide-api", "database"));
    let after = engine.inspect("wide-api").expect("a container");
    assert_eq!(after["RestartCount"], 0);

    // A new container is on both networks before it starts.
    engine.docker_ok(&["rm", "-f", "wide-api"]);
    argus.wait_until(LIMIT, "the container is back", || {
        let found = engine.inspect("wide-api")?;
        (found["State"]["Running"] == true).then_some(())
    });
    assert_eq!(networks(&engine, "wide-api"), [default, back]);

    argus.remove_spec("wide.e2e.yaml");
    argus.wait_until(LIMIT, "both networks are removed", || {
        let exists = |name: &str| engine.docker(&["network", "inspect", name]).status.success();
        (!exists(default) && !exists(back)).then_some(())
    });
}

#[test]
fn external_network_is_used_and_never_made_or_removed() {
    let engine = PrivateEngine::start();
    engine.make_busybox_image("busybox:local", &[]);
    let project = engine
        .scratch("net-ext")
        .canonicalize()
        .expect("the directory exists");
    let options = RunOptions {
        specs: Some(project.clone()),
        // A permission holds for the current folder.
        launcher: ["env", "-C", project.to_str().expect("UTF-8")]
            .map(str::to_owned)
            .to_vec(),
        ..RunOptions::default()
    };
    let argus = Controller::start(&engine, options);
    let text = WIDE.replace(
        "back: { internal: true }",
        "back: { external: true, name: company }",
    );
    argus.write_spec("wide.e2e.yaml", &text);
    let refused = argus.cli(&["validate"]);
    let shown =
        String::from_utf8_lossy(&refused.stdout).into_owned() + &String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{shown}");
    assert!(shown.contains("`argus allow`"), "{shown}");
    assert!(argus.cli(&["allow"]).status.success());
    argus.stop();
    argus.start_again();
    let is_missing = |error: &&Value| error["code"] == "NETWORK_NOT_FOUND";
    let find = |status: &Value| status["errors"].as_array()?.iter().find(is_missing).cloned();
    let status = argus.wait_status("wide", LIMIT, "misses the network", |status| {
        find(status).is_some()
    });
    let error = find(&status).expect("the error");
    assert_eq!(error["remedies"][0]["command"], "docker network create company");
    engine.docker_ok(&["network", "create", "company"]);
    assert!(argus.cli(&["retry", "wide"]).status.success());
    argus.wait_ready("wide", LIMIT);
    assert_eq!(networks(&engine, "wide-db"), ["company"]);
    assert_eq!(networks(&engine, "wide-api"), ["argusai-wide-network", "company"]);
    engine.docker_ok(&["exec", "wide-api", "ping", "-c", "1", "database"]);
    assert!(argus.cli(&["down", "wide"]).status.success());
    engine.docker_ok(&["network", "inspect", "company"]);
    engine.docker_ok(&["network", "rm", "company"]);
}

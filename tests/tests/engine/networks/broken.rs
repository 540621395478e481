//! Networks that users broke: repaired and verified.

use argus_tests::PrivateEngine;
use argus_tests::fixture::{LIMIT, container_runs};
use rustix::process::Signal;
use serde_json::Value;

use super::fixture::{BARE, controller, engine, helpers, shop, verified};

fn disconnect(engine: &PrivateEngine, network: &str, container: &str) {
    engine.docker_ok(&["network", "disconnect", "-f", network, container]);
}

#[test]
fn detached_containers_are_reattached_and_verified() {
    let engine = engine();
    let argus = controller(engine);
    argus.write_spec("e2e.yaml", &shop("moved", 19070, 8080));
    let network = "argusai-moved-network";
    let status = verified(&argus, "moved", &Value::Null);
    let runs = container_runs(engine, "moved");

    disconnect(engine, network, "moved-db");
    let status = verified(&argus, "moved", &status);

    engine.docker_ok(&["network", "create", "moved-elsewhere"]);
    engine.docker_ok(&["network", "connect", "moved-elsewhere", "moved-api"]);
    disconnect(engine, network, "moved-api");
    let status = verified(&argus, "moved", &status);

    // The container is on its network, but without the alias of its service.
    disconnect(engine, network, "moved-mock-payments");
    engine.docker(&["network", "connect", network, "moved-mock-payments"]);
    let status = verified(&argus, "moved", &status);

    assert_eq!(container_runs(engine, "moved"), runs, "nothing was restarted");
    assert_eq!(status["errors"].as_array().map(Vec::len), Some(0), "{status:#}");
    disconnect(engine, "moved-elsewhere", "moved-api");
    engine.docker_ok(&["network", "rm", "moved-elsewhere"]);
    argus.wait_until(LIMIT, "no helper container remains", || {
        (helpers(engine, "moved") == 0).then_some(())
    });
}

#[test]
fn lost_network_is_recreated_with_its_containers() {
    let engine = engine();
    let argus = controller(engine);
    argus.write_spec("e2e.yaml", &shop("gone", 19080, 8080));
    let network = "argusai-gone-network";
    let status = verified(&argus, "gone", &Value::Null);
    let runs = container_runs(engine, "gone");
    let inspect = || -> Value {
        let output = engine.docker(&["network", "inspect", network]);
        serde_json::from_slice::<Value>(&output.stdout).expect("the network exists")[0].clone()
    };
    let detach_all = || {
        for name in runs.keys() {
            engine.docker(&["network", "disconnect", "-f", network, name]);
        }
        engine.docker(&["network", "rm", network]).status.success()
    };
    let first = inspect();
    // Otherwise the controller would reattach the containers faster than the test detaches them.
    argus.signal(Signal::STOP);
    assert!(detach_all());
    argus.signal(Signal::CONT);
    let status = verified(&argus, "gone", &status);
    let second = inspect();
    assert_ne!(first["Id"], second["Id"]);

    // A foreign network with the same name and the copied labels.
    let labels = second["Labels"].as_object().expect("labels").clone();
    let labels: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("--label={key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let mut create = vec!["network", "create", "--subnet", "10.213.0.0/24"];
    create.extend(labels.iter().map(String::as_str));
    create.push(network);
    argus.stop();
    assert!(detach_all());
    engine.docker_ok(&create);
    argus.start_again();
    let status = verified(&argus, "gone", &status);
    assert_eq!(inspect()["IPAM"]["Config"][0]["Subnet"], "10.213.0.0/24");
    assert_eq!(container_runs(engine, "gone"), runs, "nothing was restarted");
    assert_eq!(status["errors"].as_array().map(Vec::len), Some(0), "{status:#}");
}

#[test]
fn deleted_bridge_is_replaced_without_restarts() {
    let engine = engine();
    let argus = controller(engine);
    argus.write_spec("e2e.yaml", &shop("bridge", 19085, 8080));
    let status = verified(&argus, "bridge", &Value::Null);
    let runs = container_runs(engine, "bridge");
    let delete_bridge = || {
        let inspect = [
            "network",
            "inspect",
            "--format",
            "{{.Id}}",
            "argusai-bridge-network",
        ];
        let id = engine.docker_ok(&inspect).trim().to_owned();
        let bridge = format!("br-{}", &id[..12]);
        let mut ip = engine.command_in_netns("ip");
        let deleted = ip.args(["link", "delete", &bridge]).status();
        assert!(deleted.is_ok_and(|ended| ended.success()), "{bridge}");
        id
    };
    let is_replaced = |old: &str| {
        argus.wait_until(LIMIT, "another network", || {
            let found = engine.docker(&["network", "inspect", "argusai-bridge-network"]);
            let found: Value = serde_json::from_slice(&found.stdout).ok()?;
            (found[0]["Id"].as_str()? != old).then_some(())
        });
    };
    let old = delete_bridge();
    is_replaced(&old);
    let status = verified(&argus, "bridge", &status);
    assert_eq!(
        container_runs(engine, "bridge"),
        runs,
        "nothing was restarted: {}",
        argus.logs()
    );
    assert_eq!(status["errors"].as_array().map(Vec::len), Some(0), "{status:#}");

    // A new controller never saw the bridge. The refused start of a container shows that it is gone.
    argus.stop();
    let old = delete_bridge();
    engine.docker_ok(&["kill", "bridge-api"]);
    argus.start_again();
    is_replaced(&old);
    let status = verified(&argus, "bridge", &status);
    assert_eq!(status["errors"].as_array().map(Vec::len), Some(0), "{status:#}");
    let logs = argus.logs();
    assert!(!logs.contains("HEALTH_CHECK_TIMEOUT"), "{logs}");
}

#[test]
fn unreachable_container_is_reattached_once() {
    let engine = engine();
    let argus = controller(engine);
    let spec = format!(
        "version: '1'\nproject: {{ name: dark }}\nservices:\n  \
         db: {{ image: {BARE}, command: [demo-service], container: {{ name: dark-db }} }}\n  \
         web: {{ image: {BARE}, command: [demo-service], container: {{ name: dark-web, environment: {{ DB: 'db:8080' }} }} }}\n"
    );
    argus.write_spec("e2e.yaml", &spec);
    let status = verified(&argus, "dark", &Value::Null);
    let runs = container_runs(engine, "dark");
    argus.stop();
    // Sets the container's link down, which the engine does not notice.
    let pid = engine.inspect("dark-db").expect("the container runs")["State"]["Pid"].to_string();
    let link = std::process::Command::new("nsenter")
        .args(["-t", &pid, "-n", "ip", "link", "set", "eth0", "down"])
        .status();
    assert!(link.is_ok_and(|ended| ended.success()));
    argus.start_again();
    let status = verified(&argus, "dark", &status);
    assert_eq!(container_runs(engine, "dark"), runs, "nothing was restarted");
    assert_eq!(status["errors"].as_array().map(Vec::len), Some(0), "{status:#}");
    let times = argus.logs().matches("unreachable, reattached").count();
    assert!(times > 0, "it was reattached");
    assert_eq!(argus.logs().matches("action=\"disconnect-network\"").count(), 1);
}

//! Labels of the objects on the engine.

use std::collections::BTreeSet;

use argus_core::time::Timestamp;
use argus_tests::fixture::{LIMIT, text};
use argus_tests::{Controller, PrivateEngine, RunOptions};
use serde_json::Value;

use super::journal::records;

const SPEC: &str = r#"version: "1"
project: { name: labelled }
services:
  db:
    image: busybox:local
    command: ["sleep", "3600"]
    container: { name: labelled-db, volumes: ["data:/data"] }
  once:
    image: busybox:local
    command: ["true"]
    oneShot: true
    container: { name: labelled-once }
mocks:
  pay: { image: "busybox:local", port: 18610, args: "httpd -f -p 18610" }
"#;

#[test]
fn every_object_names_its_run_and_creation_time() {
    let engine = PrivateEngine::start();
    engine.make_busybox_image("busybox:local", &[]);
    let argus = Controller::start(&engine, RunOptions::default());
    argus.write_spec("e2e.yaml", SPEC);
    let status = argus.wait_ready("labelled", LIMIT);
    let list = |path: &str| engine.api("GET", path, None).json();
    let containers = list("/containers/json?all=1");
    let volumes = list("/volumes")["Volumes"].clone();
    let mut networks = list("/networks").as_array().cloned().expect("a list");
    networks.retain(|network| {
        !["bridge", "host", "none"]
            .map(Value::from)
            .contains(&network["Name"])
    });
    let of = |objects: &Value| objects.as_array().cloned().unwrap_or_default();
    // The engine has only objects of Argus: three containers, a network, a volume and the lease.
    let objects = [of(&containers), networks, of(&volumes)];
    assert_eq!(objects.each_ref().map(Vec::len), [3, 1, 2], "{objects:#?}");
    let run = records(&argus, "labelled", "intent")[0]["run"].clone();
    let controller = argus.controller_status()["controller"].clone();
    assert!(controller.is_string(), "{controller}");
    for object in objects.iter().flatten() {
        let created_at = object["Labels"]["argusai.created-at"].as_str();
        let created_at = created_at.and_then(Timestamp::parse);
        assert!(created_at.is_some(), "{object:#}");
        assert_eq!(object["Labels"]["argusai.run-id"], run, "{object:#}");
        assert_eq!(object["Labels"]["argusai.controller"], controller, "{object:#}");
        // A lease belongs to the controller, and all others to the project.
        if object["Labels"]["argusai.lease"].is_null() {
            for (label, value) in [
                ("argusai.project", "labelled"),
                ("argusai.environment", "labelled"),
                ("argusai.managed", "true"),
            ] {
                assert_eq!(object["Labels"][label], value, "{label}: {object:#}");
            }
        }
    }
    assert_containers_name_their_service(&of(&containers), &status["revision"]);
}

/// Checks that each container names its service, the revision and the hash of its own specification.
fn assert_containers_name_their_service(containers: &[Value], revision: &Value) {
    let values = |label: &str| -> BTreeSet<String> {
        let labels = containers.iter().map(|container| &container["Labels"][label]);
        labels.map(text).collect()
    };
    let services = ["db", "once", "pay"].map(str::to_owned);
    assert_eq!(values("argusai.service"), services.into(), "{containers:#?}");
    assert!(revision.is_string(), "{revision}");
    assert_eq!(values("argusai.revision"), [text(revision)].into());
    let hashes = values("argusai.spec-hash");
    assert!(hashes.len() == 3 && !hashes.contains(""), "{containers:#?}");
}

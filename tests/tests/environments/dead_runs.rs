//! Objects of killed runs that hold a port, a name or an address range that the next run needs.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use argus_tests::fixture::{IMAGE, LIMIT, engine};
use argus_tests::{Controller, RunOptions};
use serde_json::Value;

/// One service on a host port, in a namespace of its project.
fn spec(project: &str, namespace: &str, port: u16) -> String {
    format!(
        "version: \"1\"\nproject: {{ name: {project} }}\nisolation: {{ namespace: {namespace} }}\nnetwork: {{ name: {project}-net }}\n\
         services:\n  web:\n    image: {IMAGE}\n    container: {{ name: web, ports: [\"{port}:8080\"] }}\n"
    )
}

fn port_of(status: &Value) -> &Value {
    assert_eq!(status["portMappings"][0]["reassigned"], false, "{status:#}");
    &status["portMappings"][0]["actualPort"]
}

#[test]
fn next_run_gets_the_port_and_the_network_of_a_killed_run() {
    let engine = engine();
    let first = Controller::start(engine, RunOptions::default());
    first.write_spec("e2e.yaml", &spec("heir", "run-1", 18_770));
    first.wait_ready("run-1", LIMIT);
    first.kill9();
    // A new state directory, and a new name of the environment.
    let second = Controller::start(engine, RunOptions::default());
    second.write_spec("e2e.yaml", &spec("heir", "run-2", 18_770));
    let status = second.wait_ready("run-2", LIMIT);
    assert_eq!(port_of(&status), 18_770);
    let containers = engine.containers_with("argusai.project=heir");
    assert_eq!(containers.len(), 1, "the container of the killed run is gone");

    // With the same name, the container continues on its port.
    second.kill9();
    let third = Controller::start(engine, RunOptions::default());
    third.write_spec("e2e.yaml", &spec("heir", "run-2", 18_770));
    assert_eq!(port_of(&third.wait_ready("run-2", LIMIT)), 18_770);
    let now = engine.containers_with("argusai.project=heir");
    assert_eq!(now[0]["Id"], containers[0]["Id"]);
}

#[test]
fn orphan_of_another_project_is_shown_with_run_and_age() {
    let engine = engine();
    let first = Controller::start(engine, RunOptions::default());
    first.write_spec("e2e.yaml", &spec("stranger", "stranger", 18_771));
    first.wait_ready("stranger", LIMIT);
    first.kill9();
    let second = Controller::start(engine, RunOptions::default());
    second.write_spec("e2e.yaml", &spec("native", "native", 18_771));
    let status = second.wait_ready("native", LIMIT);
    assert_eq!(status["portMappings"][0]["reassigned"], true, "{status:#}");
    let own_run = engine.containers_with("argusai.project=stranger")[0]["Labels"]["argusai.run-id"].clone();
    let orphan = second.wait_until(LIMIT, "the orphan is reported", || {
        let status = second.controller_status();
        let orphans = status["orphans"].as_array()?;
        orphans
            .iter()
            .find(|orphan| orphan["name"] == "stranger-web")
            .cloned()
    });
    assert_eq!(orphan["runId"], own_run, "{orphan:#}");
    let table = second.cli(&["orphans", "--project", "stranger", "-o", "wide"]);
    let table = String::from_utf8(table.stdout).expect("text");
    let run = own_run.as_str().expect("a run");
    assert!(
        ["AGE", "SIZE", run].iter().all(|text| table.contains(text)),
        "{table}"
    );
    assert!(
        second
            .cli(&["orphans", "--project", "stranger", "--clean"])
            .status
            .success()
    );
}

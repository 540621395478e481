//! Objects of killed runs that hold a port, a name or an address range that the next run needs.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use argus_tests::fixture::{IMAGE, LIMIT, engine, images};
use argus_tests::{Controller, PrivateEngine, RunOptions};
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

fn error_codes(status: &Value) -> Vec<&str> {
    let errors = status["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    errors.iter().filter_map(|error| error["code"].as_str()).collect()
}

#[test]
fn next_run_gets_the_port_and_the_network_of_a_killed_run() {
    let engine = engine();
    let first = Controller::start(engine, RunOptions::default().in_project(engine, "heir"));
    first.write_spec("e2e.yaml", &spec("heir", "run-1", 18_770));
    first.wait_ready("run-1", LIMIT);
    first.kill9();
    // A new state directory, and a new name of the environment.
    let second = Controller::start(engine, RunOptions::default().in_project(engine, "heir"));
    second.write_spec("e2e.yaml", &spec("heir", "run-2", 18_770));
    let status = second.wait_ready("run-2", LIMIT);
    assert_eq!(port_of(&status), 18_770);
    let containers = engine.containers_with("argusai.project=heir");
    assert_eq!(containers.len(), 1, "the container of the killed run is gone");

    // With the same name, the container continues on its port.
    second.kill9();
    let third = Controller::start(engine, RunOptions::default().in_project(engine, "heir"));
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
    let young = RunOptions {
        env: vec![("ARGUS_WAITS".to_owned(), "orphanAge=2s".to_owned())],
        ..RunOptions::default()
    };
    let second = Controller::start(engine, young);
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
    assert!(["AGE", run].iter().all(|text| table.contains(text)), "{table}");
    assert!(
        second
            .cli(&["orphans", "--project", "stranger", "--clean"])
            .status
            .success()
    );
}

#[test]
fn project_in_another_folder_gets_no_data_of_a_volume() {
    let engine = engine();
    let spec = |project: &str, prefix: &str| {
        format!(
            "version: \"1\"\nproject: {{ name: {project} }}\nservices:\n  web: {{ image: {IMAGE}, container: {{ name: {prefix}-web }} }}\n  \
             db:\n    image: {IMAGE}\n    container: {{ name: {prefix}-db, volumes: [\"data:/data\"] }}\n"
        )
    };
    let first = Controller::start(engine, RunOptions::default());
    first.write_spec("e2e.yaml", &spec("taken", "victim"));
    first.write_spec("kept/e2e.yaml", &spec("kept", "left"));
    first.wait_ready("taken", LIMIT);
    first.wait_ready("kept", LIMIT);
    first.kill9();

    let second = Controller::start(engine, RunOptions::default());
    second.write_spec("e2e.yaml", &spec("taken", "other"));
    second.write_spec("kept/e2e.yaml", &spec("kept", "new"));
    let status = second.wait_status("taken", LIMIT, "reports the volume", |status| {
        error_codes(status).contains(&"NAME_CONFLICT")
    });
    let error = status["errors"].to_string();
    assert!(error.contains("argusai-taken_data"), "{error}");
    let folder = first.specs.display().to_string();
    assert!(error.contains(&folder), "the holder is named: {error}");
    let command = "argus orphans --clean --project taken --volumes";
    assert!(error.contains(command), "{error}");
    // The container without a volume is replaced. Only the service with the volume waits.
    second.wait_until(LIMIT, "the other service runs", || {
        engine
            .inspect("other-web")
            .filter(|found| found["State"]["Running"] == true)
    });
    second.wait_until(LIMIT, "the old container is replaced", || {
        engine.inspect("victim-web").is_none().then_some(())
    });
    assert!(engine.inspect("other-db").is_none());
    // The printed command is the way, and the file stays.
    let folder_of = |volume: &str| {
        engine.docker_ok(&[
            "volume",
            "inspect",
            "-f",
            "{{index .Labels \"argusai.folder\"}}",
            volume,
        ])
    };
    assert!(folder_of("argusai-taken_data").starts_with(&folder));
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let clean = second.cli(&words);
    assert!(clean.status.success(), "{clean:?}");
    second.wait_ready("taken", LIMIT);
    assert!(engine.inspect("victim-db").is_none());
    assert!(!folder_of("argusai-taken_data").starts_with(&folder));
    // The end of an environment removes its containers, but not the data.
    let down = second.cli(&["down", "kept", "--volumes"]);
    assert!(down.status.success(), "{down:?}");
    let note = String::from_utf8_lossy(&down.stderr).into_owned();
    assert!(
        note.contains("`argus orphans --clean --project kept --volumes`"),
        "{note}"
    );
    second.wait_until(LIMIT, "all containers are removed", || {
        let names = ["new-web", "left-db"];
        names
            .iter()
            .all(|name| engine.inspect(name).is_none())
            .then_some(())
    });
    assert!(folder_of("argusai-kept_data").starts_with(&folder));
    engine.docker_ok(&["volume", "rm", "argusai-kept_data"]);
}

/// Fills the address pool of a private engine, 172.30.0.0/16, except one range.
fn fill_pool(engine: &PrivateEngine) {
    let ranges = [
        "0.0/17", "128.0/18", "192.0/19", "224.0/20", "240.0/21", "248.0/22", "252.0/23", "254.0/24",
    ];
    for (number, range) in ranges.iter().enumerate() {
        let (subnet, name) = (format!("172.30.{range}"), format!("foreign-{number}"));
        engine.docker_ok(&["network", "create", "--subnet", &subnet, &name]);
    }
}

#[test]
fn unneeded_network_frees_its_range_before_any_error() {
    let engine = PrivateEngine::start();
    images(&engine);
    fill_pool(&engine);
    let first = Controller::start(&engine, RunOptions::default().in_project(&engine, "greedy"));
    first.write_spec(
        "e2e.yaml",
        &spec("greedy", "greedy-1", 18_772).replace("greedy-net", "net-1"),
    );
    first.wait_ready("greedy-1", LIMIT);
    first.kill9();
    // Slow retries, so that only the freed range ends the waits.
    let slowly = ["--action-attempts", "1", "--action-retry-interval", "1h"];
    let second = Controller::start(
        &engine,
        RunOptions {
            args: slowly.map(str::to_owned).into(),
            ..RunOptions::default().in_project(&engine, "greedy")
        },
    );
    second.write_spec("e2e.yaml", &spec("greedy", "greedy-2", 18_773));
    let status = second.wait_status("greedy-2", LIMIT, "is Ready without an error", |status| {
        let codes = error_codes(status);
        assert!(!codes.contains(&"NETWORK_POOL_EXHAUSTED"), "{status:#}");
        status["phase"] == "Ready"
    });
    assert_eq!(port_of(&status), 18_773);

    // Nothing is left to remove.
    second.write_spec("late/e2e.yaml", &spec("late", "late", 18_774));
    let status = second.wait_status("late", LIMIT, "reports the exhausted pool", |status| {
        error_codes(status).contains(&"NETWORK_POOL_EXHAUSTED")
    });
    let is_blocked = |status: &Value| {
        let conditions = status["conditions"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        conditions
            .iter()
            .any(|condition| condition["type"] == "Blocked" && condition["status"] == "True")
    };
    assert!(is_blocked(&status), "{status:#}");
    engine.docker_ok(&["network", "rm", "foreign-7"]);
    second.wait_ready("late", LIMIT);
}

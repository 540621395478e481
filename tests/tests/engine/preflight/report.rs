//! `argus preflight` with a controller, without one, and without an engine; each check fails where a test can cause
//! that.

use std::process::Output;

use argus_crds::schema;
use argus_tests::fixture::{IMAGE, LIMIT, container_runs, engine, images, shop};
use argus_tests::{Controller, PrivateEngine, RunOptions};
use serde_json::{Value, json};

/// A report that matches its schema.
pub(super) fn report(output: &Output) -> Value {
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let schema = jsonschema::validator_for(&schema::preflight_schema()).expect("the schema is valid");
    if let Err(error) = schema.validate(&found) {
        panic!("{error}: {found:#}");
    }
    found
}

pub(super) fn check(report: &Value, name: &str) -> Value {
    let checks = report["checks"].as_array().expect("checks");
    checks
        .iter()
        .find(|check| check["name"] == name)
        .cloned()
        .expect("the check is in the report")
}

/// Results by check.
fn results(report: &Value) -> Vec<(String, String)> {
    let checks = report["checks"].as_array().expect("checks");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    checks
        .iter()
        .map(|check| (text(&check["name"]), text(&check["result"])))
        .collect()
}

#[test]
fn healthy_engine_passes_with_and_without_controller() {
    // A private engine, because parallel tests create orphans on purpose.
    let engine = PrivateEngine::start();
    images(&engine);
    let argus = Controller::start(&engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &shop("fit", 18620, "one"));
    let status = argus.wait_ready("fit", LIMIT);
    assert_eq!(
        status["preflight"]["overall"], "healthy",
        "{:#}",
        status["preflight"]
    );
    let output = argus.cli(&["preflight", "-o", "json"]);
    let found = report(&output);
    assert_eq!(found["overall"], "healthy", "{found:#}");
    assert!(
        results(&found).iter().all(|(_, result)| result == "pass"),
        "{found:#}"
    );
    assert_eq!(output.status.code(), Some(0));
    let cleaned = argus.cli(&["orphans", "--clean", "-o", "json"]);
    assert!(cleaned.status.success(), "{cleaned:?}");
    let cleaned: Value = serde_json::from_slice(&cleaned.stdout).expect("JSON");
    assert_eq!(cleaned, json!({ "items": [] }));
    argus.stop();
    let found = report(&argus.cli(&["preflight", "-o", "json"]));
    assert_eq!(found["overall"], "healthy", "{found:#}");
    let text = String::from_utf8(argus.cli(&["preflight"]).stdout).expect("text");
    assert!(
        text.starts_with("CHECK") && text.trim_end().ends_with("healthy"),
        "{text}"
    );
}

#[test]
fn lost_engine_fails_one_check_and_skips_others() {
    let engine = engine();
    let nowhere = Some("unix:///nonexistent/docker.sock".to_owned());
    let argus = Controller::prepare(
        engine,
        RunOptions {
            host: nowhere,
            ..RunOptions::default()
        },
    );
    let output = argus.cli(&["preflight", "-o", "json"]);
    let found = report(&output);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(found["overall"], "unhealthy");
    for (name, result) in results(&found) {
        let expected = if name == "engine" { "fail" } else { "skipped" };
        assert_eq!(result, expected, "{name}: {found:#}");
    }
    assert_eq!(check(&found, "engine")["code"], "DOCKER_UNAVAILABLE");
    let skipped = argus.cli(&["preflight", "--skip", "engine,disk", "-o", "json"]);
    assert_eq!(skipped.status.code(), Some(0), "a skipped check cannot fail");
    let wrong = argus.cli(&["preflight", "--skip", "moon"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn hanging_engine_fails_its_check() {
    let engine = PrivateEngine::start();
    let argus = Controller::prepare(&engine, RunOptions::default());
    engine.freeze();
    let output = argus.cli(&["preflight", "-o", "json"]);
    engine.thaw();
    let found = report(&output);
    assert_eq!(check(&found, "engine")["result"], "fail", "{found:#}");
    assert_eq!(output.status.code(), Some(4), "{found:#}");
}

#[test]
fn leftovers_are_removed_on_request_and_rechecked() {
    // An engine without orphans of other tests.
    let private = PrivateEngine::start();
    images(&private);
    let engine = &private;
    let argus = Controller::start(engine, RunOptions::default());
    argus.write_spec("e2e.yaml", &shop("left", 18630, "one"));
    argus.wait_ready("left", LIMIT);
    argus.stop();
    argus.remove_spec("e2e.yaml");
    let found = report(&argus.cli(&["preflight", "-o", "json"]));
    assert_eq!(found["overall"], "degraded", "{found:#}");
    let orphans = check(&found, "orphans");
    assert_eq!(
        (&orphans["result"], &orphans["code"]),
        (&json!("warn"), &json!("ORPHAN_DETECTED"))
    );
    let listed = orphans["details"]["orphans"].as_array().expect("a list").clone();
    assert_eq!(listed.len(), 4, "{orphans:#}");
    for orphan in &listed {
        for key in ["kind", "id", "name", "project", "environment", "createdAt"] {
            assert!(
                orphan[key].as_str().is_some_and(|text| !text.is_empty()),
                "{key}: {orphan:#}"
            );
        }
    }
    assert_eq!(container_runs(engine, "left").len(), 3, "a check removes nothing");
    // Another controller with a spec of the project recognizes them as orphans.
    let heir = Controller::prepare(engine, RunOptions::default());
    heir.write_spec(
        "e2e.yaml",
        &format!("version: \"1\"\nproject: {{ name: left }}\nisolation: {{ namespace: heir }}\nservices:\n  a:\n    image: {IMAGE}\n    container: {{ name: heir-a }}\n"),
    );
    let ids = |listed: &Value| -> std::collections::BTreeSet<String> {
        let all = listed.as_array().into_iter().flatten();
        all.map(|orphan| orphan["id"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    // An object is an orphan only after a list of the leases from more than a second after its creation.
    heir.wait_until(LIMIT, "all orphans are found", || {
        let found = report(&heir.cli(&["preflight", "-o", "json"]));
        let inherited = &check(&found, "orphans")["details"]["orphans"];
        (ids(inherited) == ids(&json!(listed))).then_some(())
    });
    let stranger = engine.docker_ok(&["run", "-d", "busybox:local"]);
    let found = report(&argus.cli(&["preflight", "--fix", "-o", "json"]));
    assert_eq!(found["before"]["overall"], "degraded", "{found:#}");
    assert_eq!(found["overall"], "healthy", "{found:#}");
    let fixed = found["fixed"].as_array().expect("a list");
    assert_eq!(fixed.len(), 4);
    assert!(fixed.iter().all(|fix| fix["removed"] == true), "{found:#}");
    assert!(container_runs(engine, "left").is_empty());
    assert!(
        engine.inspect(&stranger).is_some(),
        "a foreign container is not an orphan"
    );
    engine.docker_ok(&["rm", "-f", &stranger]);
}

#[test]
fn ports_images_and_journal_checks_can_fail() {
    let engine = engine();
    let argus = Controller::prepare(engine, RunOptions::default());
    let spec = |strategy: &str| {
        format!(
            "version: \"1\"\nproject: {{ name: spoilt }}\nresilience: {{ network: {{ portConflictStrategy: {strategy} }} }}\n\
             services:\n  a:\n    image: {IMAGE}\n    container: {{ name: spoilt-a, ports: [\"18640:8080\"] }}\n  \
             b:\n    image: nowhere.invalid/absent:1\n    container: {{ name: spoilt-b }}\n"
        )
    };
    let holder = engine.docker_ok(&["run", "-d", "-p", "18640:80", "busybox:local"]);
    argus.write_spec("e2e.yaml", &spec("auto"));
    let found = report(&argus.cli(&["preflight", "-o", "json"]));
    assert_eq!(found["overall"], "degraded", "{found:#}");
    assert_eq!(check(&found, "ports")["result"], "warn", "{found:#}");
    let images = check(&found, "images");
    assert_eq!(
        (&images["result"], &images["code"]),
        (&json!("warn"), &json!("IMAGE_NOT_FOUND"))
    );
    argus.write_spec("e2e.yaml", &spec("fail"));
    let output = argus.cli(&["preflight", "-o", "json"]);
    let ports = check(&report(&output), "ports");
    assert_eq!(
        (&ports["result"], &ports["code"]),
        (&json!("fail"), &json!("PORT_CONFLICT")),
        "{ports:#}"
    );
    assert_eq!(output.status.code(), Some(1));
    engine.docker_ok(&["rm", "-f", &holder]);

    std::fs::write(argus.state.join("private"), "in the way").expect("a file");
    let found = report(&argus.cli(&["preflight", "-o", "json"]));
    let journal = check(&found, "journal");
    assert_eq!(
        (&journal["result"], &journal["code"]),
        (&json!("fail"), &json!("JOURNAL_UNWRITABLE"))
    );
}

#[test]
fn exhausted_pools_and_small_disks_are_reported() {
    let engine = PrivateEngine::start();
    images(&engine);
    let argus = Controller::prepare(&engine, RunOptions::default());
    let greedy = "version: \"1\"\nproject: { name: greedy }\nresilience: { preflight: { diskSpaceThreshold: 900TB } }\nservices:\n  \
                  web:\n    image: busybox:local\n    container: { name: greedy-web }\n";
    argus.write_spec("e2e.yaml", greedy);
    engine.docker_ok(&["network", "create", "--subnet", "172.30.0.0/16", "everything"]);
    let output = argus.cli(&["preflight", "-o", "json"]);
    let found = report(&output);
    let networks = check(&found, "networks");
    assert_eq!(
        (&networks["result"], &networks["code"]),
        (&json!("fail"), &json!("NETWORK_POOL_EXHAUSTED")),
        "{networks:#}"
    );
    let disk = check(&found, "disk");
    assert_eq!(
        (&disk["result"], &disk["code"]),
        (&json!("fail"), &json!("DISK_SPACE_LOW")),
        "{disk:#}"
    );
    assert_eq!(disk["details"]["thresholdBytes"], 900_000_000_000_000_u64);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(argus.cli(&["preflight"]).stdout).expect("text");
    assert!(text.contains("unhealthy") && text.contains("hint:"), "{text}");
}

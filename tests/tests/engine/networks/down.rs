//! Connectivity of services that are down: checked in place of the service, and unverified where that is impossible.

use argus_tests::fixture::{IMAGE, LIMIT, condition};
use argus_tests::{Controller, wait};
use serde_json::Value;

use super::fixture::{BARE, controller, engine, links, network, no_helper_stays};

/// `web` ends with exit code 3 without a restart; it connects to `db`, and `api` connects to both.
fn spec(project: &str) -> String {
    format!(
        r#"version: "1"
project: {{ name: {project} }}
resilience: {{ container: {{ maxRestarts: 0 }} }}
services:
  db: {{ image: {BARE}, command: [demo-service], container: {{ name: {project}-db }} }}
  web:
    image: {IMAGE}
    command: [sh, -c, "exit 3"]
    container: {{ name: {project}-web, environment: {{ DB: "db:8080", WRONG: "db:5432" }} }}
  api:
    image: {BARE}
    command: [demo-service]
    container: {{ name: {project}-api, environment: {{ DB: "db:8080", WEB: web }} }}
"#
    )
}

/// Waits until a check of the current state contains the failed link of `web`.
fn checked(argus: &Controller<'_>, env: &str) -> Value {
    argus.wait_status(env, LIMIT, "the links of `web` are checked", |now| {
        condition(now, "Verified")["reason"] == "ConnectionsFailed"
            && Controller::service(now, "web")["state"] == "Failed"
    })
}

#[test]
fn links_of_a_given_up_service_are_checked_in_its_place() {
    let engine = engine();
    let argus = controller(engine);
    argus.write_spec("e2e.yaml", &spec("fallen"));
    let status = checked(&argus, "fallen");
    let expected = [
        "api -> db:8080",
        "api -> web:null unverified: `web` is not running",
        "web -> db:5432 connection refused",
        "web -> db:8080",
    ];
    assert_eq!(links(&status), expected, "{status:#}");
    let errors = status["errors"].as_array().expect("the errors");
    let refused: Vec<_> = errors
        .iter()
        .filter(|error| error["code"] == "NETWORK_UNREACHABLE")
        .collect();
    assert_eq!(refused.len(), 1, "{status:#}");
    assert_eq!(refused[0]["service"], "web", "{status:#}");
    let (code, output) = network(&argus, "fallen", &[]);
    assert_eq!((code, links(&output)), (Some(1), links(&status)), "{output:#}");
    let table = argus.cli(&["network", "fallen"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("unverified: `web` is not running"), "{table}");

    // The same on request, with a check of all links.
    let (_, output) = network(&argus, "fallen", &["--verify"]);
    let found = links(&output);
    assert_eq!(found[2..], expected[2..], "{output:#}");
    assert_eq!(output["connectivity"]["links"][1]["dns"], false, "{output:#}");
    assert!(
        found[1].starts_with("api -> web:null ") && found[1] != expected[1],
        "{found:?}"
    );
    no_helper_stays(engine, "fallen");
}

#[test]
fn test_with_a_service_down_begins_unverified() {
    let engine = engine();
    let argus = controller(engine);
    argus.write_spec("e2e.yaml", &spec("lame").replace(", WRONG: \"db:5432\"", ""));
    argus.wait_status("lame", LIMIT, "its links are checked", |now| {
        condition(now, "Verified")["reason"] == "ServiceDown"
            && Controller::service(now, "web")["state"] == "Failed"
    });
    assert_eq!(
        network(&argus, "lame", &[]).0,
        Some(5),
        "neither verified nor failed"
    );
    let started = argus.cli(&["test", "begin", "lame", "--case", "one"]);
    let warning = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(started.status.success(), "{warning}");
    assert!(
        warning
            .contains("warning: the connections between the services are not verified: `web` is not running"),
        "{warning}"
    );
    let ended = argus.cli(&["test", "end", "lame", "--case", "one", "-o", "json"]);
    let report: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(report["value"]["verified"], false, "{report:#}");
    assert_eq!(
        report["value"]["unverified"], "`web` is not running",
        "{report:#}"
    );

    // The service is up again, so the next test begins only after a check of this state.
    argus.write_spec(
        "e2e.yaml",
        &spec("lame")
            .replace(", WRONG: \"db:5432\"", "")
            .replace("exit 3", "exec sleep 1000"),
    );
    argus.wait_ready("lame", LIMIT);
    let report = wait::until(LIMIT, "a verified test", || {
        let started = argus.cli(&["test", "begin", "lame", "--case", "two"]);
        let ended = argus.cli(&["test", "end", "lame", "--case", "two", "-o", "json"]);
        let report: Value = serde_json::from_slice(&ended.stdout).ok()?;
        (started.status.success() && report["value"]["verified"] == true).then_some(report)
    });
    assert!(report["value"]["unverified"].is_null(), "{report:#}");
}

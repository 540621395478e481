//! Preflight with repair: it removes leftovers of a dead run, and the report contains both checks.

use argus_tests::fixture::{LIMIT, singles};
use argus_tests::{RunOptions, http};
use serde_json::{Value, json};

use super::agent::{McpFixture, Over, data};

/// Disables the automatic removal of orphans.
const QUIET: &str = "resilience: { preflight: { cleanOrphans: false } }\n";

/// Creates resources of a dead controller of this project.
fn leave(fixture: &McpFixture, project: &str, name: &str) {
    let labels = [
        "managed=true".to_owned(),
        format!("project={project}"),
        format!("environment={project}"),
        "service=gone".to_owned(),
        "controller=dead".to_owned(),
        "run-id=r".to_owned(),
        "created-at=2026-01-01T00:00:00Z".to_owned(),
    ];
    let labels = labels.map(|label| format!("--label=argusai.{label}"));
    let mut words = vec!["run", "-d", "--name", name];
    words.extend(labels.iter().map(String::as_str));
    words.extend(["--init", "busybox:local", "sleep", "1000"]);
    fixture.engine.docker_ok(&words);
}

fn named_check<'r>(report: &'r Value, name: &str) -> &'r Value {
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

/// Asserts that the orphan existed, was removed, and is missing in the second check.
fn is_recovered(report: &Value, name: &str) {
    let before = named_check(&report["before"], "orphans");
    assert_eq!(
        (&before["result"], &before["code"]),
        (&json!("warn"), &json!("ORPHAN_DETECTED")),
        "{report:#}"
    );
    assert!(before["details"].to_string().contains(name), "{before:#}");
    let fixed = report["fixed"].as_array().expect("the repairs");
    let fixed = fixed.iter().find(|fixed| fixed["name"] == name);
    assert_eq!(
        fixed.expect("a repair of the orphan")["removed"],
        true,
        "{report:#}"
    );
    let after = named_check(report, "orphans").to_string();
    assert!(!after.contains(name), "{after}");
}

/// A controller with an environment, which has seen an orphan of a dead controller.
fn fixture_with(project: &str, port: u16) -> (McpFixture, String) {
    let fixture = McpFixture::start_with(RunOptions {
        env: vec![(
            "ARGUS_WAITS".to_owned(),
            "orphanAge=2s,listInterval=2s".to_owned(),
        )],
        ..RunOptions::default()
    });
    fixture
        .argus
        .write_spec("e2e.yaml", &singles(project, &[port], QUIET));
    fixture.argus.wait_ready(project, LIMIT);
    let name = format!("{project}-left");
    leave(&fixture, project, &name);
    fixture.argus.wait_until(LIMIT, "the orphan is reported", || {
        let orphans = fixture.argus.controller_status()["orphans"].to_string();
        orphans.contains(&name).then_some(())
    });
    (fixture, name)
}

#[test]
fn preflight_fix_removes_orphans_over_mcp() {
    for (over, project) in [(Over::Stdio, "fit-stdio"), (Over::Http, "fit-http")] {
        let (fixture, name) = fixture_with(project, 18791);
        let gone = || fixture.engine.inspect(&name).is_none();
        let check = json!({ "skipDiskCheck": true, "skip": ["clock"] });
        let seen = data(&fixture.call(over, "argus_preflight_check", &check)).clone();
        assert!(
            named_check(&seen, "orphans").to_string().contains(&name),
            "{seen:#}"
        );
        assert!(!gone(), "a check alone removes nothing");
        assert_eq!(
            seen["nextSteps"][0]["arguments"],
            json!({ "autoFix": true }),
            "{seen:#}"
        );
        for left_out in ["disk", "clock"] {
            let skipped = named_check(&seen, left_out);
            assert_eq!(skipped["result"], "skipped", "{skipped:#}");
            let why = skipped["message"].as_str().expect("why");
            assert!(!why.is_empty(), "{skipped:#}");
        }
        let recovered = fixture.call(over, "argus_preflight_check", &json!({ "autoFix": true }));
        is_recovered(data(&recovered), &name);
        for made in ["engine", "disk", "networks"] {
            let check = named_check(data(&recovered), made);
            assert!(
                check["result"].is_string() && check["result"] != "skipped",
                "{check:#}"
            );
        }
        let words = recovered["content"][0]["text"].to_string();
        assert!(words.contains(&format!("removed: container {name}")), "{words}");
        assert!(gone());
        // The controller made both checks, and recorded them in its journal.
        let request = fixture
            .argus
            .cli(&["events", "--type", "preflight_start", "-o", "json"]);
        let request = String::from_utf8_lossy(&request.stdout).replace(' ', "");
        assert_eq!(request.matches("\"requested\":true").count(), 2, "{request}");
        // Each round is recorded when it ends: one before the removal, and one after it.
        let words = [
            "events",
            "--type",
            "preflight_check,cleanup_resource",
            "-o",
            "json",
        ];
        let listed = fixture.argus.cli(&words).stdout;
        let listed: Value = serde_json::from_slice(&listed).expect("JSON");
        let items = listed["items"].as_array().expect("events");
        let removal = items
            .iter()
            .position(|item| item["name"] == name && item["outcome"] == "done");
        let (before, after) = items.split_at(removal.expect("the removal"));
        let orphans = |item: &&Value| item["check"] == "orphans" && item["environment"].is_null();
        let found = before.iter().rfind(orphans).expect("the first round");
        assert_ne!(found["result"], "pass", "{listed:#}");
        // Other tests leave orphans on this engine, so the second round can find some too.
        assert!(after.iter().any(|item| orphans(&item)), "{listed:#}");
    }
}

#[test]
fn preflight_fix_removes_orphans_over_http() {
    let (fixture, name) = fixture_with("fit-plain", 18792);
    let socket = fixture.argus.state.join("private/argus.sock");
    let send = |method: &str, body: &str| {
        let body = body.as_bytes();
        let request = http::request(
            &socket,
            method,
            "/api/v1/preflight",
            "application/json",
            body,
            LIMIT,
        );
        request.expect("a response").json()
    };
    let seen = send("GET", "");
    assert!(
        named_check(&seen, "orphans").to_string().contains(&name),
        "{seen:#}"
    );
    let recovered = send("POST", r#"{"autoFix": true, "skip": ["disk"]}"#);
    is_recovered(&recovered, &name);
    assert_eq!(
        named_check(&recovered, "disk")["result"],
        "skipped",
        "{recovered:#}"
    );
    assert!(fixture.engine.inspect(&name).is_none());
}

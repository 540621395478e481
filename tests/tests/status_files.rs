//! What the page of the status files says of them: when an edit is in force, and whether anybody keeps them up to date.
#![allow(clippy::expect_used, reason = "a test that cannot look ends with a message")]

use argus_tests::fixture::{IMAGE, LIMIT, engine};
use argus_tests::{Controller, RunOptions};
use serde_json::Value;

fn file(mood: &str) -> String {
    format!(
        "project: {{ name: moody }}\nservices:\n  - name: web\n    image: {IMAGE}\n    \
         container: {{ name: moody-web, environment: {{ MOOD: {mood} }} }}\n"
    )
}

/// As `argus validate -o json` tells it, whoever reads the file and when.
fn revision_of_the_file(argus: &Controller<'_>) -> Value {
    let output = argus.cli(&["validate", "-o", "json"]);
    let output: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    assert!(output["files"][0]["revision"].is_string(), "{output:#}");
    output["files"][0]["revision"].clone()
}

#[test]
fn edit_is_in_force_at_the_validated_revision() {
    let argus = Controller::start(engine(), RunOptions::default());
    argus.write_spec("e2e.yaml", &file("first"));
    let mut before = argus.wait_ready("moody", LIMIT);
    for mood in ["second", "third"] {
        argus.write_spec("e2e.yaml", &file(mood));
        let wanted = revision_of_the_file(&argus);
        assert_eq!(
            before["revision"], before["observedRevision"],
            "they are equal before as they are after"
        );
        assert_ne!(before["observedRevision"], wanted);
        before = argus.wait_status("moody", LIMIT, "is about the edit, and ready", |now| {
            now["observedRevision"] == wanted && now["phase"] == "Ready"
        });
        assert_eq!(before["revision"], wanted);
        let runs = engine().inspect("moody-web").expect("it runs")["Config"]["Env"].to_string();
        assert!(runs.contains(&format!("MOOD={mood}")), "{runs}");
    }
}

#[test]
fn controller_file_records_clean_stops_only() {
    let argus = Controller::start(engine(), RunOptions::default());
    argus.write_spec("e2e.yaml", &file("first"));
    argus.wait_ready("moody", LIMIT);
    let runs = argus.controller_status();
    assert!(runs["stoppedAt"].is_null(), "{runs:#}");
    assert!(is_there(&runs["pid"]), "{runs:#}");

    assert!(argus.stop().success());
    let stopped = argus.controller_status();
    let at = stopped["stoppedAt"].as_str().expect("when it stopped").to_owned();
    assert!(
        at.as_str() > runs["startedAt"].as_str().expect("when it started"),
        "{stopped:#}"
    );
    assert!(!is_there(&stopped["pid"]), "{stopped:#}");
    let output = argus.cli(&["get"]);
    let output = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.contains(&format!("not running since {at}")), "{output}");

    argus.start_again();
    argus.wait_until(LIMIT, "it runs again, and says so", || {
        let runs = argus.controller_status();
        (runs["stoppedAt"].is_null() && runs["startedAt"] != stopped["startedAt"]).then_some(())
    });
    argus.kill9();
    let killed = argus.controller_status();
    assert!(killed["stoppedAt"].is_null(), "{killed:#}");
    assert!(!is_there(&killed["pid"]), "nobody is under its `pid`: {killed:#}");
}

fn is_there(pid: &Value) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
